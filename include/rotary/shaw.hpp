// Relative scores of Shaw, Uszkoreit and Vaswani 2018: a vector per distance, which the query meets.
//
//     score(i, j) = scale * q_i . (k_j + a[clip(p_j - p_i, -reach, reach)])        (their equations 4 and 5)
//
// shaw_scores() writes the second part, scale * q_i . a[…], as a tensor that attention() takes for attn_mask, next to its own
// scale * q_i . k_j. Unlike a position bias it depends on the query: one per layer and batch row.
#pragma once

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

}  // namespace rotary
