// Rows of numbers as int8 with one scale: x = scale * n, |n| <= 127.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace rotary {

/// Returns the scale, largest |x| / 127. Each number is rounded to the nearest multiple of it. A row with a NaN or an
/// infinity has the scale NaN: it is NaN when it is read.
inline float to_int8(const float* x, std::int64_t length, std::int8_t* to) noexcept {
  float largest = 0;
  bool finite = true;
  for (std::int64_t i = 0; i < length; ++i) {
    largest = std::max(largest, std::abs(x[i]));
    finite = finite && std::abs(x[i]) <= std::numeric_limits<float>::max();
  }
  const float scale = finite ? largest / 127 : std::numeric_limits<float>::quiet_NaN();
  if (!(scale > 0)) {
    std::fill_n(to, length, std::int8_t{0});
    return scale;
  }
  constexpr float round_to_integer = 0x1.8p23f;  // added, the sum has no room for a fraction
  for (std::int64_t i = 0; i < length; ++i) {
    const float rounded = x[i] / scale + round_to_integer - round_to_integer;
    to[i] = static_cast<std::int8_t>(std::clamp(rounded, -127.0f, 127.0f));  // past 127 where the scale is subnormal
  }
  return scale;
}

template <class T>
void from_int8(const std::int8_t* from, float scale, std::int64_t length, T* x) noexcept {
  for (std::int64_t i = 0; i < length; ++i) x[i] = static_cast<T>(scale) * static_cast<T>(from[i]);
}

}  // namespace rotary
