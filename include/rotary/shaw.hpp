// Relative positions of Shaw, Uszkoreit and Vaswani 2018: a vector per distance beside every key, and one beside every value.
//
//     score(i, j) = scale * q_i . (k_j + a[clip(p_j - p_i, -reach, reach)])        (their equations 4 and 5)
//     out(i)      = sum_j alpha_ij (v_j + b[clip(p_j - p_i, -reach, reach)])       (their equation 3)
//
// shaw_scores() writes the second part of the score, scale * q_i . a[…], as a tensor that attention() takes for attn_mask, next
// to its own scale * q_i . k_j. Unlike a position bias it depends on the query: one per layer and batch row.
// add_shaw_values() adds the second part of the result to what attention() wrote.
#pragma once

#include "rotary/attention.hpp"
#include "rotary/export.hpp"
#include "rotary/parallel.hpp"
#include "rotary/positions.hpp"
#include "rotary/tensor.hpp"

namespace rotary {

struct ShawOptions {
  Positions q_positions = {};  ///< whole numbers
  Positions k_positions = {};
  double scale = 0;  ///< 0: 1 / sqrt(width of q); the one that attention() is given
  Executor* executor = nullptr;
};

/// q has the axes B, S, H, D in any order (B and H may be missing). `table` has the axes N (distances -reach … reach, an odd
/// number), D, and perhaps H: one table per query head instead of one for all. `out` has axes among B, H, Q and K, as long as
/// q along B, H and Q (S in q). f64, f32, f16 or bf16, each its own. Computed in double and rounded once. `out` must not
/// overlap the others or itself. Errors: Error (invalid_argument); nothing is written in that case.
ROTARY_API void shaw_scores(const TensorView& out, const ConstTensorView& q, const ConstTensorView& table,
                            const ShawOptions& options = {});

/// Adds sum_j alpha_ij b[clip(p_j - p_i)] to `out`, alpha being the weights of attention(q, k, v, out, how) with the same q,
/// k and `how`, shaw_scores() in its attn_mask included; they are computed again, in double, a row at a time. `table` is as
/// that of shaw_scores(), as wide as `out`; options.scale is not used, nor is how.lse. `out` has axes and lengths as
/// attention() asks, and is rounded once more. A query that sees no key gets nothing. Packed sequences (how.cu_seqlens) are
/// refused, since scores of all tokens with all are no mask of theirs: attend to each by itself. Errors as those of
/// attention() and shaw_scores().
ROTARY_API void add_shaw_values(const TensorView& out, const ConstTensorView& q, const ConstTensorView& k,
                                const ConstTensorView& table, const AttentionOptions& how = {},
                                const ShawOptions& options = {});

}  // namespace rotary
