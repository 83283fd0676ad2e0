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

// ---- pairs that lie side by side ----

/// Two vectors of them, spread: u and v of each pair in both of its lanes.
template <class Lane>
struct SpreadPairs {
  Members<Lane> first, second;
};

template <class Lane>
HWY_INLINE SpreadPairs<Lane> spread(Vec<Lane> first, Vec<Lane> second) {
#if HWY_TARGET == HWY_SCALAR
  return {{first, second}, {first, second}};
#else
  return {{hn::DupEven(first), hn::DupOdd(first)}, {hn::DupEven(second), hn::DupOdd(second)}};
#endif
}

/// cs holds c beside s for each pair, sc -s beside c.
template <class Lane>
HWY_INLINE Vec<Lane> turn_spread_fused(Members<Lane> x, Vec<Lane> cs, Vec<Lane> sc) {
  return hn::MulAdd(x.u, cs, hn::Mul(x.v, sc));
}

}  // namespace HWY_NAMESPACE
}  // namespace rotary
HWY_AFTER_NAMESPACE();

#endif
