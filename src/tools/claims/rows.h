// Rows of channels, one token each: what claims compute with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/uniform_numbers.h"
#include "rotary/tensor.hpp"

namespace rotary::claims {

/// float32: what users run.
struct Rows {
  std::int64_t count = 0;
  std::int64_t width = 0;
  std::vector<float> values;

  Rows(std::int64_t rows, std::int64_t channels)
      : count(rows), width(channels), values(static_cast<std::size_t>(rows * channels)) {}

  float& at(std::int64_t row, std::int64_t channel) { return values[static_cast<std::size_t>(row * width + channel)]; }
  double at(std::int64_t row, std::int64_t channel) const {
    return static_cast<double>(values[static_cast<std::size_t>(row * width + channel)]);
  }

  operator TensorView() { return {values.data(), "SD", {count, width}}; }
  operator ConstTensorView() const { return {values.data(), "SD", {count, width}}; }
};

/// Evenly distributed, of mean 0 and variance 1.
inline Rows random_rows(std::int64_t count, std::int64_t width, std::uint64_t seed) {
  UniformNumbers random(seed);
  Rows rows(count, width);
  for (float& value : rows.values) value = static_cast<float>(std::sqrt(3.0) * (2 * random.next() - 1));
  return rows;
}

/// Of float32 without gaps.
inline Rows copy_of(const ConstTensorView& view) {
  Rows rows(view.size('S'), view.size('D'));
  const auto* const values = static_cast<const float*>(view.data());
  rows.values.assign(values, values + view.num_elements());
  return rows;
}

/// The same row many times.
inline Rows repeated(const Rows& rows, std::int64_t row, std::int64_t count) {
  Rows copies(count, rows.width);
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t c = 0; c < rows.width; ++c) copies.at(i, c) = static_cast<float>(rows.at(row, c));
  }
  return copies;
}

inline Rows identity_rows(std::int64_t count) {
  Rows rows(count, count);
  for (std::int64_t i = 0; i < count; ++i) rows.at(i, i) = 1;
  return rows;
}

inline double dot(const Rows& a, std::int64_t i, const Rows& b, std::int64_t j) {
  double sum = 0;
  for (std::int64_t c = 0; c < a.width; ++c) sum += a.at(i, c) * b.at(j, c);
  return sum;
}

inline double norm(const Rows& rows, std::int64_t row) { return std::sqrt(dot(rows, row, rows, row)); }

/// Not a number where an element is none.
template <class A, class B>
double largest_difference(const std::vector<A>& a, const std::vector<B>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (std::isnan(difference)) return difference;
    largest = std::max(largest, difference);
  }
  return largest;
}

template <class T>
double largest_size(const std::vector<T>& values) {
  return largest_difference(values, std::vector<T>(values.size()));
}

/// |a - b| / |b|, all rows taken together.
inline double relative_change(const Rows& a, const Rows& b) {
  double change = 0, size = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    const double x = static_cast<double>(a.values[i]), y = static_cast<double>(b.values[i]);
    change += (x - y) * (x - y);
    size += y * y;
  }
  return std::sqrt(change / size);
}

}  // namespace rotary::claims
