// What attention() asks of the options that change scores.
#pragma once

#include "attention/problem.h"

namespace rotary {

/// Throws Error (invalid_argument) for one that does not fit the problem, all of whose numbers and positions are set.
void check_score_options(const char* operation, const AttentionProblem& problem);

}  // namespace rotary
