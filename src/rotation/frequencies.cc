// The plain rules: default, linear, divisors, partial and proportional, RetNet.
#include "rotary/frequencies.hpp"

#include <cmath>
#include <utility>

#include "base/fail.h"
#include "rotation/frequency_checks.h"

namespace rotary {

Frequencies default_frequencies(double base, std::int64_t rotary_dim) {
  constexpr const char* operation = "default_frequencies";
  check_positive(operation, "base", base);
  check_rotary_dim(operation, rotary_dim);
  Frequencies result;
  result.inv_freq.reserve(static_cast<std::size_t>(rotary_dim / 2));
  for (std::int64_t j = 0; j < rotary_dim / 2; ++j) {
    result.inv_freq.push_back(std::pow(base, -2.0 * static_cast<double>(j) / static_cast<double>(rotary_dim)));
  }
  return checked_result(operation, std::move(result));
}

Frequencies linear_frequencies(double base, std::int64_t rotary_dim, double factor) {
  constexpr const char* operation = "linear_frequencies";
  check_positive(operation, "factor", factor);
  Frequencies result = default_frequencies(base, rotary_dim);
  for (double& frequency : result.inv_freq) frequency /= factor;
  return checked_result(operation, std::move(result));
}

Frequencies with_divisors(Frequencies frequencies, const std::vector<double>& divisors) {
  constexpr const char* operation = "with_divisors";
  if (divisors.size() != frequencies.inv_freq.size()) {
    fail_argument(operation, "there must be one divisor per pair, got ", divisors.size(), " for ",
                  frequencies.inv_freq.size(), " pairs");
  }
  for (std::size_t j = 0; j < divisors.size(); ++j) {
    if (!(std::isfinite(divisors[j]) && divisors[j] > 0)) {
      fail_argument(operation, "divisors must be finite and positive, got ", divisors[j], " for pair ", j);
    }
    frequencies.inv_freq[j] /= divisors[j];
  }
  return checked_result(operation, std::move(frequencies));
}

std::int64_t partial_rotary_dim(std::int64_t head_dim, double partial_rotary_factor) {
  constexpr const char* operation = "partial_rotary_dim";
  if (head_dim < 1 || head_dim > max_rotary_dim) {
    fail_argument(operation, "head_dim must be at least 1 and at most ", max_rotary_dim, ", got ", head_dim);
  }
  if (!(partial_rotary_factor > 0 && partial_rotary_factor <= 1)) {
    fail_argument(operation, "partial_rotary_factor must be above 0 and at most 1, got ", partial_rotary_factor);
  }
  const auto width = static_cast<std::int64_t>(static_cast<double>(head_dim) * partial_rotary_factor);
  if (width < 2 || width % 2 != 0) {
    fail_argument(operation, "head_dim * partial_rotary_factor must give an even number of channels, got ", width, " from ",
                  head_dim, " and ", partial_rotary_factor);
  }
  return width;
}

Frequencies proportional_frequencies(double base, std::int64_t head_dim, const Proportional& rule) {
  constexpr const char* operation = "proportional_frequencies";
  check_positive(operation, "base", base);
  check_rotary_dim(operation, head_dim, "head_dim");
  check_positive(operation, "factor", rule.factor);
  if (!(rule.partial_rotary_factor > 0 && rule.partial_rotary_factor <= 1)) {
    fail_argument(operation, "partial_rotary_factor must be above 0 and at most 1, got ", rule.partial_rotary_factor);
  }
  Frequencies result = linear_frequencies(base, head_dim, rule.factor);
  const auto turning = static_cast<std::size_t>(std::floor(rule.partial_rotary_factor * static_cast<double>(head_dim) / 2));
  for (std::size_t j = turning; j < result.inv_freq.size(); ++j) result.inv_freq[j] = 0;
  return result;
}

Frequencies retnet_frequencies(std::int64_t rotary_dim) {
  constexpr const char* operation = "retnet_frequencies";
  check_rotary_dim(operation, rotary_dim);
  if (rotary_dim < 4) fail_argument(operation, "rotary_dim must be at least 4, got ", rotary_dim);
  const auto num_pairs = rotary_dim / 2;
  Frequencies result;
  for (std::int64_t j = 0; j < num_pairs; ++j) {
    result.inv_freq.push_back(std::pow(1e4, -static_cast<double>(j) / static_cast<double>(num_pairs - 1)));
  }
  return result;
}

}  // namespace rotary
