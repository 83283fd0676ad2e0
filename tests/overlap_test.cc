// Whether views share memory, against counting every bit that they reach.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "rotary/tensor.hpp"

namespace rotary {
namespace {

/// How often the view reaches each bit, counted from `origin`.
std::map<std::int64_t, int> bits_reached(const ConstTensorView& view, const char* origin) {
  std::map<std::int64_t, int> reached;
  const std::int64_t start = (static_cast<const char*>(view.data()) - origin) * 8;
  for (std::int64_t n = 0; n < view.num_elements(); ++n) {
    std::int64_t element = 0;
    std::int64_t rest = n;
    for (int i = view.rank() - 1; i >= 0; --i) {
      element += rest % view.shape()[i] * view.strides()[i];
      rest /= view.shape()[i];
    }
    for (std::int64_t bit = 0; bit < bit_size(view.dtype()); ++bit)
      ++reached[start + element * bit_size(view.dtype()) + bit];
  }
  return reached;
}

bool counted_overlap(const ConstTensorView& view) {
  for (const auto& [bit, times] : bits_reached(view, static_cast<const char*>(view.data()))) {
    if (times > 1) return true;
  }
  return false;
}

bool counted_sharing(const ConstTensorView& a, const ConstTensorView& b) {
  const char* origin = static_cast<const char*>(a.data());
  const auto in_a = bits_reached(a, origin);
  for (const auto& [bit, times] : bits_reached(b, origin)) {
    if (in_a.count(bit) != 0) return true;
  }
  return false;
}

class RandomViews {
 public:
  /// A view whose first element lies in the middle of a buffer that is large enough for all of them.
  ConstTensorView next(int largest_stride) {
    static const DType dtypes[] = {DType::f64, DType::f32, DType::f16, DType::u8, DType::f4};
    const auto rank = static_cast<int>(below(4)) + 1;
    static const char* const axes[] = {"", "B", "BS", "BSH", "BSHD"};
    std::int64_t shape[4], strides[4];
    for (int i = 0; i < rank; ++i) {
      shape[i] = below(5) == 0 ? below(2) : 1 + below(4);
      strides[i] = below(2 * largest_stride + 1) - largest_stride;
    }
    const DType dtype = dtypes[below(5)];
    const std::int64_t size = bit_size(dtype) < 8 ? 1 : bit_size(dtype) / 8;
    const char* const data = buffer_ + sizeof buffer_ / 2 + below(60) / size * size;  // views must be aligned
    return {data, dtype, axes[rank], Dims(shape, rank), Dims(strides, rank)};
  }

 private:
  std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n)); }

  std::mt19937_64 random_{1};
  alignas(8) char buffer_[8192];
};

TEST(Overlap, OfOneViewAgreesWithCounting) {
  RandomViews views;
  int overlapping = 0, apart = 0;
  for (int i = 0; i < 20000; ++i) {
    const ConstTensorView view = views.next(i % 2 == 0 ? 12 : 40);
    const bool expected = counted_overlap(view);
    ASSERT_EQ(overlaps_itself(view), expected) << i;
    ++(expected ? overlapping : apart);
  }
  EXPECT_GT(overlapping, 2000);
  EXPECT_GT(apart, 2000);
}

TEST(Overlap, OfTwoViewsAgreesWithCounting) {
  RandomViews views;
  int overlapping = 0, apart = 0;
  for (int i = 0; i < 20000; ++i) {
    const ConstTensorView a = views.next(i % 2 == 0 ? 5 : 30), b = views.next(i % 2 == 0 ? 5 : 30);
    const bool expected = counted_sharing(a, b);
    ASSERT_EQ(may_share_memory(a, b), expected) << i;
    ASSERT_EQ(may_share_memory(b, a), expected) << i;
    ++(expected ? overlapping : apart);
  }
  EXPECT_GT(overlapping, 2000);
  EXPECT_GT(apart, 2000);
}

/// The tensors that a real layer has: q, k and v as slices of one projection.
class FusedProjection : public testing::Test {
 protected:
  static constexpr std::int64_t batch = 2, length = 17, heads = 6, kv_heads = 2, width = 64;
  std::vector<float> data_ = std::vector<float>(batch * length * (heads + 2 * kv_heads) * width);
  TensorView all_{data_.data(), "BSHD", {batch, length, heads + 2 * kv_heads, width}};
};

TEST_F(FusedProjection, HasQueriesKeysAndValuesSideBySide) {
  const TensorView q = all_.slice('H', 0, heads), k = all_.slice('H', heads, heads + kv_heads),
                   v = all_.slice('H', heads + kv_heads, heads + 2 * kv_heads);
  for (const TensorView& view : {q, k, v}) EXPECT_FALSE(overlaps_itself(view));
  EXPECT_FALSE(may_share_memory(q, k));
  EXPECT_FALSE(may_share_memory(k, v));
  EXPECT_FALSE(may_share_memory(q, v));
  EXPECT_TRUE(may_share_memory(q, all_));
  EXPECT_TRUE(may_share_memory(q, all_.slice('H', heads - 1, heads + 1)));
}

TEST_F(FusedProjection, MayInterleaveHeads) {
  // Every third head is a query: same span of memory, no byte in common.
  const Dims shape{batch, length, 3, width}, strides{all_.stride('B'), all_.stride('S'), 3 * width, 1};
  const TensorView first(data_.data(), DType::f32, "BSHD", shape, strides);
  const TensorView second(data_.data() + width, DType::f32, "BSHD", shape, strides);
  EXPECT_FALSE(may_share_memory(first, second));
  EXPECT_TRUE(may_share_memory(first, all_.select('H', 3)));
  EXPECT_FALSE(may_share_memory(first, all_.select('H', 4)));
}

TEST_F(FusedProjection, SplitsIntoRotatedAndPlainChannels) {
  EXPECT_FALSE(may_share_memory(all_.slice('D', 0, 32), all_.slice('D', 32, width)));
  EXPECT_TRUE(may_share_memory(all_.slice('D', 0, 33), all_.slice('D', 32, width)));
}

TEST_F(FusedProjection, KeepsEvenAndOddTokensApart) {
  const Dims shape{length / 2, width}, strides{2 * all_.stride('S'), 1};
  const TensorView even(data_.data(), DType::f32, "SD", shape, strides);
  const TensorView odd(data_.data() + all_.stride('S'), DType::f32, "SD", shape, strides);
  EXPECT_FALSE(may_share_memory(even, odd));
}

TEST_F(FusedProjection, IsItselfInAnyOrder) {
  EXPECT_TRUE(may_share_memory(all_, all_.permuted("HDSB")));
  EXPECT_TRUE(may_share_memory(all_, all_.reversed('S')));
  EXPECT_FALSE(overlaps_itself(all_.permuted("HDSB").reversed('D')));
}

TEST_F(FusedProjection, OverlapsItselfOnlyWhereStridesSay) {
  EXPECT_TRUE(overlaps_itself({data_.data(), DType::f32, "SD", {4, width}, {0, 1}}));          // broadcast
  EXPECT_TRUE(overlaps_itself({data_.data(), DType::f32, "SD", {4, width}, {width - 1, 1}}));  // rows share an end
  EXPECT_FALSE(overlaps_itself({data_.data(), DType::f32, "SD", {4, width}, {width, 1}}));
  EXPECT_TRUE(overlaps_itself({data_.data(), DType::f32, "SD", {4, width}, {1, 1}}));   // a sliding window
  EXPECT_FALSE(overlaps_itself({data_.data(), DType::f32, "SD", {1, width}, {0, 1}}));  // nothing to repeat
}

TEST(Overlap, OfNothingIsNone) {
  float data[4];
  const ConstTensorView empty(data, "S", {0}), full(data, "S", {4});
  EXPECT_FALSE(may_share_memory(empty, full));
  EXPECT_FALSE(may_share_memory(full, ConstTensorView()));
  EXPECT_FALSE(overlaps_itself(empty));
}

TEST(Overlap, SeesBytesOfDifferentTypes) {
  double data[2];
  const ConstTensorView doubles(data, "S", {2});
  const auto* halves = reinterpret_cast<const float16*>(data);
  EXPECT_TRUE(may_share_memory(doubles.select('S', 1), ConstTensorView(halves + 7, "S", {1})));
  EXPECT_FALSE(may_share_memory(doubles.select('S', 0), ConstTensorView(halves + 4, "S", {4})));
}

/// Any address: views are compared, never read.
const void* at(std::uintptr_t address) { return reinterpret_cast<const void*>(address); }

TEST(Overlap, ACommonDivisorDecidesWhatASearchWouldNot) {
  const Dims shape{1000, 1000, 1000, 1000}, strides{600, 1000, 1400, 2200};
  const ConstTensorView even(at(4096), DType::f32, "BSHD", shape, strides);
  const ConstTensorView odd(at(4096 + 4 * 1000001), DType::f32, "BSHD", shape, strides);
  EXPECT_FALSE(may_share_memory(even, odd));
}

TEST(Overlap, TooHardToDecideIsAnsweredSoonAndWithCare) {
  // 40^8 sums spread over 3 * 10^15 bytes, so hardly one of them is the distance to the other view: a search for it does
  // not end.
  const Dims shape{40, 40, 40, 40, 40, 40, 40, 40};
  const ConstTensorView many(at(4096), DType::f64, "BSTHDANQ", shape,
                             {1000000000039, 1000054720061, 1001200000063, 999320000091, 998877700121, 1002300041163,
                              1000777700169, 997555520177});
  const ConstTensorView one(at(4096 + 1234567891234567), DType::u8, "B", {1});
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(may_share_memory(many, one));
  EXPECT_TRUE(overlaps_itself(many));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

}  // namespace
}  // namespace rotary
