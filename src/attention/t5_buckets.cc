#include <algorithm>
#include <cmath>
#include <limits>

#include "base/fail.h"
#include "rotary/position_bias.hpp"

namespace rotary {
namespace {

constexpr const char* operation = "T5Buckets";
constexpr std::int64_t max_buckets = 1024;
constexpr std::int64_t largest_distance = std::numeric_limits<std::int32_t>::max();

/// A whole number of any size, 32 bits a piece, from the lowest.
class Product {
 public:
  Product& multiply(std::int64_t factor, std::int64_t times) {
    for (std::int64_t n = 0; n < times; ++n) {
      std::uint64_t carry = 0;
      for (std::uint32_t& limb : limbs_) {
        carry += static_cast<std::uint64_t>(limb) * static_cast<std::uint64_t>(factor);
        limb = static_cast<std::uint32_t>(carry);
        carry >>= 32;
      }
      if (carry != 0) limbs_.push_back(static_cast<std::uint32_t>(carry));
    }
    return *this;
  }

  bool operator>=(const Product& other) const {
    if (limbs_.size() != other.limbs_.size()) return limbs_.size() > other.limbs_.size();
    return !std::lexicographical_compare(limbs_.rbegin(), limbs_.rend(), other.limbs_.rbegin(), other.limbs_.rend());
  }

 private:
  std::vector<std::uint32_t> limbs_{1};
};

/// The smallest whole d with d^steps >= max_distance^t * exact^(steps - t).
std::int64_t first_distance(std::int64_t exact, std::int64_t max_distance, std::int64_t steps, std::int64_t t) {
  const double ratio = static_cast<double>(max_distance) / static_cast<double>(exact);
  const double edge = static_cast<double>(exact) * std::pow(ratio, static_cast<double>(t) / static_cast<double>(steps));
  const auto nearest = static_cast<std::int64_t>(std::nearbyint(edge));
  // The rounding errors of `edge` are below 2^-46 of it: farther than that from a whole number, it can be trusted.
  if (std::abs(edge - static_cast<double>(nearest)) > edge * 0x1p-40) return static_cast<std::int64_t>(std::ceil(edge));
  const Product left = Product().multiply(nearest, steps);
  const Product right = Product().multiply(max_distance, t).multiply(exact, steps - t);
  return left >= right ? nearest : nearest + 1;
}

std::int64_t buckets_per_side(const T5Rule& rule) { return rule.bidirectional ? rule.num_buckets / 2 : rule.num_buckets; }

void check(const T5Rule& rule) {
  const std::int64_t least = rule.bidirectional ? 4 : 2;
  if (rule.num_buckets < least || rule.num_buckets > max_buckets) {
    fail_argument(operation, "num_buckets must be ", least, " to ", max_buckets, ", got ", rule.num_buckets);
  }
  if (rule.bidirectional && rule.num_buckets % 2 != 0) {
    fail_argument(operation, "num_buckets must be even where it is bidirectional, got ", rule.num_buckets);
  }
  const std::int64_t exact = buckets_per_side(rule) / 2;
  if (rule.max_distance <= exact || rule.max_distance > largest_distance) {
    fail_argument(operation, "max_distance must be more than the ", exact,
                  " distances that have their own bucket, and at most ", largest_distance, ", got ", rule.max_distance);
  }
}

}  // namespace

T5Buckets::T5Buckets(const T5Rule& rule) : rule_(rule) {
  check(rule);
  const std::int64_t count = buckets_per_side(rule), exact = count / 2;
  for (std::int64_t d = 0; d < exact; ++d) first_distances_.push_back(d);
  for (std::int64_t t = 0; t < count - exact; ++t) {
    first_distances_.push_back(first_distance(exact, rule.max_distance, count - exact, t));
  }
}

std::int64_t T5Buckets::bucket(std::int64_t distance) const noexcept {
  const bool after = distance > 0;
  std::int64_t size = std::max(distance, -std::numeric_limits<std::int64_t>::max());
  if (rule_.bidirectional) size = std::abs(size);
  else size = std::max<std::int64_t>(-size, 0);
  const auto next = std::upper_bound(first_distances_.begin(), first_distances_.end(), size);
  const std::int64_t bucket = next - first_distances_.begin() - 1;
  return rule_.bidirectional && after ? bucket + static_cast<std::int64_t>(first_distances_.size()) : bucket;
}

}  // namespace rotary
