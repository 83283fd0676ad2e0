// Rows of 16-bit floats from and to float32.
#pragma once

#include <cstdint>

#include "rotary/dtype.hpp"

namespace rotary {

/// `length` numbers side by side, `dtype` f16 or bf16. Exact.
void widen_row(DType dtype, const void* from, std::int64_t length, float* to) noexcept;
/// Rounded once, to nearest, ties to even; a NaN stays one.
void narrow_row(const float* from, std::int64_t length, DType dtype, void* to) noexcept;

}  // namespace rotary
