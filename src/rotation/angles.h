// Rows of cos and sin for callers inside the library: what is refused is refused once, then rows are cheap.
#pragma once

#include <cstdint>

#include "rotary/angles.hpp"
#include "rotary/rotation.hpp"
#include "rotation/replay.h"

namespace rotary {

/// A row times a factor, each number rounded once more.
template <class T>
void scale_row(std::int64_t num_pairs, double factor, T* cos, T* sin) noexcept {
  if (factor == 1) return;
  for (std::int64_t j = 0; j < num_pairs; ++j) {
    cos[j] = static_cast<T>(cos[j] * factor);
    sin[j] = static_cast<T>(sin[j] * factor);
  }
}

/// Rows of tokens that follow each other are made from these, once they are; one thread's.
struct AngleSteps {
  double* numbers = nullptr;  ///< room for angle_steps_size(num_pairs), or nullptr: there are none
  bool are_made = false;
};

/// Makes the rows of one rotation in one precision. Refers to the rotation, which must outlive it.
class AngleRows {
 public:
  /// Throws Error (unsupported) where the recipe of `precision` cannot express this rotation, with a sentence that starts
  /// with `operation`, and where ROTARY_ISA names no instruction set of this machine.
  AngleRows(const char* operation, const Rotation& rotation, Precision precision);

  /// Throws Error (invalid_argument) unless the position is finite, at most 2^53 in size and turns every pair by at most
  /// 2^60 radians.
  void check_position(double position) const;

  /// cos and sin of one token's pairs, times the amplitude and `factor`. `position` has num_axes() checked entries; `cos`
  /// and `sin` take num_pairs() values each and need no alignment or padding. Equal bit for bit on every instruction set.
  /// T is float or double; in double, transformers and ggml give the float32 values that they are about.
  template <class T>
  void row(const double* position, T* cos, T* sin, double factor = 1) const noexcept;

  /// Whether run() can be asked for the whole position `first` and the `count` - 1 after it.
  bool can_run(double first, std::int64_t count, double factor = 1) const noexcept;
  /// Fills the room for steps; without this, the first run() does.
  void make_steps(AngleSteps& steps) const noexcept;
  /// The same bits as row() for `count` <= angle_run positions, in rows that are `step` numbers apart.
  void run(double first, std::int64_t count, AngleSteps& steps, float* cos, float* sin, std::int64_t step,
           double factor = 1) const noexcept;

 private:
  const char* operation_;
  const Rotation& rotation_;
  Precision precision_;
  GgmlRope ggml_;
};

}  // namespace rotary
