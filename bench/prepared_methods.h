// The methods of linear attention, ready to be measured, and something to attend to.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "filled.h"
#include "half_rotation.h"
#include "rotary/linear_attention.hpp"
#include "tools/linear_methods.h"

namespace rotary::bench {

inline constexpr std::int64_t width = 64;

/// A method of linear attention, causal, with what its options refer to. A Performer has as many features as channels.
class PreparedMethod {
 public:
  explicit PreparedMethod(const LinearMethod& method) {
    options.is_causal = true;
    options.rotate = method.rotate;
    options.normalizer = method.normalizer;
    options.feature_map.features = method.features;
    switch (method.turned) {
      case Turned::never: break;
      case Turned::by_rotation: rotation_.emplace(half_rotation(width)); break;
      case Turned::by_channel: rotation_.emplace(half_rotation(2 * width)); break;
      case Turned::by_cosine: rotation_.emplace(cosformer_rotation(width, 1 << 20)); break;
    }
    if (rotation_) options.rotation = &*rotation_;
    if (method.takes_projection()) {
      projection_ = favor_projection(width, width, 1);
      options.feature_map.projection = {projection_.data(), "ND", {width, width}};
    }
    if (method.features == Features::favor_relu) options.feature_map.epsilon = 1e-3;
    if (method.has_decay()) options.decay = {&decay_, "H", {1}};
  }
  /// Of this name.
  explicit PreparedMethod(std::string_view name) : PreparedMethod(named(name)) {}
  PreparedMethod(const PreparedMethod&) = delete;
  PreparedMethod& operator=(const PreparedMethod&) = delete;

  /// Of the numerator.
  std::int64_t num_features() const {
    return (options.rotate == Rotate::lifted ? 2 : 1) * rotary::num_features(options.feature_map, width);
  }

  LinearAttentionOptions options;

 private:
  static const LinearMethod& named(std::string_view name) {
    for (const LinearMethod& method : linear_methods) {
      if (name == method.name) return method;
    }
    throw std::invalid_argument("no method of linear attention has the name " + std::string(name));
  }

  std::optional<Rotation> rotation_;
  std::vector<double> projection_;
  double decay_ = 1 - 0x1p-5;  // RetNet's, of one KV head
};

/// q, k, v of some heads, each head's tokens side by side.
class Inputs {
 public:
  Inputs(std::int64_t heads, std::int64_t length)
      : q_(tensor(heads, length, 1)),
        k_(tensor(heads, length, 2)),
        v_(tensor(heads, length, 3)),
        out_(tensor(heads, length, 4)) {}

  ConstTensorView q() const { return q_; }
  ConstTensorView k() const { return k_; }
  ConstTensorView v() const { return v_; }
  TensorView out() const { return out_; }

  void attend(const LinearAttentionOptions& options) const { linear_attention(q(), k(), v(), out(), options); }

 private:
  static Filled tensor(std::int64_t heads, std::int64_t length, unsigned seed) {
    return Filled(DType::f32, "HSD", {heads, length, width}, seed);
  }

  Filled q_, k_, v_, out_;
};

}  // namespace rotary::bench
