#include "rotary/rotate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "support/test_tensor.h"

namespace rotary {
namespace {

std::vector<double> powers(double base, std::int64_t rotary_dim) {
  std::vector<double> inv_freq;
  for (std::int64_t j = 0; j < rotary_dim / 2; ++j) {
    inv_freq.push_back(std::pow(base, -2.0 * static_cast<double>(j) / static_cast<double>(rotary_dim)));
  }
  return inv_freq;
}

/// 1, 2, 3, … of one head, turned at one position.
std::vector<double> turned_ramp(const RotationSpec& spec, double position) {
  TestTensor x(DType::f64, "SHD", {1, 1, spec.head_dim});
  for (std::int64_t d = 0; d < spec.head_dim; ++d) x.set(d, static_cast<double>(d + 1));
  rotate(x, Rotation(spec), {.position_ids = ConstTensorView(&position, "S", {1})});
  return x.values();
}

void expect_near(const std::vector<double>& actual, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], tolerance) << "channel " << i;
}

// The known values are printed with 10 digits: half of the last one of the largest.
constexpr double printed = 5e-9;

TEST(Rotate, GivesTheKnownValuesOfBothPairings_L1_L2) {
  const RotationSpec half{.head_dim = 8, .pairing_in = Pairing::half, .inv_freq = powers(1e4, 8)};
  expect_near(turned_ramp(half, 3),
              {-1.695592537, 0.1375517383, 2.7886816, 3.975982036, -4.808842475, 6.323059348, 7.086836737, 8.011963982},
              printed);
}

}  // namespace
}  // namespace rotary
