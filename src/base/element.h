// One element of any floating dtype, widened to float or double. For reference loops and awkward layouts; kernels have their
// own ways.
#pragma once

#include <cassert>
#include <cstdint>

#include "rotary/dtype.hpp"

namespace rotary {

/// As a float or a double; exact, except from double to float.
template <class T>
T widened(double x) noexcept {
  return static_cast<T>(x);
}
template <class T>
T widened(float x) noexcept {
  return x;
}
template <class T>
T widened(float16 x) noexcept {
  return to_float(x);
}
template <class T>
T widened(bfloat16 x) noexcept {
  return to_float(x);
}

/// Exact. `dtype` is f64, f32, f16 or bf16.
inline double load_element(DType dtype, const void* data, std::int64_t index) noexcept {
  switch (dtype) {
    case DType::f64: return static_cast<const double*>(data)[index];
    case DType::f32: return static_cast<const float*>(data)[index];
    case DType::f16: return to_float(static_cast<const float16*>(data)[index]);
    case DType::bf16: return to_float(static_cast<const bfloat16*>(data)[index]);
    default: assert(false); return 0;
  }
}

/// Rounded once.
inline void store_element(DType dtype, void* data, std::int64_t index, double value) noexcept {
  switch (dtype) {
    case DType::f64: static_cast<double*>(data)[index] = value; return;
    case DType::f32: static_cast<float*>(data)[index] = static_cast<float>(value); return;
    case DType::f16: static_cast<float16*>(data)[index] = to_float16(value); return;
    case DType::bf16: static_cast<bfloat16*>(data)[index] = to_bfloat16(value); return;
    default: assert(false);
  }
}

}  // namespace rotary
