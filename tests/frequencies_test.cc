// Frequency rules against values computed in double from the formulas, written down independently of this code, and against
// the arrays that the original implementations print. Numbers have 12 digits, hence the tolerance of 1e-11.
#include "rotary/frequencies.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "rotary/error.hpp"

namespace {

using rotary::Frequencies;

using PairValue = std::pair<std::size_t, double>;

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

template <class Call>
void expect_refused(const Call& call, const std::string& words) {
  try {
    call();
    FAIL() << "accepted; expected a refusal with \"" << words << '"';
  } catch (const rotary::Error& error) {
    EXPECT_EQ(error.code(), rotary::ErrorCode::invalid_argument);
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

const double nan = std::numeric_limits<double>::quiet_NaN();
const double infinity = std::numeric_limits<double>::infinity();

// ---- default and linear ----

TEST(DefaultFrequencies, FallInEqualRatiosFromOneDownToNearlyOneOverBase) {
  const auto frequencies = rotary::default_frequencies(1e4, 64);
  ASSERT_EQ(frequencies.inv_freq.size(), 32u);
  EXPECT_EQ(frequencies.inv_freq[0], 1.0);
  expect_pairs(frequencies, {{31, 1.33352143216e-4}});
  EXPECT_EQ(frequencies.amplitude, 1.0);
  EXPECT_EQ(frequencies.logit_scale, 1.0);
}

TEST(DefaultFrequencies, MatchReleasedModels) {
  expect_pairs(rotary::default_frequencies(5e6, 64), {{1, 0.617528758126}, {31, 3.23871556374e-7}});     // MiniMax-M2
  expect_pairs(rotary::default_frequencies(1e4, 24), {{11, 2.15443469003e-4}});                          // GPT-NeoX-20B
  expect_pairs(rotary::default_frequencies(160000, 64), {{1, 0.687656021934}, {31, 9.08884645906e-6}});  // ModernBERT
}

TEST(DefaultFrequencies, TakeTheExponentFromTheRotaryWidth_L7) {
  expect_pairs(rotary::default_frequencies(1e7, 64), {{1, 0.604296}, {8, 0.0177828}}, 1e-6);
  // the width of the whole head would give these
  expect_pairs(rotary::default_frequencies(1e7, 256), {{1, 0.881683}, {8, 0.365174}}, 1e-6);
}

TEST(LinearFrequencies, MatchGemma3) {
  expect_pairs(rotary::linear_frequencies(1e6, 256, 8),
               {{0, 0.125}, {1, 0.112210891556}, {64, 1.25e-4}, {127, 1.39246732499e-7}});
  expect_pairs(rotary::linear_frequencies(1e6, 128, 8), {{63, 1.55117220094e-7}});
}

TEST(Llama3Frequencies, MatchLlama31And32) {
  expect_pairs(rotary::llama3_frequencies(5e5, 128, {8, 1, 4, 8192}), {{0, 1},
                                                                       {1, 0.814617233857},
                                                                       {28, 3.21144599475e-3},
                                                                       {29, 2.1665707635e-3},
                                                                       {30, 1.37189356776e-3},
                                                                       {31, 8.5675141292e-4},
                                                                       {32, 5.24846160993e-4},
                                                                       {33, 3.12693750384e-4},
                                                                       {34, 1.78507812768e-4},
                                                                       {35, 9.55621235396e-5},
                                                                       {40, 3.42810219595e-5},
                                                                       {63, 3.06892598891e-7}});
  expect_pairs(rotary::llama3_frequencies(5e5, 64, {32, 1, 4, 8192}), {{13, 4.83942134572e-3},
                                                                       {14, 3.21144599475e-3},
                                                                       {15, 1.29054792821e-3},
                                                                       {16, 4.29556796559e-4},
                                                                       {17, 9.70828780263e-5},
                                                                       {18, 1.94616381848e-5},
                                                                       {31, 9.41830672543e-8}});
}

TEST(YarnFrequencies, MatchQwen25) {
  const rotary::Yarn rule{.factor = 4, .original_max_position_embeddings = 32768};
  const auto frequencies = rotary::yarn_frequencies(1e6, 128, rule);
  expect_pairs(frequencies, {{22, 8.6596432336e-3},
                             {23, 6.9783058486e-3},
                             {24, 5.37532149079e-3},
                             {31, 8.02959727545e-4},
                             {39, 6.49039432084e-5},
                             {40, 4.4456985251e-5},
                             {41, 3.58253142559e-5},
                             {63, 3.10234440188e-7}});
  expect_close(frequencies.amplitude, 1.138629436111989, 1e-15);
  EXPECT_EQ(frequencies.logit_scale, 1.0);
}

TEST(DynamicNtk, MatchesInternLM2) {
  const rotary::DynamicNtk rule{1e6, 128, 2, 32768};
  EXPECT_EQ(rule.at(1), rotary::default_frequencies(1e6, 128));
  EXPECT_EQ(rule.at(32768), rotary::default_frequencies(1e6, 128));
  expect_pairs(rule.at(65536), {{63, 4.136459202505732e-7}}, 1e-14);
  expect_pairs(rule.at(131072), {{63, 1.772768229645314e-7}}, 1e-14);
}

}  // namespace
