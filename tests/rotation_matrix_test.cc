#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "rotary/frequencies.hpp"
#include "rotary/rotate.hpp"
#include "support/error_sentence.h"

namespace rotary {
namespace {

using Numbers = std::vector<double>;

Numbers product(const Numbers& matrix, const Numbers& x) {
  Numbers y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j < x.size(); ++j) y[i] += matrix[i * x.size() + j] * x[j];
  }
  return y;
}

TEST(RotationMatrix, IsMadeOfBlocks) {
  const double c = std::cos(1.0), s = std::sin(1.0), c2 = std::cos(0.5), s2 = std::sin(0.5);
  const RotationSpec spec{.head_dim = 5, .pairing_in = Pairing::interleaved, .inv_freq = {1, 0.5}};
  const Numbers neighbours = {c, -s, 0, 0, 0, s, c, 0, 0, 0, 0, 0, c2, -s2, 0, 0, 0, s2, c2, 0, 0, 0, 0, 0, 1};
  const Numbers matrix = rotation_matrix(Rotation(spec), {1});
  for (std::size_t i = 0; i < 25; ++i) EXPECT_NEAR(matrix[i], neighbours[i], 1e-16);

  RotationSpec half = spec;
  half.pairing_in = Pairing::half;
  const Numbers halves = {c, 0, -s, 0, 0, 0, c2, 0, -s2, 0, s, 0, c, 0, 0, 0, s2, 0, c2, 0, 0, 0, 0, 0, 1};
  const Numbers other = rotation_matrix(Rotation(half), {1});
  for (std::size_t i = 0; i < 25; ++i) EXPECT_NEAR(other[i], halves[i], 1e-16);
}

TEST(RotationMatrix, IsWhatRotateMultipliesBy) {
  RotationSpec mixed{.head_dim = 10, .rotary_offset = 1, .pairing_in = Pairing::interleaved, .inv_freq = {1, 0.3, 0.1, 0}};
  mixed.pairing_out = Pairing::half;
  mixed.axis = {0, 1, 1, 0};
  mixed.amplitude = 1.5;
  mixed.direction = -1;
  const RotationSpec listed{.head_dim = 6,
                            .pairing_in = Pairing::listed,
                            .pairing_out = Pairing::listed,
                            .inv_freq = {1, 0.25},
                            .axis = {0, 1},
                            .pairs_in = {{5, 0}, {2, 3}},
                            .pairs_out = {{0, 2}, {3, 5}}};
  for (const RotationSpec& spec : {mixed, listed}) {
    const Rotation rotation(spec);
    const double position[] = {7, 100.5};
    Numbers x;
    for (std::int64_t d = 0; d < spec.head_dim; ++d) x.push_back(static_cast<double>(d * d) / 8 - 3);
    const Numbers expected = product(rotation_matrix(rotation, {7, 100.5}), x);
    rotate(TensorView(x.data(), "SHD", {1, 1, spec.head_dim}), rotation, {.position_ids = {position, "SA", {1, 2}}});
    for (std::size_t d = 0; d < x.size(); ++d) EXPECT_NEAR(x[d], expected[d], 1e-14);
  }
}

TEST(RotationMatrix, RefusesAPositionOfOtherAxes) {
  const Rotation rotation({.head_dim = 2, .pairing_in = Pairing::half, .inv_freq = {1}});
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument,
                           [&] {
                             rotation_matrix(rotation, {1, 2});
                           }),
            "rotation_matrix: position must have one number per axis of the rotation, got 2 for 1");
}

}  // namespace
}  // namespace rotary
