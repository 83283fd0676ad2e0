// A call of attention_backward() on numbers at random, and the bound within which it must agree with the plain version.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "reference/attention_backward.h"
#include "rotary/attention_backward.hpp"
#include "support/attention_case.h"

namespace rotary {

/// With a gradient of lse too. Gradients begin full of NaN.
struct BackwardCase : AttentionCase {
  explicit BackwardCase(const AttentionSizes& s, DType dtype = DType::f32, const Layout& layout = {})
      : AttentionCase(s, dtype, layout),
        dout(tensor(dtype, s.num_q_heads, s.num_queries, s.value_dim, layout)),
        dlse(DType::f64, lse.view().axes(), lse.view().shape()),
        dq(tensor(dtype, s.num_q_heads, s.num_queries, s.head_dim, layout)),
        dk(tensor(dtype, s.num_kv_heads, s.num_keys, s.head_dim, layout)),
        dv(tensor(dtype, s.num_kv_heads, s.num_keys, s.value_dim, layout)) {
    dout.fill_at_random(4);
    dlse.fill_at_random(5);
  }

  AttentionGradients gradients() const { return {.q = dq, .k = dk, .v = dv}; }
  void backward() { attention_backward(q, k, v, out, dout, gradients(), options, dlse); }

  /// All three, one after the other.
  std::vector<double> computed() {
    attend();
    backward();
    return all_gradients();
  }
  std::vector<double> all_gradients() const {
    std::vector<double> all = dq.values();
    for (const TestTensor* x : {&dk, &dv}) {
      for (const double value : x->values()) all.push_back(value);
    }
    return all;
  }

  TestTensor dout, dlse, dq, dk, dv;
};

inline TestTensor doubles_like(const TestTensor& x) { return TestTensor(DType::f64, x.view().axes(), x.view().shape()); }

inline double largest_size(const std::vector<double>& values) {
  double most = 0;
  for (const double x : values) most = std::max(most, std::abs(x));
  return most;
}

struct GradientBounds {
  double dq, dk, dv;
};

/// What rounding may change, u being the unit roundoff of what is computed in. A weight is off by 4 u (1 + largest score) of
/// itself, as in the forward pass (and by what is added to scores); sums over n terms add sqrt(n) u (their errors have no sign in common). With X the largest
/// entry of x, and half of X Y for the mean of |x y| of random numbers:
///
///     |dout . v|, |delta|  <= A = value_dim DOUT V / 2, and dlse          |dscore(i, j)| <= 2 A weight(i, j)
///     |dv| <= C DOUT         |dk| <= 2 A C scale Q           |dq| <= 2 A scale K
///
/// C is the largest sum of weights over the queries that share a key. Where out is rounded to 16 bits, by r, delta moves by
/// value_dim DOUT r V / 2; the result is rounded once more.
inline GradientBounds gradient_bounds(const BackwardCase& c, const std::vector<double>& dq, const std::vector<double>& dk,
                                      const std::vector<double>& dv) {
  const DType dtype = c.dq.view().dtype();
  const double u = dtype == DType::f64 ? 0x1p-53 : 0x1p-24;
  const double r = bit_size(dtype) == 16 ? unit_roundoff(dtype) : 0;
  const double amplitude = c.options.rotation != nullptr ? c.options.rotation->amplitude() * std::sqrt(2.0) : 1;
  const double scale =
      (c.options.temperatures ? largest_entry(c.options.temperatures) : 1) *
      (c.options.scale != 0 ? std::abs(c.options.scale) : 1 / std::sqrt(static_cast<double>(c.sizes.head_dim)));
  const double Q = amplitude * amplitude * 2, K = Q, V = 2, DOUT = 2;
  const double A = static_cast<double>(c.sizes.value_dim) * DOUT * V / 2 + 2;

  TestTensor ones = doubles_like(c.dout), sums = doubles_like(c.dv);
  reference::attention_backward(c.q, c.k, c.v, ones.fill(1), {.v = sums}, c.options);
  const double C = largest_size(sums.values());

  const double terms = static_cast<double>(
      std::max({c.sizes.num_queries * (c.sizes.num_q_heads / c.sizes.num_kv_heads), c.sizes.num_keys, c.sizes.value_dim}));
  const double weight = u * (4 * (1 + amplitude * amplitude * largest_score(c) + c.largest_added) + std::sqrt(terms));
  const double delta = A * r;
  return {(2 * A * weight + delta) * scale * K + r * largest_size(dq),
          (2 * A * weight + delta) * C * scale * Q + r * largest_size(dk), weight * C * DOUT + r * largest_size(dv)};
}

inline double largest_gap(const TestTensor& actual, const std::vector<double>& expected) {
  double worst = 0;
  for (std::int64_t i = 0; i < actual.size(); ++i) {
    const double gap = std::abs(actual[i] - expected[static_cast<std::size_t>(i)]);
    if (!(gap <= worst)) worst = gap;
  }
  return worst;
}

inline void expect_agrees_with_reference(BackwardCase& c, const std::string& what) {
  c.attend();
  c.backward();
  TestTensor dq = doubles_like(c.dq), dk = doubles_like(c.dk), dv = doubles_like(c.dv);
  reference::attention_backward(c.q, c.k, c.v, c.dout, {.q = dq, .k = dk, .v = dv}, c.options, c.dlse);
  const std::vector<double> q = dq.values(), k = dk.values(), v = dv.values();
  const GradientBounds bounds = gradient_bounds(c, q, k, v);
  EXPECT_LE(largest_gap(c.dq, q), bounds.dq) << "dq: " << what;
  EXPECT_LE(largest_gap(c.dk, k), bounds.dk) << "dk: " << what;
  EXPECT_LE(largest_gap(c.dv, v), bounds.dv) << "dv: " << what;
  for (const TestTensor* x : {&c.dq, &c.dk, &c.dv}) EXPECT_TRUE(x->guards_intact()) << what;
}

}  // namespace rotary
