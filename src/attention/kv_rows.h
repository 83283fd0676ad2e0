// Keys and values on their way into a cache, and on their way to another position.
#pragma once

#include <cstdint>
#include <vector>

#include "attention/kv_state.h"
#include "rotary/tensor.hpp"

namespace rotary {

/// Turns and stores keys, and stores values, of the tokens that `run` names: token `run.first + i` of k and v ("HSD") goes to
/// slot run.slot + i, whose position is already there.
void store_tokens(const KvState& cache, const ConstTensorView& k, const ConstTensorView& v, const KvRun& run);

/// Turns the keys of the tokens begin … end - 1 of a table of blocks on by `distance` positions, which has been checked.
void shift_keys(const KvState& cache, const std::vector<std::int32_t>& table, std::int64_t begin, std::int64_t end,
                double distance);

}  // namespace rotary
