// What every tensor to turn must be.
#pragma once

#include "rotary/rotation.hpp"
#include "rotary/tensor.hpp"
#include "rotation/rotate_tensors.h"

namespace rotary {

/// The tensor as real numbers: a complex one becomes a real one of twice the width. Throws Error (invalid_argument), in the
/// name of `operation`, unless its axes are among B, S, T, H and D, its dtype is f64, f32, f16, bf16, c128 or c64, and its
/// width is the rotation's head_dim.
ConstTensorView heads(const char* operation, const char* what, const ConstTensorView& x, const Rotation& rotation);

/// A tensor that is turned where it lies: checked like that, and its elements must not overlap each other.
TensorToRotate turned_in_place(const char* operation, const char* what, const TensorView& x, const Rotation& rotation);
/// A tensor that is turned to `out`: both checked like that, of the same axes and lengths, and the same view or apart.
TensorToRotate turned_to(const char* operation, const char* what, const ConstTensorView& x, const TensorView& out,
                         const Rotation& rotation);

}  // namespace rotary
