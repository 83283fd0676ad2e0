// Tensors of a test's own, made from views of somebody else's numbers, and how far numbers are apart.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/element.h"
#include "rotary/tensor.hpp"
#include "support/test_tensor.h"

namespace rotary {

/// The numbers of a view in a tensor of our own, under other axes' names or in another dtype.
inline TestTensor copied(const ConstTensorView& from, DType dtype) {
  TestTensor to(dtype, from.axes(), from.shape());
  for (std::int64_t i = 0; i < to.size(); ++i) {
    std::int64_t element = 0, rest = i;
    for (int axis = from.rank() - 1; axis >= 0; --axis) {
      element += rest % from.shape()[axis] * from.strides()[axis];
      rest /= from.shape()[axis];
    }
    double value = 0;
    if (from.dtype() == DType::boolean)
      value = static_cast<const bool*>(from.data())[element]
                  ? 0
                  : -std::numeric_limits<double>::infinity();  // True: may be seen
    else value = load_element(from.dtype(), from.data(), element);
    to.set(i, value);
  }
  return to;
}

/// The largest difference; NaN where one is NaN and the other is not, or where shapes differ.
inline double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::quiet_NaN();
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;  // infinities too
    const double difference = std::abs(a[i] - b[i]);
    if (!(difference <= worst)) worst = difference;
  }
  return worst;
}

inline double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double x : values) {
    if (std::isfinite(x)) most = std::max(most, std::abs(x));
  }
  return most;
}

}  // namespace rotary
