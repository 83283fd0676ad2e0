// Numbers as an unevaluated sum hi + lo of two doubles, |lo| <= ulp(hi) / 2: about 106 bits.
//
// The classic error-free transformations (Dekker 1971; Knuth, TAOCP 2, 4.2.2; Hida, Li and Bailey 2001). They need strict
// IEEE arithmetic, which the build asks for (-ffp-contract=off, no fast-math).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace rotary {

struct DoubleDouble {
  double hi = 0;
  double lo = 0;
};

inline constexpr DoubleDouble two_pi{0x1.921fb54442d18p+2, 0x1.1a62633145c07p-52};

/// a + b exactly, where |a| >= |b| or a = 0.
inline DoubleDouble fast_two_sum(double a, double b) noexcept {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

/// a + b exactly.
inline DoubleDouble two_sum(double a, double b) noexcept {
  const double sum = a + b;
  const double b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

/// a * b exactly, short of overflow and underflow.
inline DoubleDouble two_product(double a, double b) noexcept {
  const double product = a * b;
  return {product, std::fma(a, b, -product)};
}

inline DoubleDouble operator-(DoubleDouble a) noexcept { return {-a.hi, -a.lo}; }

/// Within 2^-104 of the sum of the magnitudes.
inline DoubleDouble operator+(DoubleDouble a, DoubleDouble b) noexcept {
  const DoubleDouble high = two_sum(a.hi, b.hi);
  const DoubleDouble low = two_sum(a.lo, b.lo);
  const DoubleDouble sum = fast_two_sum(high.hi, high.lo + low.hi);
  return fast_two_sum(sum.hi, sum.lo + low.lo);
}

inline DoubleDouble operator-(DoubleDouble a, DoubleDouble b) noexcept { return a + -b; }

/// Relative error below 2^-102.
inline DoubleDouble operator*(DoubleDouble a, DoubleDouble b) noexcept {
  const DoubleDouble product = two_product(a.hi, b.hi);
  return fast_two_sum(product.hi, product.lo + (a.hi * b.lo + a.lo * b.hi));
}

inline DoubleDouble operator/(DoubleDouble a, double b) noexcept {
  const double quotient = a.hi / b;
  const double rest = std::fma(-quotient, b, a.hi) + a.lo;
  return fast_two_sum(quotient, rest / b);
}

/// Rounded once to float or double.
template <class T>
T nearest(DoubleDouble a) noexcept;

template <>
inline double nearest<double>(DoubleDouble a) noexcept {
  return a.hi;
}

/// hi may lie just between two floats, with lo to decide: it is rounded to odd first, so that its last bit remembers lo.
template <>
inline float nearest<float>(DoubleDouble a) noexcept {
  const bool is_even = (std::bit_cast<std::uint64_t>(a.hi) & 1) == 0;
  if (a.lo != 0 && is_even) a.hi = std::nextafter(a.hi, a.lo > 0 ? INFINITY : -INFINITY);
  return static_cast<float>(a.hi);
}

}  // namespace rotary
