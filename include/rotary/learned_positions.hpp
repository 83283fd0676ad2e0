// Learned absolute positions: a row of a trained table per position, added to embeddings (Gehring et al. 2017; BERT, GPT-2).
//
// `table` has the axes N (positions 0, 1, …) and D: position_embeddings.weight, wpe.weight. Tensors have the axes B, S (or T
// for packed tokens) and D in any order; B may be missing. All are f64, f32, f16 or bf16, each its own. Sums are computed in
// float32, in double where a tensor or the table is f64, and rounded once.
//
// Positions are whole numbers. One that has no row is an error, as the scheme implies: what it knows about a position, it
// was trained with. (BART and OPT count from 2: `offset`.)
//
// Elements that are written must not overlap each other, the table or the positions. Errors: Error (invalid_argument)
// naming the rule and what was given; nothing is written in that case.
#pragma once

#include "rotary/export.hpp"
#include "rotary/parallel.hpp"
#include "rotary/positions.hpp"
#include "rotary/tensor.hpp"

namespace rotary {

/// Writes the row of every token's position to `out`.
ROTARY_API void learned_positions(const TensorView& out, const ConstTensorView& table, const Positions& positions = {},
                                  Executor* executor = nullptr);

/// Adds the row of every token's position to x.
ROTARY_API void add_learned_positions(const TensorView& x, const ConstTensorView& table, const Positions& positions = {},
                                      Executor* executor = nullptr);

}  // namespace rotary
