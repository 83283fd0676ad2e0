// cos and sin of the pairs of tokens that follow each other: the bits of exact_angles() in about half the time.
//
//     cos(a + b) = cos a cos b - sin a sin b        a: of the run's first position, b: of a step 0 … 15
//     sin(a + b) = sin a cos b + cos a sin b
//
// In double, and taken where it surely rounds to the float that exact_angles() gives; elsewhere exact_angles() is asked.
#pragma once

#include <cstdint>

#include "kernels/angles.h"

namespace rotary {

/// Tokens of a run at most.
inline constexpr std::int64_t angle_run = 16;

/// With fewer, the steps of runs cost more than they save.
inline constexpr std::int64_t fewest_tokens_for_runs = 4 * angle_run;

/// How many numbers the steps take: cos and sin of angle_run angles per pair.
constexpr std::int64_t angle_steps_size(std::int64_t num_pairs) noexcept {
  return 2 * angle_run * ((num_pairs + 7) / 8 * 8);
}

/// cos and sin of the positions 0 … 15, amplitude 1.
void make_angle_steps(const PairAngles& pairs, double* steps) noexcept;

/// `cos` and `sin` of `count` <= angle_run tokens at first, first + 1, …, which are `step` numbers apart. All pairs have the
/// same axis, and:
///     first is a whole number, 0 <= first, first + count <= 2^53
///     position * turns is at most max_kernel_turns in size, up to position max(first, 0) + 15
///     2^-20 <= amplitude <= 2^20
void exact_angle_run(const PairAngles& pairs, const double* steps, double first, std::int64_t count, float* cos, float* sin,
                     std::int64_t step) noexcept;

}  // namespace rotary
