// Rows of any floating dtype from and to float or double.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <type_traits>

#include "base/element.h"
#include "rotary/dtype.hpp"

namespace rotary {

/// `length` numbers side by side, `dtype` f16 or bf16. Exact.
void widen_row(DType dtype, const void* from, std::int64_t length, float* to) noexcept;
/// Rounded once, to nearest, ties to even; a NaN stays one.
void narrow_row(const float* from, std::int64_t length, DType dtype, void* to) noexcept;

/// `length` numbers, `step` elements apart, from the element `first` on.
template <class T>
void load_row(DType dtype, const void* data, std::int64_t first, std::int64_t step, std::int64_t length, T* row) noexcept {
  if (step == 1 && dtype == dtype_of<T>) {
    std::copy_n(static_cast<const T*>(data) + first, length, row);
    return;
  }
  const auto load = [&](const auto* from) {
    for (std::int64_t i = 0; i < length; ++i) row[i] = widened<T>(from[first + i * step]);
  };
  if constexpr (std::is_same_v<T, float>) {
    if (step == 1 && bit_size(dtype) == 16) {
      return widen_row(dtype, static_cast<const std::uint16_t*>(data) + first, length, row);
    }
  }
  switch (dtype) {
    case DType::f64: return load(static_cast<const double*>(data));
    case DType::f32: return load(static_cast<const float*>(data));
    case DType::f16: return load(static_cast<const float16*>(data));
    case DType::bf16: return load(static_cast<const bfloat16*>(data));
    default: assert(false);
  }
}

/// Rounded once.
template <class T>
void store_row(const T* row, std::int64_t length, DType dtype, void* data, std::int64_t first, std::int64_t step) noexcept {
  if (step == 1 && dtype == dtype_of<T>) {
    std::copy_n(row, length, static_cast<T*>(data) + first);
    return;
  }
  const auto store = [&](auto* to, auto narrowed) {
    for (std::int64_t i = 0; i < length; ++i) to[first + i * step] = narrowed(row[i]);
  };
  if constexpr (std::is_same_v<T, float>) {
    if (step == 1 && bit_size(dtype) == 16) {
      return narrow_row(row, length, dtype, static_cast<std::uint16_t*>(data) + first);
    }
  }
  switch (dtype) {
    case DType::f64: return store(static_cast<double*>(data), [](T x) { return static_cast<double>(x); });
    case DType::f32: return store(static_cast<float*>(data), [](T x) { return static_cast<float>(x); });
    case DType::f16: return store(static_cast<float16*>(data), [](T x) { return to_float16(x); });
    case DType::bf16: return store(static_cast<bfloat16*>(data), [](T x) { return to_bfloat16(x); });
    default: assert(false);
  }
}

}  // namespace rotary
