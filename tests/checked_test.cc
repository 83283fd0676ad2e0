#include "base/checked.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace rotary {
namespace {

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
using Shape = std::vector<std::int64_t>;

TEST(CheckedAdd, SaysWhenASumDoesNotFit) {
  EXPECT_EQ(checked_add(largest - 1, 1), largest);
  EXPECT_EQ(checked_add(largest, 1), std::nullopt);
  EXPECT_EQ(checked_add(lowest, -1), std::nullopt);
  EXPECT_EQ(checked_add(lowest, largest), -1);
}

TEST(CheckedMul, SaysWhenAProductDoesNotFit) {
  EXPECT_EQ(checked_mul(std::int64_t{1} << 31, std::int64_t{1} << 31), std::int64_t{1} << 62);
  EXPECT_EQ(checked_mul(std::int64_t{1} << 32, std::int64_t{1} << 31), std::nullopt);
  EXPECT_EQ(checked_mul(lowest, -1), std::nullopt);
  EXPECT_EQ(checked_mul(lowest, 1), lowest);
}

TEST(CheckedProduct, CountsTheElementsOfAShape) {
  EXPECT_EQ(checked_product(Shape{}), 1);
  EXPECT_EQ(checked_product(Shape{2, 3, 5}), 30);
  EXPECT_EQ(checked_product(Shape{largest, 2}), std::nullopt);
  EXPECT_EQ(checked_product(Shape{2, -1}), std::nullopt);
}

TEST(CheckedProduct, OfAnEmptyTensorIsZeroWhateverTheOtherLengths) {
  EXPECT_EQ(checked_product(Shape{largest, largest, 0}), 0);
  EXPECT_EQ(checked_product(Shape{0, largest, largest}), 0);
  EXPECT_EQ(checked_product(Shape{0, -1}), std::nullopt);
}

}  // namespace
}  // namespace rotary
