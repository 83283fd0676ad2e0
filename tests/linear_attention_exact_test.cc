// Linear attention of a few tokens, against sums in exact arithmetic.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <utility>
#include <vector>

#include "rotary/attention.hpp"
#include "rotary/frequencies.hpp"
#include "rotary/linear_attention.hpp"

namespace rotary {
namespace {

using Numbers = std::vector<double>;

constexpr double pi = std::numbers::pi;
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

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
  /// Of the full sums: c_i . z.
  Numbers denominators() {
    LinearState state(DType::f64);
    options.state = &state;
    attend();
    options.state = nullptr;
    const auto* z = static_cast<const double*>(state.denominator().data());
    Numbers all;
    for (std::size_t i = 0; i < q.size(); i += 2) all.push_back(q[i] * z[0] + q[i + 1] * z[1]);
    return all;
  }
  /// Before anything is divided.
  Numbers raw_weights() {
    const Normalizer normalizer = options.normalizer;
    options.normalizer = Normalizer::none;
    Numbers table;
    weights(table);
    options.normalizer = normalizer;
    return table;
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

TEST(LinearAttentionExact, WithoutRotationIsTheMeanOfThePaper_A1_GoldenA) {
  Exact exact = three_tokens();
  expect_near(exact.attend(), {2.0 / 3, 8.0 / 9, 8.0 / 13, 46.0 / 39, 0.7, 0.7});
  Numbers table;
  const LinearWeights weights = exact.weights(table);
  expect_near({table[0], table[1], table[2]}, {4.0 / 9, 1.0 / 9, 4.0 / 9});
  EXPECT_NEAR(weights.lowest_row_sum, 1, 1e-15);
  EXPECT_NEAR(weights.highest_row_sum, 1, 1e-15);
  expect_near(exact.denominators(), {18, 39.0 / 2, 20});
  exact.options.is_causal = true;
  expect_near(exact.attend(), {1, -1, 24.0 / 19, -14.0 / 19, 0.7, 0.7});
}

TEST(LinearAttentionExact, DividesTheSumAndNotEveryFeature_A1) {
  Exact exact{1, 1, {1, 2}, {1, 3}, {10, 20}, {.feature_map = {Features::identity}, .is_causal = true}};
  expect_near(exact.attend(), {10, 17.5});
}

TEST(LinearAttentionExact, MapsByEluPlus1UnlessToldOtherwise_GoldenA) {
  Exact exact = three_tokens();
  const double half = -std::numbers::ln2;
  exact.q = {0, 1, 1, 0, half, 2};
  exact.k = {1, 2, 0, half, 3, 1};
  exact.options = {};
  expect_near(exact.attend(), {2.0 / 3, 8.0 / 9, 8.0 / 13, 46.0 / 39, 0.7, 0.7});
  exact.options.is_causal = true;
  expect_near(exact.attend(), {1, -1, 24.0 / 19, -14.0 / 19, 0.7, 0.7});
}

TEST(LinearAttentionExact, RoFormerTurnsTheNumeratorAlone_GoldenB1) {
  const Rotation quarter = turn_of(pi / 2);
  Exact exact = three_tokens();
  exact.options.rotation = &quarter;
  expect_near(exact.attend(), {11.0 / 18, -16.0 / 9, 6.0 / 13, -8.0 / 39, -31.0 / 40, 1.7});
  Numbers table;
  const LinearWeights weights = exact.weights(table);
  expect_near(table, {8.0 / 18, 1.5 / 18, -8.0 / 18, 8.0 / 39, 5.0 / 39, 0, -10.0 / 20, -2.75 / 20, 8.0 / 20});
  expect_near(exact.raw_weights(), {8, 1.5, -8, 4, 2.5, 0, -10, -2.75, 8});
  expect_near(exact.denominators(), {18, 39.0 / 2, 20});
  EXPECT_EQ(weights.num_weights, 9);
  EXPECT_GE(weights.num_negative, 3);
  EXPECT_NEAR(weights.lowest, -0.5, 1e-15);
  EXPECT_NEAR(weights.lowest_row_sum, -19.0 / 80, 1e-14);
  EXPECT_NEAR(weights.highest_row_sum, 1.0 / 3, 1e-14);
}

TEST(LinearAttentionExact, RoFormerRowsNeedNotSumToOne_GoldenB2_P9) {
  const Rotation quarter = turn_of(pi / 2);
  Exact exact = three_tokens();
  exact.options.rotation = &quarter;
  exact.options.is_causal = true;
  expect_near(exact.attend(), {1, -1, 18.0 / 19, -8.0 / 19, -31.0 / 40, 1.7});
  Numbers table;
  exact.weights(table);
  for (const auto& [row, sum] : {std::pair<std::size_t, double>{0, 1}, {1, 13.0 / 19}, {2, -19.0 / 80}}) {
    EXPECT_NEAR(table[3 * row] + table[3 * row + 1] + table[3 * row + 2], sum, 1e-15);
  }
}

TEST(LinearAttentionExact, RoFormerKeepsTheSumsOfEveryStep_GoldenB2) {
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

TEST(LinearAttentionExact, PairNormsKeepTheSumOfSizesBelowOne_GoldenB3) {
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

TEST(LinearAttentionExact, RotatedNormalizerCanBeNegativeAndSaysSo_GoldenC_P10) {
  const Rotation quarter = turn_of(pi / 2);
  Exact exact = three_tokens();
  exact.options.rotation = &quarter;
  exact.options.normalizer = Normalizer::rotated;
  expect_near(exact.attend(), {22.0 / 3, -64.0 / 3, 18.0 / 13, -8.0 / 13, 62.0 / 19, -136.0 / 19}, 1e-13);
  EXPECT_EQ(exact.report.num_negative_denominators, 1);
  EXPECT_EQ(exact.report.num_zero_rows, 0);
  EXPECT_GE(exact.report.worst_condition, 17.5 / 1.5);  // |8| + |1.5| + |-8| over 1.5
  const Numbers raw = exact.raw_weights();
  for (const auto& [row, sum] : {std::pair<std::size_t, double>{0, 1.5}, {1, 6.5}, {2, -4.75}}) {
    EXPECT_NEAR(raw[3 * row] + raw[3 * row + 1] + raw[3 * row + 2], sum, 1e-14);  // the denominators
  }
  Numbers table;
  const LinearWeights weights = exact.weights(table);
  EXPECT_NEAR(weights.lowest_row_sum, 1, 1e-14);
  EXPECT_NEAR(weights.highest_row_sum, 1, 1e-14);
  exact.options.is_causal = true;
  expect_near(exact.attend(), {1, -1, 18.0 / 13, -8.0 / 13, 62.0 / 19, -136.0 / 19}, 1e-13);
}

TEST(LinearAttentionExact, RotatedNormalizerOfZeroGivesZerosAndIsCounted_GoldenD_P10) {
  const Rotation quarter = turn_of(pi / 2);
  const double keys[] = {0, 2}, query[] = {2};
  Exact exact{2, 2, {1, 1}, {1, 1, 1, 1}, {5, 6, 7, 8}, {.feature_map = {Features::identity}, .rotation = &quarter}};
  exact.options.normalizer = Normalizer::rotated;
  exact.options.q_positions = {.position_ids = {query, "S", {1}}};
  exact.options.k_positions = {.position_ids = {keys, "S", {2}}};
  expect_near(exact.raw_weights(), {-2, 2});
  expect_near(exact.attend(), {0, 0}, 0);
  EXPECT_EQ(exact.report.num_zero_rows, 1);
}

TEST(LinearAttentionExact, RoFormerWeightsHaveNoBound_GoldenD2_P9) {
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

TEST(LinearAttentionExact, TurnsByOneRadianAsTheExactSumsSay_GoldenI) {
  const Rotation one = turn_of(1);
  Exact exact = three_tokens();
  exact.options.rotation = &one;
  exact.options.is_causal = true;
  const Numbers out = exact.attend();
  const Numbers raw = exact.raw_weights();
  expect_near({raw[3], raw[4], raw[6], raw[7], raw[8]},
              {7.1480000803085640484, 2.5, -8.2533067861869914993, -1.2334405964854359585, 8});
  expect_near({out[2], out[3], out[4], out[5]},
              {1.2787368505587962156, -0.7524210610851120051, -0.53600939895789317081, 1.612665339309349575});
}

TEST(LinearAttentionExact, CosFormerIsTheCosineOfTheDistance_GoldenE_P17) {
  const Rotation lift = cosformer_rotation(2, 3);
  Exact exact{2, 2, {1, 2, 3, -1, -2, 1}, {2, 1, -1, 2, 1, 1}, {1, 0, 0, 1, 2, -1}, {.feature_map = {Features::relu}}};
  exact.options.rotation = &lift;
  exact.options.rotate = Rotate::lifted;
  exact.options.normalizer = Normalizer::rotated;
  exact.options.q_positions = exact.options.k_positions = {.offset = 1};
  expect_near(exact.attend(),
              {0.78089253118003934, 0.21910746881996066, 4.0 / 3, -1.0 / 3, 0.77350269189625765, 0.22649730810374235});
  const double root = std::sqrt(3.0);
  expect_near(exact.raw_weights(), {4, 2 * root, 1.5, 3 * root, 0, 1.5 * root, 0.5, root, 1});
  exact.options.is_causal = true;
  const Numbers out = exact.attend();
  expect_near({out[0], out[1], out[2], out[3]}, {1, 0, 1, 0});
}

TEST(LinearAttentionExact, FavorPlusTakesAGivenProjectionBeforeAndAfterTurning_GoldenF) {
  const double w[] = {1, 1, 1, -1};
  const Rotation one = turn_of(1);
  Exact exact{2, 1, {0.5, 0.25, -0.5, 1}, {0.25, -0.5, 1, 0.5}, {1, -1}};
  exact.options.feature_map = {.features = Features::favor_plus, .projection = {w, "ND", {2, 2}}, .scale = 1};
  expect_near(exact.attend(), {-0.2489500206121627775, -0.46861008771270407079});
  exact.options.rotation = &one;
  exact.options.rotate = Rotate::before_map;
  expect_near(exact.attend(), {-0.050934680037879580002, 0.025010427738913498126});
  Numbers out(2);  // what it approaches
  attention({exact.q.data(), "SD", {2, 2}}, {exact.k.data(), "SD", {2, 2}}, {exact.v.data(), "SD", {2, 1}},
            {out.data(), "SD", {2, 1}}, {.rotation = &one, .scale = 1});
  expect_near({out[0]}, {-0.16725806023003878891});
}

TEST(LinearAttentionExact, OnePlusCosStaysAProbabilityUnderRotation_GoldenG) {
  const Rotation quarter = turn_of(pi / 2);
  Exact exact{2, 1, {0.6, 0.8, 1, 0, -0.8, 0.6}, {0.8, 0.6, 0, -1, -1, 0}, {1, 2, -3}};
  exact.options = {.feature_map = {Features::one_plus_cos}, .rotation = &quarter, .rotate = Rotate::before_map};
  expect_near(exact.attend(), {3.0 / 43, 1.0 / 6, -13.0 / 122});
  expect_near(exact.raw_weights(), {49.0 / 25, 1.6, 1.6, 1.6, 1, 1, 32.0 / 25, 1.8, 1.8});
  exact.options.is_causal = true;
  expect_near(exact.attend(), {1, 18.0 / 13, -13.0 / 122});
}

TEST(LinearAttentionExact, RetentionDecaysFromKeyToQuery_GoldenH_P29) {
  const Rotation quarter = turn_of(pi / 2);
  const double half[] = {0.5};
  Exact exact{2, 1, {0.6, 0.8, 1, 0, -0.8, 0.6}, {0.8, 0.6, 0, -1, -1, 0}, {1, 2, -3}};
  exact.options = {
      .feature_map = {Features::identity}, .rotation = &quarter, .normalizer = Normalizer::none, .is_causal = true};
  exact.options.decay = {half, "H", {1}};
  expect_near(exact.attend(), {24.0 / 25, 0.3, -1.53});
  const Numbers sums[] = {{0.8, 0.6}, {2.4, 0.3}, {-1.8, 0.15}};
  LinearState state;
  for (std::size_t t = 0; t < 3; ++t) {
    Exact step{
        2, 1, {exact.q[2 * t], exact.q[2 * t + 1]}, {exact.k[2 * t], exact.k[2 * t + 1]}, {exact.v[t]}, exact.options};
    step.options.q_positions = step.options.k_positions = {.offset = static_cast<std::int64_t>(t)};
    step.options.state = &state;
    step.attend();
    const auto* S = static_cast<const double*>(state.numerator().data());
    expect_near({S[0], S[1]}, sums[t]);
  }
}

TEST(LinearAttentionExact, Taylor2StaysAProbabilityUnderRotation_GoldenT) {
  const Rotation quarter = turn_of(pi / 2);
  Exact exact{2, 1, {1, 2, 2, 1, -1, 3}, {2, -1, 1, 0.5, 0, 2}, {1, -2, 3}};
  exact.options = {
      .feature_map = {.features = Features::taylor2, .scale = 1}, .rotation = &quarter, .rotate = Rotate::before_map};
  expect_near(exact.attend(), {10.0 / 11, 54.0 / 133, 690.0 / 377});
  expect_near(exact.raw_weights(), {1, 29.0 / 8, 5, 5, 53.0 / 8, 5, 37.0 / 2, 29.0 / 8, 25});
  exact.options.is_causal = true;
  expect_near(exact.attend(), {1, -22.0 / 31, 690.0 / 377});
}

TEST(LinearAttentionExact, FavorPlusSurvivesKeysWhoseFeaturesUnderflow_GoldenU_P25) {
  const float w[] = {1, 1, 1, -1}, q[] = {1, 0.5}, k[] = {20, 0, 19, 1}, v[] = {1, -1};
  float out[1];
  linear_attention({q, "SD", {1, 2}}, {k, "SD", {2, 2}}, {v, "SD", {2, 1}}, {out, "SD", {1, 1}},
                   {.feature_map = {.features = Features::favor_plus, .projection = {w, "ND", {2, 2}}, .scale = 1}});
  EXPECT_NEAR(out[0], -0.99999998539903903381, 1e-7);
}

TEST(LinearAttentionExact, PairsHalvesAndNeighboursAsTheyAreNamed_GoldenV_P33) {
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
  expect_near(exact.attend(),
              {1, 1, 1.5202312138728324, -0.04046242774566474, 2.023728813559322, 0.25423728813559322, 2.5, 0});
  exact.options.rotation = &interleaved;
  expect_near(exact.attend(), {1, 1, 1.5236950877311272, -0.036998553887369866, 1.6483418473457561, 0.1856735203344804,
                               1.4190153702401179, -0.11219751343378529});
  exact.options.is_causal = false;
  expect_near(exact.attend(), {1.2470772311842546, 0.039503609023773309, 1.4679818257330025, 0.026185364456700974,
                               1.9572494259404325, -0.04513376771830402, 1.4190153702401179, -0.11219751343378529});
  exact.options.is_causal = true;
  exact.options.normalizer = Normalizer::rotated;
  expect_near(exact.attend(), {1, 1, 1.5184354189778209, -0.036870837955641892, 2.2676714054050699, 0.25543641537790752,
                               3.835065426838064, -0.30322772661320701});
  exact.options.normalizer = Normalizer::features;
  exact.options.rotation = &half;
  expect_near(exact.attend(), {1, 1, 1.4293250421438567, -0.1313685994746404, 1.9122983243486902, 0.20579780699957298,
                               1.6649655448317039, -0.098997012263027925});
  exact.options.normalizer = Normalizer::rotated;
  expect_near(exact.attend(), {1, 1, 1.5722524977011922, -0.14450499540238439, 2.1024282402727608, 0.22625921683504603,
                               3.4019399377265371, -0.20227559109473382});
}

TEST(LinearAttentionExact, HasGradientsOfExactSums_GoldenB2) {
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

}  // namespace
}  // namespace rotary
