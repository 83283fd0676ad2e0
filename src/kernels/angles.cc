#include "kernels/angles.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/angles.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace rotary {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using Doubles = hn::ScalableTag<double>;
using Floats = hn::Rebind<float, Doubles>;
using Vec = hn::Vec<Doubles>;

/// a * b - product exactly, where product is a * b rounded.
HWY_INLINE Vec product_error(Vec a, Vec b, Vec product) {
#if HWY_NATIVE_FMA
  return hn::MulSub(a, b, product);
#else
  // Dekker 1971: factors split into halves of 26 bits, whose products are exact.
  const Vec splitter = hn::Set(Doubles(), 0x1p27 + 1);
  const Vec a_split = hn::Mul(a, splitter), b_split = hn::Mul(b, splitter);
  const Vec a_hi = hn::Sub(a_split, hn::Sub(a_split, a)), b_hi = hn::Sub(b_split, hn::Sub(b_split, b));
  const Vec a_lo = hn::Sub(a, a_hi), b_lo = hn::Sub(b, b_hi);
  const Vec first = hn::Sub(hn::Mul(a_hi, b_hi), product);
  const Vec second = hn::Add(hn::Add(first, hn::Mul(a_hi, b_lo)), hn::Mul(a_lo, b_hi));
  return hn::Add(second, hn::Mul(a_lo, b_lo));
#endif
}

/// c[0] + z c[1] + … + z^4 c[4] by Horner's rule.
HWY_INLINE Vec polynomial(const double (&c)[5], Vec z) {
  const Doubles d;
  Vec sum = hn::Set(d, c[4]);
  for (int i = 3; i >= 0; --i) sum = hn::Add(hn::Mul(sum, z), hn::Set(d, c[i]));
  return sum;
}

/// One vector of pairs. Error: docs/angles.md.
HWY_INLINE void cos_sin(Vec position, Vec turns_hi, Vec turns_lo, Vec amplitude, float* HWY_RESTRICT cos_out,
                        float* HWY_RESTRICT sin_out) {
  // Near-minimax for |r| <= 1/8 turn; made by tests/data/angles/make_polynomials.py.
  static constexpr double sin_terms[] = {0x1.921fb5443b587p+2, -0x1.4abbce56ae6e6p+5, 0x1.466bbac8a54e8p+6,
                                         -0x1.32ca9d79fc665p+6, 0x1.4bc85ccb213adp+5};
  static constexpr double cos_terms[] = {-0x1.3bd3cc9be3632p+4, 0x1.03c1f07ea5ef5p+6, -0x1.55d3c1c3c3160p+6,
                                         0x1.e1ec718e563c5p+5, -0x1.a1e852987c3d8p+4};
  const Doubles d;
  const hn::RebindToUnsigned<Doubles> bits;

  // position * (turns_hi + turns_lo) = turns + rest
  const Vec turns = hn::Mul(position, turns_hi);
  const Vec rest = hn::Add(hn::Mul(position, turns_lo), product_error(position, turns_hi, turns));

  // Adding 1.5 * 2^50 rounds to quarters, and leaves their number in the low bits.
  const Vec magic = hn::Set(d, 0x1.8p50);
  const Vec shifted = hn::Add(turns, magic);
  const Vec r = hn::Add(hn::Sub(turns, hn::Sub(shifted, magic)), rest);
  const auto quarters = hn::BitCast(bits, shifted);

  // The sign of both changes after two quarters.
  const auto sign = hn::BitCast(bits, hn::Set(d, -0.0));
  const Vec scale = hn::Xor(amplitude, hn::BitCast(d, hn::And(hn::ShiftLeft<62>(quarters), sign)));
  const Vec z = hn::Mul(r, r);
  const Vec sin_r = hn::Mul(hn::Mul(polynomial(sin_terms, z), r), scale);
  const Vec cos_r = hn::Mul(hn::Add(hn::Mul(polynomial(cos_terms, z), z), hn::Set(d, 1)), scale);

  // An odd quarter turns (cos, sin) into (-sin, cos).
  const auto odd = hn::RebindMask(d, hn::TestBit(quarters, hn::Set(bits, 1)));
  const Vec cos = hn::IfThenElse(odd, hn::Neg(sin_r), cos_r);
  const Vec sin = hn::IfThenElse(odd, cos_r, sin_r);
  hn::StoreU(hn::DemoteTo(Floats(), cos), Floats(), cos_out);
  hn::StoreU(hn::DemoteTo(Floats(), sin), Floats(), sin_out);
}

/// position_of(j): the positions of the pairs from j on.
template <class PositionOf>
HWY_INLINE void row(const PairAngles& pairs, const PositionOf& position_of, float* cos, float* sin) {
  const Doubles d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const Vec amplitude = hn::Set(d, pairs.amplitude);
  std::int64_t j = 0;
  for (; j + lanes <= pairs.num_pairs; j += lanes) {
    cos_sin(position_of(j, lanes), hn::LoadU(d, pairs.turns_hi + j), hn::LoadU(d, pairs.turns_lo + j), amplitude, cos + j,
            sin + j);
  }
  const std::int64_t left = pairs.num_pairs - j;
  if (left == 0) return;

  constexpr std::size_t most = hn::MaxLanes(Doubles());
  HWY_ALIGN double hi[most] = {}, lo[most] = {};
  HWY_ALIGN float cos_tail[most], sin_tail[most];
  for (std::int64_t i = 0; i < left; ++i) {
    hi[i] = pairs.turns_hi[j + i];
    lo[i] = pairs.turns_lo[j + i];
  }
  cos_sin(position_of(j, left), hn::Load(d, hi), hn::Load(d, lo), amplitude, cos_tail, sin_tail);
  for (std::int64_t i = 0; i < left; ++i) {
    cos[j + i] = cos_tail[i];
    sin[j + i] = sin_tail[i];
  }
}

void exact_angles_kernel(const PairAngles& pairs, const double* position, float* cos, float* sin) noexcept {
  const Doubles d;
  if (pairs.axis == nullptr) {
    const Vec everywhere = hn::Set(d, position[0]);
    row(
        pairs, [everywhere](std::int64_t, std::int64_t) HWY_ATTR { return everywhere; }, cos, sin);
  } else {
    row(
        pairs,
        [&](std::int64_t j, std::int64_t count) HWY_ATTR {
          HWY_ALIGN double gathered[hn::MaxLanes(Doubles())] = {};
          for (std::int64_t i = 0; i < count; ++i) gathered[i] = position[pairs.axis[j + i]];
          return hn::Load(Doubles(), gathered);
        },
        cos, sin);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rotary
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rotary {

void exact_angles(const PairAngles& pairs, const double* position, float* cos, float* sin) noexcept {
  ROTARY_KERNEL(exact_angles_kernel)(pairs, position, cos, sin);
}

}  // namespace rotary
#endif
