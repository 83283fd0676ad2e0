// The reports of a call's tasks as one.
#pragma once

#include <algorithm>
#include <vector>

#include "rotary/linear_attention.hpp"

namespace rotary {

inline LinearAttentionReport merged(const std::vector<LinearAttentionReport>& reports) noexcept {
  LinearAttentionReport all;
  for (const LinearAttentionReport& report : reports) {
    all.num_rows += report.num_rows;
    all.num_zero_rows += report.num_zero_rows;
    all.num_negative_denominators += report.num_negative_denominators;
    all.num_non_finite_denominators += report.num_non_finite_denominators;
    all.worst_condition = std::max(all.worst_condition, report.worst_condition);
  }
  return all;
}

}  // namespace rotary
