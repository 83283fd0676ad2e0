// Softmax attention of a call that has been checked, by the way that suits it: in tiles of many queries, or decode.
#pragma once

#include "attention/problem.h"

namespace rotary {

void attend(const AttentionProblem& problem);
/// What AttentionOptions::workspace must have for that.
std::int64_t attend_workspace_bytes(const AttentionProblem& problem);

}  // namespace rotary
