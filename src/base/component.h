// The number that an element is made of: what has an order of bytes, and an alignment.
#pragma once

#include <algorithm>
#include <cstdint>

#include "rotary/dtype.hpp"

namespace rotary {

/// In bytes: half an element for complex types, 1 for those below a byte.
inline std::int64_t component_size(DType dtype) noexcept {
  const bool is_complex = dtype == DType::c64 || dtype == DType::c128;
  return std::max<std::int64_t>(bit_size(dtype) / (is_complex ? 16 : 8), 1);
}

/// Whether a processor can load such elements from there.
inline bool is_aligned(const void* data, DType dtype) noexcept {
  const auto size = static_cast<std::uintptr_t>(component_size(dtype));  // a power of two
  return (reinterpret_cast<std::uintptr_t>(data) & (size - 1)) == 0;
}

}  // namespace rotary
