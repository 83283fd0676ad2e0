#include "rotary/dtype.hpp"

#include <array>
#include <bit>
#include <cstddef>

namespace rotary {
namespace {

struct Properties {
  int bits;
  const char* name;
};

constexpr Properties properties(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64: return {64, "float64"};
    case DType::f32: return {32, "float32"};
    case DType::f16: return {16, "float16"};
    case DType::bf16: return {16, "bfloat16"};
    case DType::i64: return {64, "int64"};
    case DType::i32: return {32, "int32"};
    case DType::i16: return {16, "int16"};
    case DType::i8: return {8, "int8"};
    case DType::u64: return {64, "uint64"};
    case DType::u32: return {32, "uint32"};
    case DType::u16: return {16, "uint16"};
    case DType::u8: return {8, "uint8"};
    case DType::boolean: return {8, "bool"};
    case DType::c128: return {128, "complex128"};
    case DType::c64: return {64, "complex64"};
    case DType::f8_e5m2: return {8, "float8_e5m2"};
    case DType::f8_e4m3: return {8, "float8_e4m3fn"};
    case DType::f8_e8m0: return {8, "float8_e8m0fnu"};
    case DType::f8_e4m3fnuz: return {8, "float8_e4m3fnuz"};
    case DType::f8_e5m2fnuz: return {8, "float8_e5m2fnuz"};
    case DType::f6_e2m3: return {6, "float6_e2m3"};
    case DType::f6_e3m2: return {6, "float6_e3m2"};
    case DType::f4: return {4, "float4_e2m1"};
  }
  return {0, "unknown"};
}

/// Of every DType: every call of an operation asks for some, and finds them sooner here than by a switch.
constexpr auto bit_sizes = [] {
  std::array<std::uint8_t, static_cast<std::size_t>(DType::f4) + 1> sizes{};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    sizes[i] = static_cast<std::uint8_t>(properties(static_cast<DType>(i)).bits);
  }
  return sizes;
}();

/// Rounds a double to a 16-bit float with `mantissa_bits` stored bits and `exponent_bits`, to nearest, ties to even. A
/// float is exactly a double, so this one path rounds both of them once.
constexpr std::uint16_t narrow(double value, int mantissa_bits, int exponent_bits) noexcept {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
  const std::uint16_t sign = static_cast<std::uint16_t>(bits >> 63 << 15);
  const std::uint64_t magnitude = bits & ~(std::uint64_t{1} << 63);
  const std::uint64_t infinity64 = std::uint64_t{0x7ff} << 52;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const std::uint16_t infinity16 = static_cast<std::uint16_t>(((1 << exponent_bits) - 1) << mantissa_bits);

  if (magnitude > infinity64) {  // NaN: keep the upper payload bits, set the quiet bit
    const auto payload = static_cast<std::uint16_t>((magnitude >> (52 - mantissa_bits)) & ((1u << mantissa_bits) - 1));
    return static_cast<std::uint16_t>(sign | infinity16 | (1u << (mantissa_bits - 1)) | payload);
  }
  if (magnitude == infinity64) return sign | infinity16;

  const int exponent = static_cast<int>(magnitude >> 52) - 1023;
  if (exponent < -bias - mantissa_bits - 1)
    return sign;  // below half of the smallest subnormal (also every double subnormal)
  const std::uint64_t significand = (magnitude & ((std::uint64_t{1} << 52) - 1)) | (std::uint64_t{1} << 52);

  // The kept part of the significand ends `drop` bits from the right; subnormal results keep fewer.
  const bool subnormal = exponent < 1 - bias;
  const int drop = 52 - mantissa_bits + (subnormal ? 1 - bias - exponent : 0);
  const std::uint64_t kept = significand >> drop;
  const std::uint64_t rest = significand & ((std::uint64_t{1} << drop) - 1);
  const std::uint64_t half = std::uint64_t{1} << (drop - 1);
  const std::uint64_t rounded = kept + (rest > half || (rest == half && (kept & 1)) ? 1 : 0);

  // Adding the exponent lets a carry out of the significand move into it, up to infinity.
  const std::uint64_t biased =
      subnormal ? rounded : rounded + (static_cast<std::uint64_t>(exponent + bias - 1) << mantissa_bits);
  return static_cast<std::uint16_t>(sign | (biased >= infinity16 ? infinity16 : biased));
}

}  // namespace

std::int64_t bit_size(DType dtype) noexcept {
  const auto i = static_cast<std::size_t>(dtype);
  return i < bit_sizes.size() ? bit_sizes[i] : 0;
}
const char* name(DType dtype) noexcept { return properties(dtype).name; }

bool is_real_float(DType dtype) noexcept {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

float to_float(bfloat16 value) noexcept {
  std::uint32_t bits = std::uint32_t{value.bits} << 16;
  if ((bits & 0x7fffffffu) > 0x7f800000u) bits |= 0x00400000u;
  return std::bit_cast<float>(bits);
}

float to_float(float16 value) noexcept {
  const std::uint32_t sign = std::uint32_t{value.bits} >> 15 << 31;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1fu;
  const std::uint32_t mantissa = value.bits & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(static_cast<float>(mantissa) * 0x1p-24f));
  }
  if (exponent == 0x1f) {
    const std::uint32_t quiet = mantissa != 0 ? 0x00400000u : 0;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | mantissa << 13);
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

float16 to_float16(double value) noexcept { return {narrow(value, 10, 5)}; }
float16 to_float16(float value) noexcept { return {narrow(value, 10, 5)}; }
bfloat16 to_bfloat16(double value) noexcept { return {narrow(value, 7, 8)}; }
bfloat16 to_bfloat16(float value) noexcept { return {narrow(value, 7, 8)}; }

}  // namespace rotary
