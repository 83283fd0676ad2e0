// Vectors of pairs, and how they turn. Included once per instruction set, like unroll-inl.h.
#include <hwy/highway.h>

#include "kernels/vectors-inl.h"

#if defined(ROTARY_PAIRS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_PAIRS_INL_H
#undef ROTARY_PAIRS_INL_H
#else
#define ROTARY_PAIRS_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace rotary {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Two vectors of pairs: the first and the second members.
template <class Lane>
struct Members {
  Vec<Lane> u, v;
};

template <class Lane>
HWY_INLINE Members<Lane> turn_fused(Members<Lane> x, Vec<Lane> c, Vec<Lane> s) {
  return {hn::MulSub(x.u, c, hn::Mul(x.v, s)), hn::MulAdd(x.u, s, hn::Mul(x.v, c))};
}

// ---- pairs that lie interleaved ----

/// Sorts two vectors of interleaved pairs into members, and back. Within 128-bit blocks, so that it costs little: lane 2i
/// of the result is pair i of the first vector, lane 2i + 1 pair i of the second.
template <class Lane>
HWY_INLINE Members<Lane> zip(Members<Lane> x) {
#if HWY_TARGET == HWY_SCALAR
  return x;
#else
  const Tag<Lane> d;
  if constexpr (sizeof(Lane) == 8) return {hn::InterleaveLower(d, x.u, x.v), hn::InterleaveUpper(d, x.u, x.v)};
  else return {hn::OddEven(hn::DupEven(x.v), x.u), hn::OddEven(x.v, hn::DupOdd(x.u))};
#endif
}

/// Brings cos or sin of one vector of pairs into the order of zip().
template <class Lane>
HWY_INLINE void arrange_for_zip(const Lane* from, Lane* to) {
#if HWY_TARGET == HWY_SCALAR
  *to = *from;
#else
  const hn::Half<Tag<Lane> > half;
  hn::StoreInterleaved2(hn::LoadU(half, from), hn::LoadU(half, from + hn::Lanes(half)), half, to);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace rotary
HWY_AFTER_NAMESPACE();

#endif
