#include "rotary/angles.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "reference/angles.h"
#include "rotary/frequencies.hpp"
#include "rotary/tensor_file.hpp"
#include "support/error_sentence.h"
#include "support/turning.h"
#include "support/ulp.h"

namespace rotary {
namespace {

Rotation rope(double base, std::int64_t rotary_dim) { return turning(default_frequencies(base, rotary_dim).inv_freq); }

template <class T>
struct Row {
  std::vector<T> cos, sin;
};

template <class T>
Row<T> row_at(const Rotation& rotation, const double* position) {
  const auto n = static_cast<std::size_t>(rotation.num_pairs());
  Row<T> row{std::vector<T>(n), std::vector<T>(n)};
  angles(rotation, position, row.cos.data(), row.sin.data());
  return row;
}

template <class T>
Row<T> row_at(const Rotation& rotation, double position) {
  return row_at<T>(rotation, &position);
}

Row<float> replay_at(const Rotation& rotation, double position, Precision precision) {
  const auto n = static_cast<std::size_t>(rotation.num_pairs());
  Row<float> row{std::vector<float>(n), std::vector<float>(n)};
  angles(rotation, &position, row.cos.data(), row.sin.data(), precision);
  return row;
}

template <class T>
const T* values(const TensorFile& file, const char* tensor) {
  return static_cast<const T*>(file.at(tensor).data);
}

/// What docs/angles.md proves: 1/2 for the one rounding, 2^-13.6 for the polynomial, 2^-15 for the reduction.
constexpr double proven_float_ulp = 0.5002;
constexpr double floor_of_float_ulp = 0x1p-30;

// ---- against exact arithmetic

class AnglesFromMpmath : public testing::Test {
 protected:
  TensorFile file{ROTARY_TEST_DATA "/angles/angles.safetensors"};
  std::int64_t count = file.at("position").shape[0];
  const double* position = values<double>(file, "position");
  const double* inv_freq = values<double>(file, "inv_freq");

  DoubleDouble exact_cos(std::int64_t i) const {
    return {values<double>(file, "cos_hi")[i], values<double>(file, "cos_lo")[i]};
  }
  DoubleDouble exact_sin(std::int64_t i) const {
    return {values<double>(file, "sin_hi")[i], values<double>(file, "sin_lo")[i]};
  }
};

TEST_F(AnglesFromMpmath, AreHalfAnUlpOfFloatAway) {
  ASSERT_GT(count, 1000);
  for (std::int64_t i = 0; i < count; ++i) {
    const Row<float> row = row_at<float>(turning({inv_freq[i]}), position[i]);
    EXPECT_LE(error_in_ulp(row.cos[0], exact_cos(i), floor_of_float_ulp), proven_float_ulp)
        << position[i] << ' ' << inv_freq[i];
    EXPECT_LE(error_in_ulp(row.sin[0], exact_sin(i), floor_of_float_ulp), proven_float_ulp)
        << position[i] << ' ' << inv_freq[i];
  }
}

TEST_F(AnglesFromMpmath, AreALittleMoreThanOneUlpOfDoubleAway) {
  // glibc's 0.55 ulp and one rounding; the promise of 2 ulp leaves room for other libraries.
  constexpr double with_glibc = 1.06;
  constexpr double below = 0x1p-80 / 0x1p-82;  // 2^-80 in the ulp of 2^-30
  for (std::int64_t i = 0; i < count; ++i) {
    const Row<double> row = row_at<double>(turning({inv_freq[i]}), position[i]);
    for (const auto& [value, exact] : {std::pair{row.cos[0], exact_cos(i)}, std::pair{row.sin[0], exact_sin(i)}}) {
      const double allowed = std::abs(exact.hi) < 0x1p-30 ? below : with_glibc;
      EXPECT_LE(error_in_ulp(value, exact, 0x1p-30), allowed) << position[i] << ' ' << inv_freq[i];
    }
  }
}

TEST_F(AnglesFromMpmath, AreTheReferenceTo97Bits) {
  for (std::int64_t i = 0; i < count; ++i) {
    const reference::CosSin direct = reference::cos_sin(position[i], inv_freq[i]);
    EXPECT_LE(std::abs((direct.cos - exact_cos(i)).hi), 0x1p-97) << position[i] << ' ' << inv_freq[i];
    EXPECT_LE(std::abs((direct.sin - exact_sin(i)).hi), 0x1p-97) << position[i] << ' ' << inv_freq[i];
  }
}

struct Known {
  double base, position;
  std::size_t pair;
  double cos, sin;
};

// 60-digit arithmetic (mpmath): contexts of 128k and 1M tokens, head size 128
constexpr Known known[] = {
    {5e5, 131071, 0, -0.817983499388, -0.575241683755}, {5e5, 131071, 1, -0.817316150024, 0.576189474835},
    {5e5, 131071, 2, 0.736023631155, 0.676955843746},   {5e5, 131071, 10, -0.999601449, 0.028230181677},
    {1e4, 131071, 1, -0.978270912936, -0.207330704196}, {1e6, 1048575, 3, 0.057648500102, 0.998336942338},
};

TEST(Angles, AreRightPastAnyTrainedLength) {
  for (const Known& k : known) {
    const Row<double> row = row_at<double>(rope(k.base, 128), k.position);
    EXPECT_NEAR(row.cos[k.pair], k.cos, 2e-9) << k.base << ' ' << k.pair;
    EXPECT_NEAR(row.sin[k.pair], k.sin, 2e-9) << k.base << ' ' << k.pair;
  }
}

// ---- against the reference

TEST(Angles, StayHalfAnUlpAwayOverAMillionRandomPairs) {
  std::mt19937_64 random(20240229);
  double worst = 0;
  for (const double base : {1e4, 5e5, 1e6}) {
    const Rotation rotation = rope(base, 128);
    for (const int bits : {12, 17, 20, 31, 40, 53}) {
      std::uniform_real_distribution<double> in_range(-std::ldexp(1.0, bits), std::ldexp(1.0, bits));
      for (int i = 0; i < 900; ++i) {
        const double position = i % 3 == 0 ? in_range(random) : std::rint(in_range(random));
        const Row<float> row = row_at<float>(rotation, position);
        for (std::size_t j = 0; j < 64; ++j) {
          const reference::CosSin exact = reference::cos_sin(position, rotation.inv_freq()[j]);
          worst = std::max({worst, error_in_ulp(row.cos[j], exact.cos, floor_of_float_ulp),
                            error_in_ulp(row.sin[j], exact.sin, floor_of_float_ulp)});
        }
      }
    }
  }
  EXPECT_LE(worst, proven_float_ulp);
  RecordProperty("worst_ulp", std::to_string(worst));
}

TEST(Angles, MultiplyTheAmplitudeInBeforeTheOneRounding) {
  const Rotation plain = rope(1e4, 20), scaled = turning(plain.inv_freq(), 1.3465735902799727);
  for (double position = 0; position < 3000; ++position) {
    const Row<float> row = row_at<float>(scaled, position);
    for (std::size_t j = 0; j < 10; ++j) {
      const reference::CosSin exact = reference::cos_sin(position, plain.inv_freq()[j]);
      EXPECT_LE(error_in_ulp(row.cos[j], exact.cos * DoubleDouble{scaled.amplitude(), 0}, floor_of_float_ulp),
                proven_float_ulp);
      EXPECT_LE(error_in_ulp(row.sin[j], exact.sin * DoubleDouble{scaled.amplitude(), 0}, floor_of_float_ulp),
                proven_float_ulp);
    }
  }
}

// ---- properties

TEST(Angles, AreTheIdentityAtPositionZero) {
  const Row<float> row = row_at<float>(turning(default_frequencies(1e4, 72).inv_freq, 1.25), 0.0);
  for (std::size_t j = 0; j < 36; ++j) {
    EXPECT_EQ(row.cos[j], 1.25f);
    EXPECT_EQ(row.sin[j], 0.0f);
  }
}

TEST(Angles, MirrorAtNegativePositions) {
  const Rotation rotation = rope(5e5, 128);
  for (const double position : {0.125, 1.0, 10.5, 131071.0, 1e9, 9e15}) {
    const Row<float> ahead = row_at<float>(rotation, position), behind = row_at<float>(rotation, -position);
    for (std::size_t j = 0; j < 64; ++j) {
      EXPECT_EQ(ahead.cos[j], behind.cos[j]);
      EXPECT_EQ(ahead.sin[j], -behind.sin[j]);
    }
  }
}

TEST(Angles, DoNotDependOnTheNumberOfPairsNorOnAlignment) {
  constexpr float untouched = 77;
  const std::vector<double> inv_freq = default_frequencies(5e5, 128).inv_freq;
  for (const double position : {3.0, 131071.25, 2e11, 9e15}) {  // beyond 2^32 turns some pairs take another way
    const Row<float> all = row_at<float>(turning(inv_freq), position);
    for (const std::size_t n : {1, 2, 3, 4, 5, 7, 8, 9, 10, 13, 15, 16, 17, 31, 36}) {
      for (const std::size_t start : {0, 1, 3}) {
        const Rotation part = turning({inv_freq.begin() + static_cast<std::ptrdiff_t>(start),
                                       inv_freq.begin() + static_cast<std::ptrdiff_t>(start + n)});
        std::vector<float> cos(n + 4, untouched), sin(n + 4, untouched);
        angles(part, &position, cos.data() + 1, sin.data() + 3);
        EXPECT_EQ(std::memcmp(cos.data() + 1, all.cos.data() + start, n * sizeof(float)), 0) << n << ' ' << start;
        EXPECT_EQ(std::memcmp(sin.data() + 3, all.sin.data() + start, n * sizeof(float)), 0) << n << ' ' << start;
        for (const float guard : {cos[0], cos[n + 1], cos[n + 3], sin[2], sin[n + 3]}) EXPECT_EQ(guard, untouched);
      }
    }
  }
}

TEST(Angles, AreEqualBitForBitOnEveryInstructionSet) {
  // The sum says nothing about right or wrong (the tests above do): it is the same in the runs for every instruction set.
  // It sees a lost error term, but no single fused step: those change one value in billions.
  std::uint64_t sum = 0xcbf29ce484222325;
  std::vector<double> inv_freq;  // without libm, whose pow may differ from machine to machine
  for (int j = 0; j < 64; ++j) inv_freq.push_back(1 / (1 + 0.37 * j * j));
  const Rotation rotation = turning(inv_freq, 1.138629436111989);
  for (int i = 0; i < 2000; ++i) {
    const Row<float> row = row_at<float>(rotation, i * 1234567.89);
    for (std::size_t j = 0; j < 64; ++j) {
      for (const float value : {row.cos[j], row.sin[j]}) sum = (sum ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001b3;
    }
  }
  EXPECT_EQ(sum, 0x7a6aaa25dedb71fdu);
}

TEST(Angles, TakeEachPairsPositionFromItsAxis) {
  RotationSpec spec{.head_dim = 22, .pairing_in = Pairing::half, .inv_freq = default_frequencies(1e4, 22).inv_freq};
  spec.axis = {0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 0};
  const Rotation rotation(spec), one_axis = turning(spec.inv_freq);
  const double position[] = {5, 7e12, -9.5};
  const Row<float> row = row_at<float>(rotation, position);
  const Row<double> row_in_double = row_at<double>(rotation, position);
  for (std::size_t j = 0; j < 11; ++j) {
    EXPECT_EQ(row.cos[j], row_at<float>(one_axis, position[spec.axis[j]]).cos[j]) << j;
    EXPECT_EQ(row.sin[j], row_at<float>(one_axis, position[spec.axis[j]]).sin[j]) << j;
    EXPECT_EQ(row_in_double.sin[j], row_at<double>(one_axis, position[spec.axis[j]]).sin[j]) << j;
  }
}

TEST(Angles, TellNeighbouringPositionsApartFarOut_D1_D6) {
  const Rotation rotation = rope(1e4, 128);
  for (const double position : {256.0, 2048.0, 65520.0, 16777216.0, 1e9, 0x1p52}) {
    EXPECT_NE(row_at<float>(rotation, position).cos[0], row_at<float>(rotation, position + 1).cos[0]) << position;
  }
}

// ---- the door

TEST(Angles, RefusePositionsWithoutAnAngle) {
  const Rotation rotation = rope(1e4, 8);
  for (const double position :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 0x1p53 + 2, -0x1p60}) {
    EXPECT_EQ(error_sentence(ErrorCode::invalid_argument, [&] { row_at<float>(rotation, position); })
                  .find("angles: positions must be finite and at most 2^53 in size, got "),
              0u);
  }
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument, [&] { row_at<double>(turning({256}), 0x1p53); }),
            "angles: position * inv_freq must be at most 2^60 radians, got 9007199254740992 * 256");
}

// ---- transformers

TEST(AnglesOfTransformers, AreItsOwnTablesWithinOneUlp) {
  const TensorFile file(ROTARY_TEST_DATA "/angles/transformers.safetensors");
  const float *cos = values<float>(file, "cos"), *sin = values<float>(file, "sin");
  const Rotation rotation = rope(1e5, 64);
  int differing_cos = 0, differing_sin = 0;
  for (std::size_t p = 0; p < 173; ++p) {
    const Row<float> row = replay_at(rotation, static_cast<double>(p), Precision::transformers);
    for (std::size_t j = 0; j < 32; ++j) {
      differing_cos += row.cos[j] != cos[p * 64 + j];
      differing_sin += row.sin[j] != sin[p * 64 + j];
      EXPECT_LE(error_in_ulp(cos[p * 64 + j], {row.cos[j], 0}), 1) << p << ' ' << j;
      EXPECT_LE(error_in_ulp(sin[p * 64 + j], {row.sin[j], 0}), 1) << p << ' ' << j;
    }
  }
  // of 5536 each: torch's vectorised functions are not correctly rounded
  EXPECT_EQ(differing_cos, 303);
  EXPECT_EQ(differing_sin, 152);
}

TEST(AnglesOfTransformers, RoundCorrectly) {
  const Rotation rotation = turning({1.0});
  // mpmath; glibc's sine in double is a tie of two floats here, and rounds to the other one.
  EXPECT_EQ(replay_at(rotation, 0x1.33333p+13, Precision::transformers).sin[0], -0x1.63f4bap-2f);
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    const auto angle = static_cast<float>(std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 40) - 36));
    const Row<float> row = replay_at(rotation, angle, Precision::transformers);
    const reference::CosSin exact = reference::cos_sin(angle, 1);
    EXPECT_EQ(row.cos[0], nearest<float>(exact.cos));
    EXPECT_EQ(row.sin[0], nearest<float>(exact.sin));
  }
}

TEST(AnglesOfTransformers, KeepItsOwnFloat32Frequencies) {
  const float own = 0.6978306174278259f;
  const Row<float> row = replay_at(turning({own}), 1000, Precision::transformers);
  EXPECT_EQ(row.cos[0], static_cast<float>(std::cos(static_cast<double>(1000.0f * own))));
}

// ---- ggml

TEST(AnglesOfGgml, TurnRealKeysAsLlamaCppDidBitForBit) {
  const TensorFile file(ROTARY_TEST_DATA "/angles/llamacpp.safetensors");
  const float *k = values<float>(file, "k"), *k_rot = values<float>(file, "k_rot");
  const Rotation rotation = rope(1e5, 64);
  for (std::size_t p = 0; p < 173; ++p) {
    const Row<float> row = replay_at(rotation, static_cast<double>(p), Precision::ggml);
    for (std::size_t j = 0; j < 32; ++j) {
      const float a = k[p * 64 + 2 * j], b = k[p * 64 + 2 * j + 1], c = row.cos[j], s = row.sin[j];
      ASSERT_EQ(std::fma(a, c, -(b * s)), k_rot[p * 64 + 2 * j]) << p << ' ' << j;
      ASSERT_EQ(std::fma(a, s, b * c), k_rot[p * 64 + 2 * j + 1]) << p << ' ' << j;
    }
  }
}

/// ggml_rope_cache_init, from ggml's own numbers.
Row<float> ggml_cache(float base, float freq_scale, const std::vector<double>& divisors, float amplitude, int rotary_dim,
                      float position) {
  Row<float> row;
  const float theta_scale = std::pow(base, -2.0f / static_cast<float>(rotary_dim));
  float theta = position;
  for (int j = 0; j < rotary_dim / 2; ++j, theta *= theta_scale) {
    const float angle =
        freq_scale * (theta / (divisors.empty() ? 1.0f : static_cast<float>(divisors[static_cast<std::size_t>(j)])));
    row.cos.push_back(std::cos(angle) * amplitude);
    row.sin.push_back(std::sin(angle) * amplitude);
  }
  return row;
}

TEST(AnglesOfGgml, FindTheBaseInTheFrequencies) {
  for (const double base : {1e4, 1e5, 5e5, 1e6, 1e7, 1e8, 11158839.92507748, 10009.92}) {
    for (const int rotary_dim : {2, 6, 20, 64, 72, 80, 96, 128, 256}) {
      const Row<float> row = replay_at(rope(base, rotary_dim), 131071, Precision::ggml);
      const Row<float> expected = ggml_cache(static_cast<float>(base), 1, {}, 1, rotary_dim, 131071);
      EXPECT_EQ(row.cos, expected.cos) << base << ' ' << rotary_dim;
      EXPECT_EQ(row.sin, expected.sin) << base << ' ' << rotary_dim;
    }
  }
}

TEST(AnglesOfGgml, ScaleAndDivideWhereGgmlDoes) {
  std::vector<double> inv_freq = default_frequencies(5e5, 64).inv_freq;
  std::vector<double> divisors(32, 1.0);  // float32 in the file
  for (std::size_t j = 15; j < 32; ++j)
    divisors[j] = j < 18 ? static_cast<double>(1.6513294f * static_cast<float>(j - 14)) : 32;
  divisors[31] = 1e30;  // "never turns"
  for (std::size_t j = 0; j < 32; ++j) inv_freq[j] = inv_freq[j] / 8 / divisors[j];
  inv_freq[31] = 0;
  const Rotation rotation({.head_dim = 64,
                           .pairing_in = Pairing::interleaved,
                           .inv_freq = inv_freq,
                           .amplitude = 1.25,
                           .ggml_divisors = divisors});
  for (const float position : {1.0f, 10.0f, 100000.0f}) {
    const Row<float> row = replay_at(rotation, position, Precision::ggml);
    const Row<float> expected = ggml_cache(5e5f, 0.125f, divisors, 1.25f, 64, position);
    EXPECT_EQ(row.cos, expected.cos) << position;
    EXPECT_EQ(row.sin, expected.sin) << position;
  }
}

TEST(AnglesOfGgml, RefuseWhatTheRecipeCannotSay) {
  std::vector<double> ramp = default_frequencies(1e4, 64).inv_freq;
  ramp[20] /= 3;
  std::vector<double> rounded = default_frequencies(1e4, 64).inv_freq;
  for (double& w : rounded) w = static_cast<float>(w);  // the base cannot be told from them
  for (const std::vector<double>& inv_freq : {ramp, rounded, std::vector<double>{0, 0}, std::vector<double>{1, -0.1}}) {
    const std::string said =
        error_sentence(ErrorCode::unsupported, [&] { replay_at(turning(inv_freq), 1, Precision::ggml); });
    EXPECT_EQ(said.find("angles: the ggml recipe needs inv_freq"), 0u) << said;
  }
}

}  // namespace
}  // namespace rotary
