#include "rotary/xpos.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "reference/xpos.h"
#include "rotary/attention.hpp"
#include "rotary/frequencies.hpp"
#include "rotary/linear_attention.hpp"
#include "rotary/rotate.hpp"
#include "support/error_sentence.h"
#include "support/test_tensor.h"

namespace rotary {
namespace {

Rotation rotation_of(std::int64_t width, Pairing pairing = Pairing::half) {
  return Rotation({.head_dim = width, .pairing_in = pairing, .inv_freq = default_frequencies(10000, width).inv_freq});
}

Rotation no_turn(std::int64_t width) {
  return Rotation({.head_dim = width,
                   .pairing_in = Pairing::half,
                   .inv_freq = std::vector<double>(static_cast<std::size_t>(width / 2))});
}

double dot(const TestTensor& a, const TestTensor& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

TEST(Xpos, HasTheZetasOfItsAuthors) {
  EXPECT_NEAR(xpos_zetas(1)[0], 2.0 / 7, 1e-16);
  EXPECT_NEAR(xpos_zetas(2)[1], 9.0 / 14, 1e-16);
  const std::vector<double> of_64 = xpos_zetas(32);
  EXPECT_NEAR(of_64.front(), 25.6 / 89.6, 1e-16);
  EXPECT_NEAR(of_64.back(), 87.6 / 89.6, 1e-16);
  expect_refused([] { xpos_zetas(0); }, "num_pairs must be 1 to 524288, got 0");
}

/// q = k = (1, 1, 0, 0) score (2/7)^(n / 512) + (9/14)^(n / 512) at the distance n, wherever they stand.
TEST(Xpos, LosesWeightWithDistanceAlone) {
  const struct {
    std::int64_t distance;
    double score;
  } exact[] = {{0, 2},           {1, 1.996693605952811036}, {10, 1.967236470575307276},
               {512, 13.0 / 14}, {1024, 97.0 / 196},        {100000, 3.329340060339594664e-38}};
  const Rotation still = no_turn(4);
  for (const double place : {0.0, 10.0, 100000.0, 1e6, 0x1p40}) {
    for (const auto& [distance, score] : exact) {
      TestTensor q(DType::f64, "SD", {1, 4}), k(DType::f64, "SD", {1, 4});
      for (TestTensor* x : {&q, &k}) {
        x->fill(0);
        x->set(0, 1);
        x->set(1, 1);
      }
      const auto at = static_cast<std::int64_t>(place);
      xpos_queries(q, still, {.offset = at + distance}, {.centre = place + static_cast<double>(distance)});
      xpos_keys(k, still, {.offset = at}, {.centre = place + static_cast<double>(distance)});
      EXPECT_NEAR(dot(q, k), score, 1e-13 * score) << distance << " at " << place;
    }
  }
}

TEST(Xpos, AgreesWithTheReferenceInEveryDtypeAndLayout) {
  const Rotation rotations[] = {
      rotation_of(6), rotation_of(20, Pairing::interleaved),
      Rotation({.head_dim = 10, .rotary_dim = 4, .rotary_offset = 2, .pairing_in = Pairing::half, .inv_freq = {1, 0.01}}),
      Rotation({.head_dim = 5, .pairing_in = Pairing::listed, .inv_freq = {1, 2}, .pairs_in = {{4, 0}, {1, 3}}})};
  const double ids[] = {0, 1, 10, 777.5, -12, 1500, 2};
  for (const Rotation& rotation : rotations) {
    for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
      for (const int side : {1, -1}) {
        TestTensor x(dtype, "BSHD", {2, 7, 3, rotation.head_dim()}, {.order = "DHSB", .step = 2, .reversed = "S"});
        x.fill_at_random(1);
        TestTensor before(dtype, "BSHD", x.view().shape());
        before.fill_from(x);
        const Xpos xpos{.scale_base = 300, .centre = 5};
        (side == 1 ? xpos_queries : xpos_keys)(x, rotation, {.position_ids = {ids, "S", {7}}}, xpos, nullptr);
        for (std::int64_t i = 0; i < x.size(); ++i) {
          const std::int64_t channel = i % rotation.head_dim(), token = i / rotation.head_dim() / 3 % 7;
          double factor = 1;
          for (std::int64_t j = 0; j < rotation.num_pairs(); ++j) {
            const Pair pair = rotation.pairs_in()[static_cast<std::size_t>(j)];
            if (pair.first != channel && pair.second != channel) continue;
            factor = reference::xpos_factor(j, rotation.num_pairs(), side * (ids[token] - 5), 300);
          }
          // Exponents of size 20, then one rounding; float16 has no numbers below 2^-24.
          const double rounding = dtype == DType::f64   ? 0
                                  : dtype == DType::f32 ? 0x1p-24
                                  : dtype == DType::f16 ? 0x1p-11
                                                        : 0x1p-8;
          const double expected = factor * before[i];
          ASSERT_NEAR(x[i], expected, std::abs(expected) * (rounding + 40 * 0x1p-53) + (dtype == DType::f16 ? 0x1p-25 : 0))
              << name(dtype) << ", channel " << channel << ", token " << token;
        }
        EXPECT_TRUE(x.guards_intact());
      }
    }
  }
}

/// A score is the sum over pairs of the turned score times zeta_j^(distance / 512).
TEST(Xpos, GoesWithTheRotationAndWithAttention) {
  const std::int64_t length = 9, width = 8;
  const Rotation rotation = rotation_of(width);
  TestTensor q(DType::f64, "SD", {length, width}), k(DType::f64, "SD", {length, width}),
      v(DType::f64, "SD", {length, width}), out(DType::f64, "SD", {length, width}),
      turned_q(DType::f64, "SD", {length, width}), turned_k(DType::f64, "SD", {length, width});
  q.fill_at_random(1);
  k.fill_at_random(2);
  v.fill_at_random(3);
  const Positions far{.offset = 1000000};
  turned_q.fill_from(q);
  turned_k.fill_from(k);
  rotate(turned_q, turned_k, rotation, far);
  const Xpos xpos{.scale_base = 4, .centre = 1000000};  // so that nine tokens are far apart
  xpos_queries(q, rotation, far, xpos);
  xpos_keys(k, rotation, far, xpos);
  attention(q, k, v, out, {.rotation = &rotation, .q_positions = far, .k_positions = far, .causal = Causal::top_left});
  for (std::int64_t i = 0; i < length; ++i) {
    std::vector<double> weights;
    double sum = 0;
    for (std::int64_t j = 0; j <= i; ++j) {
      double score = 0;
      for (std::int64_t d = 0; d < width; ++d) {
        score +=
            turned_q.at({i, d}) * turned_k.at({j, d}) * reference::xpos_factor(d % 4, 4, static_cast<double>(i - j), 4);
      }
      weights.push_back(std::exp(score / std::sqrt(8.0)));
      sum += weights.back();
    }
    for (std::int64_t d = 0; d < width; ++d) {
      double expected = 0;
      for (std::int64_t j = 0; j <= i; ++j) expected += weights[static_cast<std::size_t>(j)] / sum * v.at({j, d});
      EXPECT_NEAR(out.at({i, d}), expected, 1e-12) << i << ' ' << d;
    }
  }
}

TEST(Xpos, DoesNotDependOnTheLength_F27) {
  const Rotation rotation = rotation_of(8);
  TestTensor short_k(DType::f32, "SD", {8, 8}), long_k(DType::f32, "SD", {16, 8});
  short_k.fill_at_random(1);
  long_k.fill_at_random(1);
  xpos_keys(short_k, rotation);
  xpos_keys(long_k, rotation);
  for (std::int64_t i = 0; i < short_k.size(); ++i) EXPECT_EQ(short_k[i], long_k[i]);
}

TEST(Xpos, RefusesFactorsThatWouldOverflowAndTakesThemAroundAnotherCentre_O16) {
  const Rotation rotation = rotation_of(8);
  const struct {
    DType dtype;
    std::int64_t position;
  } cases[] = {{DType::f32, 36260}, {DType::bf16, 36260}, {DType::f16, 4532}, {DType::f64, 1 << 30}};
  for (const auto& [dtype, position] : cases) {
    TestTensor x(dtype, "SD", {1, 8});
    x.fill_at_random(1);
    const std::vector<double> before = x.values();
    expect_refused([&, p = position] { xpos_keys(x, rotation, {.offset = p}); }, "put the centre near the queries");
    expect_refused([&, p = position] { xpos_queries(x, rotation, {.offset = -p}); }, "at position -");
    EXPECT_EQ(x.values(), before);
    xpos_keys(x, rotation, {.offset = position}, {.centre = static_cast<double>(position)});
    EXPECT_EQ(x.values(), before);                  // at the centre nothing changes
    xpos_keys(x, rotation, {.offset = -position});  // far in the past: 0 at worst
    for (const double number : x.values()) EXPECT_LE(std::abs(number), 2);
  }
}

TEST(Xpos, MovesTheCentreOfKeysThatAreTurned) {
  const Rotation rotation = rotation_of(12, Pairing::interleaved);
  TestTensor moved(DType::f64, "BHSD", {2, 3, 5, 12}), expected(DType::f64, "BHSD", {2, 3, 5, 12});
  moved.fill_at_random(1);
  expected.fill_at_random(1);
  const Positions far{.offset = 5000};
  xpos_keys(moved, rotation, far, {.centre = 4000});
  rotate(moved, rotation, far);
  xpos_recentre(moved, rotation, 6000, {.centre = 4000});
  xpos_keys(expected, rotation, far, {.centre = 6000});
  rotate(expected, rotation, far);
  for (std::int64_t i = 0; i < moved.size(); ++i)
    ASSERT_NEAR(moved[i], expected[i], 1e-14 * std::abs(expected[i]) + 1e-15) << i;
  expect_refused([&] { xpos_recentre(moved, rotation, -100000, {.centre = 4000}); }, "a factor must be at most 2^100");
}

/// Retention with xPos in place of one decay per head: from part to part the sums get the part's own centre.
TEST(Xpos, DecaysLinearAttentionInPartsWithoutOverflow) {
  const std::int64_t length = 60, part = 20, width = 6;
  const double scale_base =
      2;  // at the first pair a part is 3.5^10: its square would be all that float32 takes in 71 tokens
  const Rotation rotation = rotation_of(width);
  for (const std::int64_t start : {0, 1000000}) {
    TestTensor q(DType::f64, "SD", {length, width}), k(DType::f64, "SD", {length, width}), v(DType::f64, "SD", {length, 4}),
        out(DType::f64, "SD", {length, 4}), turned_q(DType::f64, "SD", {length, width}),
        turned_k(DType::f64, "SD", {length, width});
    q.fill_at_random(1);
    k.fill_at_random(2);
    v.fill_at_random(3);
    turned_q.fill_from(q);
    turned_k.fill_from(k);
    rotate(turned_q, turned_k, rotation, {.offset = start});
    LinearState state;
    for (std::int64_t begin = 0; begin < length; begin += part) {
      const auto cut = [&](const TestTensor& x) { return x.view().slice('S', begin, begin + part); };
      const Positions here{.offset = start + begin};
      const Xpos xpos{.scale_base = scale_base, .centre = static_cast<double>(start + begin)};
      xpos_queries(cut(q), rotation, here, xpos);
      xpos_keys(cut(k), rotation, here, xpos);
      if (!state.empty()) {
        const TensorView sums = state.numerator();
        const Xpos before{.scale_base = scale_base, .centre = xpos.centre - part};
        xpos_recentre({sums.data(), sums.dtype(), "BHDS", sums.shape()}, rotation, xpos.centre, before);
      }
      linear_attention(cut(q), cut(k), cut(v), cut(out),
                       {.feature_map = {Features::identity},
                        .rotation = &rotation,
                        .normalizer = Normalizer::none,
                        .q_positions = here,
                        .k_positions = here,
                        .is_causal = true,
                        .state = &state});
    }
    for (std::int64_t i = 0; i < length; ++i) {
      for (std::int64_t d = 0; d < 4; ++d) {
        double expected = 0;
        for (std::int64_t j = 0; j <= i; ++j) {
          for (std::int64_t c = 0; c < width; ++c) {
            expected += turned_q.at({i, c}) * turned_k.at({j, c}) * v.at({j, d}) *
                        reference::xpos_factor(c % 3, 3, static_cast<double>(i - j), scale_base);
          }
        }
        EXPECT_NEAR(out.at({i, d}), expected, 1e-11) << i << ' ' << d;
      }
    }
  }
}

TEST(Xpos, RefusesWhatDoesNotFit) {
  const Rotation rotation = rotation_of(8);
  TestTensor x(DType::f32, "SD", {3, 8}), narrow(DType::f32, "SD", {3, 6}), nothing(DType::i32, "SD", {3, 8});
  x.fill(1);
  expect_refused([&] { xpos_queries({}, rotation); }, "the tensor must be given");
  expect_refused([&] { xpos_queries(narrow, rotation); }, "as wide as the rotation along D, got 6 for 8");
  expect_refused([&] { xpos_keys(nothing, rotation); }, "float64, float32");
  expect_refused([&] { xpos_keys(x, rotation, {}, {.scale_base = 0}); }, "scale_base must be above 0");
  expect_refused([&] { xpos_keys(x, rotation, {}, {.centre = 1e300}); }, "at most 2^53");
  const Rotation two_axes({.head_dim = 8, .pairing_in = Pairing::half, .inv_freq = {1, 2, 3, 4}, .axis = {0, 0, 1, 1}});
  expect_refused([&] { xpos_keys(x, two_axes); }, "one axis, got 2");
  const std::int64_t ids[] = {1, 2};
  expect_refused([&] { xpos_keys(x, rotation, {.position_ids = {ids, "S", {2}}}); }, "xpos_keys");
  for (std::int64_t i = 0; i < x.size(); ++i) EXPECT_EQ(x[i], 1);
}

}  // namespace
}  // namespace rotary
