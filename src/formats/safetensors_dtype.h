// The names that safetensors gives to element types.
#pragma once

#include <string_view>

#include "rotary/dtype.hpp"

namespace rotary {

struct SafetensorsDType {
  DType dtype;
  std::string_view name;
};

/// In the order of the reference's own list, narrowest first: its writer sorts by it, from the end.
inline constexpr SafetensorsDType safetensors_dtypes[] = {
    {DType::boolean, "BOOL"},
    {DType::f4, "F4"},
    {DType::f6_e2m3, "F6_E2M3"},
    {DType::f6_e3m2, "F6_E3M2"},
    {DType::u8, "U8"},
    {DType::i8, "I8"},
    {DType::f8_e5m2, "F8_E5M2"},
    {DType::f8_e4m3, "F8_E4M3"},
    {DType::f8_e8m0, "F8_E8M0"},
    {DType::f8_e4m3fnuz, "F8_E4M3FNUZ"},
    {DType::f8_e5m2fnuz, "F8_E5M2FNUZ"},
    {DType::i16, "I16"},
    {DType::u16, "U16"},
    {DType::f16, "F16"},
    {DType::bf16, "BF16"},
    {DType::i32, "I32"},
    {DType::u32, "U32"},
    {DType::f32, "F32"},
    {DType::c64, "C64"},
    {DType::f64, "F64"},
    {DType::i64, "I64"},
    {DType::u64, "U64"},
};

}  // namespace rotary
