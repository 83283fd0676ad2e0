// Transposition of squares in registers. Included once per instruction set, like unroll-inl.h.
#include <cstddef>

#include <hwy/highway.h>

#include "kernels/unroll-inl.h"

#if defined(ROTARY_TRANSPOSE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ROTARY_TRANSPOSE_INL_H
#undef ROTARY_TRANSPOSE_INL_H
#else
#define ROTARY_TRANSPOSE_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace rotary {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Rows and columns of a square.
template <class D>
inline constexpr int square_side = static_cast<int>(hn::MaxLanes(D()));

/// Swaps, between two vectors, the lanes of x whose number has the bit `step` and those of y whose number has it not.
template <int step, class D, class V = hn::Vec<D>>
HWY_INLINE void exchange([[maybe_unused]] V& x, [[maybe_unused]] V& y) {
#if HWY_TARGET != HWY_SCALAR
  const D d;
  const V x0 = x;
  constexpr std::size_t bytes = step * sizeof(hn::TFromD<D>);
  if constexpr (bytes == 4) {
    const V crossed = hn::Shuffle2301(hn::OddEven(x0, y));
    x = hn::OddEven(crossed, x0);
    y = hn::OddEven(y, crossed);
  } else if constexpr (bytes == 8) {
    const hn::Repartition<double, D> wide;
    const auto a = hn::BitCast(wide, x0), b = hn::BitCast(wide, y);
    x = hn::BitCast(d, hn::InterleaveLower(wide, a, b));
    y = hn::BitCast(d, hn::InterleaveUpper(wide, a, b));
  } else if constexpr (bytes == 16) {
    x = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(y), x0);
    y = hn::OddEvenBlocks(y, hn::SwapAdjacentBlocks(x0));
  } else {
    x = hn::ConcatLowerLower(d, y, x0);
    y = hn::ConcatUpperUpper(d, y, x0);
  }
#endif
}

/// Where a row and the one `step` below meet.
template <int step, int rows, class D>
HWY_INLINE void exchange_all(hn::Vec<D>* row) {
  unroll<rows>([&](auto r) ROTARY_LAMBDA {
    if constexpr ((r & step) == 0) exchange<step, D>(row[r], row[r + step]);
  });
  if constexpr (2 * step < rows) exchange_all<2 * step, rows, D>(row);
}

/// In place.
template <class D>
HWY_INLINE void transpose_in_registers(hn::Vec<D> (&row)[square_side<D>]) {
  if constexpr (square_side < D >> 1) exchange_all<1, square_side<D>, D>(row);
}

}  // namespace HWY_NAMESPACE
}  // namespace rotary
HWY_AFTER_NAMESPACE();

#endif
