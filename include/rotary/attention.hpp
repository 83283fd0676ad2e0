// Softmax attention with the rotation inside.
//
//     score(i, j) = cap(scale * temperature_i * (R(p_i) q_i) . (R(p_j) k_j)) + bias(h, p_i, p_j) + attn_mask(i, j)
//     out(i)      = sum_j exp(score(i, j)) v_j / exp(lse(i))
//     lse(i)      = log (sum_j exp(score(i, j)) + exp(sink_h))            cap(x) = softcap * tanh(x / softcap)
//
// (Vaswani et al. 2017, equation 1; Su et al. 2021, equation 16; computed in tiles as by Dao et al. 2022.)
//
// q has the axes B, S, H, D in any order (B and H may be missing); k and v the same, with S the number of keys and H the
// number of KV heads; or T, H, D together with cu_seqlens. Query head h uses KV head h / (num_q_heads / num_kv_heads). The
// width D of v and out may differ from that of q and k. Any strides; k and v may share memory or broadcast.
//
// f64, f32, f16 or bf16, each tensor its own. Everything is computed in double where one of q, k, v and out is f64, else in
// float32 from inputs that are widened and not rounded; out is rounded once. The exception: q, k and v all bf16, lse not
// asked for, and Isa::amx or avx512_bf16: then queries (turned and scaled), keys (turned) and weights are rounded to
// bfloat16 before they are multiplied, and numbers below 2^-126 count as 0. The score matrix is never stored: the
// workspace has a bound, whatever the length. A row's result does not depend on the executor; on other rows only in how it
// is rounded: a call that has one query per sequence at most (decode) adds up in another order than one with more, and never
// in bfloat16.
//
// A key that is hidden from a query, by any of the rules below or by -infinity in what is added to the score, has no weight
// whatever it holds, NaN included. A query that sees no key gives zeros, and lse -infinity. A NaN or an infinity that is
// seen shows in the result.
#pragma once

#include <cstdint>

#include "rotary/angles.hpp"
#include "rotary/export.hpp"
#include "rotary/parallel.hpp"
#include "rotary/positions.hpp"
#include "rotary/progress.hpp"
#include "rotary/rotation.hpp"
#include "rotary/tensor.hpp"

namespace rotary {

class PositionBias;

/// Which keys a query may see when the numbers of queries and keys differ. Said, never assumed.
enum class Causal : std::uint8_t {
  none,
  top_left,      ///< query i sees keys 0 … i                         (PyTorch's is_causal, ONNX without a cache)
  bottom_right,  ///< query i sees keys 0 … i + num_keys - num_queries  (FlashAttention, decode with a cache)
};

ROTARY_API const char* name(Causal causal) noexcept;

/// What a caller's own function adds to a score; -infinity hides the key. Called from several threads where an executor has
/// them. An exception passes through attention(); what it has written by then is undefined.
struct BiasFunction {
  double (*function)(const void* context, std::int64_t head, double q_position, double k_position) = nullptr;
  const void* context = nullptr;

  explicit operator bool() const noexcept { return function != nullptr; }
};

struct AttentionOptions {
  /// Turns q and k on the way, nothing in memory; nullptr: they are used as they are. Turned numbers are not rounded to a
  /// 16-bit dtype in between: to repeat a system that does, rotate() first.
  const Rotation* rotation = nullptr;
  Positions q_positions = {};  ///< need something that counts them: a rotation, chunk_size or a bias
  Positions k_positions = {};
  Precision precision = Precision::exact;  ///< of cos and sin; needs a rotation, like `table`
  const AngleTable* table = nullptr;       ///< rows to use instead of computing angles; every position must have its row

  // Which keys a query sees: those that all rules let it see. Key j is on the diagonal of query i where j is the last key
  // that the causal rule shows; without one, where j = i.
  Causal causal = Causal::none;
  std::int64_t window_left = -1;   ///< how many keys before the diagonal; -1: no limit (FlashAttention's window_size)
  std::int64_t window_right = -1;  ///< and after it
  /// Positions p and r see each other where floor(p / chunk_size) = floor(r / chunk_size) (Llama 4); 0: no chunks.
  std::int64_t chunk_size = 0;
  /// Prefix-LM: the causal rule does not hide the first so many keys of a batch row (axis B) or packed sequence (N). i32 or
  /// i64, at least 0.
  ConstTensorView prefix_lengths = {};
  /// Integers, axes among B and S (or T): queries see keys of their own document. Both or none.
  ConstTensorView q_document_ids = {};
  ConstTensorView k_document_ids = {};
  ConstTensorView key_padding_mask = {};  ///< boolean, axes among B and S (or T), true: a token
  /// Packed sequences, which do not see each other: the rules above hold within each, and positions count from 0 in each
  /// unless given. i32 or i64, axis N, as in Positions; k_cu_seqlens where keys are not as many as queries.
  ConstTensorView cu_seqlens = {};
  ConstTensorView k_cu_seqlens = {};

  double scale = 0;  ///< 0: 1 / sqrt(width of q)
  /// A factor per query on its scores (Llama 4): any float dtype, axes among B and S (or T), finite.
  ConstTensorView temperatures = {};
  double softcap = 0;                  ///< 1e-30 to 1e30 (Gemma 2); 0: scores are not capped
  const PositionBias* bias = nullptr;  ///< ALiBi, T5 buckets or a clipped table (rotary/position_bias.hpp)
  BiasFunction bias_function = {};     ///< beside, or instead
  /// Added to the scores: any float dtype, axes among B, H (query heads), Q and K; missing ones, and those of length 1,
  /// broadcast. -infinity hides; the lowest finite number does not, it is a number. Or boolean: true where a key is seen.
  /// Of packed sequences Q and K count all tokens.
  ConstTensorView attn_mask = {};
  /// A number per query head that takes part in the sum like the score of a key without a value (gpt-oss): any float dtype,
  /// axis H, finite or -infinity. The queries of a head that sees no key give zeros, and its sink as lse.
  ConstTensorView sinks = {};
  TensorView lse = {};  ///< where to write lse: f32 or f64, axes among B, S (or T) and H as in q
  /// Memory for the call, at any address: attention_workspace_bytes() or more. Then nothing is allocated. nullptr: the call
  /// allocates what it needs, once.
  void* workspace = nullptr;
  std::int64_t workspace_bytes = 0;
  Executor* executor = nullptr;
  /// A piece is a block of rows, which are queries of the heads that share a KV head; a decode is one piece. The forward
  /// pass alone reports, and not where there is nothing to do.
  Progress progress = {};
};

/// `out` (axes as q, D as v) and lse must not overlap the inputs, each other or themselves. Widths are at most 65,536.
/// Errors: Error (invalid_argument), Error (unsupported) where `precision` cannot express the rotation; nothing is written
/// in that case.
ROTARY_API void attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                          const TensorView& out, const AttentionOptions& options = {});

/// What a call with the same arguments needs as options.workspace; it serves shorter ones, too. It grows with the widths, with
/// executor->concurrency() (about 1 MiB each), by 96 bytes per sequence and 8 for each of its KV heads, and with the length to a
/// bound. Errors as attention().
ROTARY_API std::int64_t attention_workspace_bytes(const ConstTensorView& q, const ConstTensorView& k,
                                                  const ConstTensorView& v, const TensorView& out,
                                                  const AttentionOptions& options = {});

}  // namespace rotary
