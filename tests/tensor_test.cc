#include "rotary/tensor.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "support/error_sentence.h"

namespace rotary {
namespace {

constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();

template <class Call>
std::string refusal(const Call& call) {
  return error_sentence(ErrorCode::invalid_argument, call);
}

const float* first(const ConstTensorView& view) { return static_cast<const float*>(view.data()); }

class TensorViews : public testing::Test {
 protected:
  std::vector<float> data_ = std::vector<float>(2 * 3 * 4 * 5);
  TensorView view_{data_.data(), "BSHD", {2, 3, 4, 5}};
};

TEST_F(TensorViews, AreRowMajorWithoutStrides) {
  EXPECT_EQ(view_.strides(), Dims({60, 20, 5, 1}));
  EXPECT_EQ(view_.num_elements(), 120);
  EXPECT_EQ(view_.rank(), 4);
  EXPECT_EQ(view_.dtype(), DType::f32);
  EXPECT_STREQ(view_.axes().c_str(), "BSHD");
}

TEST_F(TensorViews, AreAskedByTheNameOfAnAxis) {
  EXPECT_EQ(view_.size('H'), 4);
  EXPECT_EQ(view_.stride('H'), 5);
  EXPECT_TRUE(view_.has('D'));
}

TEST(Dims, AssertThatAnIndexIsOneOfTheirs) {
  Dims shape{2, 3};
  const Dims& fixed = shape;
  EXPECT_DEBUG_DEATH(shape[2] = 1, "i < size_");
  EXPECT_DEBUG_DEATH(static_cast<void>(fixed[2]), "i < size_");
}

TEST_F(TensorViews, BroadcastAlongAnAxisTheyLack) {
  EXPECT_FALSE(view_.has('T'));
  EXPECT_EQ(view_.size('T'), 1);
  EXPECT_EQ(view_.stride('T'), 0);
}

TEST_F(TensorViews, AreNotGivenByDefault) {
  EXPECT_FALSE(TensorView());
  EXPECT_TRUE(view_);
  EXPECT_TRUE(TensorView(nullptr, DType::f32, "S", {0})) << "empty, but given";
}

TEST_F(TensorViews, SliceStartsAtItsFirstElementAndKeepsTheStrides) {
  const TensorView part = view_.slice('S', 1, 3);
  EXPECT_EQ(first(part), data_.data() + 20);
  EXPECT_EQ(part.shape(), Dims({2, 2, 4, 5}));
  EXPECT_EQ(part.strides(), view_.strides());
}

TEST_F(TensorViews, SliceMayBeEmptyAnywhere) {
  EXPECT_EQ(view_.slice('S', 3, 3).num_elements(), 0);
  EXPECT_EQ(view_.slice('B', 0, 0).slice('S', 2, 3).shape(), Dims({0, 1, 4, 5}));
}

TEST_F(TensorViews, SelectDropsTheAxis) {
  const TensorView part = view_.select('H', 3);
  EXPECT_STREQ(part.axes().c_str(), "BSD");
  EXPECT_EQ(part.shape(), Dims({2, 3, 5}));
  EXPECT_EQ(part.strides(), Dims({60, 20, 1}));
  EXPECT_EQ(first(part), data_.data() + 15);
}

TEST_F(TensorViews, SelectReachesASingleElement) {
  const TensorView element = view_.select('B', 1).select('S', 2).select('H', 0).select('D', 4);
  EXPECT_EQ(element.rank(), 0);
  EXPECT_EQ(element.num_elements(), 1);
  EXPECT_EQ(first(element), data_.data() + 60 + 40 + 4);
}

TEST_F(TensorViews, ReversedStartsAtTheLastElement) {
  const TensorView turned = view_.reversed('S');
  EXPECT_EQ(first(turned), data_.data() + 40);
  EXPECT_EQ(turned.strides(), Dims({60, -20, 5, 1}));
  EXPECT_EQ(first(turned.select('S', 2)), data_.data());
  EXPECT_EQ(first(turned.reversed('S')), data_.data());
}

TEST_F(TensorViews, ReversedLeavesAStrideThatNobodyFollows) {
  EXPECT_EQ(TensorView(data_.data(), DType::f32, "S", {1}, {lowest}).reversed('S').strides(), Dims({lowest}));
  EXPECT_EQ(TensorView(nullptr, DType::f32, "BS", {5, 0}, {lowest, 1}).reversed('B').strides(), Dims({lowest, 1}));
}

TEST_F(TensorViews, PermutedIsTheSameMemoryUnderAnotherOrder) {
  const TensorView same = view_.permuted("BHSD");
  EXPECT_EQ(same.shape(), Dims({2, 4, 3, 5}));
  EXPECT_EQ(same.strides(), Dims({60, 5, 20, 1}));
  EXPECT_EQ(first(same.select('S', 1)), first(view_.select('S', 1)));
}

TEST_F(TensorViews, StridesMayBeZeroOrNegative) {
  const ConstTensorView broadcast(data_.data(), DType::f32, "SD", {1000, 5}, {0, 1});
  EXPECT_EQ(first(broadcast.select('S', 999)), data_.data());
  const ConstTensorView backwards(data_.data() + 119, DType::f32, "D", {120}, {-1});
  EXPECT_EQ(first(backwards.select('D', 119)), data_.data());
}

TEST_F(TensorViews, CountBytesByTheElementType) {
  const ConstTensorView wide(data_.data(), DType::c128, "N", {4});
  EXPECT_EQ(static_cast<const char*>(wide.select('N', 3).data()), reinterpret_cast<const char*>(data_.data()) + 48);
  const ConstTensorView small(data_.data(), DType::f4, "N", {9});
  EXPECT_EQ(static_cast<const char*>(small.slice('N', 6, 9).data()), reinterpret_cast<const char*>(data_.data()) + 3);
  EXPECT_EQ(refusal([&] { small.slice('N', 5, 9); }),
            "view: must start at a whole byte, which element 5 of float4_e2m1 does not");
}

TEST_F(TensorViews, RefuseDataWhereNoElementCanLie) {
  const char* const start = reinterpret_cast<const char*>(data_.data());  // at a multiple of 16
  const auto at = [&](std::int64_t byte, DType dtype) { return ConstTensorView(start + byte, dtype, "N", {3}); };
  EXPECT_EQ(refusal([&] { at(1, DType::f32); }),
            "view: data must be at a multiple of 4 bytes for float32, got 1 bytes past one");
  EXPECT_EQ(refusal([&] { at(4, DType::f64); }),
            "view: data must be at a multiple of 8 bytes for float64, got 4 bytes past one");
  for (const DType dtype : {DType::f16, DType::bf16, DType::i16, DType::i32, DType::i64, DType::c64, DType::c128}) {
    refusal([&] { at(1, dtype); });
    refusal([&] { ConstTensorView(start + 17, dtype, "N", {3}, {2}); });
  }
  for (const DType dtype : {DType::u8, DType::i8, DType::boolean, DType::f8_e4m3, DType::f4}) EXPECT_TRUE(at(1, dtype));
  EXPECT_TRUE(at(2, DType::bf16));
  EXPECT_TRUE(at(4, DType::c64));                                 // made of two float32
  EXPECT_TRUE(at(8, DType::c128));                                // of two float64
  EXPECT_TRUE(ConstTensorView(start + 1, DType::f32, "N", {0}));  // nothing is read
}

TEST_F(TensorViews, RefuseWhatIsNotThere) {
  EXPECT_EQ(refusal([&] { view_.slice('S', 2, 4); }), "slice: needs 0 <= begin <= end <= 3 along S, got 2 and 4");
  EXPECT_EQ(refusal([&] { view_.slice('S', 2, 1); }), "slice: needs 0 <= begin <= end <= 3 along S, got 2 and 1");
  EXPECT_EQ(refusal([&] { view_.slice('S', -1, 1); }), "slice: needs 0 <= begin <= end <= 3 along S, got -1 and 1");
  EXPECT_EQ(refusal([&] { view_.slice('T', 0, 1); }), "view: must have the axis T, got \"BSHD\"");
  EXPECT_EQ(refusal([&] { view_.select('H', 4); }), "select: needs 0 <= index < 4 along H, got 4");
  EXPECT_EQ(refusal([&] { view_.select('H', -1); }), "select: needs 0 <= index < 4 along H, got -1");
  EXPECT_EQ(refusal([&] { view_.reversed('T'); }), "view: must have the axis T, got \"BSHD\"");
  EXPECT_EQ(refusal([&] { view_.permuted("BSH"); }), "permuted: must name the axes of \"BSHD\", got \"BSH\"");
  EXPECT_EQ(refusal([&] { view_.permuted("BTHD"); }), "view: must have the axis T, got \"BSHD\"");
}

TEST_F(TensorViews, RefuseShapesThatDoNotFitTheirAxes) {
  EXPECT_EQ(refusal([&] {
              TensorView(data_.data(), "BSD", {2, 3});
            }),
            "view: must have one length and one stride per axis of \"BSD\", got 2 and 2");
  EXPECT_EQ(refusal([&] {
              TensorView(data_.data(), DType::f32, "SD", {2, 3}, {1});
            }),
            "view: must have one length and one stride per axis of \"SD\", got 2 and 1");
  EXPECT_EQ(refusal([&] {
              TensorView(data_.data(), "SD", {2, -3});
            }),
            "view: the number of elements must be representable and no length negative");
  EXPECT_EQ(refusal([&] {
              TensorView(nullptr, DType::f32, "SD", {2, 3});
            }),
            "view: must not be a null pointer with 6 elements");
}

TEST_F(TensorViews, RefuseSizesThatOverflow) {
  const char* const too_many = "view: the number of elements must be representable and no length negative";
  const char* const too_far = "view: strides must reach representable offsets only";
  EXPECT_EQ(refusal([&] { TensorView(data_.data(), "SD", {huge, 2}); }), too_many);
  EXPECT_EQ(refusal([&] { TensorView(data_.data(), "S", {huge}); }), too_far);
  EXPECT_EQ(refusal([&] { TensorView(data_.data(), DType::c128, "S", {2}, {huge / 64}); }), too_far);
  EXPECT_EQ(refusal([&] { TensorView(data_.data(), DType::u8, "S", {2}, {lowest}); }), too_far);
  EXPECT_EQ(refusal([&] { TensorView(data_.data(), DType::u8, "SD", {2, 2}, {huge / 8, huge / 8}); }), too_far);
  EXPECT_EQ(TensorView(nullptr, DType::f32, "SD", {0, huge}).num_elements(), 0) << "an empty tensor reaches nothing";
  EXPECT_EQ(TensorView(nullptr, DType::f32, "BSD", {huge, 0, huge}).num_elements(), 0);
}

TEST(AxesNames, AreKnownLettersEachOnce) {
  EXPECT_EQ(Axes("BSHD").find('H'), 2);
  EXPECT_EQ(Axes("BSHD").find('T'), -1);
  EXPECT_EQ(Axes("").rank(), 0);
  EXPECT_EQ(refusal([] { Axes("BSXD"); }), "axes: must be letters among B, S, T, H, D, A, N, Q and K, got \"BSXD\"");
  EXPECT_EQ(refusal([] { Axes("bshd"); }), "axes: must be letters among B, S, T, H, D, A, N, Q and K, got \"bshd\"");
  EXPECT_EQ(refusal([] { Axes("BSHS"); }), "axes: must name every axis once, got \"BSHS\"");
}

TEST(AxesNames, AreAtMostMaxRank) {
  EXPECT_EQ(Axes("BSTHDANQ").rank(), max_rank);
  EXPECT_STREQ(Axes("BSTHDANQ").c_str(), "BSTHDANQ");
  EXPECT_EQ(refusal([] { Axes("BSTHDANQK"); }), "axes: must be at most 8, got \"BSTHDANQK\"");
}

TEST(DimsList, HoldsUpToMaxRank) {
  EXPECT_EQ(Dims(std::vector<std::int64_t>{1, 2, 3}), Dims({1, 2, 3}));
  EXPECT_NE(Dims({1, 2}), Dims({1, 2, 3}));
  EXPECT_EQ(Dims(std::vector<std::int64_t>(8, 1)).size(), 8);
  EXPECT_EQ(refusal([] { Dims(std::vector<std::int64_t>(9, 1)); }), "shape: must have at most 8 axes, got 9");
}

}  // namespace
}  // namespace rotary
