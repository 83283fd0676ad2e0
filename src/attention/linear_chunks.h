// One task of linear attention: a sequence and a KV head, a chunk of tokens at a time.
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

/// Writes the rows of out that belong to the sequence and the KV head, and leaves the sums with its keys added. Its
/// workspace depends on the widths, the chunk size and the number of query heads per KV head alone.
template <class T>
LinearAttentionReport attend_linearly(const LinearProblem& problem, const FeatureRows<T>& map,
                                      const LinearSequence& sequence, std::int64_t kv_head, const LinearSums<T>& sums);

}  // namespace rotary
