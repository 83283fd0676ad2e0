// cos and sin of a vector of pairs in doubles, from the exact product of position and turns. Included once per instruction
// set, like unroll-inl.h.
//
// But where it says otherwise, every operation is an IEEE operation in one fixed order, and fused multiply-add exact.
#include <hwy/highway.h>

#if defined(ROTARY_COS_SIN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_COS_SIN_INL_H
#undef ROTARY_COS_SIN_INL_H
#else
#define ROTARY_COS_SIN_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace rotary {
namespace HWY_NAMESPACE {
namespace angles {

namespace hn = hwy::HWY_NAMESPACE;
using Doubles = hn::ScalableTag<double>;
using Floats = hn::Rebind<float, Doubles>;
using Bits = hn::RebindToUnsigned<Doubles>;
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

/// An angle as quarters of a turn, counted in the low bits, and the rest in turns, at most 1/8 in size.
struct Reduced {
  Vec rest;
  hn::Vec<Bits> quarters;
};

/// position * (turns_hi + turns_lo)
HWY_INLINE Reduced reduce(Vec position, Vec turns_hi, Vec turns_lo) {
  const Vec turns = hn::Mul(position, turns_hi);
  const Vec behind = hn::Add(hn::Mul(position, turns_lo), product_error(position, turns_hi, turns));

  // Adding 1.5 * 2^50 rounds to quarters, and leaves their number in the low bits.
  const Vec magic = hn::Set(Doubles(), 0x1.8p50);
  const Vec shifted = hn::Add(turns, magic);
  return {hn::Add(hn::Sub(turns, hn::Sub(shifted, magic)), behind), hn::BitCast(Bits(), shifted)};
}

struct CosSin {
  Vec cos, sin;
};

/// Of the angle, from two polynomials in z = rest * rest: sin(2 pi rest) = rest * sin_over_rest, cos(2 pi rest) = 1 + z *
/// cos_over_z.
HWY_INLINE CosSin turned(const Reduced& angle, Vec z, Vec sin_over_rest, Vec cos_over_z, Vec amplitude) {
  const Doubles d;
  // The sign of both changes after two quarters.
  const auto sign = hn::BitCast(Bits(), hn::Set(d, -0.0));
  const Vec scale = hn::Xor(amplitude, hn::BitCast(d, hn::And(hn::ShiftLeft<62>(angle.quarters), sign)));
  const Vec sin_r = hn::Mul(hn::Mul(sin_over_rest, angle.rest), scale);
  const Vec cos_r = hn::Mul(hn::Add(hn::Mul(cos_over_z, z), hn::Set(d, 1)), scale);

  // An odd quarter turns (cos, sin) into (-sin, cos).
  const auto odd = hn::RebindMask(d, hn::TestBit(angle.quarters, hn::Set(Bits(), 1)));
  return {hn::IfThenElse(odd, hn::Neg(sin_r), cos_r), hn::IfThenElse(odd, cos_r, sin_r)};
}

// c[0] + z c[1] + … by Horner's rule. Near-minimax for |rest| <= 1/8 turn; made by tests/data/angles/make_polynomials.py.

/// To be rounded to float: within 2^-37.6 (sin) and 2^-41.5 (cos) of the value. Error of it all: docs/angles.md.
HWY_INLINE CosSin exact_cos_sin(Vec position, Vec turns_hi, Vec turns_lo, Vec amplitude) {
  static constexpr double sin_terms[] = {0x1.921fb5443b587p+2, -0x1.4abbce56ae6e6p+5, 0x1.466bbac8a54e8p+6,
                                         -0x1.32ca9d79fc665p+6, 0x1.4bc85ccb213adp+5};
  static constexpr double cos_terms[] = {-0x1.3bd3cc9be3632p+4, 0x1.03c1f07ea5ef5p+6, -0x1.55d3c1c3c3160p+6,
                                         0x1.e1ec718e563c5p+5, -0x1.a1e852987c3d8p+4};
  const auto polynomial = [](const double(&c)[5], Vec z) HWY_ATTR {
    const Doubles d;
    Vec sum = hn::Set(d, c[4]);
    for (int i = 3; i >= 0; --i) sum = hn::Add(hn::Mul(sum, z), hn::Set(d, c[i]));
    return sum;
  };
  const Reduced angle = reduce(position, turns_hi, turns_lo);
  const Vec z = hn::Mul(angle.rest, angle.rest);
  return turned(angle, z, polynomial(sin_terms, z), polynomial(cos_terms, z), amplitude);
}

/// In double: within 4 * 2^-53 of the value. Not the same bits on every instruction set.
HWY_INLINE CosSin precise_cos_sin(const Reduced& angle, Vec amplitude) {
  static constexpr double sin_terms[] = {0x1.921fb54442d18p+2,  -0x1.4abbce625be41p+5, 0x1.466bc677587f8p+6,
                                         -0x1.32d2cce2e5b19p+6, 0x1.50782fda12d96p+5,  -0x1.e30071afc3e59p+3,
                                         0x1.e3f38399551bfp+1};
  static constexpr double cos_terms[] = {-0x1.3bd3cc9be45dep+4, 0x1.03c1f081b5ac0p+6,  -0x1.55d3c7e3cb241p+6,
                                         0x1.e1f5068688d5bp+5,  -0x1.a6d1eef479be1p+4, 0x1.f9ce245cada0bp+2,
                                         -0x1.b2f3eb054afcdp+0};
  const auto polynomial = [](const double(&c)[7], Vec z) HWY_ATTR {
    const Doubles d;
    Vec sum = hn::Set(d, c[6]);
    for (int i = 5; i >= 0; --i) sum = hn::MulAdd(sum, z, hn::Set(d, c[i]));
    return sum;
  };
  const Vec z = hn::Mul(angle.rest, angle.rest);
  return turned(angle, z, polynomial(sin_terms, z), polynomial(cos_terms, z), amplitude);
}

HWY_INLINE void store(const CosSin& x, float* HWY_RESTRICT cos, float* HWY_RESTRICT sin) {
  hn::StoreU(hn::DemoteTo(Floats(), x.cos), Floats(), cos);
  hn::StoreU(hn::DemoteTo(Floats(), x.sin), Floats(), sin);
}

}  // namespace angles
}  // namespace HWY_NAMESPACE
}  // namespace rotary
HWY_AFTER_NAMESPACE();

#endif
