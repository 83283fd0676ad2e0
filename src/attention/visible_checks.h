// What attention() asks of the options that say which keys a query sees.
#pragma once

#include "attention/problem.h"

namespace rotary {

/// Throws Error (invalid_argument) for a rule that does not fit the tokens of the problem, all of whose numbers are set.
void check_visible_options(const char* operation, const AttentionProblem& problem);

}  // namespace rotary
