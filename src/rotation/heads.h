// What every tensor to turn must be.
#pragma once

#include "rotary/rotation.hpp"
#include "rotary/tensor.hpp"

namespace rotary {

/// The tensor as real numbers: a complex one becomes a real one of twice the width. Throws Error (invalid_argument), in the
/// name of `operation`, unless its axes are among B, S, T, H and D, its dtype is f64, f32, f16, bf16, c128 or c64, and its
/// width is the rotation's head_dim.
ConstTensorView heads(const char* operation, const char* what, const ConstTensorView& x, const Rotation& rotation);
/// The same for one that is written: its elements must not overlap each other.
TensorView writable_heads(const char* operation, const char* what, const TensorView& x, const Rotation& rotation);

}  // namespace rotary
