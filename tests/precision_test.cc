#include "rotary/precision.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "rotary/frequencies.hpp"
#include "support/error_sentence.h"

namespace rotary {
namespace {

Rotation rope(double base, std::int64_t rotary_dim, double amplitude = 1) {
  return Rotation({.head_dim = rotary_dim,
                   .pairing_in = Pairing::half,
                   .inv_freq = default_frequencies(base, rotary_dim).inv_freq,
                   .amplitude = amplitude});
}

const PrecisionRow& row_of(const std::vector<PrecisionRow>& report, TableRecipe recipe) {
  return report[static_cast<std::size_t>(recipe)];
}

TEST(Precision, OfExactTablesIsHalfAnUlpEverywhere) {
  const std::vector<double> positions = {0, 1, 10, 1e5, 1e6, 1e9, 0x1p53, -12345.678};
  for (const double base : {1e4, 5e5}) {
    const std::vector<PrecisionRow> report = precision_report(rope(base, 128, 1.25), positions);
    ASSERT_EQ(report.size(), 4 * positions.size());
    for (std::size_t i = 0; i < report.size(); ++i) {
      EXPECT_EQ(report[i].position, positions[i / 4]);
      EXPECT_EQ(static_cast<std::size_t>(report[i].recipe), i % 4);
      if (report[i].recipe == TableRecipe::exact) {
        EXPECT_LE(report[i].worst.ulp, 0.5002) << report[i].position;
        EXPECT_LE(report[i].worst.angle, 0x1p-24) << report[i].position;
      }
    }
  }
}

struct Measured {
  double base, position, transformers, ggml;
};

// Largest error of the angle over 64 pairs, radians, against 50-digit arithmetic; from the formulas of both systems in
// numpy float32. Two digits.
constexpr Measured measured[] = {
    {5e5, 4095, 2.0e-4, 2.9e-4},    {5e5, 32767, 9.8e-4, 1.5e-3}, {5e5, 131071, 5.0e-3, 4.2e-3},
    {5e5, 1048575, 3.9e-2, 4.4e-2}, {5e5, 1e7, 0.62, 0.55},       {1e4, 131071, 4.2e-3, 1.3e-2},
    {1e4, 1048575, 3.1e-2, 0.10},   {1e4, 1e7, 0.77, 1.48},       {1e6, 131071, 5.5e-3, 1.2e-2},
    {1e6, 1048575, 6.8e-2, 6.7e-2},
};

TEST(Precision, OfTheFloatRecipesIsWhatOthersMeasured) {
  for (const Measured& m : measured) {
    const std::vector<PrecisionRow> report = precision_report(rope(m.base, 128), {m.position});
    EXPECT_NEAR(row_of(report, TableRecipe::transformers).worst.angle / m.transformers, 1, 0.05)
        << m.base << ' ' << m.position;
    EXPECT_NEAR(row_of(report, TableRecipe::ggml).worst.angle / m.ggml, 1, 0.05) << m.base << ' ' << m.position;
  }
}

TEST(Precision, OfBfloat16TablesIsHalfAStepOfBfloat16) {
  const std::vector<PrecisionRow> report = precision_report(rope(1e4, 128), {100});
  const PrecisionRow& row = row_of(report, TableRecipe::bfloat16);
  EXPECT_LE(row.worst.value, 0x1p-9 + 1e-5);
  EXPECT_GT(row.worst.value, 0x1p-10);
  EXPECT_GT(row.worst.ulp, 10000);
}

TEST(Precision, NamesTheWorstPair) {
  const std::vector<PrecisionRow> report = precision_report(rope(1e4, 64), {131071});
  for (const PrecisionRow& row : report) {
    ASSERT_EQ(row.pairs.size(), 32u);
    double angle = 0, value = 0, ulp = 0;
    for (const PairError& pair : row.pairs) {
      angle = std::max(angle, pair.angle);
      value = std::max(value, pair.value);
      ulp = std::max(ulp, pair.ulp);
    }
    EXPECT_EQ(row.pairs[static_cast<std::size_t>(row.worst_pair)].angle, angle);
    EXPECT_EQ(row.worst.angle, angle);
    EXPECT_EQ(row.worst.value, value);
    EXPECT_EQ(row.worst.ulp, ulp);
  }
}

TEST(Precision, SaysWhereARecipeCannotExpressTheRotation) {
  std::vector<double> inv_freq = default_frequencies(1e4, 16).inv_freq;
  inv_freq[4] /= 3;
  const Rotation rotation({.head_dim = 16, .pairing_in = Pairing::half, .inv_freq = inv_freq});
  for (const PrecisionRow& row : precision_report(rotation, {10})) {
    EXPECT_EQ(row.supported, row.recipe != TableRecipe::ggml) << name(row.recipe);
    EXPECT_EQ(row.pairs.empty(), row.recipe == TableRecipe::ggml) << name(row.recipe);
  }
}

TEST(Precision, RefusesPositionsWithoutAnAngle) {
  error_sentence(ErrorCode::invalid_argument,
                 [&] { precision_report(rope(1e4, 8), {std::numeric_limits<double>::infinity()}); });
}

}  // namespace
}  // namespace rotary
