// Frequencies of pictures and video, where several axes share a head.
#include <cmath>
#include <numbers>
#include <utility>

#include "rotary/frequencies.hpp"
#include "rotation/frequency_checks.h"

namespace rotary {
namespace {

void check_quarters(const char* operation, std::int64_t head_dim) {
  check_rotary_dim(operation, head_dim, "head_dim");
  if (head_dim % 4 != 0) fail_argument(operation, "head_dim must be a multiple of 4 for two axes, got ", head_dim);
}

}  // namespace

Frequencies axial_frequencies(double base, const std::vector<std::int64_t>& axis_dims) {
  constexpr const char* operation = "axial_frequencies";
  if (axis_dims.empty()) fail_argument(operation, "axis_dims must name at least one axis");
  std::int64_t total = 0;
  for (const std::int64_t dim : axis_dims) {
    check_rotary_dim(operation, dim, "each of axis_dims");
    total += dim;
    check_rotary_dim(operation, total, "the sum of axis_dims");
  }
  Frequencies result;
  for (const std::int64_t dim : axis_dims) {
    const Frequencies one = default_frequencies(base, dim);
    result.inv_freq.insert(result.inv_freq.end(), one.inv_freq.begin(), one.inv_freq.end());
  }
  return result;
}

std::vector<std::int64_t> wan_axis_dims(std::int64_t head_dim) {
  constexpr const char* operation = "wan_axis_dims";
  check_rotary_dim(operation, head_dim, "head_dim");
  if (head_dim < 6) fail_argument(operation, "head_dim must be at least 6 for three axes, got ", head_dim);
  const std::int64_t third = head_dim / 2 / 3;
  return {head_dim - 4 * third, 2 * third, 2 * third};
}

Frequencies pixtral_frequencies(double base, std::int64_t head_dim) {
  check_quarters("pixtral_frequencies", head_dim);
  const Frequencies whole = default_frequencies(base, head_dim);
  Frequencies result;
  for (const std::size_t parity : {0, 1}) {
    for (std::size_t j = parity; j < whole.inv_freq.size(); j += 2) result.inv_freq.push_back(whole.inv_freq[j]);
  }
  return result;
}

Frequencies moonvit_frequencies(double base, std::int64_t head_dim) {
  check_quarters("moonvit_frequencies", head_dim);
  Frequencies result;
  for (const double frequency : default_frequencies(base, head_dim / 2).inv_freq) {
    result.inv_freq.insert(result.inv_freq.end(), {frequency, frequency});
  }
  return result;
}

Frequencies dinov3_frequencies(std::int64_t head_dim, const DinoV3& rule) {
  constexpr const char* operation = "dinov3_frequencies";
  check_quarters(operation, head_dim);
  check_positive(operation, "base", rule.base);
  check_not_negative(operation, "min_period", rule.min_period);
  check_not_negative(operation, "max_period", rule.max_period);
  if ((rule.min_period == 0) != (rule.max_period == 0)) {
    fail_argument(operation, "min_period and max_period must be given together, got ", rule.min_period, " and ",
                  rule.max_period);
  }
  const std::int64_t count = head_dim / 4;
  const bool by_periods = rule.min_period != 0;
  if (by_periods && count < 2) fail_argument(operation, "head_dim must be at least 8 between two periods, got ", head_dim);
  Frequencies result;
  for (int axis = 0; axis < 2; ++axis) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto index = static_cast<double>(i);
      const double period =
          by_periods ? rule.min_period * std::pow(rule.max_period / rule.min_period, index / static_cast<double>(count - 1))
                     : std::pow(rule.base, index / static_cast<double>(count));
      result.inv_freq.push_back(2 * std::numbers::pi / period);
    }
  }
  return checked_result(operation, std::move(result));
}

}  // namespace rotary
