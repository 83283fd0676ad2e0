// A call of attention() on numbers at random, and the bound within which it must agree with the plain version.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "reference/attention.h"
#include "rotary/attention.hpp"
#include "rotary/frequencies.hpp"
#include "support/bf16_pairs.h"
#include "support/test_tensor.h"

namespace rotary {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();
inline constexpr DType dtypes[] = {DType::f64, DType::f32, DType::f16, DType::bf16};

/// Of packed sequences, num_queries and num_keys count all tokens.
struct AttentionSizes {
  std::int64_t batch = 1, num_q_heads = 1, num_kv_heads = 1, num_queries = 1, num_keys = 1, head_dim = 8, value_dim = 8;
  bool packed = false;
};

/// Inputs at random, outputs full of NaN.
struct AttentionCase {
  explicit AttentionCase(const AttentionSizes& s, DType dtype = DType::f32, const Layout& layout = {})
      : sizes(s),
        q(tensor(dtype, s.num_q_heads, s.num_queries, s.head_dim, layout)),
        k(tensor(dtype, s.num_kv_heads, s.num_keys, s.head_dim, layout)),
        v(tensor(dtype, s.num_kv_heads, s.num_keys, s.value_dim, layout)),
        out(tensor(dtype, s.num_q_heads, s.num_queries, s.value_dim, layout)),
        lse(s.packed ? TestTensor(DType::f64, "HT", {s.num_q_heads, s.num_queries})
                     : TestTensor(DType::f64, "BHS", {s.batch, s.num_q_heads, s.num_queries})),
        mask(DType::f32, "BHQK", {s.batch, s.num_q_heads, s.num_queries, s.num_keys}) {
    q.fill_at_random(1);
    k.fill_at_random(2);
    v.fill_at_random(3);
    mask.fill(0);
    options.lse = lse;
  }

  /// Once more without lse where that may be computed by other kernels.
  void attend() {
    attention(q, k, v, out, options);
    if (!may_multiply_pairs(q.view().dtype())) return;
    AttentionOptions without_lse = options;
    without_lse.lse = {};
    attention(q, k, v, out, without_lse);
  }

  TestTensor tensor(DType dtype, std::int64_t heads, std::int64_t tokens, std::int64_t width, const Layout& layout) const {
    return sizes.packed ? TestTensor(dtype, "HTD", {heads, tokens, width}, layout)
                        : TestTensor(dtype, "BHSD", {sizes.batch, heads, tokens, width}, layout);
  }

  AttentionSizes sizes;
  TestTensor q, k, v, out, lse, mask;
  AttentionOptions options;
  double largest_added = 0;  ///< of a bias or sink: what a test adds to scores beside attn_mask
};

inline Rotation plain_rotation(std::int64_t head_dim, std::int64_t rotary_dim, Pairing pairing = Pairing::half) {
  return Rotation({.head_dim = head_dim,
                   .rotary_dim = rotary_dim,
                   .pairing_in = pairing,
                   .inv_freq = default_frequencies(10000, rotary_dim).inv_freq});
}

inline double largest_entry(const ConstTensorView& view) {
  double largest = 0;
  for (std::int64_t i = 0; i < view.num_elements(); ++i) {  // row-major
    const double x = std::abs(load_element(view.dtype(), view.data(), i));
    if (std::isfinite(x)) largest = std::max(largest, x);
  }
  return largest;
}

/// The largest sum of |scale q_d k_d| over d: what the rounding errors of a score are relative to.
inline double largest_score(const AttentionCase& c) {
  const double scale =
      c.options.scale != 0 ? std::abs(c.options.scale) : 1 / std::sqrt(static_cast<double>(c.sizes.head_dim));
  double q = 0, k = 0;
  for (const double x : c.q.values()) q = std::max(q, std::abs(x));
  for (const double x : c.k.values()) k = std::max(k, std::abs(x));
  const double temperature = c.options.temperatures ? largest_entry(c.options.temperatures) : 1;
  return temperature * scale * q * k * static_cast<double>(c.sizes.head_dim) /
         2;  // numbers at random: mean of |x y| below a half of the largest
}

/// Half a unit in the last place of 1.
inline double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::f64: return 0x1p-53;
    case DType::f32: return 0x1p-24;
    case DType::f16: return 0x1p-11;
    default: return 0x1p-8;
  }
}

/// A score is a sum of products, each off by a unit roundoff of its own size or so; weights are off, relatively, by what
/// scores are off; a mean of values is off by that times the largest value, 2. The factor 4 stands for the rotation, exp,
/// the two sums and the division. 16-bit inputs are exact in float32; only the result is rounded once more. What is added to
/// scores, and a sink, is off by a unit roundoff of its own size. A cap makes no error larger: its slope is at most 1, and tanh
/// is within 4 units.
///
/// Where pairs of bfloat16 are multiplied, queries, keys and weights are rounded, too. The errors of the products of a score are
/// independent: they add up like the root of their number, to 0.8 unit roundoffs (standard deviation) for numbers at random up to
/// 2, of which largest_score / root is 2; and a mean of values moves by less than its scores do.
inline double tolerance(const AttentionCase& c) {
  const DType dtype = c.out.view().dtype();
  const double computed = dtype == DType::f64 ? 0x1p-53 : 0x1p-24;
  const double root = std::sqrt(static_cast<double>(c.sizes.head_dim));
  const double paired =
      may_multiply_pairs(c.q.view().dtype()) ? unit_roundoff(DType::bf16) * (1 + largest_score(c) / root) : 0;
  return 2 * (4 * computed * (1 + largest_score(c) + c.largest_added) + paired +
              (bit_size(dtype) == 16 ? unit_roundoff(dtype) : 0));
}

inline void expect_agrees_with_reference(AttentionCase& c, const std::string& what) {
  c.attend();
  TestTensor out(DType::f64, c.out.view().axes(), c.out.view().shape()),
      lse(DType::f64, c.lse.view().axes(), c.lse.view().shape());
  AttentionOptions options = c.options;
  options.lse = lse;
  reference::attention(c.q, c.k, c.v, out, options);
  double worst = 0, worst_lse = 0;
  for (std::int64_t i = 0; i < out.size(); ++i) {
    const double difference = std::abs(out[i] - c.out[i]);
    if (!(difference <= worst)) worst = difference;
  }
  for (std::int64_t i = 0; i < lse.size(); ++i) {
    if (lse[i] == c.lse[i]) continue;  // both -infinity
    const double difference = std::abs(lse[i] - c.lse[i]);
    if (!(difference <= worst_lse)) worst_lse = difference;
  }
  EXPECT_LE(worst, tolerance(c)) << what;
  EXPECT_LE(worst_lse, tolerance(c)) << what;
  EXPECT_TRUE(c.out.guards_intact()) << what;
}

inline std::vector<double> attended(AttentionCase& c) {
  c.attend();
  return c.out.values();
}

}  // namespace rotary
