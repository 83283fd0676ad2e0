// The sums of the lanes of many vectors at once. Included once per instruction set, like unroll-inl.h.
#include <cstdint>

#include <hwy/highway.h>

#include "kernels/exp-inl.h"
#include "kernels/unroll-inl.h"

#if defined(ROTARY_LANE_SUMS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_LANE_SUMS_INL_H
#undef ROTARY_LANE_SUMS_INL_H
#else
#define ROTARY_LANE_SUMS_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace rotary {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// x where the lane's number has not the bit `step`, else y; each plus its neighbour at that distance. One shuffle for two
/// vectors: half of what adding pairs side by side would take.
template <int step>
HWY_INLINE Vec<float> fold(Vec<float> x, Vec<float> y) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Add(x, y);  // never called: there is one lane
#else
  const Tag<float> d;
  if constexpr (step == 1) {
    return hn::Add(hn::OddEven(y, x), hn::Shuffle2301(hn::OddEven(x, y)));
  } else if constexpr (step == 2) {
    const hn::Repartition<double, Tag<float> > pairs;
    const auto x2 = hn::BitCast(pairs, x), y2 = hn::BitCast(pairs, y);
    return hn::Add(hn::BitCast(d, hn::OddEven(y2, x2)), hn::Shuffle1032(hn::BitCast(d, hn::OddEven(x2, y2))));
  } else if constexpr (step == 4) {
    return hn::Add(hn::OddEvenBlocks(y, x), hn::SwapAdjacentBlocks(hn::OddEvenBlocks(x, y)));
  } else {
    return hn::Add(hn::ConcatUpperLower(d, y, x), hn::ConcatLowerUpper(d, y, x));
  }
#endif
}

template <int count, int step>
HWY_INLINE Vec<float> sums_of_lanes(const Vec<float>* x) {
  if constexpr (count == 1) {
    return x[0];
  } else {
    Vec<float> folded[count / 2];
    unroll<count / 2>([&](auto i) ROTARY_LAMBDA { folded[i] = fold<step>(x[2 * i], x[2 * i + 1]); });
    return sums_of_lanes<count / 2, 2 * step>(folded);
  }
}

/// Of as many vectors, one after the other at an aligned address, as a vector has lanes: the sum of vector i is in lane i.
HWY_INLINE Vec<float> sums_of_lanes(const float* vectors) {
  constexpr int lanes = static_cast<int>(hn::MaxLanes(Tag<float>()));
  Vec<float> x[lanes];
  unroll<lanes>([&](auto i) ROTARY_LAMBDA { x[i] = hn::Load(Tag<float>(), vectors + i * lanes); });
  return sums_of_lanes<lanes, 1>(x);
}

}  // namespace HWY_NAMESPACE
}  // namespace rotary
HWY_AFTER_NAMESPACE();

#endif
