// Vectors of float32 from and to bfloat16 and float16 in memory, rounded to nearest, ties to even. Highway 1.0.3 truncates
// bfloat16, and its emulation of float16 below AVX2 rounds wrongly. Included once per instruction set.
#include <cstdint>

#include <hwy/highway.h>

#if defined(ROTARY_FLOAT16_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_FLOAT16_INL_H
#undef ROTARY_FLOAT16_INL_H
#else
#define ROTARY_FLOAT16_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace rotary {
namespace HWY_NAMESPACE {
namespace float16s {

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Words = hn::RebindToUnsigned<Floats>;
using Halves = hn::Rebind<std::uint16_t, Floats>;
using F = hn::Vec<Floats>;
using W = hn::Vec<Words>;

HWY_INLINE F load_bf16(const std::uint16_t* from) {
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(Words(), hn::LoadU(Halves(), from))));
}

// bfloat16 is the upper half of a float32. A word of two holds the even element below and the odd one above.

HWY_INLINE void load_bf16_pairs(const std::uint16_t* from, F& even, F& odd) {
  const W both = hn::LoadU(Words(), reinterpret_cast<const std::uint32_t*>(from));
  even = hn::BitCast(Floats(), hn::ShiftLeft<16>(both));
  odd = hn::BitCast(Floats(), hn::And(both, hn::Set(Words(), 0xffff0000u)));
}

// Rounded: the upper half of every word is the bfloat16; the lower half is left over. Without a branch for NaN: the payload of
// one that comes from bfloat16 operands, or from an invalid operation, has zeros below, so that nothing carries.

HWY_INLINE W up_by_half(F value) { return hn::Add(hn::BitCast(Words(), value), hn::Set(Words(), 0x8000)); }

/// After up_by_half(), what was in the middle has gone up, and goes back if that made it odd.
HWY_INLINE W middles_to_even(W up) {
#if HWY_TARGET == HWY_AVX3
  const __mmask16 was_middle = _mm512_testn_epi32_mask(up.raw, hn::Set(Words(), 0xffff).raw);
  return W{_mm512_mask_and_epi32(up.raw, was_middle, up.raw, hn::Set(Words(), 0xfffeffffu).raw)};
#else
  const auto was_middle = hn::Eq(hn::And(up, hn::Set(Words(), 0xffff)), hn::Zero(Words()));
  return hn::AndNot(hn::IfThenElseZero(was_middle, hn::Set(Words(), 0x10000)), up);
#endif
}

HWY_INLINE W round_up_to_bf16(F value) { return middles_to_even(up_by_half(value)); }

/// Whether none was in the middle, by the least of all lower halves; what that has above does not matter.
HWY_INLINE bool has_no_middle(W least) {
#if HWY_TARGET == HWY_AVX3
  return hn::AllTrue(Words(), hn::TestBit(least, hn::Set(Words(), 0xffff)));  // any of these bits
#elif HWY_TARGET == HWY_AVX2
  return (_mm256_movemask_epi8(_mm256_cmpeq_epi16(least.raw, _mm256_setzero_si256())) & 0x33333333) == 0;
#else
  return hn::AllFalse(Words(), hn::Eq(hn::And(least, hn::Set(Words(), 0xffff)), hn::Zero(Words())));
#endif
}

/// Of several at once: all are looked at together, as hardly ever one is in the middle.
template <int count>
HWY_INLINE void round_up_to_bf16(const F (&values)[count], W (&rounded)[count]) {
  for (int i = 0; i < count; ++i) rounded[i] = up_by_half(values[i]);
#if HWY_TARGET != HWY_SCALAR
  const hn::Repartition<std::uint16_t, Words> halves;
  W least = rounded[0];
  for (int i = 1; i < count; ++i) {
    least = hn::BitCast(Words(), hn::Min(hn::BitCast(halves, least), hn::BitCast(halves, rounded[i])));
  }
  if (HWY_LIKELY(has_no_middle(least))) return;
#endif
  for (int i = 0; i < count; ++i) rounded[i] = middles_to_even(rounded[i]);
}

HWY_INLINE F round_to_bf16(F value) {
  return hn::BitCast(Floats(), hn::And(round_up_to_bf16(value), hn::Set(Words(), 0xffff0000u)));
}

/// What load_bf16_pairs() reads.
HWY_INLINE void store_rounded_pairs(W even, W odd, std::uint16_t* to) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_SCALAR
  const W both = hn::OrAnd(hn::ShiftRight<16>(even), odd, hn::Set(Words(), 0xffff0000u));
#else
  const hn::Repartition<std::uint16_t, Words> halves;
  const W both = hn::BitCast(Words(), hn::OddEven(hn::BitCast(halves, odd), hn::BitCast(halves, hn::ShiftRight<16>(even))));
#endif
  hn::StoreU(both, Words(), reinterpret_cast<std::uint32_t*>(to));
}

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_SSE4

HWY_INLINE F load_f16(const std::uint16_t* from) {
  const W half = hn::PromoteTo(Words(), hn::LoadU(Halves(), from));
  const W sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(Words(), 0x8000)));
  const W magnitude = hn::ShiftLeft<13>(hn::And(half, hn::Set(Words(), 0x7fff)));
  // The exponents differ by 112. Multiplying is exact, for subnormals too.
  const W finite = hn::BitCast(Words(), hn::Mul(hn::BitCast(Floats(), magnitude), hn::Set(Floats(), 0x1p112f)));
  const W no_number = hn::Or(magnitude, hn::Set(Words(), 0x7f800000u));
  const auto is_finite =
      hn::Lt(hn::BitCast(hn::RebindToSigned<Words>(), magnitude), hn::Set(hn::RebindToSigned<Words>(), 0x7c00 << 13));
  return hn::BitCast(Floats(), hn::Or(sign, hn::IfThenElse(hn::RebindMask(Words(), is_finite), finite, no_number)));
}

/// The float16 bits of every lane.
HWY_INLINE W narrow_to_f16(F value) {
  const hn::RebindToSigned<Words> ints;
  const W bits = hn::BitCast(Words(), value);
  const W sign = hn::ShiftRight<16>(hn::And(bits, hn::Set(Words(), 0x80000000u)));
  const W magnitude = hn::And(bits, hn::Set(Words(), 0x7fffffffu));
  const auto below = [&](std::uint32_t limit) HWY_ATTR {
    return hn::RebindMask(Words(), hn::Lt(hn::BitCast(ints, magnitude), hn::Set(ints, static_cast<std::int32_t>(limit))));
  };

  // Normal results: 13 bits are dropped, a carry may move into the exponent, which is 112 less.
  const W last_kept = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(Words(), 1));
  const W rounded = hn::Add(hn::Add(magnitude, hn::Set(Words(), 0xfff)), last_kept);
  const W normal = hn::Sub(hn::ShiftRight<13>(rounded), hn::Set(Words(), 112 << 10));
  // Subnormal results: adding 1/2 lets the sum round to a multiple of 2^-24.
  const F half = hn::Set(Floats(), 0.5f);
  const W subnormal =
      hn::Sub(hn::BitCast(Words(), hn::Add(hn::BitCast(Floats(), magnitude), half)), hn::BitCast(Words(), half));
  // From 65520 on infinity; a NaN keeps the upper payload bits and becomes quiet.
  const W infinity = hn::Set(Words(), 0x7c00);
  const W nan = hn::And(hn::Or(hn::ShiftRight<13>(magnitude), hn::Set(Words(), 0x7e00)), hn::Set(Words(), 0x7fff));

  const W finite = hn::IfThenElse(below(113u << 23), subnormal, normal);
  const W no_number = hn::IfThenElse(below(0x7f800001u), infinity, nan);
  return hn::Or(sign, hn::IfThenElse(below(0x477ff000u), finite, no_number));
}

HWY_INLINE void store_f16(F value, std::uint16_t* to) {
  const hn::RebindToSigned<Words> ints;
  hn::StoreU(hn::DemoteTo(Halves(), hn::BitCast(ints, narrow_to_f16(value))), Halves(), to);
}

#else

using Float16s = hn::Rebind<hwy::float16_t, Floats>;

HWY_INLINE F load_f16(const std::uint16_t* from) {
  return hn::PromoteTo(Floats(), hn::LoadU(Float16s(), reinterpret_cast<const hwy::float16_t*>(from)));
}

HWY_INLINE void store_f16(F value, std::uint16_t* to) {
  hn::StoreU(hn::DemoteTo(Float16s(), value), Float16s(), reinterpret_cast<hwy::float16_t*>(to));
}

#endif

HWY_INLINE F round_to_f16(F value) {
  std::uint16_t narrow[hn::MaxLanes(Floats())];
  store_f16(value, narrow);
  return load_f16(narrow);
}

}  // namespace float16s
}  // namespace HWY_NAMESPACE
}  // namespace rotary
HWY_AFTER_NAMESPACE();

#endif
