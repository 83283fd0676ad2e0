// Performer: FAVOR+ with the rotation before the map, against softmax attention.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "reference/linear_attention.h"
#include "rotary/attention.hpp"
#include "rotary/linear_attention.hpp"
#include "support/linear_case.h"

namespace rotary {
namespace {

/// softmax(q . k / sqrt d) with the rotation, in double.
TestTensor softmax_of(Case& c) {
  TestTensor exact(DType::f64, "BHSD", c.out.view().shape());
  AttentionOptions options{.rotation = c.options().rotation};
  attention(c.q, c.k, c.v, exact, options);
  return exact;
}

double relative_difference(const TestTensor& a, const TestTensor& b) {
  double difference = 0, size = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference / size);
}

/// Rows of length 2, so that |x'|^2 is 1 at width 16.
void make_short(Case& c) {
  for (TestTensor* x : {&c.q, &c.k}) {
    for (std::int64_t t = 0; t < c.sizes.num_queries; ++t) {
      double squares = 0;
      for (std::int64_t d = 0; d < 16; ++d) squares += x->at({0, 0, t, d}) * x->at({0, 0, t, d});
      for (std::int64_t d = 0; d < 16; ++d) x->set({0, 0, t, d}, x->at({0, 0, t, d}) * 2 / std::sqrt(squares));
    }
  }
}

/// Root mean square over `draws` projections of the relative error against softmax attention.
double error_of(Case& c, const TestTensor& exact, std::int64_t features, std::uint64_t draws, bool orthogonal) {
  double sum = 0;
  for (std::uint64_t draw = 0; draw < draws; ++draw) {
    const Numbers w = favor_projection(features, 16, draw, orthogonal);
    c.options().feature_map.projection = {w.data(), "ND", {features, 16}};
    c.attend();
    const double e = relative_difference(c.out, exact);
    sum += e * e;
  }
  return std::sqrt(sum / static_cast<double>(draws));
}

// Forty draws; the error falls as 1 / sqrt(m), so that the slope of its logarithm is near -1/2.
TEST(LinearPerformer, ApproachesSoftmaxAsOneOverTheRootOfTheFeatures_A4_P21) {
  Case c({.num_queries = 64, .num_keys = 64, .head_dim = 16}, "performer", DType::f64);
  make_short(c);
  const TestTensor exact = softmax_of(c);
  const double at_32 = error_of(c, exact, 32, 40, true), at_2048 = error_of(c, exact, 2048, 40, true);
  const double slope = std::log(at_2048 / at_32) / std::log(64.0);
  EXPECT_GT(slope, -0.6) << at_32 << ' ' << at_2048;
  EXPECT_LT(slope, -0.35) << at_32 << ' ' << at_2048;
  EXPECT_LT(at_2048, 0.08);
}

TEST(LinearPerformer, IsNearerWithOrthogonalRows_P23) {
  Case c({.num_queries = 64, .num_keys = 64, .head_dim = 16}, "performer", DType::f64);
  make_short(c);
  const TestTensor exact = softmax_of(c);
  EXPECT_LT(error_of(c, exact, 32, 200, true), error_of(c, exact, 32, 200, false));
}

/// Nodes and weights of a mean over N(0, 1) that is exact for polynomials up to degree 2n - 1: zeros of the Hermite polynomial
/// He_n, weights n! / (n He_(n-1))^2 (Abramowitz and Stegun, 25.4.46, for this weight function), by normalised recurrence.
std::vector<std::pair<double, double>> gauss_hermite(int n) {
  const auto values = [n](double x) {  // He_n / sqrt(n!) and He_(n-1) / sqrt((n-1)!)
    double before = 0, now = 1;
    for (int k = 0; k < n; ++k) {
      const double next = (x * now - std::sqrt(static_cast<double>(k)) * before) / std::sqrt(k + 1.0);
      before = now;
      now = next;
    }
    return std::pair(now, before);
  };
  std::vector<std::pair<double, double>> nodes;
  const double end = 2 * std::sqrt(n + 1.0), step = end / 4000;  // zeros lie in here, further apart than this
  for (int i = -4000; i < 4000; ++i) {
    double low = i * step, high = low + step;
    if (values(low).first * values(high).first > 0) continue;
    for (int bisection = 0; bisection < 80; ++bisection) {
      const double middle = (low + high) / 2;
      (values(low).first * values(middle).first <= 0 ? high : low) = middle;
    }
    const double at_node = values(low).second;
    nodes.emplace_back(low, 1 / (n * at_node * at_node));
  }
  return nodes;
}

/// The mean over w, done exactly: 24 x 24 nodes for two channels. A third channel, 1 for every row, carries the nodes' weights:
/// exp(w.x' + log(weight) / 2), and a factor that cancels.
TEST(LinearPerformer, IsSoftmaxWithTheRotationWhereTheMeanIsExact_P19) {
  const std::vector<std::pair<double, double>> nodes = gauss_hermite(24);
  ASSERT_EQ(nodes.size(), 24U);
  Numbers w;
  for (const auto& [x, weight_x] : nodes) {
    for (const auto& [y, weight_y] : nodes) w.insert(w.end(), {x, y, std::log(weight_x * weight_y) / 2});
  }
  const std::int64_t length = 20;
  const Rotation turn({.head_dim = 3, .rotary_dim = 2, .pairing_in = Pairing::half, .inv_freq = {1}});
  for (const DType dtype : {DType::f64, DType::f32}) {
    TestTensor q(dtype, "SD", {length, 3}), k(dtype, "SD", {length, 3}), v(dtype, "SD", {length, 3}),
        out(dtype, "SD", {length, 3}), exact(DType::f64, "SD", {length, 3});
    q.fill_at_random(1);
    k.fill_at_random(2);
    v.fill_at_random(3);
    for (std::int64_t t = 0; t < length; ++t) {
      for (TestTensor* x : {&q, &k}) {
        for (std::int64_t d = 0; d < 2; ++d) x->set({t, d}, x->at({t, d}) / 2);
        x->set({t, 2}, 1);
      }
    }
    linear_attention(
        q, k, v, out,
        {.feature_map = {.features = Features::favor_plus, .projection = {w.data(), "ND", {24 * 24, 3}}, .scale = 1},
         .rotation = &turn,
         .rotate = Rotate::before_map});
    attention(q, k, v, exact, {.rotation = &turn, .scale = 1});
    for (std::int64_t i = 0; i < out.size(); ++i) {
      ASSERT_NEAR(out[i], exact[i], dtype == DType::f64 ? 1e-10 : 2e-6) << name(dtype) << ' ' << i;
    }
  }
}

// With |x'|^2 = 140 every feature of a key underflows float32 unless its exponent's maximum is taken off; |x'|^2 / 2 is
// known within 70 * 2^-24 * 4 = 1.7e-5.
TEST(LinearPerformer, TakesLargeNorms_P24) {
  Case c({.num_queries = 48, .num_keys = 48, .head_dim = 64}, "performer");
  for (TestTensor* x : {&c.q, &c.k}) {
    for (std::int64_t i = 0; i < x->size(); ++i) x->set(i, 3.6 * (*x)[i]);
  }
  c.options().is_causal = true;
  TestTensor expected(DType::f64, "BHSD", c.out.view().shape());
  reference::linear_attention(c.q, c.k, c.v, expected, c.options());
  c.attend();
  for (std::int64_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(c.out[i], expected[i], 2e-4) << i;
}

/// One key has the weight 1, whatever its features. Far out a query's largest feature and the key's are at different rows of
/// the projection, and every product of theirs can be below what a float holds with all its digits: a row of zeros then, and
/// counted.
TEST(LinearPerformer, CountsTheRowsThatItLosesWhereNormsAreVeryLarge_P24) {
  const std::int64_t width = 64, rows = 200;
  const Numbers w = favor_projection(width, width, 1);
  const auto lost_at = [&](double squared_length) {  // of q' and k'
    std::int64_t lost = 0;
    for (std::uint64_t seed = 0; seed < rows; ++seed) {
      TestTensor q(DType::f32, "SD", {1, width}), k(DType::f32, "SD", {1, width}), v(DType::f32, "SD", {1, 1}),
          out(DType::f32, "SD", {1, 1});
      q.fill_at_random(2 * seed + 1);
      k.fill_at_random(2 * seed + 2);
      v.set(0, 3);
      for (TestTensor* x : {&q, &k}) {
        double squares = 0;
        for (const double t : x->values()) squares += t * t;
        for (std::int64_t d = 0; d < width; ++d) x->set(d, (*x)[d] * std::sqrt(squared_length * 8 / squares));
      }
      const LinearAttentionReport report = linear_attention(
          q, k, v, out,
          {.feature_map = {.features = Features::favor_plus, .projection = {w.data(), "ND", {width, width}}}});
      EXPECT_NEAR(out[0], report.num_zero_rows == 1 ? 0 : 3, 1e-3) << squared_length << ", seed " << seed;
      lost += report.num_zero_rows;
    }
    return lost;
  };
  EXPECT_EQ(lost_at(300), 0);
  EXPECT_GT(lost_at(3000), 0);
}

TEST(LinearPerformer, IsTheSameEveryTime_A5) {
  Case c({.num_queries = 20, .num_keys = 20}, "performer");
  EXPECT_EQ(c.attended(), c.attended());
}

/// Exponents from -200 to 200, where exp overflows float32 from 88 on.
TEST(LinearPerformer, TakesExponentsFarBeyondWhatExpTakes_A10) {
  const double w[] = {200, -200, 20, 1};
  const std::int64_t length = 12;
  for (const DType dtype : {DType::f64, DType::f32}) {
    TestTensor q(dtype, "SD", {length, 1}), k(dtype, "SD", {length, 1}), v(dtype, "SD", {length, 2}),
        out(dtype, "SD", {length, 2}), expected(DType::f64, "SD", {length, 2});
    v.fill_at_random(3);
    for (std::int64_t t = 0; t < length; ++t) {
      q.set(t, t % 4 == 0 ? 0.5 : 1);
      k.set(t, static_cast<double>(t % 5) / 4);
    }
    const LinearAttentionOptions options{
        .feature_map = {.features = Features::favor_plus, .projection = {w, "ND", {4, 1}}, .scale = 1}, .is_causal = true};
    linear_attention(q, k, v, out, options);
    reference::linear_attention(q, k, v, expected, options);
    // An exponent of 200 is known within 200 roundings.
    const double bound = 400 * (dtype == DType::f64 ? 0x1p-53 : 0x1p-24);
    for (std::int64_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], expected[i], bound) << name(dtype) << ' ' << i;
  }
}

}  // namespace
}  // namespace rotary
