// The doors: everything is checked here, before anything is written.
#include "rotary/rotate.hpp"

#include <cstdint>

#include "base/apart.h"
#include "base/fail.h"
#include "rotation/heads.h"
#include "rotation/rotate_tensors.h"
#include "rotation/token_angles.h"

namespace rotary {
namespace {

void check_apart_from_positions(const char* operation, const char* what, const TensorView& written,
                                const Positions& positions) {
  check_apart(operation, what, written, "position_ids", positions.position_ids);
  check_apart(operation, what, written, "offsets", positions.offsets);
  check_apart(operation, what, written, "cu_seqlens", positions.cu_seqlens);
}

/// What distinguishes rotate, unrotate and rotate_backward.
enum class Way : std::uint8_t { forward, inverse, transpose };

void turn(const char* operation, const char* what, const TensorToRotate& tensor, const Rotation& rotation,
          const Positions& positions, const RotateOptions& options, Way way) {
  check_apart_from_positions(operation, what, tensor.out, positions);
  const Tokens tokens = tokens_of(operation, tensor.x);
  TokenAngles angles(operation, rotation, positions, tokens, options);
  if (way != Way::forward) angles.negate();
  if (way == Way::inverse) angles.scale(1 / (rotation.amplitude() * rotation.amplitude()));  // it is in the angles already
  const PairMap map = way == Way::forward ? PairMap::forward(rotation) : PairMap::backward(rotation);
  rotate_tensors({&tensor, 1}, tokens, map, angles, options.executor);
}

}  // namespace

void rotate(const TensorView& q, const TensorView& k, const Rotation& rotation, const Positions& positions,
            const RotateOptions& options) {
  const TensorToRotate both[] = {turned_in_place("rotate", "q", q, rotation), turned_in_place("rotate", "k", k, rotation)};
  const Tokens tokens = tokens_of("rotate", both[0].x), others = tokens_of("rotate", both[1].x);
  if (others != tokens) {
    fail_argument("rotate", "q and k must have the same tokens, got ", tokens.batch, " x ", tokens.length, " and ",
                  others.batch, " x ", others.length, tokens.packed != others.packed ? ", one of them packed" : "");
  }
  if (may_share_memory(both[0].out, both[1].out)) fail_argument("rotate", "q and k must not overlap");
  check_apart_from_positions("rotate", "q", both[0].out, positions);
  check_apart_from_positions("rotate", "k", both[1].out, positions);
  const TokenAngles angles("rotate", rotation, positions, tokens, options);
  rotate_tensors(both, tokens, PairMap::forward(rotation), angles, options.executor);
}

void rotate(const TensorView& x, const Rotation& rotation, const Positions& positions, const RotateOptions& options) {
  turn("rotate", "x", turned_in_place("rotate", "x", x, rotation), rotation, positions, options, Way::forward);
}

void rotate_to(const ConstTensorView& x, const TensorView& out, const Rotation& rotation, const Positions& positions,
               const RotateOptions& options) {
  turn("rotate_to", "out", turned_to("rotate_to", "x", x, out, rotation), rotation, positions, options, Way::forward);
}

void unrotate(const TensorView& x, const Rotation& rotation, const Positions& positions, const RotateOptions& options) {
  turn("unrotate", "x", turned_in_place("unrotate", "x", x, rotation), rotation, positions, options, Way::inverse);
}

void unrotate_to(const ConstTensorView& x, const TensorView& out, const Rotation& rotation, const Positions& positions,
                 const RotateOptions& options) {
  turn("unrotate_to", "out", turned_to("unrotate_to", "x", x, out, rotation), rotation, positions, options, Way::inverse);
}

void rotate_backward(const TensorView& gradient, const Rotation& rotation, const Positions& positions,
                     const RotateOptions& options) {
  turn("rotate_backward", "gradient", turned_in_place("rotate_backward", "gradient", gradient, rotation), rotation,
       positions, options, Way::transpose);
}

void rotate_backward_to(const ConstTensorView& gradient, const TensorView& out, const Rotation& rotation,
                        const Positions& positions, const RotateOptions& options) {
  turn("rotate_backward_to", "out", turned_to("rotate_backward_to", "gradient", gradient, out, rotation), rotation,
       positions, options, Way::transpose);
}

}  // namespace rotary
