#include "base/exact_angle.h"

#include <cmath>

namespace rotary {
namespace {

/// What is left of x after its nearest whole number. Exact: doubles past 2^52 are whole.
double fraction(double x) noexcept { return x - std::nearbyint(x); }

/// a * b modulo 1.
DoubleDouble fraction_of_product(double a, double b) noexcept {
  const DoubleDouble product = two_product(a, b);
  return two_sum(fraction(product.hi), fraction(product.lo));
}

/// Taylor series around 0, for an angle of at most an eighth of a turn: 15 terms reach 2^-112.
CosSin small_cos_sin(DoubleDouble turns) noexcept {
  const DoubleDouble x = turns * two_pi;
  const DoubleDouble minus_square = -(x * x);

  CosSin result{{1, 0}, x};
  DoubleDouble cos_term{1, 0}, sin_term = x;
  for (int n = 2; n <= 30; n += 2) {
    cos_term = cos_term * minus_square / (n * (n - 1));
    sin_term = sin_term * minus_square / (n * (n + 1));
    result.cos = result.cos + cos_term;
    result.sin = result.sin + sin_term;
  }
  return result;
}

}  // namespace

ReducedAngle reduce_angle(double position, double inv_freq) noexcept {
  const DoubleDouble angle = two_product(position, inv_freq);
  DoubleDouble turns;
  for (const double part : turns_per_radian) {
    turns = turns + fraction_of_product(angle.hi, part) + fraction_of_product(angle.lo, part);
  }
  turns = turns + DoubleDouble{-std::nearbyint(turns.hi), 0};

  const double quarters = std::nearbyint(4 * turns.hi);
  return {static_cast<int>(quarters) & 3, turns + DoubleDouble{-quarters / 4, 0}};
}

CosSin cos_sin(double position, double inv_freq) noexcept {
  const ReducedAngle angle = reduce_angle(position, inv_freq);
  const CosSin rest = small_cos_sin(angle.turns);
  switch (angle.quarters) {
    case 0: return {rest.cos, rest.sin};
    case 1: return {-rest.sin, rest.cos};
    case 2: return {-rest.cos, -rest.sin};
    default: return {rest.sin, -rest.cos};
  }
}

}  // namespace rotary
