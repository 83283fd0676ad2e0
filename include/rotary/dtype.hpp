// Element types, and the two 16-bit floats that C++20 lacks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rotary/export.hpp"

namespace rotary {

/// Every element type that a file can hold. Operations compute on f64, f32, f16 and bf16; positions are i32, i64 or f64.
enum class DType : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
  c128,
  c64,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  f6_e2m3,
  f6_e3m2,
  f4,
};

ROTARY_API std::int64_t bit_size(DType dtype) noexcept;
ROTARY_API const char* name(DType dtype) noexcept;    ///< "float32", "bfloat16", …
ROTARY_API bool is_real_float(DType dtype) noexcept;  ///< f64, f32, f16 or bf16

struct float16 {
  std::uint16_t bits;
};
struct bfloat16 {
  std::uint16_t bits;
};

/// Exact. A NaN stays a NaN with its payload and becomes quiet.
ROTARY_API float to_float(float16 value) noexcept;
ROTARY_API float to_float(bfloat16 value) noexcept;

/// Rounded once, to nearest with ties to even, subnormals included; past the largest finite value to infinity.
/// A NaN stays a NaN and becomes quiet.
ROTARY_API float16 to_float16(float value) noexcept;
ROTARY_API float16 to_float16(double value) noexcept;
ROTARY_API bfloat16 to_bfloat16(float value) noexcept;
ROTARY_API bfloat16 to_bfloat16(double value) noexcept;

/// The DType of a C++ element type: dtype_of<float> == DType::f32.
template <class T>
inline constexpr DType dtype_of = T::no_such_element_type;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<float16> = DType::f16;
template <>
inline constexpr DType dtype_of<bfloat16> = DType::bf16;
template <>
inline constexpr DType dtype_of<std::int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;

}  // namespace rotary
