// The doors: everything is checked here, before anything is written.
#include "rotary/rotate.hpp"

#include <array>

#include "base/fail.h"
#include "rotation/heads.h"
#include "rotation/rotate_tensors.h"
#include "rotation/token_angles.h"

namespace rotary {
namespace {

bool same_view(const ConstTensorView& a, const ConstTensorView& b) {
  if (a.data() != b.data() || a.dtype() != b.dtype()) return false;
  for (const char axis : {'B', 'S', 'T', 'H', 'D'}) {
    if (a.size(axis) > 1 && a.stride(axis) != b.stride(axis)) return false;
  }
  return true;
}

void check_same_shape(const char* operation, const ConstTensorView& x, const ConstTensorView& out) {
  for (const char axis : {'B', 'S', 'T', 'H', 'D'}) {
    if (x.has(axis) != out.has(axis) || x.size(axis) != out.size(axis)) {
      fail_argument(operation, "x and out must have the same axes and lengths, got \"", x.axes().c_str(), "\" and \"",
                    out.axes().c_str(), "\" with ", x.size(axis), " and ", out.size(axis), " along ", axis);
    }
  }
}

}  // namespace

void rotate(const TensorView& q, const TensorView& k, const Rotation& rotation, const Positions& positions,
            const RotateOptions& options) {
  const TensorView turned_q = writable_heads("rotate", "q", q, rotation);
  const TensorView turned_k = writable_heads("rotate", "k", k, rotation);
  const Tokens tokens = tokens_of("rotate", turned_q);
  if (tokens_of("rotate", turned_k) != tokens) {
    const Tokens others = tokens_of("rotate", turned_k);
    fail_argument("rotate", "q and k must have the same tokens, got ", tokens.batch, " x ", tokens.length, " and ",
                  others.batch, " x ", others.length, tokens.packed != others.packed ? ", one of them packed" : "");
  }
  if (may_share_memory(turned_q, turned_k)) fail_argument("rotate", "q and k must not overlap");
  const TokenAngles angles("rotate", rotation, positions, tokens, options);
  const TensorToRotate both[] = {{turned_q, turned_q}, {turned_k, turned_k}};
  rotate_tensors(both, tokens, PairMap::forward(rotation), angles, options.executor);
}

void rotate(const TensorView& x, const Rotation& rotation, const Positions& positions, const RotateOptions& options) {
  const TensorView turned = writable_heads("rotate", "x", x, rotation);
  const Tokens tokens = tokens_of("rotate", turned);
  const TokenAngles angles("rotate", rotation, positions, tokens, options);
  rotate_tensors(std::array{TensorToRotate{turned, turned}}, tokens, PairMap::forward(rotation), angles, options.executor);
}

void rotate_to(const ConstTensorView& x, const TensorView& out, const Rotation& rotation, const Positions& positions,
               const RotateOptions& options) {
  const ConstTensorView source = heads("rotate_to", "x", x, rotation);
  const TensorView target = writable_heads("rotate_to", "out", out, rotation);
  check_same_shape("rotate_to", source, target);
  if (!same_view(source, target) && may_share_memory(source, target)) {
    fail_argument("rotate_to", "out must be x itself or not overlap it");
  }
  const Tokens tokens = tokens_of("rotate_to", source);
  const TokenAngles angles("rotate_to", rotation, positions, tokens, options);
  rotate_tensors(std::array{TensorToRotate{source, target}}, tokens, PairMap::forward(rotation), angles, options.executor);
}

void unrotate(const TensorView& x, const Rotation& rotation, const Positions& positions, const RotateOptions& options) {
  const TensorView turned = writable_heads("unrotate", "x", x, rotation);
  const Tokens tokens = tokens_of("unrotate", turned);
  TokenAngles angles("unrotate", rotation, positions, tokens, options);
  angles.negate();
  angles.scale(1 / (rotation.amplitude() * rotation.amplitude()));  // the amplitude is in the angles already
  rotate_tensors(std::array{TensorToRotate{turned, turned}}, tokens, PairMap::backward(rotation), angles, options.executor);
}

void rotate_backward(const TensorView& gradient, const Rotation& rotation, const Positions& positions,
                     const RotateOptions& options) {
  const TensorView turned = writable_heads("rotate_backward", "gradient", gradient, rotation);
  const Tokens tokens = tokens_of("rotate_backward", turned);
  TokenAngles angles("rotate_backward", rotation, positions, tokens, options);
  angles.negate();
  rotate_tensors(std::array{TensorToRotate{turned, turned}}, tokens, PairMap::backward(rotation), angles, options.executor);
}

}  // namespace rotary
