// The central type: what it accepts, what it refuses, and what it derives.
#include "rotary/rotation.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "rotary/frequencies.hpp"
#include "support/error_sentence.h"

namespace {

using rotary::expect_refused;
using rotary::Pair;
using rotary::Pairing;
using rotary::Rotation;
using rotary::RotationSpec;

/// A head of 8 of which the first 4 channels turn.
RotationSpec small_spec() { return {.head_dim = 8, .rotary_dim = 4, .pairing_in = Pairing::half, .inv_freq = {1, 0.1}}; }

template <class Change>
void expect_spec_refused(const Change& change, const std::string& words) {
  RotationSpec spec = small_spec();
  change(spec);
  expect_refused([&] { Rotation{spec}; }, words);
}

TEST(Rotation, KeepsWhatItWasGiven) {
  RotationSpec spec = small_spec();
  spec.rotary_offset = 2;
  spec.axis = {1, 0};
  spec.amplitude = 1.25;
  spec.direction = -1;
  spec.pairing_out = Pairing::interleaved;
  const Rotation rotation(spec);
  EXPECT_EQ(rotation.head_dim(), 8);
  EXPECT_EQ(rotation.rotary_dim(), 4);
  EXPECT_EQ(rotation.rotary_offset(), 2);
  EXPECT_EQ(rotation.num_pairs(), 2);
  EXPECT_EQ(rotation.num_axes(), 2);
  EXPECT_EQ(rotation.pairing_in(), Pairing::half);
  EXPECT_EQ(rotation.pairing_out(), Pairing::interleaved);
  EXPECT_EQ(rotation.amplitude(), 1.25);
  EXPECT_EQ(rotation.direction(), -1);
  EXPECT_EQ(rotation.inv_freq(), (std::vector<double>{1, 0.1}));
  EXPECT_EQ(rotation.axis(), (std::vector<std::uint8_t>{1, 0}));
  EXPECT_EQ(rotation.max_abs_inv_freq(), 1.0);
}

TEST(Rotation, FillsInTheWidthTheAxesAndThePairingOfTheOutput) {
  const Rotation rotation({.head_dim = 6, .pairing_in = Pairing::interleaved, .inv_freq = {1, 0.5, 0.25}});
  EXPECT_EQ(rotation.rotary_dim(), 6);
  EXPECT_EQ(rotation.axis(), (std::vector<std::uint8_t>{0, 0, 0}));
  EXPECT_EQ(rotation.num_axes(), 1);
  EXPECT_EQ(rotation.pairing_out(), Pairing::interleaved);
}

TEST(Rotation, NamesTheChannelsOfEveryPair) {
  RotationSpec spec = small_spec();
  spec.rotary_offset = 3;
  EXPECT_EQ(Rotation(spec).pairs_in(), (std::vector<Pair>{{3, 5}, {4, 6}}));
  spec.pairing_in = Pairing::interleaved;
  EXPECT_EQ(Rotation(spec).pairs_in(), (std::vector<Pair>{{3, 4}, {5, 6}}));
  spec.pairing_out = Pairing::half;  // DeepSeek-V3 reads neighbours and writes halves
  EXPECT_EQ(Rotation(spec).pairs_in(), (std::vector<Pair>{{3, 4}, {5, 6}}));
  EXPECT_EQ(Rotation(spec).pairs_out(), (std::vector<Pair>{{3, 5}, {4, 6}}));
}

TEST(Rotation, TakesPairsOneByOne) {
  RotationSpec spec = small_spec();
  spec.pairing_in = Pairing::listed;
  spec.pairs_in = {{7, 0}, {2, 5}};
  const Rotation rotation(spec);
  EXPECT_EQ(rotation.pairs_in(), spec.pairs_in);
  EXPECT_EQ(rotation.pairs_out(), spec.pairs_in);
  EXPECT_EQ(rotation.pairing_out(), Pairing::listed);

  spec.pairing_out = Pairing::listed;
  spec.pairs_out = {{0, 2}, {5, 7}};
  EXPECT_EQ(Rotation(spec).pairs_out(), spec.pairs_out);
}

TEST(Rotation, AcceptsPairsThatStandStill) {
  RotationSpec spec = small_spec();
  spec.inv_freq = {0, 0};
  EXPECT_EQ(Rotation(spec).max_abs_inv_freq(), 0.0);
  EXPECT_EQ(Rotation(spec).turns_hi(), (std::vector<double>{0, 0}));
}

TEST(Rotation, NeverGuessesThePairing_L2) {
  expect_spec_refused([](auto& s) { s.pairing_in = Pairing::unspecified; },
                      "pairing_in must be half, interleaved or listed");
}

TEST(Rotation, RefusesASliceThatDoesNotFit) {
  expect_spec_refused([](auto& s) { s.head_dim = 0; }, "head_dim must be at least 1, got 0");
  expect_spec_refused([](auto& s) { s.head_dim = -8; }, "head_dim must be at least 1, got -8");
  expect_spec_refused([](auto& s) { s.rotary_dim = 3; }, "rotary_dim must be even, at least 2 and at most head_dim, got 3");
  expect_spec_refused([](auto& s) { s.rotary_dim = 10; }, "at most head_dim, got 10 and 8");
  expect_spec_refused([](auto& s) { s.rotary_dim = -4; }, "rotary_dim must be even, at least 2");
  expect_spec_refused([](auto& s) { s.rotary_dim = 6; },
                      "inv_freq must have rotary_dim / 2 entries, got 2 for rotary_dim 6");
  expect_spec_refused([](auto& s) { s.rotary_dim = 0, s.inv_freq.clear(); }, "rotary_dim must be even, at least 2");
  expect_spec_refused([](auto& s) { s.rotary_offset = 5; }, "rotary_offset must leave rotary_dim channels of head_dim");
  expect_spec_refused([](auto& s) { s.rotary_offset = -1; }, "rotary_offset must leave");
  expect_spec_refused([](auto& s) { s.rotary_offset = std::numeric_limits<std::int64_t>::max(); },
                      "rotary_offset must leave");
}

TEST(Rotation, RefusesNumbersThatAreNoAngles) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {nan, infinity, -infinity}) {
    expect_spec_refused([&](auto& s) { s.inv_freq[1] = bad; }, "inv_freq must be finite and at most 2^60");
    expect_spec_refused([&](auto& s) { s.amplitude = bad; }, "amplitude must be finite and positive");
  }
  for (const double bad : {0x1.0000000000001p60, -0x1p61, 1e300, -1e308}) {  // products in two doubles overflow near 1e300
    expect_spec_refused([&](auto& s) { s.inv_freq[1] = bad; }, "inv_freq must be finite and at most 2^60 in size, got ");
  }
  expect_spec_refused([](auto& s) { s.amplitude = 0; }, "amplitude must be finite and positive, got 0");
  expect_spec_refused([](auto& s) { s.amplitude = -1; }, "amplitude must be finite and positive, got -1");
  expect_spec_refused([](auto& s) { s.direction = 0; }, "direction must be 1 or -1, got 0");
  expect_spec_refused([](auto& s) { s.direction = 2; }, "direction must be 1 or -1, got 2");
}

TEST(Rotation, RefusesAxesThatDoNotMatchThePairs) {
  expect_spec_refused([](auto& s) { s.axis = {0}; }, "axis must have one entry per pair, got 1 for 2 pairs");
  expect_spec_refused([](auto& s) { s.axis = {0, 0, 0}; }, "axis must have one entry per pair");
  expect_spec_refused([](auto& s) { s.axis = {0, 8}; }, "axis must stay below 8, got 8");
}

TEST(Rotation, RefusesListsThatAreNoPairing) {
  const auto listed = [](RotationSpec& spec, std::vector<Pair> pairs) {
    spec.pairing_in = Pairing::listed;
    spec.pairs_in = std::move(pairs);
  };
  expect_spec_refused(
      [&](auto& s) {
        listed(s, {{0, 1}});
      },
      "pairs_in must list one pair per entry of inv_freq, got 1 and 2");
  expect_spec_refused([&](auto& s) { listed(s, {}); }, "pairs_in must list one pair per entry of inv_freq, got 0 and 2");
  expect_spec_refused(
      [&](auto& s) {
        listed(s, {{0, 1}, {2, 8}});
      },
      "pairs_in must name channels below head_dim, got 8 and 8");
  expect_spec_refused([&](auto& s) { listed(s, {{0, 1}, {-1, 2}}); }, "pairs_in must name channels below head_dim, got -1");
  expect_spec_refused([&](auto& s) { listed(s, {{0, 1}, {2, 0}}); }, "pairs_in must name no channel twice, got 0");
  expect_spec_refused([&](auto& s) { listed(s, {{0, 1}, {2, 2}}); }, "pairs_in must name no channel twice, got 2");
  expect_spec_refused([](auto& s) { s.pairs_in = {{0, 1}, {2, 3}}; }, "pairs_in belongs to the pairing `listed`, got half");
  expect_spec_refused(
      [](auto& s) {
        s.pairing_out = Pairing::half, s.pairs_out = {{0, 1}, {2, 3}};
      },
      "pairs_out belongs to the pairing `listed`, got half");
}

TEST(Rotation, NeedsNoMemoryForTheChannelsThatStayPut) {
  RotationSpec spec = small_spec();
  spec.head_dim = std::int64_t{1} << 60;
  spec.pairing_in = Pairing::listed;
  spec.pairs_in = {{0, 1}, {spec.head_dim - 1, 2}};
  EXPECT_EQ(Rotation(spec).pairs_in(), spec.pairs_in);
}

TEST(Rotation, WritesTheChannelsThatItReads) {
  expect_spec_refused(
      [](auto& s) {
        s.pairing_out = Pairing::listed;
        s.pairs_out = {{4, 5}, {6, 7}};
      },
      "pairs_in and pairs_out must use the same channels");
}

TEST(Rotation, CarriesTheAmplitudeWhateverThePairing_F22) {
  const auto frequencies = rotary::yarn_frequencies(1e4, 8, {.factor = 64, .original_max_position_embeddings = 4096});
  for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
    const Rotation rotation(
        {.head_dim = 8, .pairing_in = pairing, .inv_freq = frequencies.inv_freq, .amplitude = frequencies.amplitude});
    EXPECT_EQ(rotation.amplitude(), frequencies.amplitude);
    EXPECT_NEAR(rotation.amplitude(), 1.416, 0.0005);
  }
}

/// inv_freq / (2 pi) as the sum of three doubles, from 400-bit arithmetic (mpmath).
struct Turns {
  double inv_freq, first, second, third;
};

TEST(Rotation, DividesByTwoPiToOneHundredAndFourBits) {
  const std::vector<Turns> expected = {
      {0x1.0000000000000p+0, 0x1.45f306dc9c883p-3, -0x1.6b01ec5417056p-57, -0x1.6447e493ad4cep-111},
      {0x1.999999999999ap-4, 0x1.04c26be3b06cfp-6, 0x1.5e4e90da6f37ap-61, 0x1.37c12d67e4581p-117},
      {0x1.a115829457fbep-1, 0x1.098620af9a8a7p-3, 0x1.9ee7c26e01a35p-57, 0x1.bf481d361d06cp-111},
      {0x1.4d1c97f4e952fp-20, 0x1.a82187fbe580bp-23, 0x1.9c18bf23bb130p-78, 0x1.88f48fb4eb9f0p-133},
      {0x1.17a8e301c4436p-13, 0x1.6412e4ffae4bap-16, -0x1.850a1d7161d7ep-73, -0x1.1749f7e253691p-127},
      {0x1.921fb54442d18p+1, 0x1.0000000000000p-1, -0x1.678afae35cdd1p-56, 0x1.3d4cda9cb7107p-112},
      {0x1.921fb54442d18p+2, 0x1.0000000000000p+0, -0x1.678afae35cdd1p-55, 0x1.3d4cda9cb7107p-111},
      {0x1.5555555555555p-2, 0x1.b2995e7b7b603p-5, 0x1.a590445197b7bp-61, -0x1.31752bfdcc27cp-115},
      {0x1.c0b3333333333p+8, 0x1.1da6bb103c945p+6, 0x1.542f4eca1f9ffp-49, -0x1.d875ababf76ebp-103},
      {0x1.ad7f29abcaf48p-24, 0x1.116d158f60ccfp-26, -0x1.a1f949294a610p-80, -0x1.46b1a016229e3p-136},
      {0x1.4985fec808782p-22, 0x1.a38fef79e73d2p-25, -0x1.148dae522d62ep-79, 0x1.1def5730a365bp-133},
      {-0x1.0000000000000p-2, -0x1.45f306dc9c883p-5, 0x1.6b01ec5417056p-59, 0x1.6447e493ad4cep-113},
      {0x1.c6bf526340000p+49, 0x1.21804bb1c96ebp+47, -0x1.0586749c66e14p-7, -0x1.c3f994844bcdap-61},
      {0x1.4484bfeebc2a0p-100, 0x1.9d309a5f09800p-103, -0x1.dae947acd8742p-157, 0x1.7300b71bff55dp-213},
      {0x1.6e93f5da2824cp-831, 0x1.d2bdd763b21a5p-834, -0x1.f529d862336c2p-889, -0x1.333177ea1d958p-943},
      {0x1.fffffffffffffp-1, 0x1.45f306dc9c882p-3, 0x1.2300be55fd48cp-62, -0x1.c8817d6fe841bp-116},
      {0x1.0000000000001p+3, 0x1.45f306dc9c884p+0, -0x1.4cd743869392fp-56, -0x1.04f95e409626fp-112},
  };
  for (const Turns& turns : expected) {
    SCOPED_TRACE(turns.inv_freq);
    const Rotation rotation({.head_dim = 2, .pairing_in = Pairing::half, .inv_freq = {turns.inv_freq}});
    const double hi = rotation.turns_hi()[0], lo = rotation.turns_lo()[0];
    // the first difference is exact, the others far below the bound
    const double error = (hi - turns.first) + (lo - turns.second) - turns.third;
    EXPECT_LE(std::abs(error), std::ldexp(std::abs(turns.first), -104));
    EXPECT_EQ(hi + lo, hi) << "lo must be below half an ulp of hi";
  }
}

TEST(WithPairing, ChangesThePairsAndNothingElse) {
  const Rotation half({.head_dim = 12,
                       .rotary_offset = 2,
                       .pairing_in = Pairing::half,
                       .inv_freq = {1, 0.5, 0.25},
                       .axis = {0, 1, 0},
                       .amplitude = 1.5,
                       .direction = -1,
                       .ggml_divisors = {1, 2, 8}});
  const Rotation interleaved = with_pairing(half, Pairing::interleaved);
  EXPECT_EQ(interleaved.pairs_in(), (std::vector<rotary::Pair>{{2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(interleaved.pairs_out(), interleaved.pairs_in());
  EXPECT_EQ(interleaved.inv_freq(), half.inv_freq());
  EXPECT_EQ(interleaved.axis(), half.axis());
  EXPECT_EQ(interleaved.head_dim(), 12);
  EXPECT_EQ(interleaved.amplitude(), 1.5);
  EXPECT_EQ(interleaved.direction(), -1);
  EXPECT_EQ(interleaved.ggml_divisors(), half.ggml_divisors());
  EXPECT_EQ(with_pairing(interleaved, Pairing::half).pairs_in(), half.pairs_in());

  EXPECT_THROW(with_pairing(half, Pairing::listed), rotary::Error);
  EXPECT_THROW(with_pairing(half, Pairing::unspecified), rotary::Error);
  const Rotation listed({.head_dim = 4, .pairing_in = Pairing::listed, .inv_freq = {1}, .pairs_in = {{0, 3}}});
  EXPECT_THROW(with_pairing(listed, Pairing::half), rotary::Error);
}

TEST(PairingName, IsTheOneThatFilesUse) {
  EXPECT_STREQ(rotary::name(Pairing::half), "half");
  EXPECT_STREQ(rotary::name(Pairing::interleaved), "interleaved");
  EXPECT_STREQ(rotary::name(Pairing::listed), "listed");
  EXPECT_STREQ(rotary::name(Pairing::unspecified), "unspecified");
}

}  // namespace
