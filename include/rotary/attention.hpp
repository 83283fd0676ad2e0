// Softmax attention with the rotation inside.
//
//     score(i, j) = scale * (R(p_i) q_i) . (R(p_j) k_j) + attn_mask(i, j)
//     out(i)      = sum_j softmax_j(score(i, j)) v_j            lse(i) = log sum_j exp(score(i, j))
//
// (Vaswani et al. 2017, equation 1; Su et al. 2021, equation 16; computed in tiles as by Dao et al. 2022.)
//
// q has the axes B, S, H, D in any order (B and H may be missing); k and v the same, with S the number of keys and H the
// number of KV heads. Query head h uses KV head h / (num_q_heads / num_kv_heads). The width D of v and out may differ from
// that of q and k. Any strides; k and v may share memory or broadcast.
//
// f64, f32, f16 or bf16, each tensor its own. Everything is computed in double where one of q, k, v and out is f64, else in
// float32 from inputs that are widened and never rounded; out is rounded once. The workspace does not grow with the length:
// the score matrix is never stored. A row's result depends neither on the executor nor on the other rows.
//
// A key that the causal rule or a -infinity in attn_mask hides has no weight whatever it holds, NaN included. A query that
// sees no key gives zeros, and lse -infinity. A NaN or an infinity that is seen shows in the result.
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
  /// Turns q and k on the way, nothing in memory; nullptr: they are used as they are. Turned numbers are not rounded to a
  /// 16-bit dtype in between: to repeat a system that does, rotate() first.
  const Rotation* rotation = nullptr;
  Positions q_positions = {};  ///< need a rotation, like the next three
  Positions k_positions = {};
  Precision precision = Precision::exact;  ///< of cos and sin
  const AngleTable* table = nullptr;       ///< rows to use instead of computing angles; every position must have its row

  Causal causal = Causal::none;
  double scale = 0;  ///< 0: 1 / sqrt(width of q)
  /// Added to the scores: any float dtype, axes among B, H (query heads), Q and K; missing ones, and those of length 1,
  /// broadcast. -infinity hides; the lowest finite number does not, it is a number.
  ConstTensorView attn_mask = {};
  TensorView lse = {};  ///< where to write lse: f32 or f64, axes among B, S and H as in q
  Executor* executor = nullptr;
};

/// `out` (axes as q, D as v) and lse must not overlap the inputs, each other or themselves. Widths are at most 65,536.
/// Errors: Error (invalid_argument), Error (unsupported) where `precision` cannot express the rotation; nothing is written
/// in that case.
ROTARY_API void attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                          const TensorView& out, const AttentionOptions& options = {});

}  // namespace rotary
