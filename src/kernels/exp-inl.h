// exp and tanh in vectors. Included once per instruction set, like unroll-inl.h.
#include <cstdint>
#include <iterator>

#include <hwy/highway.h>

#include "kernels/unroll-inl.h"
#include "kernels/vectors-inl.h"

#if defined(ROTARY_EXP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_EXP_INL_H
#undef ROTARY_EXP_INL_H
#else
#define ROTARY_EXP_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace rotary {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// exp(x) = 2^k (1 + r + r^2 g(r)), k = round(x / ln 2), r = x - k ln 2.
template <class T>
struct ExpConstants;

template <>
struct ExpConstants<float> {
  static constexpr int mantissa_bits = 23;
  static constexpr float round_to_integer = 0x1.8p23f + 127;  // added, it leaves k + 127 in the low bits of the sum
  static constexpr float smallest = -86.5f;                   // exp(x) and its products stay clear of subnormals
  static constexpr float ln2_hi = 0x1.63p-1f, ln2_lo = -0x1.bd0106p-13f;  // k * ln2_hi is exact
  // g = (e^r - 1 - r) / r^2, interpolated at Chebyshev nodes of |r| <= ln 2 / 2: e^r within 1.1e-8
  static constexpr float g[] = {0x1.6d117cp-10f, 0x1.120be2p-7f, 0x1.555518p-5f, 0x1.5554dcp-3f, 0.5f};
};

template <>
struct ExpConstants<double> {
  static constexpr int mantissa_bits = 52;
  static constexpr double round_to_integer = 0x1.8p52 + 1023;
  static constexpr double smallest = -706;
  static constexpr double ln2_hi = 0x1.62e42feep-1, ln2_lo = 0x1.a39ef35793c76p-33;
  // 1/13! … 1/2!: e^r within 5e-18
  static constexpr double g[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
                                 1.0 / 362880,     1.0 / 40320,     1.0 / 5040,     1.0 / 720,
                                 1.0 / 120,        1.0 / 24,        1.0 / 6,        0.5};
};

/// For x from `smallest` to 0; elsewhere the parts mean nothing.
template <class T>
struct ExpParts {
  Vec<T> power, k, r, g;  // 2^k, k, r, g(r)
};

template <class T>
HWY_INLINE ExpParts<T> exp_parts(Vec<T> x) {
  using Constants = ExpConstants<T>;
  const Tag<T> d;
  const hn::RebindToSigned<Tag<T>> di;
  const Vec<T> round_to_integer = hn::Set(d, Constants::round_to_integer);
  const Vec<T> z = hn::MulAdd(x, hn::Set(d, static_cast<T>(1.4426950408889634)), round_to_integer);
  const Vec<T> k = hn::Sub(z, round_to_integer);
  Vec<T> r = hn::NegMulAdd(k, hn::Set(d, Constants::ln2_hi), x);
  r = hn::NegMulAdd(k, hn::Set(d, Constants::ln2_lo), r);

  Vec<T> g = hn::Set(d, Constants::g[0]);
  constexpr int degree = static_cast<int>(std::size(Constants::g)) - 1;
  unroll<degree>([&](auto i) ROTARY_LAMBDA { g = hn::MulAdd(g, r, hn::Set(d, Constants::g[i + 1])); });
  const auto exponent = hn::ShiftLeft<Constants::mantissa_bits>(hn::BitCast(di, z));
  return {hn::BitCast(d, exponent), k, r, g};
}

/// x 2^k
template <class T>
HWY_INLINE Vec<T> times_power(Vec<T> x, const ExpParts<T>& parts) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(T) == 4) return Vec<T>{_mm512_scalef_ps(x.raw, parts.k.raw)};
  else return Vec<T>{_mm512_scalef_pd(x.raw, parts.k.raw)};
#else
  return hn::Mul(x, parts.power);
#endif
}

/// exp(x) for x <= 0; exp(0) is 1, exp(-infinity) is 0, exp(NaN) is NaN.
template <class T>
HWY_INLINE Vec<T> exp_of_nonpositive(Vec<T> x) {
  const Tag<T> d;
  const ExpParts<T> parts = exp_parts<T>(x);
  const Vec<T> one = hn::Set(d, T{1}), e = hn::MulAdd(hn::MulAdd(parts.g, parts.r, one), parts.r, one);
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, ExpConstants<T>::smallest)), times_power<T>(e, parts));
}

/// -m / (2 + m) with m = exp(-2 |x|) - 1, which loses nothing to cancellation where x is small. tanh(NaN) is NaN.
template <class T>
HWY_INLINE Vec<T> tanh(Vec<T> x) {
  const Tag<T> d;
  const Vec<T> one = hn::Set(d, T{1}), y = hn::Mul(hn::Set(d, T{-2}), hn::Abs(x));
  const ExpParts<T> parts = exp_parts<T>(y);
  const Vec<T> rest = hn::MulAdd(hn::Mul(parts.r, parts.r), parts.g, parts.r);
  const Vec<T> m = hn::IfThenElse(hn::Lt(y, hn::Set(d, ExpConstants<T>::smallest)), hn::Neg(one),
                                  hn::MulAdd(parts.power, rest, hn::Sub(parts.power, one)));
  return hn::CopySign(hn::Div(hn::Neg(m), hn::Add(hn::Set(d, T{2}), m)), x);
}

}  // namespace HWY_NAMESPACE
}  // namespace rotary
HWY_AFTER_NAMESPACE();

#endif
