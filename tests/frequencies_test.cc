// Frequency rules against values computed in double from the formulas, written down independently of this code, and against
// the arrays that the original implementations print. Numbers have 12 digits, hence the tolerance of 1e-11.
#include "rotary/frequencies.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "rotary/dtype.hpp"
#include "rotary/rotate.hpp"
#include "rotary/rotation.hpp"
#include "support/error_sentence.h"
#include "support/exact_frequencies.h"

namespace {

using rotary::expect_refused;
using rotary::Frequencies;

namespace exact = rotary::exact;
using exact::PairValue;

void expect_close(double actual, double expected, double tolerance = 1e-11) {
  EXPECT_NEAR(actual, expected, tolerance * std::abs(expected));
}

void expect_pairs(const Frequencies& frequencies, const std::vector<PairValue>& expected, double tolerance = 1e-11) {
  for (const auto& [pair, value] : expected) {
    SCOPED_TRACE("pair " + std::to_string(pair));
    ASSERT_LT(pair, frequencies.inv_freq.size());
    expect_close(frequencies.inv_freq[pair], value, tolerance);
  }
}

const double nan = std::numeric_limits<double>::quiet_NaN();
const double infinity = std::numeric_limits<double>::infinity();

std::vector<double> ratios(const Frequencies& a, const Frequencies& b) {
  std::vector<double> result;
  for (std::size_t j = 0; j < a.inv_freq.size(); ++j) result.push_back(a.inv_freq[j] / b.inv_freq[j]);
  return result;
}

// ---- default, linear, divisors, partial ------------------------------------------------------------------------------

TEST(DefaultFrequencies, FallInEqualRatiosFromOneToNearlyOneOverBase) {
  const auto frequencies = rotary::default_frequencies(1e4, 64);
  ASSERT_EQ(frequencies.inv_freq.size(), 32u);
  EXPECT_EQ(frequencies.inv_freq[0], 1.0);
  expect_pairs(frequencies, {{31, 1.33352143216e-4}});
  for (std::size_t j = 1; j < 32; ++j)
    expect_close(frequencies.inv_freq[j] / frequencies.inv_freq[j - 1], 0.7498942093324559);
  EXPECT_EQ(frequencies.amplitude, 1.0);
  EXPECT_EQ(frequencies.logit_scale, 1.0);
}

TEST(DefaultFrequencies, MatchReleasedModels) {
  expect_pairs(rotary::default_frequencies(5e6, 64), {{1, 0.617528758126}, {31, 3.23871556374e-7}});     // MiniMax-M2
  expect_pairs(rotary::default_frequencies(1e4, 24), {{11, 2.15443469003e-4}});                          // GPT-NeoX-20B
  expect_pairs(rotary::default_frequencies(160000, 64), {{1, 0.687656021934}, {31, 9.08884645906e-6}});  // ModernBERT
}

TEST(DefaultFrequencies, AreTheInverseOfTheBasePowerAndNotThePowerItself_L17) {
  expect_pairs(rotary::default_frequencies(1e4, 4), {{0, 1}, {1, 0.01}});
  expect_pairs(rotary::default_frequencies(1e4, 8), {{0, 1}, {1, 0.1}, {2, 0.01}, {3, 0.001}});
}

TEST(DefaultFrequencies, TakeTheExponentFromTheRotaryWidth_L7) {
  // head of 256, of which 64 turn (oracle O12)
  expect_pairs(rotary::default_frequencies(1e7, 64), {{1, 0.604296}, {8, 0.0177828}}, 1e-6);
  // the exponent over the head's width would give these
  expect_pairs(rotary::default_frequencies(1e7, 256), {{1, 0.881683}, {8, 0.365174}}, 1e-6);
}

TEST(DefaultFrequencies, RefuseNumbersThatHaveNoFrequencies) {
  for (const double base : {0.0, -1.0, nan, infinity}) {
    expect_refused([&] { rotary::default_frequencies(base, 64); }, "base must be finite and positive");
  }
  for (const std::int64_t dim : {-2, 0, 1, 7, 1 << 21}) {
    expect_refused([&] { rotary::default_frequencies(1e4, dim); }, "rotary_dim must be even, at least 2");
  }
  expect_refused([] { rotary::default_frequencies(1e4, std::int64_t{1} << 62); }, "rotary_dim must be even");
  expect_refused([] { rotary::default_frequencies(5e-324, 64); }, "infinitely fast");
}

// bfloat16 keeps 8 bits of a frequency: at 4,095 the phase is then off by whole radians (oracle O6).
TEST(DefaultFrequencies, LoseTheirPhaseInBfloat16_O6) {
  const auto largest_error = [](double base, double position) {
    double largest = 0;
    for (const double frequency : rotary::default_frequencies(base, 128).inv_freq) {
      const double rounded = rotary::to_float(rotary::to_bfloat16(frequency));
      largest = std::max(largest, position * std::abs(rounded - frequency));
    }
    return largest;
  };
  EXPECT_NEAR(largest_error(1e4, 4095), 5.01, 0.005);
  EXPECT_NEAR(largest_error(5e5, 4095), 7.33, 0.005);
  EXPECT_NEAR(largest_error(1e6, 4095), 4.73, 0.005);
  EXPECT_NEAR(largest_error(1e4, 131071), 160, 0.5);
}

// float32 frequency times float32 position, against the exact product (oracle O7).
TEST(DefaultFrequencies, StayWithinThePhaseErrorOfFloat32_O7) {
  const auto largest_error = [](double position) {
    double largest = 0;
    for (const double frequency : rotary::default_frequencies(1e4, 128).inv_freq) {
      const float angle = static_cast<float>(position) * static_cast<float>(frequency);
      largest = std::max(largest, std::abs(static_cast<double>(angle) - position * frequency));
    }
    return largest;
  };
  EXPECT_NEAR(largest_error(4095), 1.4e-4, 0.05e-4);
  EXPECT_NEAR(largest_error(131071), 2.7e-3, 0.05e-3);
  EXPECT_NEAR(largest_error(1048575), 3.1e-2, 0.05e-2);
}

TEST(LinearFrequencies, MatchGemma3) {
  expect_pairs(rotary::linear_frequencies(1e6, 256, 8), exact::gemma3_global);
  expect_pairs(rotary::linear_frequencies(1e6, 128, 8), {{63, 1.55117220094e-7}});
}

TEST(LinearFrequencies, DivideSoThatFactorFourAtPositionFourIsPositionOne_F24) {
  const auto plain = rotary::default_frequencies(1e4, 128);
  const auto scaled = rotary::linear_frequencies(1e4, 128, 4);
  for (std::size_t j = 0; j < 64; ++j) EXPECT_EQ(scaled.inv_freq[j] * 4, plain.inv_freq[j] * 1);
}

TEST(LinearFrequencies, RefuseFactorsThatAreNotPositive) {
  for (const double factor : {0.0, -8.0, nan, infinity}) {
    expect_refused([&] { rotary::linear_frequencies(1e4, 64, factor); }, "factor must be finite and positive");
  }
}

TEST(Divisors, DividePairByPair) {
  const auto divided = rotary::with_divisors(rotary::default_frequencies(1e4, 8), {1, 2, 4, 1e30});
  expect_pairs(divided, {{0, 1}, {1, 0.05}, {2, 0.0025}, {3, 1e-33}}, 1e-15);
}

// GGUF files of Llama 3.1 carry this rule as divisors of the default one (oracle O8).
TEST(Divisors, TurnTheDefaultRuleIntoLlama3) {
  const auto plain = rotary::default_frequencies(5e5, 128);
  const auto scaled = rotary::llama3_frequencies(5e5, 128, {8, 1, 4, 8192});
  const auto from_divisors = rotary::with_divisors(plain, ratios(plain, scaled));
  for (std::size_t j = 0; j < 64; ++j) expect_close(from_divisors.inv_freq[j], scaled.inv_freq[j], 1e-15);
}

TEST(Divisors, AreOnePerPairFiniteAndPositive) {
  const auto plain = rotary::default_frequencies(1e4, 8);
  expect_refused([&] { rotary::with_divisors(plain, {1, 2, 3}); }, "one divisor per pair, got 3 for 4 pairs");
  for (const double divisor : {0.0, -1.0, nan, infinity}) {
    expect_refused([&] { rotary::with_divisors(plain, {1, 1, divisor, 1}); }, "for pair 2");
  }
  expect_refused([&] { rotary::with_divisors(plain, {1e-320, 1, 1, 1}); }, "infinitely fast");
}

TEST(PartialRotaryDim, TruncatesTowardZeroAsTransformersDoes) {
  EXPECT_EQ(rotary::partial_rotary_dim(96, 0.25), 24);    // GPT-NeoX-20B
  EXPECT_EQ(rotary::partial_rotary_dim(36, 0.9), 32);     // Moonshine: 32.4
  EXPECT_EQ(rotary::partial_rotary_dim(192, 0.334), 64);  // MiMo: 64.128
  EXPECT_EQ(rotary::partial_rotary_dim(128, 1.0), 128);
}

TEST(PartialRotaryDim, RefusesAnOddWidthAndMoreThanTheHead) {
  expect_refused([] { rotary::partial_rotary_dim(64, 0.33); }, "even number of channels, got 21");
  expect_refused([] { rotary::partial_rotary_dim(64, 0.01); }, "even number of channels, got 0");
  for (const double share : {0.0, -0.5, 1.5, nan}) {
    expect_refused([&] { rotary::partial_rotary_dim(64, share); }, "partial_rotary_factor must be above 0");
  }
  expect_refused([] { rotary::partial_rotary_dim(0, 0.5); }, "head_dim must be at least 1");
}

TEST(ProportionalFrequencies, MatchGemma4) {
  const auto frequencies = rotary::proportional_frequencies(1e6, 512, {.partial_rotary_factor = 0.25});
  ASSERT_EQ(frequencies.inv_freq.size(), 256u);
  expect_pairs(frequencies, {{0, 1}, {1, 0.947463525655}, {31, 0.187688429358}, {63, 0.0333762469429}});
  for (std::size_t j = 64; j < 256; ++j) EXPECT_EQ(frequencies.inv_freq[j], 0.0);
}

TEST(ProportionalFrequencies, AreNotAPartialRotaryWidth_L6) {
  const auto proportional = rotary::proportional_frequencies(1e6, 512, {.partial_rotary_factor = 0.25});
  const auto partial = rotary::default_frequencies(1e6, 128);
  EXPECT_NEAR(partial.inv_freq[63], 1.24e-6, 0.005e-6);
  EXPECT_GT(proportional.inv_freq[63], 1000 * partial.inv_freq[63]);
}

TEST(ProportionalFrequencies, OfTheWholeHeadAreTheDefaultRule) {
  EXPECT_EQ(rotary::proportional_frequencies(1e6, 256), rotary::default_frequencies(1e6, 256));
  EXPECT_EQ(rotary::proportional_frequencies(1e6, 256, {.factor = 8}), rotary::linear_frequencies(1e6, 256, 8));
}

TEST(ProportionalFrequencies, RoundTheNumberOfTurningPairsDown) {
  const auto frequencies = rotary::proportional_frequencies(1e4, 10, {.partial_rotary_factor = 0.5});  // 2.5 pairs
  EXPECT_GT(frequencies.inv_freq[1], 0.0);
  EXPECT_EQ(frequencies.inv_freq[2], 0.0);
}

TEST(ProportionalFrequencies, RefuseSharesAndFactorsOutOfRange) {
  for (const double share : {0.0, -0.25, 1.0001, nan}) {
    expect_refused([&] { rotary::proportional_frequencies(1e4, 64, {.partial_rotary_factor = share}); },
                   "partial_rotary_factor must be above 0 and at most 1");
  }
  expect_refused([] { rotary::proportional_frequencies(1e4, 64, {.factor = 0}); }, "factor must be finite and positive");
}

TEST(RetnetFrequencies, IncludeBothEnds) {
  const auto frequencies = rotary::retnet_frequencies(8);
  expect_pairs(frequencies, {{0, 1}, {1, 0.0464158883361}, {2, 0.00215443469003}, {3, 1e-4}});
  expect_refused([] { rotary::retnet_frequencies(2); }, "rotary_dim must be at least 4");
}

// ---- NTK ----------------------------------------------------------------------------------------------------------------

TEST(NtkFrequencies, SlowTheLastPairByTheFactorAndTheFirstNotAtAll) {
  expect_close(rotary::ntk_base(1e4, 128, 8), 82684.62264056221, 1e-14);
  const auto slowed = ratios(rotary::ntk_frequencies(1e4, 128, 8), rotary::default_frequencies(1e4, 128));
  EXPECT_EQ(slowed[0], 1.0);
  expect_close(slowed[1], 0.9675317785238916, 1e-14);
  expect_close(slowed[63], 0.125, 1e-13);
}

TEST(NtkFrequencies, MatchHunyuansAlpha) {
  expect_close(rotary::ntk_base(1e4, 128, 1000), 11158839.92507748, 1e-14);
  expect_close(rotary::ntk_base(1e4, 128, 50), 532032.033929987, 1e-14);
  expect_pairs(rotary::ntk_frequencies(1e4, 128, 1000), exact::hunyuan_alpha_1000);
}

TEST(NtkFrequencies, MatchTheKnownBasesOfAlphaTwoAndFour_O10) {
  EXPECT_NEAR(rotary::ntk_base(1e4, 128, 2), 20221.26, 0.005);
  EXPECT_NEAR(rotary::ntk_base(1e4, 128, 4), 40889.94, 0.005);
}

TEST(NtkFrequencies, RefuseAHeadOfTwoChannelsWhoseExponentDividesByZero_F13) {
  expect_refused([] { rotary::ntk_frequencies(1e4, 2, 8); }, "rotary_dim must be at least 4");
  expect_refused([] { rotary::DynamicNtk{1e4, 2, 2, 2048}.at(4096); }, "rotary_dim must be at least 4");
  expect_refused([] { rotary::QwenDynamicNtk{1e4, 2, 2048}.at(1); }, "rotary_dim must be at least 4");
  expect_refused([] { rotary::FrequencyRule(rotary::DynamicNtk{1e4, 2, 2, 2048}); }, "rotary_dim must be at least 4");
}

TEST(NtkFrequencies, RefuseFactorsThatAreNotPositiveAndBasesThatOverflow) {
  for (const double factor : {0.0, -2.0, nan, infinity}) {
    expect_refused([&] { rotary::ntk_frequencies(1e4, 64, factor); }, "factor must be finite and positive");
  }
  expect_refused([] { rotary::ntk_frequencies(1e300, 64, 1e10); }, "the new base must be finite");
}

TEST(VllmNtkFrequencies, SlowEvenTheFirstPair) {
  const auto plain = rotary::default_frequencies(1e4, 128);
  const auto slowed = ratios(rotary::vllm_ntk_frequencies(1e4, 128, {.factor = 8}), plain);
  expect_close(slowed[0], 0.9680308967461473, 1e-14);
  expect_close(slowed[63], 0.125, 1e-14);
}

TEST(VllmNtkFrequencies, FollowAPowerOfThePairWithMixedB) {
  const auto plain = rotary::default_frequencies(1e4, 128);
  const auto slowed = ratios(rotary::vllm_ntk_frequencies(1e4, 128, {.factor = 8, .mixed_b = 0.625}), plain);
  // exp(-a (j + 1)^0.625) with a = ln 8 / 64^0.625
  const double a = 0.15455541728736802;
  expect_close(slowed[0], std::exp(-a), 1e-13);
  expect_close(slowed[31], std::exp(-a * 8.724061861322062), 1e-13);
  expect_close(slowed[63], 0.125, 1e-13);
  expect_refused([] { rotary::vllm_ntk_frequencies(1e4, 128, {.factor = 8, .mixed_b = -1}); }, "mixed_b must be finite");
}

TEST(DiffusersFrequencies, MultiplyTheBaseAndDivideTheFrequencies) {
  expect_pairs(rotary::diffusers_frequencies(1e4, 8, {.linear_factor = 2, .ntk_factor = 16}),
               {{0, 0.5}, {1, 0.025}, {2, 0.00125}, {3, 6.25e-5}});
  EXPECT_EQ(rotary::diffusers_frequencies(1e4, 64, {}), rotary::default_frequencies(1e4, 64));
  expect_refused([] { rotary::diffusers_frequencies(1e4, 8, {.linear_factor = 0}); }, "linear_factor must be finite");
  expect_refused([] { rotary::diffusers_frequencies(1e4, 8, {.ntk_factor = -1}); }, "ntk_factor must be finite");
}

// ---- dynamic NTK --------------------------------------------------------------------------------------------------------

/// The base that stands behind the default rule: inv_freq[1] = base^(-2/d).
double base_of(const Frequencies& frequencies) {
  const auto d = 2 * static_cast<double>(frequencies.inv_freq.size());
  return std::pow(frequencies.inv_freq[1], -d / 2);
}

TEST(DynamicNtk, MatchesInternLM2) {
  const rotary::DynamicNtk rule{1e6, 128, 2, 32768};
  expect_close(base_of(rule.at(32769)), 1000062.0039982884, 1e-13);
  expect_close(base_of(rule.at(65536)), 3052773.67488067, 1e-13);
  expect_close(base_of(rule.at(131072)), 7219586.008650938, 1e-13);
  expect_pairs(rule.at(65536), {{63, 4.136459202505732e-7}}, 1e-14);
  expect_pairs(rule.at(131072), {{63, 1.772768229645314e-7}}, 1e-14);
}

TEST(DynamicNtk, MatchesTheUnitTestOfTransformers) {
  const auto frequencies = rotary::DynamicNtk{1e4, 128, 10, 2048}.at(16384);
  expect_close(base_of(frequencies), 759702.2311480093, 1e-13);
  expect_pairs(frequencies, {{1, 0.809310074892}, {63, 1.62645349956e-6}});
}

TEST(DynamicNtk, GrowsWithTheLengthAndNotOnceForAll_F9) {
  const rotary::DynamicNtk rule{1e4, 128, 2, 2048};
  EXPECT_EQ(rule.at(0), rotary::default_frequencies(1e4, 128));
  EXPECT_EQ(rule.at(2048), rotary::default_frequencies(1e4, 128));
  EXPECT_NEAR(base_of(rule.at(2049)), 10009.92, 0.005);
  EXPECT_NEAR(base_of(rule.at(4096)), 30527.74, 0.005);
  EXPECT_NEAR(base_of(rule.at(8192)), 72195.86, 0.005);
}

TEST(DynamicNtk, LeavesPositionsUnscaledUpToTheTrainedLength_F12) {
  const rotary::DynamicNtk rule{1e6, 128, 6, 32768};
  EXPECT_EQ(rule.at(32768), rotary::default_frequencies(1e6, 128));
  EXPECT_EQ(rule.at(100000).inv_freq[0], 1.0);
}

// When the base grows, keys in a cache still stand in the old one: scores against them are wrong until they are turned back
// by the old rotation and forth by the new.
TEST(DynamicNtk, LetsCachedKeysFollowAGrowingBase_F10) {
  const rotary::DynamicNtk rule{1e4, 8, 2, 2048};
  const auto rotation_at = [&](std::int64_t length) {
    return rotary::Rotation({.head_dim = 8, .pairing_in = rotary::Pairing::half, .inv_freq = rule.at(length).inv_freq});
  };
  const rotary::Rotation before = rotation_at(2048), after = rotation_at(8192);
  const std::vector<double> raw = {0.6, 0.1, -0.8, 1.3, 0.2, -0.5, 0.4, 0.9};
  const auto turned = [&](std::vector<double> key, const rotary::Rotation& rotation) {
    rotary::rotate(rotary::TensorView(key.data(), "SD", {1, 8}), rotation, {.offset = 2000});
    return key;
  };
  std::vector<double> cached = turned(raw, before);
  const std::vector<double> fresh = turned(raw, after);
  double stale = 0;
  for (std::size_t c = 0; c < 8; ++c) stale = std::max(stale, std::abs(cached[c] - fresh[c]));
  EXPECT_GT(stale, 0.1);

  rotary::unrotate(rotary::TensorView(cached.data(), "SD", {1, 8}), before, {.offset = 2000});
  cached = turned(cached, after);
  for (std::size_t c = 0; c < 8; ++c) EXPECT_NEAR(cached[c], fresh[c], 1e-14);
}

TEST(DynamicNtk, RefusesBadNumbers) {
  expect_refused([] { rotary::DynamicNtk{1e4, 64, 0, 2048}.at(1); }, "factor must be finite and positive");
  expect_refused([] { rotary::DynamicNtk{1e4, 64, nan, 2048}.at(1); }, "factor must be finite and positive");
  expect_refused([] { rotary::DynamicNtk{1e4, 64, 2, 0}.at(1); }, "max_position_embeddings must be at least 1");
  expect_refused([] { rotary::DynamicNtk{1e4, 64, 2, 2048}.at(-1); }, "length must not be negative");
  expect_refused([] { rotary::DynamicNtk{0, 64, 2, 2048}.at(1); }, "base must be finite and positive");
}

TEST(QwenDynamicNtk, GrowsInStepsOfPowersOfTwo) {
  const rotary::QwenDynamicNtk rule{1e4, 128, 2048};
  expect_close(base_of(rule.at(1)), 1e4, 1e-13);
  expect_close(base_of(rule.at(2048)), 1e4, 1e-13);
  expect_close(base_of(rule.at(2049)), 30527.7367488067, 1e-13);
  expect_close(base_of(rule.at(4096)), 30527.7367488067, 1e-13);
  expect_close(base_of(rule.at(8192)), 72195.86008650938, 1e-13);
  expect_close(base_of(rule.at(8193)), 156588.32345714502, 1e-13);
  expect_refused([] { rotary::QwenDynamicNtk{1e4, 128, 0}.at(1); }, "seq_length must be at least 1");
  expect_refused([] { rotary::QwenDynamicNtk{1e4, 128, 2048}.at(-5); }, "length must not be negative");
  EXPECT_NO_THROW(rule.at(std::numeric_limits<std::int64_t>::max()));
}

// ---- YaRN ---------------------------------------------------------------------------------------------------------------

TEST(YarnFrequencies, MatchQwen25) {
  const auto frequencies = rotary::yarn_frequencies(1e6, 128, {.factor = 4, .original_max_position_embeddings = 32768});
  expect_pairs(frequencies, exact::qwen25_yarn);
  expect_close(frequencies.amplitude, 1.138629436111989, 1e-15);
  EXPECT_EQ(frequencies.logit_scale, 1.0);
}

TEST(YarnFrequencies, MatchDeepSeekV3) {
  const rotary::Yarn rule{.factor = 40, .original_max_position_embeddings = 4096, .mscale = 1, .mscale_all_dim = 1};
  expect_pairs(rotary::yarn_frequencies(1e4, 64, rule), exact::deepseek_v3);
}

TEST(YarnFrequencies, StepHardInKimiK2) {
  const rotary::Yarn rule{.factor = 32,
                          .original_max_position_embeddings = 4096,
                          .beta_fast = 1,
                          .beta_slow = 1,
                          .mscale = 1,
                          .mscale_all_dim = 1};
  const auto range = rotary::yarn_range(5e4, 64, rule);
  EXPECT_EQ(range.low, 19);
  EXPECT_EQ(range.high, 20);
  const auto frequencies = rotary::yarn_frequencies(5e4, 64, rule);
  expect_pairs(frequencies, exact::kimi_k2, 1e-9);
  expect_close(frequencies.logit_scale, 1.8132604340394958, 1e-15);
}

TEST(YarnFrequencies, MatchGptOssWithoutTruncation) {
  const rotary::Yarn rule{.factor = 32, .original_max_position_embeddings = 4096, .truncate = false};
  const auto range = rotary::yarn_range(150000, 64, rule);
  expect_close(range.low, 8.092779115512402, 1e-14);
  expect_close(range.high, 17.39802450158856, 1e-14);
  const auto frequencies = rotary::yarn_frequencies(150000, 64, rule);
  expect_pairs(frequencies, exact::gpt_oss);
  expect_close(frequencies.amplitude, 1.3465735902799727, 1e-15);
}

TEST(YarnFrequencies, OfGptOssAreFarOffWhenTheRangeIsTruncated) {
  const rotary::Yarn truncated{.factor = 32, .original_max_position_embeddings = 4096};
  expect_pairs(rotary::yarn_frequencies(150000, 64, truncated),
               {{9, 3.16207522753e-2}, {12, 7.0157139105e-3}, {16, 5.80947501931e-4}, {17, 2.27947795795e-4}});
}

TEST(YarnFrequencies, MatchYarnLlama2) {
  const auto frequencies = rotary::yarn_frequencies(1e4, 128, {.factor = 32, .original_max_position_embeddings = 4096});
  expect_pairs(frequencies, exact::yarn_llama2_128k);
  expect_close(frequencies.amplitude, 1.3465735902799727, 1e-15);
}

TEST(YarnFrequencies, MatchMistral4) {
  const rotary::Yarn rule{.factor = 128, .original_max_position_embeddings = 8192, .mscale = 1, .mscale_all_dim = 1};
  const auto frequencies = rotary::yarn_frequencies(1e4, 64, rule);
  expect_pairs(frequencies, exact::mistral4);
  expect_close(frequencies.logit_scale, 2.2058280296038424, 1e-15);
}

TEST(YarnFrequencies, MatchDeepSeekV4WithItsAmplitudeForcedToOne) {
  const rotary::Yarn rule{.factor = 16, .original_max_position_embeddings = 65536, .attention_factor = 1};
  const auto frequencies = rotary::yarn_frequencies(160000, 64, rule);
  expect_pairs(frequencies, exact::deepseek_v4_compress);
  EXPECT_EQ(frequencies.amplitude, 1.0);
  expect_close(rotary::yarn_mscale(16), 1.2772588722239782, 1e-15);  // what was suppressed
}

TEST(YarnRange, MatchesTheKnownRanges_O9) {
  const auto rounded = [](double base, std::int64_t rotary_dim, std::int64_t original) {
    const auto range = rotary::yarn_range(base, rotary_dim, {.factor = 4, .original_max_position_embeddings = original});
    return std::pair(range.low, range.high);
  };
  EXPECT_EQ(rounded(1e6, 128, 32768), std::pair(23.0, 40.0));
  EXPECT_EQ(rounded(1e4, 64, 4096), std::pair(10.0, 23.0));
  EXPECT_EQ(rounded(1e4, 64, 131072), std::pair(22.0, 35.0));  // beyond the 32 pairs: the ramp's end is not cut there
  EXPECT_EQ(rounded(1e4, 128, 4096), std::pair(20.0, 46.0));
  EXPECT_EQ(rounded(1e4, 64, 8192), std::pair(12.0, 25.0));
  EXPECT_EQ(rounded(160000, 64, 65536), std::pair(15.0, 25.0));

  const auto raw = rotary::yarn_range(1e6, 128, {.original_max_position_embeddings = 32768, .truncate = false});
  expect_close(raw.low, 23.5959476083, 1e-11);
  expect_close(raw.high, 39.6508807104, 1e-11);
}

TEST(YarnRange, IsCutAtZeroAndAtTheRotaryWidthLessOne) {
  EXPECT_EQ(rotary::yarn_range(1e4, 64, {.original_max_position_embeddings = 16}).low, 0);
  const rotary::Yarn long_context{.original_max_position_embeddings = std::int64_t{1} << 40};
  EXPECT_EQ(rotary::yarn_range(10, 64, long_context).high, 63);
}

TEST(YarnRange, IsNeverEmpty) {
  const rotary::Yarn equal_betas{
      .factor = 4, .original_max_position_embeddings = 4096, .beta_fast = 1, .beta_slow = 1, .truncate = false};
  const auto step = rotary::yarn_range(1e4, 64, equal_betas);
  EXPECT_EQ(step.high, step.low + 0.001);
  for (const double frequency : rotary::yarn_frequencies(1e4, 64, equal_betas).inv_freq)
    EXPECT_TRUE(std::isfinite(frequency));
}

TEST(YarnFrequencies, DivideByTheseAmountsInQwen25_O9) {
  const auto divisors =
      ratios(rotary::default_frequencies(1e6, 128),
             rotary::yarn_frequencies(1e6, 128, {.factor = 4, .original_max_position_embeddings = 32768}));
  for (std::size_t j = 0; j <= 23; ++j) expect_close(divisors[j], 1, 1e-15);
  EXPECT_NEAR(divisors[24], 1.046154, 5e-7);
  EXPECT_NEAR(divisors[30], 1.446809, 5e-7);
  EXPECT_NEAR(divisors[39], 3.4, 5e-7);
  for (std::size_t j = 40; j < 64; ++j) expect_close(divisors[j], 4, 1e-15);
}

// beta_fast marks the pairs to keep, beta_slow those to divide. Swapped, the ramp runs backwards: the fast pairs are
// divided.
TEST(YarnFrequencies, KeepThePairsAboveBetaFastAndNotThoseBelow_F15) {
  const auto plain = rotary::default_frequencies(1e4, 128);
  const rotary::Yarn right{.factor = 4, .original_max_position_embeddings = 8192, .beta_fast = 32, .beta_slow = 1};
  const rotary::Yarn swapped{.factor = 4, .original_max_position_embeddings = 8192, .beta_fast = 1, .beta_slow = 32};
  EXPECT_LT(rotary::yarn_range(1e4, 128, right).low, rotary::yarn_range(1e4, 128, right).high);
  EXPECT_GT(rotary::yarn_range(1e4, 128, swapped).low, rotary::yarn_range(1e4, 128, swapped).high);
  EXPECT_EQ(rotary::yarn_frequencies(1e4, 128, right).inv_freq[0], plain.inv_freq[0]);
  // what transformers 5.24 makes of the swapped file
  expect_pairs(
      rotary::yarn_frequencies(1e4, 128, swapped),
      {{0, 0.25}, {1, 0.216491088}, {26, 0.00592843397}, {27, 0.00580344023}, {40, 0.00223421794}, {63, 0.000115478193}},
      3.8e-7);
}

TEST(YarnFrequencies, TakeTheRangeFromTheOriginalLengthAndNotFromTheTable_F17) {
  // DeepSeek-V3: 163,840 rows, trained at 4,096
  const rotary::Yarn right{.factor = 40, .original_max_position_embeddings = 4096};
  const rotary::Yarn from_table{.factor = 40, .original_max_position_embeddings = 163840};
  EXPECT_EQ(rotary::yarn_range(1e4, 64, right).low, 10);
  EXPECT_EQ(rotary::yarn_range(1e4, 64, from_table).low, 23);
}

TEST(YarnFrequencies, KeepTheTwoMagnitudesOfDeepSeekApart_F18) {
  const rotary::Yarn lite{.factor = 40, .original_max_position_embeddings = 4096, .mscale = 0.707, .mscale_all_dim = 0.707};
  const auto v2_lite = rotary::yarn_frequencies(1e4, 64, lite);
  EXPECT_EQ(v2_lite.amplitude, 1.0);
  expect_close(v2_lite.logit_scale, 1.5896261651208736, 1e-15);

  const rotary::Yarn full{.factor = 40, .original_max_position_embeddings = 4096, .mscale = 1, .mscale_all_dim = 1};
  const auto v3 = rotary::yarn_frequencies(1e4, 64, full);
  EXPECT_EQ(v3.amplitude, 1.0);
  expect_close(v3.logit_scale, 1.8738542070926265, 1e-15);
  expect_close(v3.logit_scale / std::sqrt(192.0), 0.1352337788608801, 1e-15);
}

// Both camps of that report are right for their own softmax: what counts is the product on the logits, amplitude^2 *
// logit_scale.
TEST(YarnFrequencies, ShowBothMagnitudesWhereTheyDiffer_F19) {
  rotary::Yarn rule{.factor = 40, .original_max_position_embeddings = 4096, .mscale = 1, .mscale_all_dim = 0.707};
  auto frequencies = rotary::yarn_frequencies(1e4, 64, rule);
  expect_close(frequencies.amplitude, 1.3688879454113936 / 1.2608037774058554, 1e-15);
  expect_close(frequencies.logit_scale, 1.5896261651208736, 1e-15);

  rule.mscale = 0;  // a lone mscale_all_dim: the derived amplitude, and the softmax factor
  frequencies = rotary::yarn_frequencies(1e4, 64, rule);
  expect_close(frequencies.amplitude, 1.3688879454113936, 1e-15);
  expect_close(frequencies.logit_scale, 1.5896261651208736, 1e-15);

  rule.mscale = 0.5;  // a lone mscale is ignored, as transformers does
  rule.mscale_all_dim = 0;
  frequencies = rotary::yarn_frequencies(1e4, 64, rule);
  expect_close(frequencies.amplitude, 1.3688879454113936, 1e-15);
  EXPECT_EQ(frequencies.logit_scale, 1.0);
}

TEST(YarnFrequencies, PreferTheGivenAttentionFactor) {
  const rotary::Yarn laguna{
      .factor = 64, .original_max_position_embeddings = 4096, .attention_factor = 1, .mscale = 2, .mscale_all_dim = 1};
  EXPECT_EQ(rotary::yarn_frequencies(5e5, 64, laguna).amplitude, 1.0);
}

TEST(YarnMscale, MatchesTheKnownMagnitudes_O9) {
  const std::vector<std::pair<double, double>> known = {{4, 1.138629},  {8, 1.207944},  {16, 1.277259}, {32, 1.346574},
                                                        {40, 1.368888}, {64, 1.415888}, {128, 1.485203}};
  for (const auto& [factor, magnitude] : known) EXPECT_NEAR(rotary::yarn_mscale(factor), magnitude, 5e-7);
  expect_close(rotary::yarn_mscale(8), 1.2079441541679836, 1e-15);
  expect_close(rotary::yarn_mscale(64), 1.4158883083359672, 1e-15);
  expect_close(rotary::yarn_mscale(4, 0.7), 1.0970406052783923, 1e-15);  // TeleChat-3
  EXPECT_EQ(rotary::yarn_mscale(1), 1.0);
  EXPECT_EQ(rotary::yarn_mscale(0.5, 3), 1.0);
}

TEST(YarnFrequencies, WithFactorOneAreTheDefaultRule) {
  const auto frequencies = rotary::yarn_frequencies(1e4, 128, {.factor = 1, .original_max_position_embeddings = 4096});
  const auto plain = rotary::default_frequencies(1e4, 128);
  for (std::size_t j = 0; j < 64; ++j) expect_close(frequencies.inv_freq[j], plain.inv_freq[j], 3e-16);
  EXPECT_EQ(frequencies.amplitude, 1.0);
}

TEST(YarnFrequencies, TakeTheKnobsOfTheOriginalCode) {
  const rotary::Yarn no_extrapolation{.factor = 4, .original_max_position_embeddings = 4096, .extrapolation_factor = 0};
  const auto all_divided = rotary::yarn_frequencies(1e4, 128, no_extrapolation);
  const auto linear = rotary::linear_frequencies(1e4, 128, 4);
  for (std::size_t j = 0; j < 64; ++j) expect_close(all_divided.inv_freq[j], linear.inv_freq[j], 1e-15);

  const rotary::Yarn louder{.factor = 4, .original_max_position_embeddings = 4096, .attn_factor = 2};
  expect_close(rotary::yarn_frequencies(1e4, 128, louder).amplitude, 2 * 1.138629436111989, 1e-15);
}

TEST(YarnFrequencies, RefuseBadNumbers) {
  const auto refused = [](rotary::Yarn rule, const char* words) {
    expect_refused([&] { rotary::yarn_frequencies(1e4, 64, rule); }, words);
  };
  refused({.factor = 4}, "original_max_position_embeddings must be at least 1");
  refused({.factor = 0, .original_max_position_embeddings = 4096}, "factor must be finite and positive");
  refused({.factor = -4, .original_max_position_embeddings = 4096}, "factor must be finite and positive");
  refused({.factor = nan, .original_max_position_embeddings = 4096}, "factor must be finite and positive");
  refused({.factor = 4, .original_max_position_embeddings = 4096, .beta_fast = 0}, "beta_fast must be finite and positive");
  refused({.factor = 4, .original_max_position_embeddings = 4096, .beta_slow = nan},
          "beta_slow must be finite and positive");
  refused({.factor = 4, .original_max_position_embeddings = 4096, .attention_factor = -1}, "attention_factor must be");
  refused({.factor = 4, .original_max_position_embeddings = 4096, .mscale = nan}, "mscale must be");
  refused({.factor = 4, .original_max_position_embeddings = 4096, .mscale_all_dim = -1}, "mscale_all_dim must be");
  refused({.factor = 4, .original_max_position_embeddings = 4096, .extrapolation_factor = 1.5},
          "extrapolation_factor must be");
  refused({.factor = 4, .original_max_position_embeddings = 4096, .attn_factor = 0}, "attn_factor must be");
  expect_refused([] { rotary::yarn_frequencies(1, 64, {.factor = 4, .original_max_position_embeddings = 4096}); },
                 "base must be above 1");
}

TEST(DynamicYarn, TakesTheFactorFromTheLength) {
  const rotary::DynamicYarn rule{1e4, 128, {.original_max_position_embeddings = 4096}};
  const auto plain = rotary::default_frequencies(1e4, 128);
  const auto trained = rule.at(4096);
  for (std::size_t j = 0; j < 64; ++j) expect_close(trained.inv_freq[j], plain.inv_freq[j], 3e-16);
  EXPECT_EQ(rule.at(4096 * 32),
            rotary::yarn_frequencies(1e4, 128, {.factor = 32, .original_max_position_embeddings = 4096}));
  expect_refused([&] { rule.at(-1); }, "length must not be negative");
  expect_refused([] { rotary::DynamicYarn{1e4, 128, {}}.at(1); }, "original_max_position_embeddings must be at least 1");
}

// ---- LongRoPE -----------------------------------------------------------------------------------------------------------

rotary::LongRope small_longrope() {
  return {.base = 1e4,
          .rotary_dim = 4,
          .short_factor = {1, 2},
          .long_factor = {4, 8},
          .original_max_position_embeddings = 4096,
          .max_position_embeddings = 131072};
}

TEST(LongRope, ChangesListsBeyondTheOriginalLength) {
  const auto rule = small_longrope();
  expect_pairs(rule.at(0), {{0, 1}, {1, 0.005}}, 1e-15);
  expect_pairs(rule.at(4096), {{0, 1}, {1, 0.005}}, 1e-15);
  expect_pairs(rule.at(4097), {{0, 0.25}, {1, 0.00125}}, 1e-15);
  expect_pairs(rule.at(131072), {{0, 0.25}, {1, 0.00125}}, 1e-15);
}

TEST(LongRope, DerivesTheAmplitudeForBothLists_O11) {
  auto rule = small_longrope();
  expect_close(rule.at(1).amplitude, 1.1902380714238083, 1e-15);
  expect_close(rule.at(8192).amplitude, 1.1902380714238083, 1e-15);
  rule.original_max_position_embeddings = 8192;  // Phi-3-small-128k
  expect_close(rule.at(1).amplitude, 1.1435437497937313, 1e-15);
  rule.factor = 32;  // a given factor wins over the lengths
  expect_close(rule.at(1).amplitude, std::sqrt(1 + 5.0 / 13.0), 1e-15);
  rule.factor = 1;
  EXPECT_EQ(rule.at(1).amplitude, 1.0);
}

TEST(LongRope, PrefersTheGivenAmplitudes) {
  auto rule = small_longrope();
  rule.attention_factor = 1.5;
  EXPECT_EQ(rule.at(1).amplitude, 1.5);
  rule.max_position_embeddings = 0;  // nothing is left to derive
  EXPECT_EQ(rule.at(1).amplitude, 1.5);
  rule.short_mscale = 1.1;
  rule.long_mscale = 1.243163121016122;  // Phi-3.5-MoE
  EXPECT_EQ(rule.at(4096).amplitude, 1.1);
  EXPECT_EQ(rule.at(4097).amplitude, 1.243163121016122);
}

TEST(LongRope, RefusesBadNumbers) {
  const auto refused = [](auto change, const char* words) {
    auto rule = small_longrope();
    change(rule);
    expect_refused([&] { rule.at(1); }, words);
    expect_refused([&] { rotary::FrequencyRule{rule}; }, words);
  };
  refused([](auto& r) { r.short_factor.pop_back(); }, "short_factor must have rotary_dim / 2 entries, got 1");
  refused([](auto& r) { r.long_factor.clear(); }, "long_factor must have rotary_dim / 2 entries, got 0");
  refused([](auto& r) { r.long_factor[1] = 0; }, "long_factor must hold finite positive divisors, got 0 for pair 1");
  refused([](auto& r) { r.short_factor[0] = nan; }, "short_factor must hold finite positive divisors");
  refused([](auto& r) { r.original_max_position_embeddings = 0; }, "original_max_position_embeddings must be at least 1");
  refused([](auto& r) { r.original_max_position_embeddings = 1; }, "original_max_position_embeddings must be at least 2");
  refused([](auto& r) { r.max_position_embeddings = 0; }, "max_position_embeddings (or factor, or attention_factor)");
  refused([](auto& r) { r.factor = -1; }, "factor must be finite and positive, or 0");
  refused([](auto& r) { r.attention_factor = nan; }, "attention_factor must be");
  refused([](auto& r) { r.long_mscale = -1; }, "long_mscale must be");
  refused([](auto& r) { r.rotary_dim = 3; }, "rotary_dim must be even");
  refused([](auto& r) { r.base = 0; }, "base must be finite");
  expect_refused([] { small_longrope().at(-1); }, "length must not be negative");
}

// ---- llama3 -------------------------------------------------------------------------------------------------------------

TEST(Llama3Frequencies, MatchLlama31And32) {
  expect_pairs(rotary::llama3_frequencies(5e5, 128, {8, 1, 4, 8192}), exact::llama31);
  expect_pairs(rotary::llama3_frequencies(5e5, 64, {32, 1, 4, 8192}), exact::llama32_1b);
}

TEST(Llama3Frequencies, AreTheScaledOnesAndNotThoseComputedOnTheWay_F1) {
  const auto divisors =
      ratios(rotary::default_frequencies(5e5, 128), rotary::llama3_frequencies(5e5, 128, {8, 1, 4, 8192}));
  for (std::size_t j = 0; j <= 28; ++j) EXPECT_EQ(divisors[j], 1.0);
  const std::vector<double> blended = {1.207484, 1.553415, 2.026313, 2.694530, 3.684253, 5.257327};
  for (std::size_t i = 0; i < blended.size(); ++i) EXPECT_NEAR(divisors[29 + i], blended[i], 5e-7);
  for (std::size_t j = 35; j < 64; ++j) EXPECT_EQ(divisors[j], 8.0);
}

TEST(Llama3Frequencies, DivideByTheseAmountsInLlama32_O8) {
  const auto divisors = ratios(rotary::default_frequencies(5e5, 64), rotary::llama3_frequencies(5e5, 64, {32, 1, 4, 8192}));
  for (std::size_t j = 0; j <= 14; ++j) EXPECT_EQ(divisors[j], 1.0);
  EXPECT_NEAR(divisors[15], 1.651329, 5e-7);
  EXPECT_NEAR(divisors[16], 3.292262, 5e-7);
  EXPECT_NEAR(divisors[17], 9.666729, 5e-7);
  for (std::size_t j = 18; j < 32; ++j) EXPECT_EQ(divisors[j], 32.0);
}

TEST(Llama3Frequencies, CutHardWhereBothFactorsAreEqual) {
  const auto scout = rotary::llama3_frequencies(5e5, 128, {16, 1, 1, 8192});
  expect_pairs(scout, {{34, 9.384738703573802e-4}, {35, 4.7781061769823416e-5}}, 1e-14);
  for (const double frequency : scout.inv_freq) EXPECT_TRUE(std::isfinite(frequency));
}

// Base 1: every pair turns once in 2 pi positions.
TEST(Llama3Frequencies, KeepAPairExactlyOnTheEdgeOfAnEmptyBlend) {
  const double turns = 6 / (2 * std::numbers::pi);
  EXPECT_EQ(rotary::llama3_frequencies(1, 4, {16, turns, turns, 6}).inv_freq[0], 1.0);
  const double above = std::nextafter(turns, 2.0);
  EXPECT_EQ(rotary::llama3_frequencies(1, 4, {16, above, above, 6}).inv_freq[0], 1.0 / 16);
}

TEST(Llama3Frequencies, WithFactorOneAreTheDefaultRule) {
  const auto frequencies = rotary::llama3_frequencies(5e5, 128, {1, 1, 4, 8192});
  const auto plain = rotary::default_frequencies(5e5, 128);
  for (std::size_t j = 0; j < 64; ++j) expect_close(frequencies.inv_freq[j], plain.inv_freq[j], 3e-16);
}

TEST(Llama3Frequencies, RefuseBadNumbers) {
  const auto refused = [](rotary::Llama3 rule, const char* words) {
    expect_refused([&] { rotary::llama3_frequencies(5e5, 128, rule); }, words);
  };
  refused({0, 1, 4, 8192}, "factor must be finite and positive");
  refused({8, 0, 4, 8192}, "low_freq_factor must be finite and positive");
  refused({8, 1, nan, 8192}, "high_freq_factor must be finite and positive");
  refused({8, 4, 1, 8192}, "high_freq_factor must not be below low_freq_factor, got 1 and 4");
  refused({8, 1, 4, 0}, "original_max_position_embeddings must be at least 1");
}

// ---- pictures and video ------------------------------------------------------------------------------------------------

TEST(AxialFrequencies, MatchVisionTowers) {
  const auto qwen = rotary::axial_frequencies(1e4, {40, 40});
  ASSERT_EQ(qwen.inv_freq.size(), 40u);
  expect_pairs(qwen, {{0, 1}, {19, 1.5848931924611142e-4}, {20, 1}, {39, 1.5848931924611142e-4}}, 1e-14);
  const auto llama4 = rotary::axial_frequencies(1e4, {44, 44});
  expect_pairs(llama4, {{1, 0.657933224657568}, {21, 1.519911082952933e-4}, {22, 1}, {23, 0.657933224657568}}, 1e-14);
}

TEST(AxialFrequencies, GiveEachAxisItsOwnWidth) {
  const auto flux = rotary::axial_frequencies(1e4, {16, 56, 56});
  ASSERT_EQ(flux.inv_freq.size(), 64u);
  EXPECT_EQ(flux.inv_freq[1], rotary::default_frequencies(1e4, 16).inv_freq[1]);
  EXPECT_EQ(flux.inv_freq[8 + 1], rotary::default_frequencies(1e4, 56).inv_freq[1]);
  expect_refused([] { rotary::axial_frequencies(1e4, {}); }, "at least one axis");
  expect_refused([] { rotary::axial_frequencies(1e4, {16, 3}); }, "each of axis_dims must be even");
  expect_refused([] { rotary::axial_frequencies(1e4, {1 << 20, 1 << 20}); }, "the sum of axis_dims");
}

TEST(AxialFrequencies, SplitTheHeadOfWanByThirds) {
  EXPECT_EQ(rotary::wan_axis_dims(128), (std::vector<std::int64_t>{44, 42, 42}));
  expect_refused([] { rotary::wan_axis_dims(4); }, "head_dim must be at least 6");
}

TEST(PixtralFrequencies, DealEvenEntriesToRowsAndOddOnesToColumns) {
  const auto frequencies = rotary::pixtral_frequencies(1e4, 64);
  expect_pairs(frequencies, {{0, 1}, {1, 0.5623413252}, {15, 1.7782794100e-4}, {16, 0.7498942093}, {31, 1.3335214322e-4}},
               1e-10);
  expect_refused([] { rotary::pixtral_frequencies(1e4, 66); }, "multiple of 4");
}

TEST(MoonvitFrequencies, RepeatEachFrequencyForBothAxes) {
  expect_pairs(rotary::moonvit_frequencies(1e4, 16), {{0, 1}, {1, 1}, {2, 0.1}, {3, 0.1}, {6, 1e-3}, {7, 1e-3}});
}

TEST(DinoV3Frequencies, AreTwoPiOverThePeriods) {
  const auto frequencies = rotary::dinov3_frequencies(64);
  ASSERT_EQ(frequencies.inv_freq.size(), 32u);
  expect_pairs(frequencies,
               {{0, 2 * std::numbers::pi},
                {1, 2 * std::numbers::pi / 1.333521432163324},
                {15, 2 * std::numbers::pi / 74.98942093324558},
                {16, 2 * std::numbers::pi}},
               1e-14);
  const double first_center = -0.9285714285714286;
  expect_close(first_center * frequencies.inv_freq[0], -5.834386356666759, 1e-14);
  expect_close(first_center * frequencies.inv_freq[15], -0.07780279250136414, 1e-14);
}

TEST(DinoV3Frequencies, RunBetweenGivenPeriods) {
  const auto frequencies = rotary::dinov3_frequencies(16, {.min_period = 1, .max_period = 8});
  expect_pairs(frequencies, {{0, 2 * std::numbers::pi}, {1, std::numbers::pi}, {3, std::numbers::pi / 4}}, 1e-14);
  expect_refused([] { rotary::dinov3_frequencies(16, {.min_period = 1}); }, "must be given together");
  expect_refused([] { rotary::dinov3_frequencies(64, {.base = 0}); }, "base must be finite");
  expect_refused([] { rotary::dinov3_frequencies(66); }, "multiple of 4");
}

// ---- any rule ---------------------------------------------------------------------------------------------------------

TEST(FrequencyRule, HoldsFixedFrequenciesWhateverTheLength) {
  const rotary::FrequencyRule rule = rotary::default_frequencies(1e4, 64);
  EXPECT_FALSE(rule.depends_on_length());
  EXPECT_EQ(rule.at(1), rotary::default_frequencies(1e4, 64));
  EXPECT_EQ(rule.at(1 << 20), rotary::default_frequencies(1e4, 64));
}

TEST(FrequencyRule, AsksRulesThatDependOnTheLength) {
  const rotary::DynamicNtk dynamic{1e4, 64, 2, 2048};
  const rotary::QwenDynamicNtk qwen{1e4, 64, 2048};
  const rotary::DynamicYarn yarn{1e4, 64, {.original_max_position_embeddings = 2048}};
  const rotary::LongRope longrope = small_longrope();
  for (const std::int64_t length : {0, 2048, 2049, 5000, 100000}) {
    EXPECT_EQ(rotary::FrequencyRule(dynamic).at(length), dynamic.at(length));
    EXPECT_EQ(rotary::FrequencyRule(qwen).at(length), qwen.at(length));
    EXPECT_EQ(rotary::FrequencyRule(yarn).at(length), yarn.at(length));
    EXPECT_EQ(rotary::FrequencyRule(longrope).at(length), longrope.at(length));
  }
  EXPECT_TRUE(rotary::FrequencyRule(dynamic).depends_on_length());
  EXPECT_TRUE(rotary::FrequencyRule(longrope).depends_on_length());
}

TEST(FrequencyRule, HasNoPairsUnlessGivenSome) {
  const rotary::FrequencyRule nothing;
  EXPECT_FALSE(nothing.depends_on_length());
  EXPECT_TRUE(nothing.at(1).inv_freq.empty());
}

}  // namespace
