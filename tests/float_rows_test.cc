#include "kernels/float_rows.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace rotary {
namespace {

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

TEST(FloatRows, WidensEvery16BitNumberAtEveryLength) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    std::vector<std::uint16_t> all;
    for (std::uint32_t i = 0; i < 0x10000; ++i) all.push_back(static_cast<std::uint16_t>(i));
    for (const std::int64_t length : {0x10000, 1, 3, 7, 8, 15, 16, 17, 31, 33}) {
      std::vector<float> wide(static_cast<std::size_t>(length) + 1, -7);
      widen_row(dtype, all.data() + (0x10000 - length), length, wide.data());
      for (std::int64_t i = 0; i < length; ++i) {
        const std::uint16_t from = all[static_cast<std::size_t>(0x10000 - length + i)];
        const float expected = dtype == DType::f16 ? to_float(float16{from}) : to_float(bfloat16{from});
        const float actual = wide[static_cast<std::size_t>(i)];
        if (std::isnan(expected)) EXPECT_TRUE(std::isnan(actual)) << from;
        else EXPECT_EQ(bits(actual), bits(expected)) << from;
      }
      EXPECT_EQ(wide.back(), -7) << "nothing past the end";
    }
  }
}

TEST(FloatRows, NarrowsToTheNearestWithTiesToEven) {
  // Around every 16-bit number: itself, the midpoint to the next one, and the floats beside both.
  std::vector<float> numbers;
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    for (const float x :
         {to_float(float16{static_cast<std::uint16_t>(i)}), to_float(bfloat16{static_cast<std::uint16_t>(i)})}) {
      for (const std::uint32_t apart : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u}) {
        numbers.push_back(std::bit_cast<float>(bits(x) + apart));
      }
    }
  }
  numbers.push_back(std::bit_cast<float>(0x7fffffffu));  // NaNs whose payload would carry over in rounding
  numbers.push_back(std::bit_cast<float>(0xffffffffu));
  numbers.push_back(std::bit_cast<float>(0x7f800001u));
  for (const DType dtype : {DType::f16, DType::bf16}) {
    std::vector<std::uint16_t> narrow(numbers.size() + 1, 0x1234);
    narrow_row(numbers.data(), static_cast<std::int64_t>(numbers.size()), dtype, narrow.data());
    std::size_t different = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::uint16_t expected = dtype == DType::f16 ? to_float16(numbers[i]).bits : to_bfloat16(numbers[i]).bits;
      const std::uint16_t exponent = dtype == DType::f16 ? 0x7c00 : 0x7f80;
      if (std::isnan(numbers[i])) different += (narrow[i] & 0x7fff) <= exponent;  // any NaN will do
      else different += narrow[i] != expected;
    }
    EXPECT_EQ(different, 0u) << name(dtype);
    EXPECT_EQ(narrow.back(), 0x1234) << "nothing past the end";
  }
}

}  // namespace
}  // namespace rotary
