// Sums over rows of features, in an order that never depends on anything but their length.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace rotary {

/// In eight sums side by side, always the same ones.
template <class T>
T dot(const T* a, const T* b, std::int64_t size) noexcept {
  T sums[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= size; i += 8) {
    for (int lane = 0; lane < 8; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < size; ++i) sums[i % 8] += a[i] * b[i];
  return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

/// y += factor x
template <class T>
void add_multiple(T factor, const T* __restrict x, T* __restrict y, std::int64_t size) noexcept {
  for (std::int64_t i = 0; i < size; ++i) y[i] += factor * x[i];
}

template <class T>
void multiply(T factor, T* x, std::int64_t size) noexcept {
  if (factor == 1) return;
  for (std::int64_t i = 0; i < size; ++i) x[i] *= factor;
}

/// Whether a denominator is good to divide by: neither 0 nor so small that its terms have lost their last digits to underflow,
/// and not so small beside the sizes of its terms that rounding may have decided its value.
template <class T>
bool is_usable(T denominator, T sum_of_sizes) noexcept {
  constexpr T largest_condition = sizeof(T) == 4 ? T(0x1p17) : T(0x1p46);
  const T size = std::abs(denominator);
  return !(size < std::numeric_limits<T>::min()) && !(size * largest_condition < sum_of_sizes);
}

}  // namespace rotary
