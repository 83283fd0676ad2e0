// One row of channels: from any dtype and stride to contiguous numbers of the type that computes, and back.
#pragma once

#include <cassert>
#include <cstdint>

#include "rotary/dtype.hpp"

namespace rotary {

inline double widened(double x) noexcept { return x; }
inline float widened(float x) noexcept { return x; }
inline float widened(float16 x) noexcept { return to_float(x); }
inline float widened(bfloat16 x) noexcept { return to_float(x); }

template <class E, class T>
void load_strided(const E* from, std::int64_t stride, std::int64_t length, T* row) noexcept {
  if (stride == 1) {
    for (std::int64_t i = 0; i < length; ++i) row[i] = static_cast<T>(widened(from[i]));
  } else {
    for (std::int64_t i = 0; i < length; ++i) row[i] = static_cast<T>(widened(from[i * stride]));
  }
}

/// `length` elements from `data[first]` on.
template <class T>
void load_row(DType dtype, const void* data, std::int64_t first, std::int64_t stride, std::int64_t length,
              T* row) noexcept {
  switch (dtype) {
    case DType::f64: return load_strided(static_cast<const double*>(data) + first, stride, length, row);
    case DType::f32: return load_strided(static_cast<const float*>(data) + first, stride, length, row);
    case DType::f16: return load_strided(static_cast<const float16*>(data) + first, stride, length, row);
    case DType::bf16: return load_strided(static_cast<const bfloat16*>(data) + first, stride, length, row);
    default: assert(false);
  }
}

/// Rounds once.
template <class T>
void store_row(const T* row, std::int64_t length, DType dtype, void* data, std::int64_t first,
               std::int64_t stride) noexcept {
  const auto store = [&](auto* to, auto narrow) {
    for (std::int64_t i = 0; i < length; ++i) to[first + i * stride] = narrow(row[i]);
  };
  switch (dtype) {
    case DType::f64: return store(static_cast<double*>(data), [](T x) { return static_cast<double>(x); });
    case DType::f32: return store(static_cast<float*>(data), [](T x) { return static_cast<float>(x); });
    case DType::f16: return store(static_cast<float16*>(data), [](T x) { return to_float16(x); });
    case DType::bf16: return store(static_cast<bfloat16*>(data), [](T x) { return to_bfloat16(x); });
    default: assert(false);
  }
}

}  // namespace rotary
