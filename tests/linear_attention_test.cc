#include "rotary/linear_attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "reference/linear_attention.h"
#include "rotary/attention.hpp"
#include "rotary/frequencies.hpp"
#include "support/allocation_watch.h"
#include "support/error_sentence.h"
#include "support/linear_case.h"
#include "support/test_tensor.h"

namespace rotary {
namespace {

constexpr double pi = std::numbers::pi;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// ---- exact golden values ----

/// One head in double, widths as given.
struct Exact {
  std::int64_t head_dim, value_dim;
  Numbers q, k, v;
  LinearAttentionOptions options = {};
  LinearAttentionReport report = {};

  Numbers attend() {
    const auto tokens = [](const Numbers& x, std::int64_t width) { return static_cast<std::int64_t>(x.size()) / width; };
    Numbers out(static_cast<std::size_t>(tokens(q, head_dim) * value_dim), nan);
    report = linear_attention(
        {q.data(), "SD", {tokens(q, head_dim), head_dim}}, {k.data(), "SD", {tokens(k, head_dim), head_dim}},
        {v.data(), "SD", {tokens(v, value_dim), value_dim}}, {out.data(), "SD", {tokens(q, head_dim), value_dim}}, options);
    return out;
  }
  LinearWeights weights(Numbers& table) {
    const auto n = static_cast<std::int64_t>(q.size()) / head_dim, m = static_cast<std::int64_t>(k.size()) / head_dim;
    table.assign(static_cast<std::size_t>(n * m), nan);
    return linear_weights({q.data(), "SD", {n, head_dim}}, {k.data(), "SD", {m, head_dim}}, {table.data(), "QK", {n, m}},
                          options);
  }
};

void expect_near(const Numbers& actual, const Numbers& expected, double bound = 1e-14) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], bound) << "number " << i;
}

Rotation turn_of(double inv_freq) { return Rotation({.head_dim = 2, .pairing_in = Pairing::half, .inv_freq = {inv_freq}}); }

/// Three tokens whose features are (1,2), (2,1), (1/2,3) and (2,3), (1,1/2), (4,2); values (1,-1), (2,0), (0,3).
Exact three_tokens() {
  return {2, 2, {1, 2, 2, 1, 0.5, 3}, {2, 3, 1, 0.5, 4, 2}, {1, -1, 2, 0, 0, 3}, {.feature_map = {Features::identity}}};
}

TEST(LinearAttention, WithoutRotationIsTheMeanOfThePaper_A1) {
  Exact exact = three_tokens();
  expect_near(exact.attend(), {2.0 / 3, 8.0 / 9, 8.0 / 13, 46.0 / 39, 0.7, 0.7});
  exact.options.is_causal = true;
  expect_near(exact.attend(), {1, -1, 24.0 / 19, -14.0 / 19, 0.7, 0.7});
}

TEST(LinearAttention, MapsByEluPlus1UnlessToldOtherwise) {
  Exact exact = three_tokens();
  const double half = -std::numbers::ln2;
  exact.q = {0, 1, 1, 0, half, 2};
  exact.k = {1, 2, 0, half, 3, 1};
  exact.options = {};
  expect_near(exact.attend(), {2.0 / 3, 8.0 / 9, 8.0 / 13, 46.0 / 39, 0.7, 0.7});
}

TEST(LinearAttention, RoFormerTurnsTheNumeratorAlone) {
  const Rotation quarter = turn_of(pi / 2);
  Exact exact = three_tokens();
  exact.options.rotation = &quarter;
  expect_near(exact.attend(), {11.0 / 18, -16.0 / 9, 6.0 / 13, -8.0 / 39, -31.0 / 40, 1.7});
  Numbers table;
  const LinearWeights weights = exact.weights(table);
  expect_near(table, {8.0 / 18, 1.5 / 18, -8.0 / 18, 8.0 / 39, 5.0 / 39, 0, -10.0 / 20, -2.75 / 20, 8.0 / 20});
  EXPECT_EQ(weights.num_weights, 9);
  EXPECT_GE(weights.num_negative, 3);
  EXPECT_NEAR(weights.lowest, -0.5, 1e-15);
  EXPECT_NEAR(weights.lowest_row_sum, -19.0 / 80, 1e-14);
  EXPECT_NEAR(weights.highest_row_sum, 1.0 / 3, 1e-14);
  exact.options.is_causal = true;
  expect_near(exact.attend(), {1, -1, 18.0 / 19, -8.0 / 19, -31.0 / 40, 1.7});
}

TEST(LinearAttention, RoFormerKeepsTheSumsOfEveryStep) {
  const Rotation quarter = turn_of(pi / 2);
  const Numbers sums[] = {{2, -2, 3, -3}, {1, -2, 5, -3}, {1, -14, 5, -9}}, keys[] = {{2, 3}, {3, 3.5}, {7, 5.5}};
  LinearState state;
  const Exact all = three_tokens();
  for (std::size_t t = 0; t < 3; ++t) {
    const auto token = [&](const Numbers& x) { return Numbers{x[2 * t], x[2 * t + 1]}; };
    Exact step{2, 2, token(all.q), token(all.k), token(all.v), all.options};
    step.options.rotation = &quarter;
    step.options.q_positions = step.options.k_positions = {.offset = static_cast<std::int64_t>(t)};
    step.options.is_causal = true;
    step.options.state = &state;
    step.attend();
    const auto* S = static_cast<const double*>(state.numerator().data());
    const auto* z = static_cast<const double*>(state.denominator().data());
    expect_near({S[0], S[1], S[2], S[3]}, sums[t]);
    expect_near({z[0], z[1]}, keys[t]);
  }
}

TEST(LinearAttention, PairNormsKeepTheSumOfSizesBelowOne) {
  const Rotation quarter = turn_of(pi / 2);
  Exact exact = three_tokens();
  exact.options.rotation = &quarter;
  exact.options.normalizer = Normalizer::pair_norms;
  expect_near(exact.attend(), {0.53496070979414744, -1.5562493375829744, 0.43769512619521154, -0.1945311671978718,
                               -0.55421086448529624, 1.2156883479032305});
  Numbers table;
  exact.weights(table);
  const double sums[] = {0.8510738565, 0.3161131467, 0.7419274476};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(std::abs(table[3 * i]) + std::abs(table[3 * i + 1]) + std::abs(table[3 * i + 2]), sums[i], 1e-9);
  }
}

TEST(LinearAttention, RotatedNormalizerCanBeNegativeAndSaysSo) {
  const Rotation quarter = turn_of(pi / 2);
  Exact exact = three_tokens();
  exact.options.rotation = &quarter;
  exact.options.normalizer = Normalizer::rotated;
  expect_near(exact.attend(), {22.0 / 3, -64.0 / 3, 18.0 / 13, -8.0 / 13, 62.0 / 19, -136.0 / 19}, 1e-13);
  EXPECT_EQ(exact.report.num_negative_denominators, 1);
  EXPECT_EQ(exact.report.num_zero_rows, 0);
  EXPECT_GE(exact.report.worst_condition, 17.5 / 1.5);  // |8| + |1.5| + |-8| over 1.5
  exact.options.is_causal = true;
  expect_near(exact.attend(), {1, -1, 18.0 / 13, -8.0 / 13, 62.0 / 19, -136.0 / 19}, 1e-13);
}

TEST(LinearAttention, RotatedNormalizerOfZeroGivesZerosAndIsCounted) {
  const Rotation quarter = turn_of(pi / 2);
  const double keys[] = {0, 2}, query[] = {2};
  Exact exact{2, 2, {1, 1}, {1, 1, 1, 1}, {5, 6, 7, 8}, {.feature_map = {Features::identity}, .rotation = &quarter}};
  exact.options.normalizer = Normalizer::rotated;
  exact.options.q_positions = {.position_ids = {query, "S", {1}}};
  exact.options.k_positions = {.position_ids = {keys, "S", {2}}};
  expect_near(exact.attend(), {0, 0}, 0);
  EXPECT_EQ(exact.report.num_zero_rows, 1);
}

TEST(LinearAttention, RoFormerWeightsHaveNoBound) {
  const Rotation quarter = turn_of(pi / 2);
  for (const double e : {0.1, 0.001}) {
    Exact exact{2, 1, {1, e}, {e, 1}, {1}, {.feature_map = {Features::identity}, .rotation = &quarter}};
    exact.options.q_positions = {.offset = 1};
    const double expected = (1 - e * e) / (2 * e);  // 99/20 and 999999/2000
    EXPECT_NEAR(exact.attend()[0], expected, 1e-12);
    exact.options.q_positions = {.offset = 3};
    EXPECT_NEAR(exact.attend()[0], -expected, 1e-12);
  }
}

TEST(LinearAttention, TurnsByOneRadianAsTheExactSumsSay) {
  const Rotation one = turn_of(1);
  Exact exact = three_tokens();
  exact.options.rotation = &one;
  exact.options.is_causal = true;
  const Numbers out = exact.attend();
  expect_near({out[2], out[3], out[4], out[5]},
              {1.2787368505587962156, -0.7524210610851120051, -0.53600939895789317081, 1.612665339309349575});
}

TEST(LinearAttention, CosFormerIsTheCosineOfTheDistance) {
  const Rotation lift = cosformer_rotation(2, 3);
  Exact exact{2, 2, {1, 2, 3, -1, -2, 1}, {2, 1, -1, 2, 1, 1}, {1, 0, 0, 1, 2, -1}, {.feature_map = {Features::relu}}};
  exact.options.rotation = &lift;
  exact.options.rotate = Rotate::lifted;
  exact.options.normalizer = Normalizer::rotated;
  exact.options.q_positions = exact.options.k_positions = {.offset = 1};
  expect_near(exact.attend(),
              {0.78089253118003934, 0.21910746881996066, 4.0 / 3, -1.0 / 3, 0.77350269189625765, 0.22649730810374235});
  exact.options.is_causal = true;
  const Numbers out = exact.attend();
  expect_near({out[0], out[1], out[2], out[3]}, {1, 0, 1, 0});
}

TEST(LinearAttention, FavorPlusTakesAGivenProjectionBeforeAndAfterTurning) {
  const double w[] = {1, 1, 1, -1};
  const Rotation one = turn_of(1);
  Exact exact{2, 1, {0.5, 0.25, -0.5, 1}, {0.25, -0.5, 1, 0.5}, {1, -1}};
  exact.options.feature_map = {.features = Features::favor_plus, .projection = {w, "ND", {2, 2}}, .scale = 1};
  expect_near(exact.attend(), {-0.2489500206121627775, -0.46861008771270407079});
  exact.options.rotation = &one;
  exact.options.rotate = Rotate::before_map;
  expect_near(exact.attend(), {-0.050934680037879580002, 0.025010427738913498126});
}

TEST(LinearAttention, OnePlusCosStaysAProbabilityUnderRotation) {
  const Rotation quarter = turn_of(pi / 2);
  Exact exact{2, 1, {0.6, 0.8, 1, 0, -0.8, 0.6}, {0.8, 0.6, 0, -1, -1, 0}, {1, 2, -3}};
  exact.options = {.feature_map = {Features::one_plus_cos}, .rotation = &quarter, .rotate = Rotate::before_map};
  expect_near(exact.attend(), {3.0 / 43, 1.0 / 6, -13.0 / 122});
  exact.options.is_causal = true;
  expect_near(exact.attend(), {1, 18.0 / 13, -13.0 / 122});
}

TEST(LinearAttention, RetentionDecaysFromKeyToQuery) {
  const Rotation quarter = turn_of(pi / 2);
  const double half[] = {0.5};
  Exact exact{2, 1, {0.6, 0.8, 1, 0, -0.8, 0.6}, {0.8, 0.6, 0, -1, -1, 0}, {1, 2, -3}};
  exact.options = {
      .feature_map = {Features::identity}, .rotation = &quarter, .normalizer = Normalizer::none, .is_causal = true};
  exact.options.decay = {half, "H", {1}};
  expect_near(exact.attend(), {24.0 / 25, 0.3, -1.53});
}

TEST(LinearAttention, Taylor2StaysAProbabilityUnderRotation) {
  const Rotation quarter = turn_of(pi / 2);
  Exact exact{2, 1, {1, 2, 2, 1, -1, 3}, {2, -1, 1, 0.5, 0, 2}, {1, -2, 3}};
  exact.options = {
      .feature_map = {.features = Features::taylor2, .scale = 1}, .rotation = &quarter, .rotate = Rotate::before_map};
  expect_near(exact.attend(), {10.0 / 11, 54.0 / 133, 690.0 / 377});
  exact.options.is_causal = true;
  expect_near(exact.attend(), {1, -22.0 / 31, 690.0 / 377});
}

TEST(LinearAttention, FavorPlusSurvivesKeysWhoseFeaturesUnderflow) {
  const float w[] = {1, 1, 1, -1}, q[] = {1, 0.5}, k[] = {20, 0, 19, 1}, v[] = {1, -1};
  float out[1];
  linear_attention({q, "SD", {1, 2}}, {k, "SD", {2, 2}}, {v, "SD", {2, 1}}, {out, "SD", {1, 1}},
                   {.feature_map = {.features = Features::favor_plus, .projection = {w, "ND", {2, 2}}, .scale = 1}});
  EXPECT_NEAR(out[0], -0.99999998539903903381, 1e-7);
}

TEST(LinearAttention, PairsHalvesAndNeighboursAsTheyAreNamed) {
  const auto feature = [](std::int64_t i, std::int64_t f, int a, int b, double step) {
    return 1 + static_cast<double>((a * i + b * f) % 5) * step;
  };
  Exact exact{4, 2, {}, {}, {}, {.feature_map = {Features::identity}}};
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t f = 0; f < 4; ++f) {
      exact.q.push_back(feature(i, f, 7, 3, 0.5));
      exact.k.push_back(feature(i, f, 3, 2, 0.25));
    }
    exact.v.push_back(static_cast<double>(i) + 1);
    exact.v.push_back(i % 2 == 0 ? 1 : -1);
  }
  const auto rotation = [](Pairing pairing) {
    return Rotation({.head_dim = 4, .pairing_in = pairing, .inv_freq = default_frequencies(10000, 4).inv_freq});
  };
  const Rotation interleaved = rotation(Pairing::interleaved), half = rotation(Pairing::half);
  exact.options.is_causal = true;
  exact.options.rotation = &interleaved;
  expect_near(exact.attend(), {1, 1, 1.5236950877311272, -0.036998553887369866, 1.6483418473457561, 0.1856735203344804,
                               1.4190153702401179, -0.11219751343378529});
  exact.options.rotation = &half;
  expect_near(exact.attend(), {1, 1, 1.4293250421438567, -0.1313685994746404, 1.9122983243486902, 0.20579780699957298,
                               1.6649655448317039, -0.098997012263027925});
  exact.options.normalizer = Normalizer::rotated;
  expect_near(exact.attend(), {1, 1, 1.5722524977011922, -0.14450499540238439, 2.1024282402727608, 0.22625921683504603,
                               3.4019399377265371, -0.20227559109473382});
}

// ---- every method against the definition ----

/// Sums of products are off by a unit roundoff for every few terms that are added one after another, relative to the sums of
/// their sizes; inputs at random make that a small multiple of the result's size for positive weights. Where terms cancel the
/// error is `condition` times as large. 16-bit results are rounded once more.
double tolerance(const Case& c, double condition) {
  const DType dtype = c.out.view().dtype();
  const double computed = dtype == DType::f64 ? 0x1p-53 : 0x1p-24, largest = 4;
  const double rounding = dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : 0;
  return largest * condition * (64 * computed + rounding);
}

void expect_agrees_with_reference(Case& c, double extra_condition = 1) {
  const LinearAttentionReport report = c.attend();
  TestTensor expected(DType::f64, "BHSD", c.out.view().shape());
  reference::linear_attention(c.q, c.k, c.v, expected, c.options());
  double largest = 1;
  for (const double x : expected.values()) largest = std::max(largest, std::abs(x));
  const double bound = tolerance(c, report.worst_condition * extra_condition) * largest;
  for (std::int64_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(c.out[i], expected[i], bound) << c.about << ", " << name(c.out.view().dtype()) << ", element " << i;
  }
  EXPECT_TRUE(c.out.guards_intact()) << c.about;
}

TEST(LinearAttention, AgreesWithTheDefinitionForEveryMethodCausalAndFull) {
  for (const std::string& name : methods) {
    for (const DType dtype : {DType::f64, DType::f32}) {
      Case c({.batch = 2,
              .num_q_heads = 6,
              .num_kv_heads = 2,
              .num_queries = 37,
              .num_keys = 37,
              .head_dim = 10,
              .value_dim = 7},
             name, dtype);
      expect_agrees_with_reference(c);
      if (!c.method.needs_causal()) {
        c.options().is_causal = true;
        expect_agrees_with_reference(c);
      }
    }
  }
}

TEST(LinearAttention, AgreesWithTheDefinitionAtAwkwardWidthsAndLengths_A11) {
  for (const std::int64_t width : {2, 6, 10, 20, 72}) {
    for (const std::int64_t length : {1, 3, 4, 5, 31, 32, 33, 65}) {
      for (const std::string name : {"roformer", "performer", "cosformer", "pair_norms"}) {
        Case c({.batch = 2, .num_queries = length, .num_keys = length, .head_dim = width, .value_dim = width + 1}, name);
        c.options().is_causal = true;
        // Exponents of size width: exp multiplies their rounding by it.
        expect_agrees_with_reference(c, name == "performer" ? static_cast<double>(width) : 1);
      }
    }
  }
}

TEST(LinearAttention, GivesTheSameForEveryChunkSize_A11) {
  for (const std::string& name : methods) {
    Case c({.num_q_heads = 2, .num_kv_heads = 1, .num_queries = 100, .num_keys = 100}, name, DType::f64);
    c.options().is_causal = true;
    for (const std::int64_t size : {1, 2, 3, 16, 31, 32, 33, 64, 97, 100, 105}) {
      c.options().chunk_size = size;
      expect_agrees_with_reference(c);
    }
  }
}

TEST(LinearAttention, TakesEveryLayoutAndDtype) {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    for (const Layout& layout : {Layout{.order = "BSHD"}, Layout{.order = "DHSB", .step = 3}, Layout{.reversed = "SH"}}) {
      Case c({.batch = 2, .num_q_heads = 4, .num_kv_heads = 2, .num_queries = 9, .num_keys = 9}, "roformer", dtype, layout);
      expect_agrees_with_reference(c);
    }
  }
}

TEST(LinearAttention, LetsQueriesAndKeysDifferInNumberWhenNotCausal) {
  for (const std::int64_t num_keys : {1, 5, 70}) {
    Case c({.batch = 2, .num_queries = 40, .num_keys = num_keys}, "roformer");
    expect_agrees_with_reference(c);
  }
}

TEST(LinearAttention, HasZerosWhereThereIsNoKey) {
  Case c({.num_queries = 3, .num_keys = 0}, "elu");
  EXPECT_EQ(c.attend().num_zero_rows, 3);
  EXPECT_EQ(c.out.values(), Numbers(24, 0.0));
}

TEST(LinearAttention, ServesRunsOfQueryHeadsByOneKvHead) {
  Case grouped({.num_q_heads = 6, .num_kv_heads = 2, .num_queries = 20, .num_keys = 20}, "roformer");
  Case repeated({.num_q_heads = 6, .num_kv_heads = 6, .num_queries = 20, .num_keys = 20}, "roformer");
  for (std::int64_t i = 0; i < repeated.k.size(); ++i) {
    const std::int64_t per_head = 20 * 8, from = i / per_head / 3 * per_head + i % per_head;
    repeated.k.set(i, grouped.k[from]);
    repeated.v.set(i, grouped.v[from]);
  }
  grouped.options().is_causal = repeated.options().is_causal = true;
  EXPECT_EQ(grouped.attended(), repeated.attended());
}

// ---- what the past and the future may do ----

TEST(LinearAttention, DoesNotChangeByABitWhenTheFutureChanges) {
  for (const std::string& name : methods) {
    Case c({.num_q_heads = 2, .num_kv_heads = 1, .num_queries = 70, .num_keys = 70}, name);
    c.options().is_causal = true;
    const Numbers before = c.attended();
    for (const std::int64_t changed : {69, 33, 32, 31, 1}) {
      Case other({.num_q_heads = 2, .num_kv_heads = 1, .num_queries = 70, .num_keys = 70}, name);
      other.options().is_causal = true;
      for (std::int64_t t = changed; t < 70; ++t) {
        for (std::int64_t d = 0; d < 8; ++d) {
          other.k.set({0, 0, t, d}, t % 2 == 0 ? 30 : nan);
          other.v.set({0, 0, t, d}, 1e6);
        }
      }
      const Numbers after = other.attended();
      for (std::int64_t h = 0; h < 2; ++h) {
        for (std::int64_t i = 0; i < changed * 8; ++i) {
          const auto at = static_cast<std::size_t>(h * 70 * 8 + i);
          ASSERT_EQ(after[at], before[at]) << name << ", token " << i / 8 << " changed with token " << changed;
        }
      }
    }
  }
}

TEST(LinearAttention, HasTheSameBitsWhereTheFutureIsCutOff) {
  const Sizes sizes{.num_q_heads = 6, .num_kv_heads = 2, .num_queries = 70, .num_keys = 70, .head_dim = 10, .value_dim = 7};
  for (const std::string& name : methods) {
    Case c(sizes, name);
    c.options().is_causal = true;
    const Numbers whole = c.attended();
    for (const std::int64_t length : {1, 2, 5, 8, 31, 33, 40}) {
      const auto cut = [&](const TestTensor& x) { return x.view().slice('S', 0, length); };
      TestTensor out(DType::f32, "BHSD", {1, 6, length, 7});
      linear_attention(cut(c.q), cut(c.k), cut(c.v), out, c.options());
      for (std::int64_t h = 0; h < 6; ++h) {
        for (std::int64_t i = 0; i < length * 7; ++i) {
          ASSERT_EQ(out[h * length * 7 + i], whole[static_cast<std::size_t>(h * 70 * 7 + i)])
              << name << ", token " << i / 7 << " of " << length;
        }
      }
    }
  }
}

/// Angles are read once for all heads, a few hundred tokens at a time.
TEST(LinearAttention, GivesEveryHeadTheAnglesOfItsTokens) {
  for (const bool is_causal : {true, false}) {
    Case all({.num_q_heads = 3, .num_kv_heads = 3, .num_queries = 600, .num_keys = 600, .head_dim = 64}, "roformer");
    all.options().is_causal = is_causal;
    all.options().q_positions.offset = 3;  // keys have angles of their own
    const Numbers together = all.attended();
    for (std::int64_t h = 0; h < 3; ++h) {
      TestTensor alone(DType::f32, "BHSD", {1, 1, 600, 8});
      const auto head = [&](const TestTensor& x) { return x.view().slice('H', h, h + 1); };
      linear_attention(head(all.q), head(all.k), head(all.v), alone, all.options());
      for (std::int64_t i = 0; i < alone.size(); ++i) {
        ASSERT_EQ(alone[i], together[static_cast<std::size_t>(h * alone.size() + i)]) << "head " << h << ", element " << i;
      }
    }
    expect_agrees_with_reference(all);
  }
}

TEST(LinearAttention, ShowsANaNThatIsSeen) {
  Case c({.num_queries = 10, .num_keys = 10}, "roformer");
  c.options().is_causal = true;
  c.k.set({0, 0, 4, 1}, nan);
  const Numbers out = c.attended();
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(std::isnan(out[i]), i / 8 >= 4) << i;
}

TEST(LinearAttention, DoesNotSeeThePadding_A12) {
  for (const std::string& name : methods) {
    for (const double garbage : {1e9, nan}) {
      const std::int64_t length = 40, tokens = 25;
      Case padded({.batch = 2, .num_queries = length, .num_keys = length}, name, DType::f64);
      Case plain({.num_queries = tokens, .num_keys = tokens}, name, DType::f64);
      padded.options().is_causal = plain.options().is_causal = true;
      bool mask[2][40];
      std::int64_t positions[2][40];
      for (std::int64_t t = 0; t < length; ++t) {
        // Row 0 is padded at the left, row 1 at both ends and in the middle.
        const std::int64_t from[] = {t - 15, t < 3 || t == 10 || t == 11 ? -1 : t < 10 ? t - 3 : t - 5};
        for (std::int64_t b = 0; b < 2; ++b) {
          const std::int64_t token = from[b] < tokens ? from[b] : -1;
          mask[b][t] = token >= 0;
          positions[b][t] = std::max<std::int64_t>(token, 0);
          for (std::int64_t d = 0; d < 8; ++d) {
            padded.q.set({b, 0, t, d}, token >= 0 ? plain.q.at({0, 0, token, d}) : garbage);
            padded.k.set({b, 0, t, d}, token >= 0 ? plain.k.at({0, 0, token, d}) : garbage);
            padded.v.set({b, 0, t, d}, token >= 0 ? plain.v.at({0, 0, token, d}) : garbage);
          }
        }
      }
      padded.options().key_padding_mask = {&mask[0][0], DType::boolean, "BS", {2, length}};
      if (padded.options().rotation != nullptr) {
        padded.options().q_positions =
            padded.options().k_positions = {.position_ids = {&positions[0][0], "BS", {2, length}}};
      }
      const double condition = plain.attend().worst_condition;
      padded.attend();
      for (std::int64_t b = 0; b < 2; ++b) {
        for (std::int64_t t = 0; t < length; ++t) {
          for (std::int64_t d = 0; mask[b][t] && d < 8; ++d) {
            ASSERT_NEAR(padded.out.at({b, 0, t, d}), plain.out.at({0, 0, positions[b][t], d}), 1e-12 * condition)
                << name << ", row " << b << ", token " << t;
          }
        }
      }
    }
  }
}

TEST(LinearAttention, KeepsPackedSequencesApart) {
  const std::int64_t ends[] = {0, 5, 5, 38, 39, 70}, length = 70;
  for (const std::string& name : methods) {
    Method method(name, 8, 2);
    method.options.cu_seqlens = {ends, "N", {6}};
    method.options.is_causal = true;
    TestTensor q(DType::f64, "THD", {length, 4, 8}), k(DType::f64, "THD", {length, 2, 8}),
        v(DType::f64, "THD", {length, 2, 8});
    TestTensor out(DType::f64, "THD", {length, 4, 8}), expected(DType::f64, "THD", {length, 4, 8});
    q.fill_at_random(1);
    k.fill_at_random(2);
    v.fill_at_random(3);
    const LinearAttentionReport report = linear_attention(q, k, v, out, method.options);
    reference::linear_attention(q, k, v, expected, method.options);
    for (std::int64_t i = 0; i < out.size(); ++i) {
      ASSERT_NEAR(out[i], expected[i], 1e-12 * report.worst_condition) << name << ", token " << i / 32;
    }
  }
}

TEST(LinearAttention, MovesWithItsPositionsWhereItIsRelative) {
  for (const std::string& name : methods) {
    Case c({.num_queries = 40, .num_keys = 40}, name, DType::f64);
    if (c.options().rotation == nullptr) continue;
    c.options().is_causal = true;
    const Numbers before = c.attended();
    const WeightKinds kinds = weight_kinds(c.options());
    const bool exactly = kinds.relative && !name.starts_with("performer");
    for (const std::int64_t shift : {1000, 100000, 1000000}) {
      c.options().q_positions = c.options().k_positions = {.offset = shift};
      const Numbers after = c.attended();
      double largest = 0, difference = 0;
      for (std::size_t i = 0; i < before.size(); ++i) {
        largest = std::max(largest, std::abs(before[i]));
        difference = std::max(difference, std::abs(after[i] - before[i]));
      }
      if (exactly) EXPECT_LT(difference, 1e-8 * largest) << name << " at " << shift;
      else EXPECT_GT(difference, 0.01 * largest) << name << " at " << shift;
    }
  }
}

TEST(LinearAttention, HasTheWeightsThatItSaysItHas) {
  for (const std::string& name : methods) {
    Case c({.num_queries = 40, .num_keys = 40}, name, DType::f64);
    c.options().is_causal = true;
    const WeightKinds kinds = weight_kinds(c.options());
    c.options().decay = {};
    const LinearWeights weights = linear_weights(c.q, c.k, {}, c.options());
    EXPECT_EQ(weights.num_weights, 40 * 41 / 2);
    EXPECT_EQ(weights.num_negative == 0, kinds.non_negative) << name;
    EXPECT_EQ(std::abs(weights.lowest_row_sum - 1) < 1e-9 && std::abs(weights.highest_row_sum - 1) < 1e-9, kinds.sum_to_one)
        << name << ' ' << weights.lowest_row_sum << ' ' << weights.highest_row_sum;
  }
}

TEST(LinearAttention, IsPlainWithEveryTokenAtPositionZero) {
  Case turned({.num_queries = 20, .num_keys = 20}, "roformer"), plain({.num_queries = 20, .num_keys = 20}, "elu");
  const std::vector<std::int64_t> zeros(20);
  turned.options().q_positions = turned.options().k_positions = {.position_ids = {zeros.data(), "S", {20}}};
  EXPECT_EQ(turned.attended(), plain.attended());
}

TEST(LinearAttention, IsTheValueWhereThereIsOneToken_A1) {
  for (const std::string& name : methods) {
    Case c({.batch = 2, .num_queries = 1, .num_keys = 1}, name, DType::f64);
    if (c.options().normalizer == Normalizer::none || name == "pair_norms") continue;
    c.options().is_causal = true;
    const Numbers out = c.attended();
    for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], c.v[static_cast<std::int64_t>(i)], 1e-14) << name;
  }
}

TEST(LinearAttention, DoesNotMindTheSizeOfFeatures) {
  Case c({.num_queries = 30, .num_keys = 30}, "relu", DType::f64);
  const Numbers before = c.attended();
  for (const double factor : {0x1p-40, 0x1p40}) {
    Case scaled({.num_queries = 30, .num_keys = 30}, "relu", DType::f64);
    for (std::int64_t i = 0; i < scaled.q.size(); ++i) scaled.q.set(i, factor * scaled.q[i]);
    for (std::int64_t i = 0; i < scaled.k.size(); ++i) scaled.k.set(i, factor * scaled.k[i]);
    EXPECT_EQ(scaled.attended(), before);
  }
}

TEST(LinearAttention, TurnsCosFormerWeightsNegativeBeyondM) {
  Case c({.num_queries = 40, .num_keys = 40}, "cosformer", DType::f64);
  const Rotation at_40 = cosformer_rotation(8, 40), at_12 = cosformer_rotation(8, 12);
  c.options().rotation = &at_40;
  EXPECT_EQ(linear_weights(c.q, c.k, {}, c.options()).num_negative, 0);
  c.options().rotation = &at_12;
  EXPECT_GT(linear_weights(c.q, c.k, {}, c.options()).num_negative, 0);
}

// ---- Performer ----

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

// Rows of length sqrt(d), so that |q'|^2 is sqrt(d): 2 at width 4. Forty draws; the error falls as 1 / sqrt(m), so that
// the slope of its logarithm is near -1/2.
TEST(LinearAttention, FavorPlusApproachesSoftmaxAsOneOverTheRootOfTheFeatures_A4) {
  Case c({.num_queries = 64, .num_keys = 64, .head_dim = 16}, "performer", DType::f64);
  for (TestTensor* x : {&c.q, &c.k}) {  // |x|^2 = 4, |x'|^2 = 1
    for (std::int64_t t = 0; t < 64; ++t) {
      double squares = 0;
      for (std::int64_t d = 0; d < 16; ++d) squares += x->at({0, 0, t, d}) * x->at({0, 0, t, d});
      for (std::int64_t d = 0; d < 16; ++d) x->set({0, 0, t, d}, x->at({0, 0, t, d}) * 2 / std::sqrt(squares));
    }
  }
  const TestTensor exact = softmax_of(c);
  const auto error = [&](std::int64_t features) {
    double sum = 0;
    for (std::uint64_t draw = 0; draw < 40; ++draw) {
      const Numbers w = favor_projection(features, 16, draw);
      c.options().feature_map.projection = {w.data(), "ND", {features, 16}};
      c.attend();
      const double e = relative_difference(c.out, exact);
      sum += e * e;
    }
    return std::sqrt(sum / 40);
  };
  const double at_32 = error(32), at_1024 = error(1024), slope = std::log(at_1024 / at_32) / std::log(32.0);
  EXPECT_GT(slope, -0.6) << at_32 << ' ' << at_1024;
  EXPECT_LT(slope, -0.35) << at_32 << ' ' << at_1024;
}

// With |x'|^2 = 140 every feature of a key underflows float32 unless its exponent's maximum is taken off; |x'|^2 / 2 is
// known within 70 * 2^-24 * 4 = 1.7e-5.
TEST(LinearAttention, FavorPlusTakesLargeNorms) {
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

TEST(LinearAttention, FavorPlusIsTheSameEveryTime_A5) {
  Case c({.num_queries = 20, .num_keys = 20}, "performer");
  EXPECT_EQ(c.attended(), c.attended());
}

// ---- streams ----

TEST(LinearAttention, CarriesAStateOverEverySplitPoint) {
  for (const std::string& name : methods) {
    const std::int64_t length = 40;
    const Sizes sizes{.batch = 2, .num_q_heads = 4, .num_kv_heads = 2, .num_queries = length, .num_keys = length};
    Case whole(sizes, name), parts(sizes, name);
    whole.options().is_causal = parts.options().is_causal = true;
    const double condition = whole.attend().worst_condition;
    double largest = 4;
    for (const double x : whole.out.values()) largest = std::max(largest, std::abs(x));
    for (std::int64_t split = 0; split <= length; ++split) {
      LinearState state;
      const std::int64_t ends[] = {0, split, std::min(split + 1, length), length};
      for (int part = 0; part < 3; ++part) {
        const auto cut = [&](const TestTensor& x) { return x.view().slice('S', ends[part], ends[part + 1]); };
        LinearAttentionOptions options = parts.options();
        options.state = &state;
        if (options.rotation != nullptr) options.q_positions = options.k_positions = {.offset = ends[part]};
        linear_attention(cut(parts.q), cut(parts.k), cut(parts.v), cut(parts.out), options);
      }
      for (std::int64_t i = 0; i < whole.out.size(); ++i) {
        ASSERT_NEAR(parts.out[i], whole.out[i], 64 * 0x1p-24 * condition * largest) << name << ", split at " << split;
      }
    }
  }
}

TEST(LinearAttention, StreamsAMillionTokensInAsLittleMemory) {
  const std::int64_t width = 4, total = 1000000, piece = 10000;
  const Rotation rotation(
      {.head_dim = width, .pairing_in = Pairing::half, .inv_freq = default_frequencies(10000, width).inv_freq});
  TestTensor x(DType::f32, "SD", {piece, width}), out(DType::f32, "SD", {piece, width}),
      exact(DType::f32, "SD", {piece, width});
  LinearState state, in_double(DType::f64);
  std::int64_t bytes = 0;
  for (std::int64_t first = 0; first < total; first += piece) {
    x.fill_at_random(static_cast<std::uint64_t>(first));
    LinearAttentionOptions options{.rotation = &rotation, .normalizer = Normalizer::pair_norms};
    options.q_positions = options.k_positions = {.offset = first};
    options.is_causal = true;
    options.state = &state;
    linear_attention(x, x, x, out, options);
    options.state = &in_double;
    linear_attention(x, x, x, exact, options);
    if (bytes == 0) bytes = state.num_bytes();
    EXPECT_EQ(state.num_bytes(), bytes);
  }
  EXPECT_EQ(bytes, (width * width + width / 2 + 1) * 4);
  EXPECT_EQ(in_double.dtype(), DType::f64);
  // 10^6 terms of random sign in float32: each addition loses 2^-24 of the sum so far.
  for (std::int64_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], exact[i], 1e-4) << i;
}

// One head of 16 channels: the score matrix of 8,192 tokens would be 256 MiB in float32.
TEST(LinearAttention, AsksForNoMemoryThatGrowsWithTheLength) {
  const auto largest_of = [](std::int64_t length) {
    TestTensor x(DType::f32, "SD", {length, 16}), out(DType::f32, "SD", {length, 16});
    x.fill_at_random(1);
    largest_allocation = 0;
    linear_attention(x, x, x, out, {.is_causal = true});
    return largest_allocation.load();
  };
  EXPECT_EQ(largest_of(8192), largest_of(64));
  EXPECT_LT(largest_of(64), 1U << 16);
}

TEST(LinearAttention, DecaysForAHundredThousandTokens_A6) {
  const std::int64_t length = 100000;
  const double decay[] = {0.97};
  TestTensor x(DType::f32, "SD", {length, 4}), out(DType::f32, "SD", {length, 4});
  x.fill_at_random(1);
  linear_attention(x, x, x, out, {.is_causal = true, .decay = {decay, "H", {1}}});
  // The last row sees no further back than float64 does.
  TestTensor expected(DType::f64, "SD", {2000, 4});
  const ConstTensorView tail = x.view().slice('S', length - 2000, length);
  reference::linear_attention(tail, tail, tail, expected, {.is_causal = true, .decay = {decay, "H", {1}}});
  for (std::int64_t d = 0; d < 4; ++d) EXPECT_NEAR(out.at({length - 1, d}), expected.at({1999, d}), 1e-5);
  for (const double y : out.values()) ASSERT_TRUE(std::isfinite(y));
}

TEST(LinearAttention, DecayOfOneIsNoDecay) {
  const double one[] = {1};
  Case c({.num_queries = 40, .num_keys = 40}, "roformer");
  c.options().is_causal = true;
  const Numbers plain = c.attended();
  c.options().decay = {one, "H", {1}};
  EXPECT_EQ(c.attended(), plain);
}

TEST(LinearState, IsOfOneShapeAndDtype) {
  Case c({.num_queries = 4, .num_keys = 4}, "roformer");
  LinearState state;
  c.options().state = &state;
  c.attend();
  const auto refused = [&](Case& other, const std::string& words) {
    other.options().state = &state;
    expect_refused([&] { other.attend(); }, words);
  };
  Case batch({.batch = 2, .num_queries = 4, .num_keys = 4}, "roformer"),
      wide({.num_queries = 4, .num_keys = 4, .value_dim = 9}, "roformer");
  Case features({.num_queries = 4, .num_keys = 4, .head_dim = 12}, "roformer"),
      norms({.num_queries = 4, .num_keys = 4}, "pair_norms");
  Case doubles({.num_queries = 4, .num_keys = 4}, "roformer", DType::f64);
  refused(batch, "number of batch rows");
  refused(wide, "value width");
  refused(features, "number of features");
  refused(norms, "normalizer");
  refused(doubles, "float64 state");
  state.clear();
  doubles.options().state = &state;
  doubles.attend();
  expect_refused([] { LinearState state(DType::bf16); }, "float32 or float64");
}

TEST(LinearState, IsCopiedToBranchOff) {
  Case c({.num_queries = 4, .num_keys = 4}, "roformer");
  LinearState state;
  c.options().state = &state;
  c.attend();
  LinearState branch = state;
  const Numbers once = c.attended();
  c.options().state = &branch;
  EXPECT_EQ(c.attended(), once);
}

TEST(LinearAttention, DoesNotDependOnTheExecutor) {
  ThreadPool pool(3);
  for (const std::string name : {"roformer", "performer"}) {
    Case c({.batch = 3, .num_q_heads = 4, .num_kv_heads = 2, .num_queries = 50, .num_keys = 50}, name);
    c.options().is_causal = true;
    const Numbers alone = c.attended();
    c.options().executor = &pool;
    EXPECT_EQ(c.attended(), alone);
  }
}

// ---- gradients ----

struct Gradients {
  explicit Gradients(const Case& c, DType dtype = DType::f64)
      : dout(dtype, "BHSD", c.out.view().shape()),
        q(dtype, "BHSD", c.q.view().shape()),
        k(dtype, "BHSD", c.k.view().shape()),
        v(dtype, "BHSD", c.v.view().shape()) {
    dout.fill_at_random(4);
  }
  LinearAttentionReport of(Case& c, LinearState* state = nullptr) {
    return linear_attention_backward(c.q, c.k, c.v, dout, {.q = q, .k = k, .v = v, .state = state}, c.options());
  }

  TestTensor dout, q, k, v;
};

/// sum(out * dout) by the definition.
double loss(Case& c, const TestTensor& dout) {
  TestTensor out(DType::f64, "BHSD", c.out.view().shape());
  reference::linear_attention(c.q, c.k, c.v, out, c.options());
  double sum = 0;
  for (std::int64_t i = 0; i < out.size(); ++i) sum += out[i] * dout[i];
  return sum;
}

/// Central differences with steps of 1e-5: off by 1e-10 times third derivatives, and 2^-53 / 1e-5 = 1e-11 times the sum.
void expect_gradients_of_the_definition(Case& c) {
  Gradients gradients(c);
  const double condition = gradients.of(c).worst_condition;
  const struct {
    TestTensor& x;
    const TestTensor& dx;
    const char* what;
  } all[] = {{c.q, gradients.q, "dq"}, {c.k, gradients.k, "dk"}, {c.v, gradients.v, "dv"}};
  for (const auto& [x, dx, what] : all) {
    for (std::int64_t i = 0; i < x.size(); i += 3) {
      const double at = x[i], step = 1e-5;
      x.set(i, at + step);
      const double above = loss(c, gradients.dout);
      x.set(i, at - step);
      const double below = loss(c, gradients.dout);
      x.set(i, at);
      const double expected = (above - below) / (2 * step);
      ASSERT_NEAR(dx[i], expected, 1e-7 * condition * condition * std::max(1.0, std::abs(expected)))
          << c.about << ", " << what << ' ' << i;
    }
  }
}

TEST(LinearAttentionBackward, HasTheSlopesOfTheDefinitionForEveryMethod) {
  for (const std::string& name : methods) {
    Case c({.num_q_heads = 2, .num_kv_heads = 1, .num_queries = 7, .num_keys = 7, .head_dim = 6, .value_dim = 3}, name,
           DType::f64);
    expect_gradients_of_the_definition(c);
    if (c.method.needs_causal()) continue;
    c.options().is_causal = true;
    expect_gradients_of_the_definition(c);
  }
}

TEST(LinearAttentionBackward, HasTheExactSumsOfThePaper) {
  const Rotation quarter = turn_of(pi / 2);
  const Exact exact = three_tokens();
  const Numbers dout = {1, 2, 1, 2, 1, 2};
  Numbers dq(6), dk(6), dv(6);
  LinearAttentionOptions options = exact.options;
  options.rotation = &quarter;
  options.is_causal = true;
  const auto view = [](Numbers& x) { return TensorView(x.data(), "SD", {3, 2}); };
  const auto read = [](const Numbers& x) { return ConstTensorView(x.data(), "SD", {3, 2}); };
  linear_attention_backward(read(exact.q), read(exact.k), read(exact.v), read(dout), {view(dq), view(dk), view(dv)},
                            options);
  expect_near(dq, {0, 0, -50.0 / 361, 100.0 / 361, 69.0 / 160, -23.0 / 320});
  expect_near(dk, {4907.0 / 115520, -26879.0 / 57760, 3843.0 / 115520, -1667.0 / 11552, 27.0 / 320, 81.0 / 160});
  expect_near(dv, {35.0 / 38, 35.0 / 19, 191.0 / 1520, 191.0 / 760, 0.4, 0.8});
}

TEST(LinearAttentionBackward, PassesGradientsFromPartToPart) {
  for (const std::string& name : methods) {
    if (name.starts_with("performer")) continue;
    const std::int64_t length = 20;
    const Sizes sizes{.batch = 2, .num_q_heads = 4, .num_kv_heads = 2, .num_queries = length, .num_keys = length};
    Case c(sizes, name, DType::f64);
    c.options().is_causal = true;
    Gradients whole(c), parts(c);
    const double condition = whole.of(c).worst_condition;
    for (const std::int64_t split : {0, 1, 9, 20}) {
      LinearState between, gradient;
      const auto options_from = [&](std::int64_t begin, LinearState* state) {
        LinearAttentionOptions options = c.options();
        options.state = state;
        if (options.rotation != nullptr) options.q_positions = options.k_positions = {.offset = begin};
        return options;
      };
      const auto backward = [&](std::int64_t begin, std::int64_t end, LinearState* state) {
        const auto cut = [&](const TestTensor& x) { return x.view().slice('S', begin, end); };
        linear_attention_backward(cut(c.q), cut(c.k), cut(c.v), cut(parts.dout),
                                  {cut(parts.q), cut(parts.k), cut(parts.v), &gradient}, options_from(begin, state));
      };
      const auto first = [&](const TestTensor& x) { return x.view().slice('S', 0, split); };
      linear_attention(first(c.q), first(c.k), first(c.v), first(c.out), options_from(0, &between));
      backward(split, length, &between);
      backward(0, split, nullptr);
      const double bound = 1e-11 * condition * condition;
      for (std::int64_t i = 0; i < whole.q.size(); ++i) ASSERT_NEAR(parts.q[i], whole.q[i], bound) << name << " dq " << i;
      for (std::int64_t i = 0; i < whole.k.size(); ++i) ASSERT_NEAR(parts.k[i], whole.k[i], bound) << name << " dk " << i;
      for (std::int64_t i = 0; i < whole.v.size(); ++i) ASSERT_NEAR(parts.v[i], whole.v[i], bound) << name << " dv " << i;
    }
  }
}

TEST(LinearAttentionBackward, GivesPaddingNothingAndSeesNothingOfIt) {
  Case c({.batch = 2, .num_queries = 12, .num_keys = 12}, "roformer", DType::f64);
  bool mask[2][12];
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t t = 0; t < 12; ++t) mask[b][t] = b == 0 ? t >= 3 : t < 7;
  }
  c.options().key_padding_mask = {&mask[0][0], DType::boolean, "BS", {2, 12}};
  expect_gradients_of_the_definition(c);
  Gradients before(c), after(c);
  before.of(c);
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t t = 0; t < 12; ++t) {
      for (std::int64_t d = 0; !mask[b][t] && d < 8; ++d) {
        c.k.set({b, 0, t, d}, nan);
        c.v.set({b, 0, t, d}, nan);
        EXPECT_EQ(before.k.at({b, 0, t, d}), 0);
        EXPECT_EQ(before.v.at({b, 0, t, d}), 0);
      }
    }
  }
  after.of(c);
  EXPECT_EQ(after.q.values(), before.q.values());
  EXPECT_EQ(after.k.values(), before.k.values());
  EXPECT_EQ(after.v.values(), before.v.values());
}

TEST(LinearAttentionBackward, AgreesWithItselfOnPackedSequences) {
  const std::int64_t ends[] = {0, 5, 12}, length = 12;
  for (const std::string name : {"roformer", "performer", "decay"}) {
    Case whole({.num_q_heads = 2, .num_kv_heads = 1, .num_queries = length, .num_keys = length}, name, DType::f64);
    whole.options().is_causal = true;
    Gradients packed(whole), apart(whole);
    const auto tokens = [](const TestTensor& x) {
      const TensorView& v = x.view();
      return TensorView(v.data(), v.dtype(), "HTD", {v.size('H'), v.size('S'), v.size('D')},
                        {v.stride('H'), v.stride('S'), v.stride('D')});
    };
    LinearAttentionOptions options = whole.options();
    options.cu_seqlens = {ends, "N", {3}};
    linear_attention_backward(tokens(whole.q), tokens(whole.k), tokens(whole.v), tokens(packed.dout),
                              {tokens(packed.q), tokens(packed.k), tokens(packed.v)}, options);
    for (int i = 0; i < 2; ++i) {
      const auto cut = [&](const TestTensor& x) { return x.view().slice('S', ends[i], ends[i + 1]); };
      linear_attention_backward(cut(whole.q), cut(whole.k), cut(whole.v), cut(apart.dout),
                                {cut(apart.q), cut(apart.k), cut(apart.v)}, whole.options());
    }
    EXPECT_EQ(packed.q.values(), apart.q.values()) << name;
    EXPECT_EQ(packed.k.values(), apart.k.values()) << name;
    EXPECT_EQ(packed.v.values(), apart.v.values()) << name;
  }
}

// Relative to float64: sums of 4,096 terms, each off by 2^-24 of the sum so far at most, in no one direction.
TEST(LinearAttentionBackward, StaysExactInFloat32OverLongSequences) {
  const Sizes sizes{.num_queries = 4096, .num_keys = 4096};
  Case c(sizes, "roformer");
  c.options().is_causal = true;
  Gradients single(c, DType::f32), exact(c);
  for (std::int64_t i = 0; i < exact.dout.size(); ++i) exact.dout.set(i, single.dout[i]);
  single.of(c);
  exact.of(c);
  double largest = 0;
  for (const double x : exact.k.values()) largest = std::max(largest, std::abs(x));
  for (std::int64_t i = 0; i < exact.k.size(); ++i) ASSERT_NEAR(single.k[i], exact.k[i], 4e-6 * largest) << i;
}

TEST(LinearAttentionBackward, RefusesWhatDoesNotFit) {
  Case c({.num_queries = 4, .num_keys = 4}, "performer", DType::f64);
  Gradients gradients(c);
  LinearState state;
  EXPECT_NE(error_sentence(ErrorCode::unsupported, [&] { gradients.of(c, &state); }).find("favor_plus"), std::string::npos);
  Case plain({.num_queries = 4, .num_keys = 4}, "elu", DType::f64);
  plain.options().state = &state;
  expect_refused([&] { gradients.of(plain, &state); }, "must be two");
  plain.options().state = nullptr;
  expect_refused(
      [&] { linear_attention_backward(plain.q, plain.k, plain.v, gradients.dout, {.q = gradients.q, .k = gradients.q}); },
      "dq must not overlap dk");
  expect_refused([&] { linear_attention_backward(plain.q, plain.k, plain.v, {}, {.q = gradients.q}); },
                 "dout must be given");
}

// ---- refusals ----

TEST(LinearAttention, RefusesAMaskThatDependsOnTheQuery_A8) {
  Case c({.num_queries = 2, .num_keys = 2}, "elu");
  const bool mask[] = {true, false, true, true};
  c.options().key_padding_mask = {mask, DType::boolean, "QK", {2, 2}};
  expect_refused([&] { c.attend(); }, "no mask can depend on the query");
}

TEST(LinearAttention, RefusesWhatDoesNotFit) {
  const auto refused = [](const std::string& name, const Sizes& sizes, const std::function<void(Case&)>& change,
                          const std::string& words) {
    Case c(sizes, name);
    change(c);
    expect_refused([&] { c.attend(); }, words);
    for (const double x : c.out.values()) EXPECT_TRUE(std::isnan(x)) << "written in spite of: " << words;
  };
  const Sizes four{.num_queries = 4, .num_keys = 4};
  const double high[] = {1.5}, half[] = {0.5};
  const bool mask[] = {true, true, true};
  const Rotation wide({.head_dim = 16, .pairing_in = Pairing::half, .inv_freq = {1, 2, 3, 4, 5, 6, 7, 8}});
  const Rotation partial({.head_dim = 16, .rotary_dim = 4, .pairing_in = Pairing::half, .inv_freq = {1, 2}});
  refused(
      "elu", {.num_queries = 4, .num_keys = 5}, [](Case& c) { c.options().is_causal = true; }, "as many queries as keys");
  refused(
      "elu", {.num_q_heads = 4, .num_kv_heads = 3}, [](Case&) {}, "multiple of the number of KV heads");
  refused(
      "elu", four, [](Case& c) { c.options().chunk_size = 0; }, "chunk_size must be 1 to 1024");
  refused(
      "elu", four,
      [&](Case& c) {
        c.options().decay = {half, "H", {1}};
      },
      "decay needs is_causal");
  refused(
      "decay", four,
      [&](Case& c) {
        c.options().decay = {high, "H", {1}};
      },
      "above 0 and at most 1");
  refused(
      "decay", {.num_q_heads = 2, .num_kv_heads = 2},
      [&](Case& c) {
        c.options().decay = {half, "H", {1}};
      },
      "decay must be as long as k along H");
  refused(
      "elu", four, [](Case& c) { c.options().q_positions = {.offset = 1}; }, "need a rotation");
  refused(
      "roformer", four, [&](Case& c) { c.options().rotation = &wide; }, "the number of features");
  refused(
      "taylor2", four, [&](Case& c) { c.options().rotation = &wide; }, "the width of q and k");
  refused(
      "cosformer", four, [&](Case& c) { c.options().rotation = &partial; }, "must turn every channel");
  refused(
      "performer", four, [](Case& c) { c.options().normalizer = Normalizer::none; }, "favor_plus needs a normalizer");
  refused(
      "elu", four,
      [&](Case& c) {
        c.options().key_padding_mask = {mask, DType::boolean, "S", {3}};
      },
      "an entry per key");
  refused(
      "elu", four,
      [&](Case& c) {
        c.options().key_padding_mask = {half, "S", {1}};
      },
      "must be boolean");
  expect_refused([] { cosformer_rotation(8, 0); }, "M must be above 0");
  Case c(four, "elu");
  expect_refused([&] { linear_attention(c.q, c.k, c.v, c.q, c.options()); }, "out must not overlap q");
  TestTensor packed(DType::f32, "THD", {4, 1, 8});
  expect_refused([&] { linear_attention(packed, packed, packed, packed); }, "need cu_seqlens");
}

}  // namespace
}  // namespace rotary
