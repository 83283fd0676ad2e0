// A layer's attention as attention() takes it.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/attention.hpp"
#include "rotary/model.hpp"

namespace rotary {

/// What a layer does beside rotation, scale and causality: a window, chunks of positions, a factor on queries by position, a
/// cap. Its sinks are not among it: the model's description does not have their values.
class LayerAttention {
 public:
  /// For queries like `q`, whose axes are B and S or T, at these positions. Throws Error (unsupported), in the name of
  /// `operation`, where the layer does something that attention() leaves out: a factor on keys, norms after the rotation,
  /// values that turn.
  LayerAttention(const char* operation, const LayerRotation& layer, const ConstTensorView& q, const Positions& q_positions);

  /// Sets the options that say it, which then refer to this. Chunks look at the positions that are among the options.
  void add_to(AttentionOptions& options) const;

  bool caps() const noexcept { return softcap_ != 0; }
  /// 1 where the layer has no such factor.
  double temperature(std::int64_t row, std::int64_t token) const;

 private:
  std::int64_t window_left_ = -1, window_right_ = -1, chunk_size_;
  double softcap_;
  bool is_packed_;
  std::int64_t batch_, length_;
  std::vector<double> temperatures_;  // per batch row and token; empty: all 1
};

/// Throws Error (unsupported) where a layer has any of these, which linear attention does not have, and it can change the
/// result: for so many keys at positions below `length`.
void require_plain_attention(const char* operation, const LayerRotation& layer, std::int64_t num_keys, std::int64_t length);

}  // namespace rotary
