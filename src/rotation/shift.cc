#include "rotation/shift.h"

#include "base/apart.h"
#include "base/fail.h"
#include "rotary/rotate.hpp"
#include "rotation/heads.h"
#include "rotation/rotate_tensors.h"
#include "rotation/token_angles.h"

namespace rotary {
namespace {

constexpr const char* keys = "the tensor";

void shift_keys(const char* operation, const char* written, const TensorToRotate& tensor, const Rotation& rotation,
                const ConstTensorView& distances, const RotateOptions& options) {
  const Tokens tokens = tokens_of(operation, tensor.x);
  if (!distances) fail_argument(operation, "distances must be given");
  check_apart(operation, written, tensor.out, "distances", distances);
  if (options.table != nullptr) fail_argument(operation, "takes no table: its rows belong to positions, not to distances");
  const auto checked = TokenPositions::listed(operation, "distances", distances, tokens, rotation.num_axes());
  const TokenAngles angles = shift_angles(operation, rotation, checked, tokens, options.precision);
  rotate_tensors({&tensor, 1}, tokens, PairMap::rotated(rotation), angles, options.executor);
}

/// One number for every token: a view without axes.
ConstTensorView for_all_tokens(const double& distance) { return {&distance, DType::f64, "", {}}; }

}  // namespace

TokenAngles shift_angles(const char* operation, const Rotation& rotation, const TokenPositions& distances,
                         const Tokens& tokens, Precision precision) {
  TokenAngles angles(operation, rotation, distances, tokens, precision);
  angles.scale(1 / rotation.amplitude());
  return angles;
}

void shift(const TensorView& rotated, const Rotation& rotation, const ConstTensorView& distances,
           const RotateOptions& options) {
  shift_keys("shift", keys, turned_in_place("shift", keys, rotated, rotation), rotation, distances, options);
}

void shift_to(const ConstTensorView& rotated, const TensorView& out, const Rotation& rotation,
              const ConstTensorView& distances, const RotateOptions& options) {
  shift_keys("shift_to", "out", turned_to("shift_to", keys, rotated, out, rotation), rotation, distances, options);
}

void shift(const TensorView& rotated, const Rotation& rotation, double distance, const RotateOptions& options) {
  shift(rotated, rotation, for_all_tokens(distance), options);
}

void shift_to(const ConstTensorView& rotated, const TensorView& out, const Rotation& rotation, double distance,
              const RotateOptions& options) {
  shift_to(rotated, out, rotation, for_all_tokens(distance), options);
}

}  // namespace rotary
