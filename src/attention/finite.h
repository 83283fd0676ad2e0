// Infinities and NaN, which must not reach what does not see them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace rotary {

template <class T>
bool all_finite(const T* numbers, std::int64_t length) noexcept {
  bool finite = true;
  for (std::int64_t i = 0; i < length; ++i) finite &= std::abs(numbers[i]) <= std::numeric_limits<T>::max();
  return finite;
}

/// What is added to a score: a finite number stays finite when it is narrowed, only an infinity hides a key.
template <class T>
T added_number(double value) noexcept {
  constexpr double largest = std::numeric_limits<T>::max();
  return static_cast<T>(std::isfinite(value) ? std::clamp(value, -largest, largest) : value);
}

}  // namespace rotary
