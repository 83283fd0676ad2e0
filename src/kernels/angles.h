// cos and sin of one token's pairs from the exact product, for |position * turns| <= max_kernel_turns.
//
// Equal bit for bit on every instruction set: the same correctly rounded operations in the same order everywhere. Fused
// multiply-add is used only for the error of a product, which is exact with and without it.
#pragma once

#include <cstdint>

namespace rotary {

/// Past it the tail of the product would begin to show in values near 2^-30.
inline constexpr double max_kernel_turns = 0x1p32;

struct PairAngles {
  const double* turns_hi;  ///< turns per position, num_pairs values; nothing here needs alignment or padding
  const double* turns_lo;
  const std::uint8_t* axis;  ///< which entry of `position` drives each pair; nullptr: the first drives all
  std::int64_t num_pairs;
  double amplitude;
};

/// `cos` and `sin` take num_pairs values each.
void exact_angles(const PairAngles& pairs, const double* position, float* cos, float* sin) noexcept;

}  // namespace rotary
