// How far rounding in a model can move what it computed, to first order.
//
// The model is transformers in eager mode, or anything no less careful. u is half a unit in the last place at 1 of the
// dtype that it keeps q, k and v in (2^-24 for float32, 2^-11 for float16, 2^-8 for bfloat16); e = 2^-24 that of its
// angles.
//
// Rotated pair of length L, amplitude a, inverse frequency w, angle t = |p w|:
//   inv_freq   exponent 2j/d, power, reciprocal, scaling rule:  |ln w| e (the exponent's rounding) + 2 e + e + 4 e
//   angle      the product:                                     e; with inv_freq t (8 + |ln w|) e
//   cos, sin   a cosine within 1 ulp, times a, rounded to u:    2 u each, which moves a channel by at most 2 sqrt(2) a L u
//   u c - v s  two products and a difference:                   |u c| + |v s| <= a L, and the result <= a L: 2 a L u
//   rotary     its own tables, where they are float32:          sqrt(2) a L u
// Sum: a L (t (8 + |ln w|) e + 7 u) per channel, and sqrt(2) of that, at most, for the pair as a vector.
// (Over 81 families in transformers 5.24 the largest relative error seen of inv_freq is 6.4 e.)
//
// Score of query i and key j, with E the error of a rotated head as a vector:
//   ds_j = scale (|E_q| |k_j| + |q| |E_k_j| + (d e + 2 u) |q| |k_j|)
// by Cauchy and Schwarz, and a sum of d products, rounded. Where the query is multiplied by a factor of its position,
// T = 1 + beta ln(1 + n) in float32 (2 e for the logarithm, e for each of beta, the product and the sum: at most 5 e),
// rounded to u, and the product rounded to u again, |E_q| grows by (5 e + 2 u) |q|, and the scale is T times as large.
// A cap, c tanh(s / c), moves by no more than s does; division, tanh within 2 ulp and product, each rounded to u where scores
// are kept in 16 bits, move it by (6 e + 3 u) |s| themselves.
// Output, with weights w_j over n keys: a score that moves by ds_j moves out by w_j ds_j (v_j - out), at most
//   sum_j w_j ds_j (|v_j| + |out|)
// and exp, the sum of n weights, the division and the sum of n weighted values by at most
//   sum_j w_j |v_j| ((2 n + 8) e + 3 u)
// ds_j is linear in |k_j| and |E_k_j|, so all sums are attention again, over other values.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/dtype.hpp"
#include "rotary/rotation.hpp"

namespace rotary {

/// Half a unit in the last place at 1.
double rounding_unit(DType dtype) noexcept;

/// For a head of length 1 in every pair: how far each pair of a token at `position` can move, per channel.
std::vector<double> pair_rounding(const Rotation& rotation, const double* position, double unit);

struct HeadNorms {
  double length = 0;  ///< of the rotated head as a vector
  double error = 0;   ///< how far it can move as a vector
};

/// Of a query that is multiplied by a factor of its position; the factor itself belongs to the scale.
HeadNorms with_factor(const HeadNorms& query, double unit) noexcept;

/// Sums over the keys that a query sees, weighted by its attention.
struct WeightedSums {
  double size;               ///< of |v|
  double size_times_length;  ///< of |v| |k|
  double size_times_error;   ///< of |v| |E_k|
  double length;             ///< of |k|
  double error;              ///< of |E_k|
};

/// What is done to the scores of one query.
struct ScoreShape {
  double scale;           ///< with the query's factor
  std::int64_t head_dim;  ///< how many products a score sums
  bool is_capped;
  std::int64_t num_keys;  ///< whose weights are summed; a sink is one
};

/// How far a channel of the output can move.
double output_rounding(const HeadNorms& query, const WeightedSums& sums, double out, const ScoreShape& scores,
                       double unit) noexcept;

}  // namespace rotary
