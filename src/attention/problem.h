// A call of attention() whose arguments have been checked.
#pragma once

#include <cstdint>
#include <optional>

#include "rotary/attention.hpp"
#include "rotation/token_angles.h"

namespace rotary {

/// Refers to the caller's views and rotation, which must outlive it.
struct AttentionProblem {
  ConstTensorView q, k, v;
  TensorView out;
  ConstTensorView attn_mask;  // may be not given
  TensorView lse;             // may be not given
  std::int64_t batch, num_queries, num_keys, num_q_heads, num_kv_heads, head_dim, value_dim;
  double scale;
  Causal causal;
  std::optional<TokenAngles> q_angles, k_angles;  // none: nothing turns

  std::int64_t heads_per_kv_head() const noexcept { return num_q_heads / num_kv_heads; }
  /// A query sees the first so many keys.
  std::int64_t num_visible(std::int64_t query) const noexcept;
};

/// Throws Error (invalid_argument) naming the rule that the arguments break; Error (unsupported) as AngleRows does.
AttentionProblem check_attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                                 const TensorView& out, const AttentionOptions& options);

}  // namespace rotary
