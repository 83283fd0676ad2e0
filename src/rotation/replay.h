// The float32 recipes of other systems, step by step.
#pragma once

#include "rotary/rotation.hpp"

namespace rotary {

/// ggml's description of a rotation: pair j turns by theta_scale^j * freq_scale / divisors[j] per position.
struct GgmlRope {
  float theta_scale = 1;
  float freq_scale = 1;
};

/// Recovers it from inv_freq. Throws Error (unsupported) where that is no geometric sequence.
GgmlRope ggml_rope(const char* operation, const Rotation& rotation);

/// The float32 numbers, kept in T: float or double.
template <class T>
void ggml_row(const Rotation& rotation, const GgmlRope& rope, const double* position, T* cos, T* sin) noexcept;

template <class T>
void transformers_row(const Rotation& rotation, const double* position, T* cos, T* sin) noexcept;

}  // namespace rotary
