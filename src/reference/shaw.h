// Relative scores of Shaw et al., a score at a time: the oracle.
#pragma once

#include <cstdint>

#include "rotary/tensor.hpp"

namespace rotary::reference {

/// scale * q_i . a[clip(distance)], for q "BHSD" and a table "NHD", in double.
double shaw_score(const ConstTensorView& q, const ConstTensorView& table, std::int64_t batch_row, std::int64_t head,
                  std::int64_t query, std::int64_t distance, double scale);

}  // namespace rotary::reference
