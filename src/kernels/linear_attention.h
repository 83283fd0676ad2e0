// The inner loops of linear attention along rows of features: maps, sums up to a token, denominators.
#pragma once

#include <cstdint>

namespace rotary {

/// Rows that join a sum one after the other: sum = g_i sum + x_i. Steps between rows are `width`.
template <class T>
struct RowsToAdd {
  std::int64_t rows, width;
  const T* x;
  const T* gates;  ///< g; nullptr: all 1
  T* sum;
};

/// out_i = x_i . y_i
template <class T>
struct RowDots {
  std::int64_t rows, width;
  const T* x;  ///< rows lie side by side
  const T* y;
  std::int64_t y_step;  ///< 0: one row for all
  T* out;
};

/// out_i = x_i . s_i of sums on their way: s_i = g_i s_(i-1) + more_i. Steps between rows are `width`.
template <class T>
struct RunningDots {
  std::int64_t rows, width;
  const T* x;
  const T* before;  ///< s_(-1)
  const T* more;
  const T* gates;  ///< g; nullptr: all 1
  T* room;         ///< for running_room(rows) numbers, at a multiple of 64 bytes
  T* out;
};

template <class T>
constexpr std::int64_t running_room(std::int64_t rows) noexcept {
  return rows * (64 / static_cast<std::int64_t>(sizeof(T)));
}

/// out_i = x_i / divisor_i, or 0 where that is 0.
template <class T>
struct RowsToDivide {
  std::int64_t rows, width;
  const T* x;
  std::int64_t x_step;
  const T* divisors;
  T* out;  ///< may be x
  std::int64_t out_step;
};

/// Features that are a function of one channel each, and the same rows turned: pairs fill the row.
template <class T>
struct RowsToMapAndTurn {
  std::int64_t rows, num_pairs;
  bool interleaved;  ///< pairs (2j, 2j + 1), not (j, j + num_pairs)
  const T* x;
  std::int64_t x_step;
  const T* arranged;  ///< as arrange() of rotate.h makes it
  std::int64_t arranged_step;
  T *features, *turned;  ///< rows side by side
};

/// A function of one channel, for runs of channels.
template <class T>
struct ChannelMap {
  void (*map)(const T* x, std::int64_t length, T* out) noexcept;
  void (*map_and_turn)(const RowsToMapAndTurn<T>& rows) noexcept;
};

/// T is float or double. exp is within 2 ulp, and 0 below 1e-37 (float) or 1e-306 (double). No row's bits depend on others
/// that come after it, or on how many there are.
template <class T>
struct LinearKernels {
  ChannelMap<T> identity;
  ChannelMap<T> elu_plus_1;  ///< x + 1 above 0, else exp(x)
  ChannelMap<T> relu;        ///< x above 0, else 0; a NaN stays one
  /// The largest of x and `least`; a NaN shows unless larger numbers follow.
  T (*largest)(const T* x, std::int64_t length, T least) noexcept;
  /// x = exp(x - largest), where no x is above `largest`.
  void (*exp_below)(T largest, T* x, std::int64_t length) noexcept;
  void (*add_up)(const RowsToAdd<T>& rows) noexcept;
  /// A row's bits are the same in both.
  void (*dots)(const RowDots<T>& dots) noexcept;
  void (*running_dots)(const RunningDots<T>& dots) noexcept;
  /// out = 1 / divisors. Whether multiplying by each of them is what `divide` would do.
  bool (*reciprocals)(const T* divisors, std::int64_t length, T* out) noexcept;
  void (*divide)(const RowsToDivide<T>& rows) noexcept;
};

/// Those of the active instruction set.
template <class T>
const LinearKernels<T>& linear_kernels() noexcept;

}  // namespace rotary
