// The numbers behind a PositionBias, for positions that have been checked.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "rotary/position_bias.hpp"

namespace rotary {

struct BiasValues {
  const PositionBias& bias;

  const T5Buckets& buckets() const noexcept { return bias.buckets_; }
  /// Of a clipped table: the largest distance that it tells apart.
  std::int64_t reach() const noexcept {
    return (static_cast<std::int64_t>(bias.numbers_.size()) / bias.num_heads_ - 1) / 2;
  }
  double slope(std::int64_t head) const noexcept { return bias.numbers_[static_cast<std::size_t>(head)]; }

  /// The row of the table for a key `distance` after the query.
  std::int64_t row(std::int64_t distance) const noexcept {
    if (bias.kind_ == BiasKind::t5) return bias.buckets_.bucket(distance);
    return std::clamp(distance, -reach(), reach()) + reach();
  }
  double entry(std::int64_t head, std::int64_t row) const noexcept {
    return bias.numbers_[static_cast<std::size_t>(row * bias.num_heads_ + head)];
  }
  /// What a distance is to the bias: its size, or its row of the table.
  double step(double distance) const noexcept {
    if (bias.kind_ == BiasKind::alibi) return std::abs(distance);
    return static_cast<double>(row(static_cast<std::int64_t>(distance)));
  }
  double value(std::int64_t head, double step) const noexcept {
    if (bias.kind_ == BiasKind::alibi) return -slope(head) * step;
    return entry(head, static_cast<std::int64_t>(step));
  }
};

}  // namespace rotary
