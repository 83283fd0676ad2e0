// Strides of elements that lie one after the other, without gaps.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/checked.h"

namespace rotary {

/// `Shape`: Dims, or a vector. Row-major with the last axis innermost, column-major with the first. The number of elements
/// must have been checked, or be about to: where it is not representable, strides are 0, and only an empty tensor gets away
/// with that, whose strides are never followed.
template <class Shape>
Shape dense_strides(const Shape& shape, bool last_axis_innermost) {
  Shape strides = shape;
  const int rank = static_cast<int>(shape.size());
  std::int64_t step = 1;
  for (int n = 0; n < rank; ++n) {
    const int i = last_axis_innermost ? rank - 1 - n : n;
    strides[i] = step;
    step = checked_mul(step, std::max<std::int64_t>(shape[i], 1)).value_or(0);
  }
  return strides;
}

}  // namespace rotary
