// Relative scores and values of Shaw et al., a query at a time: the oracle.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/tensor.hpp"

namespace rotary::reference {

/// scale * q_i . a[clip(distance)], for q "BHSD" and a table "NHD", in double.
double shaw_score(const ConstTensorView& q, const ConstTensorView& table, std::int64_t batch_row, std::int64_t head,
                  std::int64_t query, std::int64_t distance, double scale);

/// sum_j weights[j] b[clip(distances[j])], for a table "NHD", in double.
std::vector<double> shaw_value(const ConstTensorView& table, std::int64_t head, const std::vector<double>& weights,
                               const std::vector<std::int64_t>& distances);

}  // namespace rotary::reference
