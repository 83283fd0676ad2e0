// cos and sin of position * inv_freq in plain loops, to about 100 bits: the oracle. It shares nothing with
// base/exact_angle.h, which it judges.
#pragma once

#include <cstddef>

#include "base/double_double.h"
#include "rotary/rotation.hpp"

namespace rotary::reference {

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

/// cos and sin of pair `pair`, times the amplitude, rounded once to T (float or double); correctly, short of cases that 97
/// bits cannot decide.
template <class T>
void angle(const Rotation& rotation, std::size_t pair, double position, T* cos, T* sin) noexcept;

/// As rotary::angles().
template <class T>
void angles(const Rotation& rotation, const double* position, T* cos, T* sin) noexcept;

}  // namespace rotary::reference
