#include "rotary/angles.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "rotary/frequencies.hpp"

namespace rotary {
namespace {

Rotation rope(double base, std::int64_t rotary_dim) {
  return Rotation(
      {.head_dim = rotary_dim, .pairing_in = Pairing::half, .inv_freq = default_frequencies(base, rotary_dim).inv_freq});
}

struct Known {
  double base, position;
  int pair;
  double cos, sin;
};

// reference: 60-digit arithmetic (mpmath), angles modulo 2 pi of long contexts
constexpr Known known[] = {
    {5e5, 131071, 0, -0.817983499388, -0.575241683755}, {5e5, 131071, 1, -0.817316150024, 0.576189474835},
    {5e5, 131071, 2, 0.736023631155, 0.676955843746},   {5e5, 131071, 10, -0.999601449, 0.028230181677},
    {1e4, 131071, 1, -0.978270912936, -0.207330704196}, {1e6, 1048575, 3, 0.057648500102, 0.998336942338},
};

TEST(Angles, AreRightPastAnyTrainedLength) {
  for (const Known& k : known) {
    std::vector<double> cos(64), sin(64);
    angles(rope(k.base, 128), &k.position, cos.data(), sin.data());
    EXPECT_NEAR(cos[static_cast<std::size_t>(k.pair)], k.cos, 1e-9) << k.base << ' ' << k.pair;
    EXPECT_NEAR(sin[static_cast<std::size_t>(k.pair)], k.sin, 1e-9) << k.base << ' ' << k.pair;
  }
}

}  // namespace
}  // namespace rotary
