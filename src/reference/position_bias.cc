#include "reference/position_bias.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/element.h"

namespace rotary::reference {
namespace {

/// The authors' recursion.
std::vector<double> slopes(std::int64_t num_heads) {
  std::int64_t power = 1;
  while (2 * power <= num_heads) power *= 2;
  std::vector<double> result;
  for (std::int64_t h = 1; h <= power; ++h) {
    result.push_back(std::pow(2.0, -8.0 * static_cast<double>(h) / static_cast<double>(power)));
  }
  if (power == num_heads) return result;
  const std::vector<double> finer = slopes(2 * power);
  for (std::size_t h = 0; static_cast<std::int64_t>(result.size()) < num_heads; h += 2) result.push_back(finer[h]);
  return result;
}

double entry(const ConstTensorView& table, std::int64_t row, std::int64_t head) {
  return load_element(table.dtype(), table.data(), row * table.stride('N') + head * table.stride('H'));
}

}  // namespace

double alibi(std::int64_t num_heads, std::int64_t head, double q_position, double k_position) {
  return slopes(num_heads)[static_cast<std::size_t>(head)] * -std::abs(q_position - k_position);
}

std::int64_t t5_bucket(const T5Rule& rule, std::int64_t distance) {
  std::int64_t buckets = rule.num_buckets, bucket = 0, size = distance < 0 ? -distance : 0;
  if (rule.bidirectional) {
    buckets /= 2;
    if (distance > 0) bucket = buckets;
    size = std::abs(distance);
  }
  const std::int64_t exact = buckets / 2;
  if (size < exact) return bucket + size;
  const long double way = std::log(static_cast<long double>(size) / static_cast<long double>(exact)) /
                          std::log(static_cast<long double>(rule.max_distance) / static_cast<long double>(exact));
  const auto step = static_cast<std::int64_t>(std::floor(way * static_cast<long double>(buckets - exact) + 1e-15L));
  return bucket + std::min(exact + step, buckets - 1);
}

double t5(const ConstTensorView& table, const T5Rule& rule, std::int64_t head, std::int64_t q_position,
          std::int64_t k_position) {
  return entry(table, t5_bucket(rule, k_position - q_position), head);
}

double clipped(const ConstTensorView& table, std::int64_t head, std::int64_t q_position, std::int64_t k_position) {
  const std::int64_t reach = table.size('N') / 2;
  return entry(table, std::max(-reach, std::min(reach, k_position - q_position)) + reach, head);
}

}  // namespace rotary::reference
