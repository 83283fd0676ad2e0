// attend --linear: the call, and what is said about it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "linear_options.h"
#include "rotary/rotation.hpp"
#include "rotary/tensor_file.hpp"

namespace rotary::cli {

/// Keeps whatever the options of a call refer to.
class LinearCall {
 public:
  /// `rotation`: of the model or by hand, where the method turns by one.
  LinearCall(const LinearOptions& options, const TensorFile& file, const ConstTensorView& k,
             const std::optional<Rotation>& rotation, double base);
  LinearCall(const LinearCall&) = delete;

  LinearAttentionOptions& how() { return how_; }
  /// Attends, and says on stderr, or as JSON on stdout, what is true of the method's weights and of this call's.
  void attend(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v, const TensorView& out);

 private:
  void take_rotation(const ConstTensorView& k, const std::optional<Rotation>& rotation, double base);
  void take_projection(const TensorFile& file, const ConstTensorView& k);
  void take_decay(const ConstTensorView& k);

  const LinearOptions& options_;
  const LinearMethod& method_;
  std::optional<TensorFile> projection_file_;
  std::optional<Rotation> rotation_;
  std::vector<double> projection_, decay_;
  LinearAttentionOptions how_;
};

}  // namespace rotary::cli
