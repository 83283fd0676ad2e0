// Rows of cos and sin for callers inside the library: what is refused is refused once, then rows are cheap.
#pragma once

#include "rotary/angles.hpp"
#include "rotary/rotation.hpp"
#include "rotation/replay.h"

namespace rotary {

/// Makes the rows of one rotation in one precision. Refers to the rotation, which must outlive it.
class AngleRows {
 public:
  /// Throws Error (unsupported) where the recipe of `precision` cannot express this rotation, with a sentence that starts
  /// with `operation`, and where ROTARY_ISA names no instruction set of this machine.
  AngleRows(const char* operation, const Rotation& rotation, Precision precision);

  /// Throws Error (invalid_argument) unless the position is finite, at most 2^53 in size and turns every pair by at most
  /// 2^60 radians.
  void check_position(double position) const;

  /// cos and sin of one token's pairs, amplitude included. `position` has num_axes() checked entries; `cos` and `sin` take
  /// num_pairs() values each and need no alignment or padding. Equal bit for bit on every instruction set.
  void row(const double* position, float* cos, float* sin) const noexcept;
  /// In double; for Precision::exact only, the others have no double form.
  void row(const double* position, double* cos, double* sin) const noexcept;

 private:
  const char* operation_;
  const Rotation& rotation_;
  Precision precision_;
  GgmlRope ggml_;
};

}  // namespace rotary
