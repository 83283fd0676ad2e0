// Errors in units in the last place.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/double_double.h"

namespace rotary {

/// |value - exact| in the spacing of T's numbers around `exact`; around `least` where exact is smaller.
template <class T>
double error_in_ulp(T value, DoubleDouble exact, double least = 0) {
  const double size = std::max({std::abs(exact.hi), least, static_cast<double>(std::numeric_limits<T>::min())});
  const double spacing = std::ldexp(1.0, std::ilogb(size) - std::numeric_limits<T>::digits + 1);
  return std::abs((DoubleDouble{static_cast<double>(value), 0} - exact).hi) / spacing;
}

}  // namespace rotary
