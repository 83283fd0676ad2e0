// The sums of the lanes of many vectors at once. Included once per instruction set, like unroll-inl.h.
#include <cstddef>

#include <hwy/highway.h>

#include "kernels/unroll-inl.h"
#include "kernels/vectors-inl.h"

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
template <int step, class T>
HWY_INLINE Vec<T> fold(Vec<T> x, Vec<T> y) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Add(x, y);  // never called: there is one lane
#else
  const Tag<T> d;
  constexpr std::size_t bytes = step * sizeof(T);
  if constexpr (bytes == 4) {
    return hn::Add(hn::OddEven(y, x), hn::Shuffle2301(hn::OddEven(x, y)));
  } else if constexpr (bytes == 8) {
    const hn::Repartition<double, Tag<T> > pairs;
    const auto x2 = hn::BitCast(pairs, x), y2 = hn::BitCast(pairs, y);
    return hn::Add(hn::BitCast(d, hn::OddEven(y2, x2)), hn::BitCast(d, hn::Shuffle01(hn::OddEven(x2, y2))));
  } else if constexpr (bytes == 16) {
    return hn::Add(hn::OddEvenBlocks(y, x), hn::SwapAdjacentBlocks(hn::OddEvenBlocks(x, y)));
  } else {
    return hn::Add(hn::ConcatUpperLower(d, y, x), hn::ConcatLowerUpper(d, y, x));
  }
#endif
}

template <int count, int step, class T>
HWY_INLINE Vec<T> sums_of_lanes(const Vec<T>* x) {
  if constexpr (count == 1) {
    return x[0];
  } else {
    Vec<T> folded[count / 2];
    unroll<count / 2>([&](auto i) ROTARY_LAMBDA { folded[i] = fold<step, T>(x[2 * i], x[2 * i + 1]); });
    return sums_of_lanes<count / 2, 2 * step, T>(folded);
  }
}

/// Of as many vectors, one after the other at an aligned address, as a vector has lanes: the sum of vector i is in lane i.
template <class T>
HWY_INLINE Vec<T> sums_of_lanes(const T* vectors) {
  constexpr int lanes = static_cast<int>(hn::MaxLanes(Tag<T>()));
  Vec<T> x[lanes];
  unroll<lanes>([&](auto i) ROTARY_LAMBDA { x[i] = hn::Load(Tag<T>(), vectors + i * lanes); });
  return sums_of_lanes<lanes, 1, T>(x);
}

/// Of one vector, in the same order.
template <class T, int step = 1>
HWY_INLINE T sum_of_lanes(Vec<T> x) {
  if constexpr (step == static_cast<int>(hn::MaxLanes(Tag<T>()))) return hn::GetLane(x);
  else return sum_of_lanes<T, 2 * step>(fold<step, T>(x, x));
}

}  // namespace HWY_NAMESPACE
}  // namespace rotary
HWY_AFTER_NAMESPACE();

#endif
