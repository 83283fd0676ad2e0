#include "rotary/dtype.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace rotary {
namespace {

// A 16-bit float format by plain arithmetic: its finite values in order, each a double; rounding is a search among them.
class Format {
 public:
  Format(int exponent_bits, int mantissa_bits) : exponent_bits_(exponent_bits), mantissa_bits_(mantissa_bits) {
    for (int bits = 0; bits <= infinity(); ++bits) values_.push_back(finite(bits));
  }

  int infinity() const { return ((1 << exponent_bits_) - 1) << mantissa_bits_; }
  int quiet_bit() const { return 1 << (mantissa_bits_ - 1); }
  static bool negative(int bits) { return (bits & 0x8000) != 0; }
  bool is_nan(int bits) const { return (bits & 0x7fff) > infinity(); }
  /// The value of a pattern without sign; infinity's is where the next finite value would be.
  double value(int bits) const { return values_[static_cast<std::size_t>(bits)]; }

  /// The nearest value, ties to the even pattern.
  int nearest(double x) const {
    const int sign = std::signbit(x) ? 0x8000 : 0;
    x = std::abs(x);
    if (x >= values_.back()) return sign | infinity();
    const auto above = std::upper_bound(values_.begin(), values_.end(), x) - values_.begin();
    const int low = static_cast<int>(above) - 1;
    const double middle = (value(low) + value(low + 1)) / 2;  // exact: one more bit than the format has
    const bool up = x > middle || (x == middle && low % 2 == 1);
    return sign | (up ? low + 1 : low);
  }

 private:
  double finite(int bits) const {
    const int bias = (1 << (exponent_bits_ - 1)) - 1;
    const int exponent = bits >> mantissa_bits_;
    const int mantissa = bits & ((1 << mantissa_bits_) - 1);
    if (exponent == 0) return std::ldexp(mantissa, 1 - bias - mantissa_bits_);
    return std::ldexp(mantissa + (1 << mantissa_bits_), exponent - bias - mantissa_bits_);
  }

  int exponent_bits_, mantissa_bits_;
  std::vector<double> values_;
};

const Format half_format(5, 10);
const Format bfloat_format(8, 7);

// The same tests for both formats.
struct Half {
  using Type = float16;
  static const Format& format() { return half_format; }
  template <class T>
  static int narrow(T x) {
    return to_float16(x).bits;
  }
};
struct Bfloat {
  using Type = bfloat16;
  static const Format& format() { return bfloat_format; }
  template <class T>
  static int narrow(T x) {
    return to_bfloat16(x).bits;
  }
};

template <class T>
class SixteenBits : public testing::Test {};
using Formats = testing::Types<Half, Bfloat>;
class FormatNames {
 public:
  template <class T>
  static std::string GetName(int) {
    return name(dtype_of<typename T::Type>);
  }
};
TYPED_TEST_SUITE(SixteenBits, Formats, FormatNames);

/// Halfway between every two neighbours, and just beside it; sizes that have no neighbour; and a million others.
template <class Number>
std::vector<Number> hard_numbers(const Format& format) {
  constexpr Number infinity = std::numeric_limits<Number>::infinity();
  std::vector<Number> numbers = {0, std::numeric_limits<Number>::denorm_min(), std::numeric_limits<Number>::min(),
                                 std::numeric_limits<Number>::max(), infinity};
  for (int bits = 0; bits < format.infinity(); ++bits) {
    const auto middle = static_cast<Number>((format.value(bits) + format.value(bits + 1)) / 2);
    const auto exact = static_cast<Number>(format.value(bits));
    for (const Number x : {middle, exact}) {
      numbers.insert(numbers.end(), {x, std::nextafter(x, Number{0}), std::nextafter(x, infinity)});
    }
  }
  std::mt19937_64 random(1);
  using Bits = std::conditional_t<sizeof(Number) == 8, std::uint64_t, std::uint32_t>;
  for (int i = 0; i < 1000000; ++i) {
    const auto x = std::bit_cast<Number>(static_cast<Bits>(random()));
    if (!std::isnan(x)) numbers.push_back(x);
  }
  const std::size_t count = numbers.size();
  for (std::size_t i = 0; i < count; ++i) numbers.push_back(-numbers[i]);
  return numbers;
}

TYPED_TEST(SixteenBits, EveryPatternWidensToItsValue) {
  const Format& format = TypeParam::format();
  for (int bits = 0; bits < 0x10000; ++bits) {
    const float wide = to_float(typename TypeParam::Type{static_cast<std::uint16_t>(bits)});
    ASSERT_EQ(std::signbit(wide), format.negative(bits)) << bits;
    const int magnitude = bits & 0x7fff;
    if (format.is_nan(bits)) ASSERT_TRUE(std::isnan(wide)) << bits;
    else if (magnitude == format.infinity()) ASSERT_TRUE(std::isinf(wide)) << bits;
    else ASSERT_EQ(std::abs(static_cast<double>(wide)), format.value(magnitude)) << bits;
  }
}

TYPED_TEST(SixteenBits, EveryPatternComesBackFromFloatAndDouble) {
  const Format& format = TypeParam::format();
  for (int bits = 0; bits < 0x10000; ++bits) {
    const float wide = to_float(typename TypeParam::Type{static_cast<std::uint16_t>(bits)});
    const int expected = format.is_nan(bits) ? bits | format.quiet_bit() : bits;
    ASSERT_EQ(TypeParam::narrow(wide), expected);
    ASSERT_EQ(TypeParam::narrow(static_cast<double>(wide)), expected);
  }
}

TYPED_TEST(SixteenBits, FloatRoundsToNearestWithTiesToEven) {
  for (const float x : hard_numbers<float>(TypeParam::format())) {
    ASSERT_EQ(TypeParam::narrow(x), TypeParam::format().nearest(static_cast<double>(x))) << x;
  }
}

TYPED_TEST(SixteenBits, DoubleRoundsOnce) {
  int rounded_twice = 0;
  for (const double x : hard_numbers<double>(TypeParam::format())) {
    ASSERT_EQ(TypeParam::narrow(x), TypeParam::format().nearest(x)) << x;
    if (TypeParam::narrow(x) != TypeParam::narrow(static_cast<float>(x))) ++rounded_twice;
  }
  EXPECT_GT(rounded_twice, 10000) << "these numbers cannot tell one rounding from two";
}

TYPED_TEST(SixteenBits, NanStaysNanAndBecomesQuiet) {
  const Format& format = TypeParam::format();
  // Signalling, with nothing in the bits that a 16-bit float keeps: must not turn into infinity.
  for (const std::uint32_t sign : {0u, 0x80000000u}) {
    const int expected = static_cast<int>(sign >> 16) | format.infinity() | format.quiet_bit();
    EXPECT_EQ(TypeParam::narrow(std::bit_cast<float>(sign | 0x7f800001u)), expected);
    EXPECT_EQ(TypeParam::narrow(std::bit_cast<double>(std::uint64_t{sign} << 32 | 0x7ff0000000000001u)), expected);
  }
  // A float NaN made from a 16-bit one carries its payload, and is quiet.
  for (int bits = format.infinity() + 1; bits < 0x8000; ++bits) {
    const float wide = to_float(typename TypeParam::Type{static_cast<std::uint16_t>(bits)});
    const int mantissa_bits = std::countr_zero(static_cast<unsigned>(format.quiet_bit())) + 1;
    const auto payload = static_cast<std::uint32_t>(bits - format.infinity()) << (23 - mantissa_bits);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(wide), 0x7fc00000u | payload);
  }
}

TEST(Float16, OverflowsToInfinityFromHalfwayPastTheLargest) {
  EXPECT_EQ(to_float16(65504.0f).bits, 0x7bff);
  EXPECT_EQ(to_float16(std::nextafter(65520.0f, 0.0f)).bits, 0x7bff);
  EXPECT_EQ(to_float16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(to_float16(-65520.0).bits, 0xfc00);
  EXPECT_EQ(to_float16(1e300).bits, 0x7c00);
}

#if defined(__FLT16_MAX__)
TEST(Float16, AgreesWithTheCompiler) {
  __extension__ typedef _Float16 Native;
  for (int bits = 0; bits < 0x10000; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    const auto native = static_cast<float>(std::bit_cast<Native>(pattern));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(to_float(float16{pattern})), std::bit_cast<std::uint32_t>(native)) << bits;
  }
  for (const float x : hard_numbers<float>(half_format)) {
    ASSERT_EQ(to_float16(x).bits, std::bit_cast<std::uint16_t>(static_cast<Native>(x))) << x;
  }
  for (const double x : hard_numbers<double>(half_format)) {
    ASSERT_EQ(to_float16(x).bits, std::bit_cast<std::uint16_t>(static_cast<Native>(x))) << x;
  }
}
#endif

TEST(DType, EveryTypeHasItsSizeAndAName) {
  const struct {
    DType dtype;
    int bits;
    const char* name;
  } expected[] = {
      {DType::f64, 64, "float64"},
      {DType::f32, 32, "float32"},
      {DType::f16, 16, "float16"},
      {DType::bf16, 16, "bfloat16"},
      {DType::i64, 64, "int64"},
      {DType::i32, 32, "int32"},
      {DType::i16, 16, "int16"},
      {DType::i8, 8, "int8"},
      {DType::u64, 64, "uint64"},
      {DType::u32, 32, "uint32"},
      {DType::u16, 16, "uint16"},
      {DType::u8, 8, "uint8"},
      {DType::boolean, 8, "bool"},
      {DType::c128, 128, "complex128"},
      {DType::c64, 64, "complex64"},
      {DType::f8_e5m2, 8, "float8_e5m2"},
      {DType::f8_e4m3, 8, "float8_e4m3fn"},
      {DType::f8_e8m0, 8, "float8_e8m0fnu"},
      {DType::f8_e4m3fnuz, 8, "float8_e4m3fnuz"},
      {DType::f8_e5m2fnuz, 8, "float8_e5m2fnuz"},
      {DType::f6_e2m3, 6, "float6_e2m3"},
      {DType::f6_e3m2, 6, "float6_e3m2"},
      {DType::f4, 4, "float4_e2m1"},
  };
  std::set<std::string> names;
  for (const auto& e : expected) {
    EXPECT_EQ(bit_size(e.dtype), e.bits) << e.name;
    EXPECT_STREQ(name(e.dtype), e.name);
    names.insert(name(e.dtype));
    EXPECT_EQ(is_real_float(e.dtype), e.dtype <= DType::bf16) << e.name;
  }
  EXPECT_EQ(names.size(), std::size(expected));
  EXPECT_EQ(std::size(expected), static_cast<std::size_t>(DType::f4) + 1);
}

TEST(DType, FollowsFromTheElementType) {
  static_assert(dtype_of<double> == DType::f64 && dtype_of<float> == DType::f32);
  static_assert(dtype_of<float16> == DType::f16 && dtype_of<bfloat16> == DType::bf16);
  static_assert(dtype_of<std::int64_t> == DType::i64 && dtype_of<std::int32_t> == DType::i32);
  static_assert(sizeof(float16) == 2 && sizeof(bfloat16) == 2);
}

}  // namespace
}  // namespace rotary
