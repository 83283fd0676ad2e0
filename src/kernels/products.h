// Products of small matrices: the inner loops of linear attention.
//
// An element's bits depend on its own row of x and column of y alone: not on how many rows, columns or later steps there are.
#pragma once

#include <cstdint>

#include "kernels/rows_ahead.h"

namespace rotary {

/// x y of which row i takes the first i + 1 of the inner ones; the others are not looked at.
template <class T>
struct LowerProduct {
  const T* x;  ///< [rows][rows]
  std::int64_t x_step;
  const T* y;  ///< [rows][columns]
  std::int64_t y_step;
};

/// out = x y, or out += x y, then plus the lower product, and then times a factor per row. Steps count elements from row to
/// row. The sum of an element runs over x in order.
template <class T>
struct Product {
  std::int64_t rows, inner, columns;
  const T* x;  ///< [rows][inner]
  std::int64_t x_step;
  const T* y;  ///< [inner][columns]
  std::int64_t y_step;
  T* out;  ///< [rows][columns]
  std::int64_t out_step;
  bool adds = true;             ///< to what out holds
  bool up_to_diagonal = false;  ///< of row i the first i + 1 columns are wanted; the others may be left as they are
  const LowerProduct<T>* lower = nullptr;  ///< nullptr: none
  const T* factors = nullptr;              ///< of each row; nullptr: all 1
  const RowsAhead* ahead = nullptr;
  int num_ahead = 0;
};

/// One token of a sum S over tokens, [features][values]: out = a S + (a . b) v, and then S += b v^T. The bits are those of
/// the three Products.
template <class T>
struct TokenOfSum {
  std::int64_t features, values;
  const T *a, *b, *v;
  T* sum;
  T* out;
  bool joins = true;  ///< whether S changes
};

/// T is float or double.
template <class T>
struct ProductKernels {
  void (*multiply)(const Product<T>& product) noexcept;
  /// out[c][r] = x[r][c]
  void (*transpose)(const T* x, std::int64_t rows, std::int64_t columns, T* out, std::int64_t out_step) noexcept;
  void (*read_and_join)(const TokenOfSum<T>& token) noexcept;
};

/// Those of the active instruction set.
template <class T>
const ProductKernels<T>& product_kernels() noexcept;

}  // namespace rotary
