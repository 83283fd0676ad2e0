// Arithmetic on sizes that come from outside: the result, or "it does not fit".
#pragma once

#include <cstdint>
#include <optional>

namespace rotary {

inline std::optional<std::int64_t> checked_add(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

inline std::optional<std::int64_t> checked_mul(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// The number of elements of a shape; nothing when a length is negative or the product does not fit. A zero length gives
/// zero even where the other lengths alone would overflow.
template <class Shape>
std::optional<std::int64_t> checked_product(const Shape& shape) noexcept {
  std::int64_t product = 1;
  bool fits = true, empty = false;
  for (const std::int64_t length : shape) {
    if (length < 0) return std::nullopt;
    if (length == 0) empty = true;
    else if (__builtin_mul_overflow(product, length, &product)) fits = false;
  }
  if (empty) return 0;
  return fits ? std::optional(product) : std::nullopt;
}

}  // namespace rotary
