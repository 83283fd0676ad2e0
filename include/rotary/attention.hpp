// Softmax attention with the rotation inside.
//
//     score(i, j) = scale * (R(p_i) q_i) . (R(p_j) k_j) + attn_mask(i, j)
//     out(i)      = sum_j softmax_j(score(i, j)) v_j            lse(i) = log sum_j exp(score(i, j))
//
// q: B, S, H, D in any order (B may be missing), k and v the same with S the number of keys and H the number of KV heads;
// query head h uses KV head h / (num_q_heads / num_kv_heads). The width D of v and out may differ from that of q and k.
// f64, f32, f16, bf16; 16-bit inputs are widened, softmax and sums are float32 or better, out is rounded once.
// The workspace does not grow with the length: the score matrix is never stored.
// A query that may see no key gives zeros, and lse -infinity.
#pragma once

#include <cstdint>

#include "rotary/angles.hpp"
#include "rotary/export.hpp"
#include "rotary/parallel.hpp"
#include "rotary/positions.hpp"
#include "rotary/rotation.hpp"
#include "rotary/tensor.hpp"

namespace rotary {

/// Which keys a query may see when the numbers of queries and keys differ. Said, never assumed.
enum class Causal : std::uint8_t {
  none,
  top_left,      ///< query i sees keys 0 … i                         (PyTorch's is_causal, ONNX without a cache)
  bottom_right,  ///< query i sees keys 0 … i + num_keys - num_queries  (FlashAttention, decode with a cache)
};

ROTARY_API const char* name(Causal causal) noexcept;

struct AttentionOptions {
  const Rotation* rotation = nullptr;  ///< turns q and k on the way, nothing in memory; nullptr: they are used as they are
  Positions q_positions = {};
  Positions k_positions = {};
  Precision precision = Precision::exact;
  const AngleTable* table = nullptr;  ///< rows to use instead of computing angles; every position must have its row
  Causal causal = Causal::none;
  double scale = 0;  ///< 0: 1 / sqrt(width of q)
  ConstTensorView attn_mask =
      {};               ///< added to the scores; axes among B, H, Q, K (missing ones broadcast); may hold -infinity
  TensorView lse = {};  ///< where to write lse: f32 or f64, axes S and H (and B)
  Executor* executor = nullptr;
};

/// `out` must not overlap the inputs. Errors: Error (invalid_argument); nothing is written in that case.
ROTARY_API void attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                          const TensorView& out, const AttentionOptions& options = {});

}  // namespace rotary
