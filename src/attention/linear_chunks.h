// One task of linear attention: some sequences and KV heads one after another, a chunk of tokens at a time.
//
//     chunk of queries A, keys B, values V, and the sums S before it:
//
//         A S                       what came before, through the sums
//         tril(A B^T) V             what is in the chunk, pair by pair
//         S <- S + B^T V            then the chunk joins the sums
//
// Where keys decay, and where the exponents of favor_plus get a larger maximum, every token has a gate g in (0, 1]: the sums
// become g S + b v^T. Gates are multiplied within a chunk only, from a key forwards, so that none overflows.
#pragma once

#include <cstdint>

#include "attention/feature_map.h"
#include "attention/linear_problem.h"
#include "attention/linear_state.h"

namespace rotary {

/// The heads from `begin` to `end`, counted over sequences and KV heads: writes their rows of out, and leaves the state with
/// their keys added. The workspace depends on the widths and the chunk size alone.
template <class T>
LinearAttentionReport attend_linearly(const LinearProblem& problem, const FeatureRows<T>& map, LinearState& state,
                                      std::int64_t begin, std::int64_t end);

}  // namespace rotary
