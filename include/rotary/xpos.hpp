// xPos: a rotation whose pairs also lose weight with distance (Sun et al. 2022, "A Length-Extrapolatable Transformer").
//
//     q_j at p: R(p) q_j zeta_j^((p - centre) / scale_base)      k_j at p: R(p) k_j zeta_j^(-(p - centre) / scale_base)
//     zeta_j = (2j + 0.4 d) / (1.4 d) for pair j of d / 2: 2/7 for the first, which turns fastest, just below 1 for the last
//
// so that pair j of a score counts zeta_j^((p_q - p_k) / scale_base), whatever the centre. A pair is stretched as a whole,
// which a turn does not mind: stretch q and k here, then rotate() them, or hand them to attention() with the rotation, or to
// linear_attention() after_map with the features `identity`.
//
// The two factors are inverse to each other and grow without bound away from the centre, though their product is harmless.
// Take the centre where the queries are: the first position of a block of them. Keys before it shrink, down to 0 where their
// score does, and no number in here grows by more than 3.5^(block / 512). A factor of more than 2^100, 2^12 in float16,
// (positions 28,000 or 3,400 from the centre, on the wrong side) is refused. Never take a centre from the length: scores
// would depend on what stands beside them in the batch, and keys of a cache would have been stretched around another one.
//
// Tensors are f64, f32, f16 or bf16, with axes B, S (or T), H and D as rotate() takes them, computed in double and rounded
// once. Gradients are stretched by the same call as what they belong to. Errors: Error (invalid_argument) naming the rule;
// nothing is written in that case.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/export.hpp"
#include "rotary/parallel.hpp"
#include "rotary/positions.hpp"
#include "rotary/rotation.hpp"
#include "rotary/tensor.hpp"

namespace rotary {

struct Xpos {
  double scale_base = 512;  ///< positions over which pair j loses the factor zeta_j; above 0
  double centre = 0;        ///< the same for the queries and keys that meet
};

/// zeta_j of every pair. 1 to 2^19 pairs.
ROTARY_API std::vector<double> xpos_zetas(std::int64_t num_pairs);

/// Stretches q or k in place, before they turn; pairs as the rotation's pairing_in lays them, other channels as they are. The
/// rotation has one axis.
ROTARY_API void xpos_queries(const TensorView& q, const Rotation& rotation, const Positions& positions = {},
                             const Xpos& xpos = {}, Executor* executor = nullptr);
ROTARY_API void xpos_keys(const TensorView& k, const Rotation& rotation, const Positions& positions = {},
                          const Xpos& xpos = {}, Executor* executor = nullptr);

/// Keys that were stretched around xpos.centre become keys around `centre`: a cache whose queries have moved on, or the
/// numerator of a LinearState, with N called D and D called S. Pairs as pairing_out lays them, since such keys have turned;
/// keys that have not must be of a rotation whose two pairings are the same.
ROTARY_API void xpos_recentre(const TensorView& keys, const Rotation& rotation, double centre, const Xpos& xpos = {},
                              Executor* executor = nullptr);

}  // namespace rotary
