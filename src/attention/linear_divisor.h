// What a row of linear attention is divided by.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "attention/linear_problem.h"
#include "attention/row_sums.h"

namespace rotary {

/// The denominator `sum` whose terms' sizes sum to at most `bound`; 0 where one must not divide by it. Counts the row in
/// `report`.
template <class T>
T checked_divisor(T sum, T bound, LinearAttentionReport& report) {
  ++report.num_rows;
  report.num_negative_denominators += sum < 0;
  report.num_non_finite_denominators += !std::isfinite(sum);
  if (!is_usable(sum, bound)) {
    ++report.num_zero_rows;
    return 0;
  }
  const double condition = static_cast<double>(bound / std::abs(sum));
  if (condition > report.worst_condition) report.worst_condition = condition;
  return sum;
}

/// Counts `count` denominators that bound themselves and have a reciprocal: checked_divisor() would give up none of them.
template <class T>
void count_plain_divisors(const T* sums, std::int64_t count, LinearAttentionReport& report) {
  report.num_rows += count;
  report.num_negative_denominators += std::count_if(sums, sums + count, [](T x) { return x < 0; });
}

/// Of a query whose features are `c` (and `m`, the lengths of their pairs) over the sums that they meet.
template <class T>
T linear_divisor(const LinearProblem& problem, const T* c, const T* denominator, const T* m, const T* magnitude,
                 LinearAttentionReport& report) {
  if (problem.normalizer == Normalizer::none) {
    ++report.num_rows;
    return 1;
  }
  const T sum = dot(c, denominator, problem.c_width);
  const T bound = problem.m_width > 0 ? dot(m, magnitude, problem.m_width) : std::abs(sum);
  return checked_divisor(sum, bound, report);
}

}  // namespace rotary
