// Independent numbers of mean 0 and variance 1, with the same bits on every machine.
//
// By the method of Box and Muller (1958). Its logarithm and cosine are made here of + - * / and square roots, which IEEE 754
// rounds in one way only; those of a C library differ in last bits from library to library, and from processor to processor.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "base/uniform_numbers.h"

namespace rotary {

/// Of a number in (0, 1], within a few units of 2^-53 of max(1, |result|): 2 artanh((m - 1) / (m + 1)) for a mantissa m
/// between the roots of 1/2 and 2, as a series.
inline double exact_steps_log(double x) noexcept {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);
  if (mantissa < 1 / std::numbers::sqrt2) {
    mantissa *= 2;
    --exponent;
  }
  const double z = (mantissa - 1) / (mantissa + 1), squared = z * z;
  double series = 0;
  for (int k = 23; k >= 1; k -= 2) series = series * squared + 1.0 / k;
  return exponent * std::numbers::ln2 + 2 * z * series;
}

/// cos(2 pi turns) for 0 <= turns < 1, within a few units of 2^-53: from the nearest quarter turn on, as a series.
inline double exact_steps_cos(double turns) noexcept {
  const int quarters = static_cast<int>(std::lround(4 * turns));
  const double angle = (4 * turns - quarters) * (std::numbers::pi / 2), squared = angle * angle;
  const bool is_sine = quarters % 2 == 1;
  double series = 1;
  for (int k = is_sine ? 17 : 16; k >= 2; k -= 2) series = 1 - series * (squared / (k * (k - 1)));
  const double size = is_sine ? angle * series : series;
  return quarters == 1 || quarters == 2 ? -size : size;
}

class NormalNumbers {
 public:
  explicit NormalNumbers(std::uint64_t seed) noexcept : uniform_(seed) {}

  double next() noexcept {
    const double radius = std::sqrt(-2 * exact_steps_log(1 - uniform_.next()));  // 1 - next() is never 0
    return radius * exact_steps_cos(uniform_.next());
  }

 private:
  UniformNumbers uniform_;
};

}  // namespace rotary
