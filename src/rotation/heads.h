// What every tensor to turn must be.
#pragma once

#include "rotary/rotation.hpp"
#include "rotary/tensor.hpp"
#include "rotation/rotate_tensors.h"

namespace rotary {

// As real numbers: a complex tensor becomes a real one of twice the width. Both throw Error (invalid_argument), in the name of
// `operation`, unless all axes are among B, S, T, H and D, the dtype is f64, f32, f16, bf16, c128 or c64, and the width is the
// rotation's head_dim.

/// A tensor that is turned where it lies: its elements must not overlap each other.
TensorToRotate turned_in_place(const char* operation, const char* what, const TensorView& x, const Rotation& rotation);
/// A tensor that is turned to `out`, whose elements must not overlap each other: both of the same axes and lengths, and the same
/// view or apart.
TensorToRotate turned_to(const char* operation, const char* what, const ConstTensorView& x, const TensorView& out,
                         const Rotation& rotation);

}  // namespace rotary
