#include "rotary/angles.hpp"

#include <algorithm>
#include <cmath>

#include "base/exact_angle.h"
#include "base/fail.h"
#include "kernels/angle_runs.h"
#include "kernels/angles.h"
#include "rotary/isa.hpp"
#include "rotation/angles.h"

namespace rotary {
namespace {

PairAngles pair_angles(const Rotation& rotation, double amplitude) noexcept {
  return {.turns_hi = rotation.turns_hi().data(),
          .turns_lo = rotation.turns_lo().data(),
          .axis = rotation.num_axes() == 1 ? nullptr : rotation.axis().data(),
          .num_pairs = rotation.num_pairs(),
          .amplitude = amplitude};
}

void exact_row(const Rotation& rotation, double amplitude, const double* position, float* cos, float* sin) noexcept {
  exact_angles(pair_angles(rotation, amplitude), position, cos, sin);

  // Farther than the kernel reaches: pair by pair, so that a value never depends on its neighbours.
  double farthest = 0;
  for (int a = 0; a < rotation.num_axes(); ++a) farthest = std::max(farthest, std::abs(position[a]));
  if (farthest * rotation.max_abs_inv_freq() <= max_kernel_turns) return;  // radians: farther than turns
  for (std::size_t j = 0; j < rotation.inv_freq().size(); ++j) {
    const double p = position[rotation.axis()[j]];
    if (std::abs(p * rotation.turns_hi()[j]) <= max_kernel_turns) continue;
    const CosSin exact = cos_sin(p, rotation.inv_freq()[j]);
    cos[j] = nearest<float>(exact.cos * DoubleDouble{amplitude, 0});
    sin[j] = nearest<float>(exact.sin * DoubleDouble{amplitude, 0});
  }
}

/// libm's cos and sin are right for their argument; what the argument lost in rounding is put back to first order.
void exact_row(const Rotation& rotation, double amplitude, const double* position, double* cos, double* sin) noexcept {
  for (std::size_t j = 0; j < rotation.inv_freq().size(); ++j) {
    const ReducedAngle angle = reduce_angle(position[rotation.axis()[j]], rotation.inv_freq()[j]);
    const DoubleDouble x = angle.turns * two_pi;
    const double length = angle.quarters < 2 ? amplitude : -amplitude;
    const double c = std::cos(x.hi), s = std::sin(x.hi);
    const double cos_x = std::fma(length, c, -length * (s * x.lo));
    const double sin_x = std::fma(length, s, length * (c * x.lo));
    const bool odd = angle.quarters % 2 == 1;
    cos[j] = odd ? -sin_x : cos_x;
    sin[j] = odd ? cos_x : sin_x;
  }
}

}  // namespace

const char* name(Precision precision) noexcept {
  switch (precision) {
    case Precision::exact: return "exact";
    case Precision::transformers: return "transformers";
    case Precision::ggml: return "ggml";
  }
  return "unknown";
}

AngleRows::AngleRows(const char* operation, const Rotation& rotation, Precision precision)
    : operation_(operation), rotation_(rotation), precision_(precision) {
  if (precision != Precision::exact && precision != Precision::transformers && precision != Precision::ggml) {
    fail_argument(operation, "precision must be exact, transformers or ggml, got number ", static_cast<int>(precision));
  }
  active_isa();  // here, where it may throw: kernels may not
  if (precision == Precision::ggml) ggml_ = ggml_rope(operation, rotation);
}

void AngleRows::check_position(double position) const {
  if (!(std::abs(position) <= 0x1p53)) {
    fail_argument(operation_, "positions must be finite and at most 2^53 in size, got ", position);
  }
  if (!(std::abs(position) * rotation_.max_abs_inv_freq() <= 0x1p60)) {
    fail_argument(operation_, "position * inv_freq must be at most 2^60 radians, got ", position, " * ",
                  rotation_.max_abs_inv_freq());
  }
}

template <class T>
void AngleRows::row(const double* position, T* cos, T* sin, double factor) const noexcept {
  if (precision_ == Precision::exact) return exact_row(rotation_, rotation_.amplitude() * factor, position, cos, sin);
  if (precision_ == Precision::ggml) ggml_row(rotation_, ggml_, position, cos, sin);
  else transformers_row(rotation_, position, cos, sin);
  scale_row(rotation_.num_pairs(), factor, cos, sin);
}
template void AngleRows::row(const double*, float*, float*, double) const noexcept;
template void AngleRows::row(const double*, double*, double*, double) const noexcept;

bool AngleRows::can_run(double first, std::int64_t count, double factor) const noexcept {
  const double amplitude = rotation_.amplitude() * factor, end = std::max(first, 0.0) + static_cast<double>(angle_run);
  return precision_ == Precision::exact && rotation_.num_axes() == 1 && count <= angle_run && first >= 0 && end <= 0x1p53 &&
         end * rotation_.max_abs_inv_freq() <= max_kernel_turns && amplitude >= 0x1p-20 && amplitude <= 0x1p20;
}

void AngleRows::make_steps(AngleSteps& steps) const noexcept {
  make_angle_steps(pair_angles(rotation_, 1), steps.numbers);
  steps.are_made = true;
}

void AngleRows::run(double first, std::int64_t count, AngleSteps& steps, float* cos, float* sin, std::int64_t step,
                    double factor) const noexcept {
  if (!steps.are_made) make_steps(steps);
  exact_angle_run(pair_angles(rotation_, rotation_.amplitude() * factor), steps.numbers, first, count, cos, sin, step);
}

void angles(const Rotation& rotation, const double* position, float* cos, float* sin, Precision precision) {
  const AngleRows rows("angles", rotation, precision);
  for (int a = 0; a < rotation.num_axes(); ++a) rows.check_position(position[a]);
  rows.row(position, cos, sin);
}

void angles(const Rotation& rotation, const double* position, double* cos, double* sin) {
  const AngleRows rows("angles", rotation, Precision::exact);
  for (int a = 0; a < rotation.num_axes(); ++a) rows.check_position(position[a]);
  rows.row(position, cos, sin);
}

}  // namespace rotary
