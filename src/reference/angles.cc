#include "reference/angles.h"

#include <cmath>

namespace rotary::reference {
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
  // 1 / (2 pi) = c[0] + c[1] + c[2] + c[3] to 2^-215 (mpmath).
  constexpr double c[] = {0x1.45f306dc9c883p-3, -0x1.6b01ec5417056p-57, -0x1.6447e493ad4cep-111, 0x1.e21c820ff28b2p-165};

  const DoubleDouble angle = two_product(position, inv_freq);
  DoubleDouble turns;
  for (const double part : c) {
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

template <class T>
void angle(const Rotation& rotation, std::size_t pair, double position, T* cos, T* sin) noexcept {
  const DoubleDouble amplitude{rotation.amplitude(), 0};
  const CosSin exact = cos_sin(position, rotation.inv_freq()[pair]);
  *cos = nearest<T>(exact.cos * amplitude);
  *sin = nearest<T>(exact.sin * amplitude);
}

template <class T>
void angles(const Rotation& rotation, const double* position, T* cos, T* sin) noexcept {
  for (std::size_t j = 0; j < rotation.inv_freq().size(); ++j) {
    angle(rotation, j, position[rotation.axis()[j]], cos + j, sin + j);
  }
}

template void angle(const Rotation&, std::size_t, double, float*, float*) noexcept;
template void angle(const Rotation&, std::size_t, double, double*, double*) noexcept;
template void angles(const Rotation&, const double*, float*, float*) noexcept;
template void angles(const Rotation&, const double*, double*, double*) noexcept;

}  // namespace rotary::reference
