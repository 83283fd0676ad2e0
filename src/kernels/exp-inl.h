// exp and tanh in vectors. Included once per instruction set, like unroll-inl.h.
#include <cstdint>
#include <iterator>
#include <type_traits>

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

template <class T>
constexpr T log2_e = static_cast<T>(1.4426950408889634);

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
  const Vec<T> z = hn::MulAdd(x, hn::Set(d, log2_e<T>), round_to_integer);
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

// ---- powers of two ----

/// 2^x = 2^k (1 + r h(r)), r = x - k.
template <class T>
struct Exp2Constants;

template <>
struct Exp2Constants<float> {
  static constexpr float smallest = -124.8f;  // 2^x and its products stay clear of subnormals
  // h = (2^r - 1) / r, fitted to floats: 2^r within 1.9 ulp, its rounding included, for r from 0 to 1 and from -1/2 to 1/2.
  static constexpr float above_floor[] = {0x1.ee388ap-10f, 0x1.260a08p-7f, 0x1.c96866p-5f, 0x1.ebd53cp-3f, 0x1.62e4e2p-1f};
  static constexpr float h[] = {0x1.5ab458p-10f, 0x1.3cecap-7f, 0x1.c6baaap-5f, 0x1.ebf9b4p-3f, 0x1.62e424p-1f};
};

template <>
struct Exp2Constants<double> {
  static constexpr double smallest = -1018.5;
  // (ln 2)^n / n!, n = 14 … 1
  static constexpr double h[] = {0x1.314964d5878a9p-44, 0x1.816193166d0f9p-40, 0x1.c3bd650fc2986p-36, 0x1.e8cac7351bb25p-32,
                                 0x1.e4cf5158b8ecap-28, 0x1.b5253d395e7c4p-24, 0x1.62c0223a5c824p-20, 0x1.ffcbfc588b0c7p-17,
                                 0x1.430912f86c787p-13, 0x1.5d87fe78a6731p-10, 0x1.3b2ab6fba4e77p-7,  0x1.c6b08d704a0c0p-5,
                                 0x1.ebfbdff82c58fp-3,  0x1.62e42fefa39efp-1};
};

/// For x up to 100, above which it is at least 2^100, if it `saturates`. 2^0 is 1, and 2^-infinity is 0, as everything below
/// 2^smallest; 2^NaN is NaN.
template <class T, bool saturates = false>
HWY_INLINE Vec<T> exp2(Vec<T> x) {
  using Constants = Exp2Constants<T>;
  const Tag<T> d;
  const Vec<T> one = hn::Set(d, T{1}), smallest = hn::Set(d, Constants::smallest);
  const auto power_of = [&](Vec<T> r, const auto& h) ROTARY_LAMBDA {
    constexpr int degree = static_cast<int>(std::extent_v<std::remove_reference_t<decltype(h)>>) - 1;
    Vec<T> sum = hn::Set(d, h[0]);
    unroll<degree>([&](auto i) ROTARY_LAMBDA { sum = hn::MulAdd(sum, r, hn::Set(d, h[i + 1])); });
    return hn::MulAdd(sum, r, one);
  };
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(T) == 4) {  // x - floor(x), and a product with 2^floor(x), are instructions
    const Vec<T> power = power_of(Vec<T>{_mm512_reduce_ps(x.raw, _MM_FROUND_TO_NEG_INF)}, Constants::above_floor);
    const __mmask16 counts = _mm512_cmp_ps_mask(x.raw, smallest.raw, _CMP_NLT_UQ);
    return Vec<T>{_mm512_maskz_scalef_ps(counts, power.raw, x.raw)};
  }
#endif
  const hn::RebindToSigned<Tag<T>> di;
  const Vec<T> round_to_integer = hn::Set(d, ExpConstants<T>::round_to_integer);
  Vec<T> z = hn::Add(x, round_to_integer);
  if constexpr (saturates) {  // r is then large, and so are all powers of it
    const Vec<T> most = hn::Set(d, ExpConstants<T>::round_to_integer + 100);
    z = hn::BitCast(d, hn::Min(hn::BitCast(di, z), hn::BitCast(di, most)));
  }
  const Vec<T> r = hn::Sub(x, hn::Sub(z, round_to_integer));
  const Vec<T> power = hn::BitCast(d, hn::ShiftLeft<ExpConstants<T>::mantissa_bits>(hn::BitCast(di, z)));
  return hn::IfThenZeroElse(hn::Lt(x, smallest), hn::Mul(power_of(r, Constants::h), power));
}

/// 2^power exp(x), for x up to 60, in less time than exp_of_nonpositive(): as 2^(x log2 e + power), which is rounded, and that
/// costs about what the rounding of a score of this size does. Within 2 ulp and 2.6 (|x| + |power|) half units (2^-24, or 2^-53),
/// half of that with FMA. For x = 0 it is 2^power, for -infinity and where it is below 2^-124.8 (float) or 2^-1018.5 (double) 0,
/// for NaN NaN.
template <class T>
HWY_INLINE Vec<T> exp_of_score(Vec<T> x, int power) {
  const Tag<T> d;
  return exp2<T>(hn::MulAdd(x, hn::Set(d, log2_e<T>), hn::Set(d, static_cast<T>(power))));
}

// ---- tanh ----

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
