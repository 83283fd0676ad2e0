// Position biases as their papers and published code state them, a score at a time: the oracle.
#pragma once

#include <cstdint>

#include "rotary/position_bias.hpp"
#include "rotary/tensor.hpp"

namespace rotary::reference {

double alibi(std::int64_t num_heads, std::int64_t head, double q_position, double k_position);

/// Step by step from the logarithms, in long double, for rules of up to 64 buckets: an edge that is a whole number is reached
/// to within 1e-15, and no other comes that close.
std::int64_t t5_bucket(const T5Rule& rule, std::int64_t distance);

/// `table` "NH", as PositionBias takes it.
double t5(const ConstTensorView& table, const T5Rule& rule, std::int64_t head, std::int64_t q_position,
          std::int64_t k_position);
double clipped(const ConstTensorView& table, std::int64_t head, std::int64_t q_position, std::int64_t k_position);

}  // namespace rotary::reference
