#include <array>

#include "base/apart.h"
#include "base/fail.h"
#include "rotary/rotate.hpp"
#include "rotation/heads.h"
#include "rotation/rotate_tensors.h"
#include "rotation/token_angles.h"

namespace rotary {

void shift(const TensorView& rotated, const Rotation& rotation, const ConstTensorView& distances,
           const RotateOptions& options) {
  const TensorToRotate tensor = turned_in_place("shift", "the tensor", rotated, rotation);
  const Tokens tokens = tokens_of("shift", tensor.x);
  if (!distances) fail_argument("shift", "distances must be given");
  check_apart("shift", "the tensor", tensor.out, "distances", distances);
  if (options.table != nullptr) fail_argument("shift", "takes no table: its rows belong to positions, not to distances");
  const auto checked = TokenPositions::listed("shift", "distances", distances, tokens, rotation.num_axes());
  TokenAngles angles("shift", rotation, checked, tokens, options.precision);
  angles.scale(1 / rotation.amplitude());  // the keys have it already
  rotate_tensors(std::array{tensor}, tokens, PairMap::rotated(rotation), angles, options.executor);
}

void shift(const TensorView& rotated, const Rotation& rotation, double distance, const RotateOptions& options) {
  // One number for every token: a view without axes.
  shift(rotated, rotation, ConstTensorView(&distance, DType::f64, "", {}), options);
}

}  // namespace rotary
