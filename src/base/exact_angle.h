// position * inv_freq in turns, and its cos and sin, to about 100 bits: for angles that kernels do not reach, and for
// values that doubles cannot round safely.
#pragma once

#include "base/double_double.h"

namespace rotary {

/// 1 / (2 pi) as a sum of doubles, to 2^-215 (mpmath).
inline constexpr double turns_per_radian[] = {0x1.45f306dc9c883p-3, -0x1.6b01ec5417056p-57, -0x1.6447e493ad4cep-111,
                                              0x1.e21c820ff28b2p-165};

/// An angle modulo one turn: `quarters` quarter turns and the rest, at most an eighth of a turn.
struct ReducedAngle {
  int quarters = 0;    ///< 0 … 3
  DoubleDouble turns;  ///< |turns| <= 1/8
};

/// position * inv_freq / (2 pi) modulo 1, within 2^-100 turns, for |position * inv_freq| <= 2^60.
ReducedAngle reduce_angle(double position, double inv_freq) noexcept;

struct CosSin {
  DoubleDouble cos, sin;
};

/// Within 2^-97, and within a relative 2^-97 where the angle itself is below an eighth of a turn.
CosSin cos_sin(double position, double inv_freq) noexcept;

}  // namespace rotary
