// The inner loops of linear attention: products of small matrices, and exp.
#pragma once

#include <cstdint>

namespace rotary {

/// out += x y, row by row. Steps count elements from row to row. An element's sum runs over x in order, and its bits depend on
/// its own row and column alone: not on how many rows or steps there are.
template <class T>
struct Product {
  std::int64_t rows, inner, columns;
  const T* x;  ///< [rows][inner]
  std::int64_t x_step;
  const T* y;  ///< [inner][columns]
  std::int64_t y_step;
  T* out;  ///< [rows][columns]
  std::int64_t out_step;
  bool lower = false;  ///< row i takes the first i + 1 of the inner ones; the others are not looked at
};

/// T is float or double. exp is within 2 ulp, and 0 below 1e-37 (float) or 1e-306 (double).
template <class T>
struct LinearKernels {
  void (*add_product)(const Product<T>& product) noexcept;
  /// x + 1 above 0, else exp(x).
  void (*elu_plus_1)(const T* x, std::int64_t length, T* out) noexcept;
  /// x = exp(x - largest), where no x is above `largest`.
  void (*exp_below)(T largest, T* x, std::int64_t length) noexcept;
};

/// Those of the active instruction set.
template <class T>
const LinearKernels<T>& linear_kernels() noexcept;

}  // namespace rotary
