// Turning tensors in plain double loops: the oracle, and the place to read what a rotation does.
#pragma once

#include <cstdint>
#include <functional>

#include "rotary/rotation.hpp"
#include "rotary/tensor.hpp"

namespace rotary::reference {

/// Where a token stands along one axis of the position.
using PositionOf = std::function<double(std::int64_t row, std::int64_t token, int axis)>;

/// `out` has the axes and lengths of x (B, S or T, H, D), any float dtype, and may be x. Every number is computed in double
/// from exact angles and rounded once.
void rotate(const ConstTensorView& x, const TensorView& out, const Rotation& rotation, const PositionOf& position);
void unrotate(const ConstTensorView& x, const TensorView& out, const Rotation& rotation, const PositionOf& position);
void rotate_backward(const ConstTensorView& x, const TensorView& out, const Rotation& rotation, const PositionOf& position);
void shift(const ConstTensorView& x, const TensorView& out, const Rotation& rotation, const PositionOf& distance);

}  // namespace rotary::reference
