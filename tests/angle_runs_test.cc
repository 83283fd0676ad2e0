#include "kernels/angle_runs.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <utility>
#include <vector>

#include "rotary/frequencies.hpp"
#include "rotary/isa.hpp"
#include "rotary/rotation.hpp"
#include "support/turning.h"

namespace rotary {
namespace {

Rotation rope(double base, std::int64_t rotary_dim, double amplitude = 1) {
  return turning(default_frequencies(base, rotary_dim).inv_freq, amplitude);
}

bool have_same_bits(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

/// The steps of a rotation, and a look at runs beside single tokens.
class Runs {
 public:
  explicit Runs(Rotation rotation)
      : rotation_(std::move(rotation)),
        num_pairs_(rotation_.num_pairs()),
        pairs_{rotation_.turns_hi().data(), rotation_.turns_lo().data(), nullptr, num_pairs_, rotation_.amplitude()},
        steps_(static_cast<std::size_t>(angle_steps_size(num_pairs_))) {
    active_isa();
    make_angle_steps(pairs_, steps_.data());
  }

  /// How many numbers differ from those of single tokens. Rows are `between` numbers apart from each other, which stay as
  /// they are.
  std::int64_t different(double first, std::int64_t count = angle_run, std::int64_t between = 0) {
    constexpr float guard = -77;
    const std::int64_t step = num_pairs_ + between;
    std::vector<float> cos(static_cast<std::size_t>(count * step), guard), sin(cos), true_cos(cos), true_sin(cos);
    exact_angle_run(pairs_, steps_.data(), first, count, cos.data(), sin.data(), step);
    for (std::int64_t i = 0; i < count; ++i) {
      const double position = first + static_cast<double>(i);
      exact_angles(pairs_, &position, &true_cos[static_cast<std::size_t>(i * step)],
                   &true_sin[static_cast<std::size_t>(i * step)]);
    }
    std::int64_t wrong = 0;
    for (std::size_t n = 0; n < cos.size(); ++n) {
      wrong += !have_same_bits(cos[n], true_cos[n]) || !have_same_bits(sin[n], true_sin[n]);
    }
    return wrong;
  }

 private:
  Rotation rotation_;
  std::int64_t num_pairs_;
  PairAngles pairs_;
  std::vector<double> steps_;
};

TEST(AngleRuns, HaveTheBitsOfSingleTokensFromTheFirstOnes) {
  for (const double base : {1e4, 5e5, 1e7}) {
    Runs runs(rope(base, 128));
    std::int64_t wrong = 0;
    for (int first = 0; first < 1500; ++first) wrong += runs.different(first);
    EXPECT_EQ(wrong, 0) << base;
  }
}

TEST(AngleRuns, HaveTheBitsOfSingleTokensAtAnyDistance) {
  std::mt19937_64 random(20261130);
  for (const double base : {1e4, 5e5, 1e6}) {
    Runs runs(rope(base, 128, 0.8));
    std::int64_t wrong = 0;
    for (int i = 0; i < 1500; ++i) {
      const double farthest = std::ldexp(1.0, 10 + i % 23) - angle_run;
      wrong += runs.different(std::floor(std::uniform_real_distribution<double>(0, farthest)(random)));
    }
    EXPECT_EQ(wrong, 0) << base;
  }
}

TEST(AngleRuns, HaveThemWhereCosAndSinPassThroughZero) {
  constexpr double quarter = std::numbers::pi / 2;  // rounded: a position away is a little beside the zero
  std::vector<double> inv_freq;
  for (int i = 1; i <= 24; ++i) inv_freq.insert(inv_freq.end(), {quarter / i, -quarter / i, quarter / (8 << i)});
  Runs runs(turning(inv_freq));
  std::int64_t wrong = 0;
  for (int first = 0; first < 3000; ++first) wrong += runs.different(first);
  for (int i = 4; i < 32; ++i) {
    for (int back = 0; back <= 2 * angle_run; ++back) wrong += runs.different(std::ldexp(1.0, i) - back + angle_run);
  }
  EXPECT_EQ(wrong, 0);
}

TEST(AngleRuns, HaveThemForPairsThatHardlyTurn) {
  std::vector<double> inv_freq{0, 1, 1e-3};
  for (int exponent = -6; exponent > -320; exponent -= 6) inv_freq.push_back(std::pow(10.0, exponent));
  for (const double amplitude : {1.0, 0x1p-20, 0x1p20}) {
    Runs runs(turning(inv_freq, amplitude));
    std::int64_t wrong = 0;
    for (int first = 0; first < 300; ++first) wrong += runs.different(first) + runs.different(1e9 + first);
    EXPECT_EQ(wrong, 0) << amplitude;
  }
}

TEST(AngleRuns, TouchNothingBesideTheirRows) {
  for (const std::int64_t num_pairs : {1, 2, 3, 5, 7, 8, 9, 17, 36}) {
    Runs runs(rope(1e4, 2 * num_pairs));
    for (const std::int64_t count : {1, 2, 15, 16}) EXPECT_EQ(runs.different(10, count, 3), 0) << num_pairs << ' ' << count;
  }
}

}  // namespace
}  // namespace rotary
