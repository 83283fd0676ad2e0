// Comparing a rotated tensor with the plain double version, within what its dtypes allow.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "reference/rotate.h"
#include "support/test_tensor.h"

namespace rotary {

/// Half a unit in the last place of `dtype` at most, for a number of this size: of rounding once.
inline double half_ulp(DType dtype, double size) {
  switch (dtype) {
    case DType::f64: return 0x1p-53 * size;
    case DType::f32: return 0x1p-24 * size + 0x1p-150;
    case DType::f16: return 0x1p-11 * size + 0x1p-25;
    default: return 0x1p-8 * size + 0x1p-134;
  }
}

/// What a turned channel may differ from the exact one. With r = amplitude * |(u, v)|, so that |u c| + |v s| <= r:
/// cos and sin within 1 ulp of float32 give 2^-23 r, a product and the sum, rounded, 2^-24 r each: 2^-22 r. In double: 2
/// ulp of cos and sin, two roundings, and the same of the plain version: below 2^-49 r. Then one rounding to the dtype of
/// out.
inline double rotation_tolerance(DType x, DType out, double r, double exact) {
  const bool in_double = x == DType::f64 || out == DType::f64;
  const double arithmetic = (in_double ? 0x1p-49 : 0x1p-22) * r;
  if (out == (in_double ? DType::f64 : DType::f32)) return arithmetic;
  return arithmetic + half_ulp(out, std::abs(exact) + arithmetic);
}

using PlainOperation = void (*)(const ConstTensorView&, const TensorView&, const Rotation&, const reference::PositionOf&);

/// `actual` is what an operation made of x; D is the last axis of both.
inline void expect_like_plain(PlainOperation plain, const TestTensor& x, const TestTensor& actual, const Rotation& rotation,
                              const reference::PositionOf& position, const std::string& about) {
  TestTensor exact(DType::f64, x.view().axes(), x.view().shape());
  plain(x.view(), exact, rotation, position);

  const std::int64_t width = rotation.head_dim();
  const DType from = x.view().dtype(), to = actual.view().dtype();
  // The size of the pair that a channel belongs to, before or after: the same but for the amplitude.
  std::vector<Pair> pair_of(static_cast<std::size_t>(width), Pair{-1, -1});
  for (const Pair& pair : rotation.pairs_out()) {
    pair_of[static_cast<std::size_t>(pair.first)] = pair_of[static_cast<std::size_t>(pair.second)] = pair;
  }
  if (plain == &reference::unrotate || plain == &reference::rotate_backward) {
    for (const Pair& pair : rotation.pairs_in()) {
      pair_of[static_cast<std::size_t>(pair.first)] = pair_of[static_cast<std::size_t>(pair.second)] = pair;
    }
  }
  for (std::int64_t i = 0; i < exact.size(); ++i) {
    const std::int64_t row = i / width * width;
    const Pair pair = pair_of[static_cast<std::size_t>(i % width)];
    const double bound =
        pair.first >= 0
            ? rotation_tolerance(from, to, std::hypot(exact[row + pair.first], exact[row + pair.second]), exact[i])
            : half_ulp(to, std::abs(exact[i])) * (bit_size(to) < bit_size(from) || (to != from && bit_size(to) == 16));
    ASSERT_NEAR(actual[i], exact[i], bound) << about << ", element " << i << ", channel " << i % width;
  }
}

}  // namespace rotary
