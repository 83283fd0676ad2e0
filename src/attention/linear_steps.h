// One token of linear attention: what a stream does most of the time.
//
// The sums S are read and written once, in one pass over all heads of the token. A step's bits are those of a chunk of one
// token:
//
//     a S + (a . b) v        what came before, and the token itself
//     S <- S + b v^T
#pragma once

#include <cstdint>

#include "attention/feature_map.h"
#include "attention/linear_problem.h"
#include "attention/linear_state.h"

namespace rotary {

/// Whether a call is such a step in every sequence, without anything that needs more.
template <class T>
bool is_step(const LinearProblem& problem, const FeatureRows<T>& map) noexcept;

/// As attend_linearly() of linear_chunks.h.
template <class T>
LinearAttentionReport step_linearly(const LinearProblem& problem, const FeatureRows<T>& map, LinearState& state,
                                    std::int64_t begin, std::int64_t end);

}  // namespace rotary
