// The four terms of a score where positions are added to embeddings, and how much of it each of them is.
//
//     (x_i + p_i) W_q . (x_j + p_j) W_k  =    x_i W_q . x_j W_k     content_content
//                                           + x_i W_q . p_j W_k     content_position
//                                           + p_i W_q . x_j W_k     position_content
//                                           + p_i W_q . p_j W_k     position_position
//
// (Dai et al. 2019, Transformer-XL, section 3.3, who replace the last three; He et al. 2021, DeBERTa, who drop the last.)
// A rotation has one term instead, of the content and the distance.
#pragma once

#include "rotary/export.hpp"
#include "rotary/parallel.hpp"
#include "rotary/tensor.hpp"

namespace rotary {

/// Over all batch rows, heads and pairs of a query and a key that it may see.
struct ScoreTerm {
  double sum_of_squares = 0;
  double share = 0;  ///< of the four sums of squares together; 0 where they are 0
  /// How much of sum_of_squares is left when every batch row, head and distance j - i has its mean taken away: 0 where the
  /// term depends on the distance alone, near 1 where the distance says nothing. 0 where sum_of_squares is.
  double beyond_distance = 0;
};

struct ScoreTerms {
  ScoreTerm content_content, content_position, position_content, position_position;
  double score_sum_of_squares = 0;  ///< of the score itself; terms of opposite signs make it less than their sum, or more
};

struct ScoreTermsOptions {
  double scale = 0;        ///< 0: 1 / sqrt(head width)
  bool is_causal = false;  ///< count only the keys up to the query's own; what is written below is not masked
  /// Where to write the terms: any float dtype, axes among B, H, Q and K, rounded once from double.
  TensorView content_content = {}, content_position = {}, position_content = {}, position_position = {};
  Executor* executor = nullptr;
};

/// x has the axes S and D (the width of the embedding), perhaps B; p the same, and without B it serves every batch row.
/// w_q and w_k have the axes N (the width of the embedding) and D (of a head), perhaps H; query head h meets key head
/// h / (heads of w_q / heads of w_k). f64, f32, f16 or bf16, each its own; everything is computed in double, and the result
/// does not depend on the executor. What is written must not overlap the inputs, itself or the rest of it.
/// Errors: Error (invalid_argument); nothing is written in that case.
ROTARY_API ScoreTerms score_terms(const ConstTensorView& x, const ConstTensorView& p, const ConstTensorView& w_q,
                                  const ConstTensorView& w_k, const ScoreTermsOptions& options = {});

}  // namespace rotary
