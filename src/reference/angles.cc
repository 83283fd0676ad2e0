#include "reference/angles.h"

#include <array>
#include <cmath>
#include <cstdint>

namespace rotary::reference {
namespace {

/// A whole number, 32 bits a piece, from the lowest.
using Number = std::array<std::uint32_t, 12>;
constexpr int limb_bits = 32;

/// 2^256 / (2 pi), rounded down (mpmath).
constexpr Number per_radian = {0xf7aef158, 0x7f9458ea, 0x4f10e410, 0x36d8a566,
                               0x7d4d3770, 0x7f09d5f4, 0x9391054a, 0x28be60db};
constexpr int per_radian_exponent = -256;

/// As by hand, limb by limb.
Number operator*(const Number& a, std::uint64_t b) noexcept {
  Number product{};
  for (std::size_t shift = 0; shift < 2; ++shift) {
    const std::uint64_t factor = shift == 0 ? b & 0xffffffff : b >> limb_bits;
    std::uint64_t carry = 0;
    for (std::size_t i = 0; i + shift < a.size(); ++i) {
      carry += product[i + shift] + a[i] * factor;
      product[i + shift] = static_cast<std::uint32_t>(carry);
      carry >>= limb_bits;
    }
  }
  return product;
}

int bit(const Number& a, int place) noexcept {
  const auto limb = static_cast<std::size_t>(place / limb_bits);
  return limb < a.size() ? static_cast<int>(a[limb] >> (place % limb_bits) & 1) : 0;
}

/// What is left below bit `point`, divided by 2^point.
DoubleDouble fraction(const Number& a, int point) noexcept {
  DoubleDouble sum;
  for (int i = static_cast<int>(a.size()) - 1; i >= 0; --i) {
    const int places = point - i * limb_bits;  // of this limb, that lie below the point
    if (places <= 0) continue;
    const std::uint64_t mask = places < limb_bits ? (std::uint64_t{1} << places) - 1 : 0xffffffff;
    const auto limb = static_cast<double>(a[static_cast<std::size_t>(i)] & mask);
    sum = sum + DoubleDouble{std::ldexp(limb, -places), 0};
  }
  return sum;
}

struct Binary {
  std::uint64_t significand;  ///< 53 bits
  int exponent;
};

Binary magnitude(double x) noexcept {
  int exponent = 0;
  const double significand = std::frexp(std::abs(x), &exponent);
  return {static_cast<std::uint64_t>(std::ldexp(significand, 53)), exponent - 53};
}

/// Taylor series around 0, for an angle of at most an eighth of a turn: 15 terms reach 2^-112.
CosSin small_cos_sin(DoubleDouble turns) noexcept {
  const DoubleDouble one{1, 0}, x = turns * two_pi, square = x * x;
  CosSin result{one, one};
  for (int n = 30; n >= 2; n -= 2) {
    result.cos = one - square * result.cos / (n * (n - 1));
    result.sin = one - square * result.sin / (n * (n + 1));
  }
  result.sin = result.sin * x;
  return result;
}

}  // namespace

// In whole numbers throughout: position and inv_freq are such times a power of two, and so is 1 / (2 pi), cut off.
ReducedAngle reduce_angle(double position, double inv_freq) noexcept {
  const Binary p = magnitude(position), w = magnitude(inv_freq);
  const Number product = per_radian * p.significand * w.significand;
  const int point = -(per_radian_exponent + p.exponent + w.exponent + 2);  // the lowest bit that is a whole quarter turn

  int quarters = bit(product, point) + 2 * bit(product, point + 1);
  DoubleDouble rest = fraction(product, point);
  if (bit(product, point - 1) == 1) {  // nearer to the next
    ++quarters;
    rest = rest - DoubleDouble{1, 0};
  }
  const DoubleDouble turns{rest.hi / 4, rest.lo / 4};
  if (std::signbit(position) != std::signbit(inv_freq)) return {-quarters & 3, -turns};
  return {quarters & 3, turns};
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
