#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "rotary/frequencies.hpp"
#include "rotary/rotate.hpp"
#include "support/allocation_watch.h"
#include "support/error_sentence.h"
#include "support/plain_rotation.h"
#include "support/test_tensor.h"

namespace rotary {
namespace {

RotationSpec yarn_like(Pairing pairing) {
  return {.head_dim = 14,
          .rotary_offset = 1,
          .pairing_in = pairing,
          .inv_freq = default_frequencies(1e4, 12).inv_freq,
          .amplitude = 1.138629436111989};
}

double largest(const TestTensor& x) {
  double size = 0;
  for (const double value : x.values()) size = std::max(size, std::abs(value));
  return size;
}

void expect_near(const TestTensor& actual, const TestTensor& expected, double tolerance) {
  for (std::int64_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], tolerance) << "element " << i;
}

TEST(Shift, IsRotateAtTheNewPosition) {
  for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
    const Rotation rotation(yarn_like(pairing));
    for (const double distance : {-100.0, -1.0, 0.0, 1.0, 77.0, 1e6, 0.5}) {
      TestTensor shifted(DType::f64, "BSHD", {2, 5, 3, 14}), direct(DType::f64, "BSHD", {2, 5, 3, 14});
      direct.fill_from(shifted.fill_at_random(1));
      rotate(shifted, rotation, {.offset = 100});
      shift(shifted, rotation, distance);
      std::vector<double> ids;
      for (int s = 0; s < 5; ++s) ids.push_back(100 + s + distance);
      rotate(direct, rotation, {.position_ids = {ids.data(), "S", {5}}});
      expect_near(shifted, direct, 1e-14 * largest(direct));
    }
  }
}

TEST(Shift, AgreesWithThePlainVersionForEveryDtype) {
  const double distances[] = {3, -7.5, 1e5, 0, 12};
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    RotationSpec spec = yarn_like(Pairing::interleaved);
    spec.pairing_out = Pairing::half;  // keys lie as they were written
    const Rotation rotation(spec);
    TestTensor x(dtype, "BSHD", {2, 5, 3, 14}), before(dtype, "BSHD", {2, 5, 3, 14});
    before.fill_from(x.fill_at_random(2));
    shift(x, rotation, ConstTensorView(distances, "S", {5}));
    expect_like_plain(
        reference::shift, before, x, rotation, [&](std::int64_t, std::int64_t s, int) { return distances[s]; },
        name(dtype));
    EXPECT_TRUE(x.guards_intact());
  }
}

TEST(Shift, TakesADistancePerRowTokenOrAxis) {
  RotationSpec spec = yarn_like(Pairing::half);
  spec.axis = {0, 1, 0, 1, 1, 0};
  const Rotation rotation(spec);
  const std::int32_t per_row[] = {4, -9};
  const std::int64_t per_token[] = {1, 2, 3, 10, 20, 30};
  const double per_axis[] = {1, 2, 3, 10, 20, 30};
  const auto shifted = [&](const ConstTensorView& distances) {
    TestTensor x(DType::f64, "BSHD", {2, 3, 1, 14});
    shift(x.fill_at_random(3), rotation, distances);
    return x;
  };
  TestTensor before(DType::f64, "BSHD", {2, 3, 1, 14});
  before.fill_at_random(3);
  using Index = std::int64_t;
  expect_like_plain(
      reference::shift, before, shifted({per_row, "B", {2}}), rotation, [&](Index b, Index, int) { return per_row[b]; },
      "B");
  expect_like_plain(
      reference::shift, before, shifted({per_token, "BS", {2, 3}}), rotation,
      [&](Index b, Index s, int) { return static_cast<double>(per_token[b * 3 + s]); }, "BS");
  expect_like_plain(
      reference::shift, before, shifted({per_axis, "AS", {2, 3}}), rotation,
      [&](Index, Index s, int a) { return per_axis[a * 3 + s]; }, "AS");
}

TEST(Shift, OneDistanceForAllIsTheSameAsOneForEach) {
  const Rotation rotation({.head_dim = 256,
                           .rotary_offset = 2,
                           .pairing_in = Pairing::half,
                           .inv_freq = default_frequencies(1e4, 240).inv_freq});
  // More tokens than are turned at once; memory that runs through heads or tokens, without gaps, with gaps, and backwards.
  const Layout layouts[] = {{"BSHD"}, {"BHSD"}, {"SBHD"}, {"HBSD"}, {"BHSD", 2}, {"BHSD", 1, "S"}, {"BSHD", 1, "BH"}};
  const std::vector<double> distances(300, 7.5);
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    for (const Layout& layout : layouts) {
      for (const std::int64_t heads : {1, 3}) {
        TestTensor one(dtype, "BSHD", {2, 300, heads, 256}, layout), each(dtype, "BSHD", {2, 300, heads, 256});
        each.fill_from(one.fill_at_random(4));
        const auto some = [](const TestTensor& x) { return x.view().slice('S', 10, 290); };
        shift(some(one), rotation, 7.5);
        shift(some(each), rotation, ConstTensorView(distances.data(), "S", {280}));
        EXPECT_EQ(one.values(), each.values()) << name(dtype) << " " << layout.order << ", heads: " << heads;
        EXPECT_TRUE(one.guards_intact());
      }
    }
  }
}

TEST(Shift, ToAnotherBufferIsTheSameAsInPlace) {
  RotationSpec spec = yarn_like(Pairing::interleaved);
  spec.pairing_out = Pairing::half;
  const Rotation rotation(spec);
  const std::int32_t per_row[] = {4, -9};
  TestTensor keys(DType::f32, "BSHD", {2, 3, 2, 14}), in_place(DType::f32, "BSHD", {2, 3, 2, 14});
  const std::vector<double> before = keys.fill_at_random(3).values();
  TestTensor out(DType::f32, "BSHD", {2, 3, 2, 14}, {.order = "BHSD"});
  shift(in_place.fill_from(keys), rotation, 7);
  shift_to(keys, out, rotation, 7);
  EXPECT_EQ(out.values(), in_place.values());
  shift(in_place.fill_from(keys), rotation, {per_row, "B", {2}});
  shift_to(keys, out, rotation, {per_row, "B", {2}});
  EXPECT_EQ(out.values(), in_place.values());
  EXPECT_EQ(keys.values(), before);
  EXPECT_TRUE(out.guards_intact());

  TestTensor narrow(DType::f16, "BSHD", {2, 3, 2, 14});
  shift_to(keys, narrow, rotation, -2);
  expect_like_plain(
      reference::shift, keys, narrow, rotation, [](std::int64_t, std::int64_t, int) { return -2.0; }, "shift_to");
  EXPECT_EQ(
      error_sentence(ErrorCode::invalid_argument,
                     [&] {
                       shift_to(keys, TestTensor(DType::f32, "BSHD", {2, 3, 1, 14}), rotation, 1);
                     }),
      "shift_to: the tensor and out must have the same axes and lengths, got \"BSHD\" and \"BSHD\" with 2 and 1 along "
      "H");
}

TEST(Shift, AsksForNoMemoryPerToken) {
  // Nor do the other ways of turning, whatever makes the angles.
  const Rotation rotation({.head_dim = 128,
                           .pairing_in = Pairing::half,
                           .inv_freq = default_frequencies(1e4, 128).inv_freq,
                           .amplitude = 1.25});
  TestTensor narrow(DType::f32, "SHD", {40, 2, 128}), wide(DType::f64, "SHD", {40, 2, 128});
  const AngleTable table = AngleTable::build(rotation, 0, 40);
  largest_allocation = 0;
  for (TestTensor* x : {&narrow.fill(1), &wide.fill(1)}) {
    for (const Precision precision : {Precision::exact, Precision::transformers, Precision::ggml}) {
      shift(*x, rotation, 3, {.precision = precision});
      unrotate(*x, rotation, {}, {.precision = precision});
      rotate(*x, rotation, {}, {.precision = precision});
    }
    unrotate(*x, rotation, {}, {.table = &table});
  }
  EXPECT_LT(largest_allocation, 64 * sizeof(float)) << "a row of cosines";
}

TEST(Shift, LeavesTheAmplitude_F21) {
  // Five shifts that each multiplied by the amplitude would make 1.914 of 1.
  const Rotation rotation(yarn_like(Pairing::half));
  TestTensor key(DType::f32, "SHD", {1, 1, 14}), before(DType::f32, "SHD", {1, 1, 14});
  before.fill_from(key.fill_at_random(4));
  for (int i = 0; i < 5; ++i) {
    shift(key, rotation, 5);
    shift(key, rotation, -5);
  }
  expect_near(key, before, 10 * 0x1p-22 * 2 * largest(before));
}

TEST(Shift, ClosesTheGapOfADroppedRow_P19) {
  // Row 3 of 8 is dropped; the later keys move up by one. New queries stand at the number of kept rows.
  const Rotation rotation(yarn_like(Pairing::half));
  TestTensor keys(DType::f64, "SHD", {8, 2, 14}), fresh(DType::f64, "SHD", {7, 2, 14});
  keys.fill_at_random(5);
  for (std::int64_t s = 0; s < 7; ++s) {
    for (std::int64_t i = 0; i < 28; ++i) fresh.set(s * 28 + i, keys[(s < 3 ? s : s + 1) * 28 + i]);
  }
  rotate(keys, rotation);
  rotate(fresh, rotation);
  const TensorView& all = keys;
  shift(all.slice('S', 4, 8), rotation, -1);
  for (std::int64_t s = 0; s < 7; ++s) {
    for (std::int64_t i = 0; i < 28; ++i) EXPECT_NEAR(keys[(s < 3 ? s : s + 1) * 28 + i], fresh[s * 28 + i], 1e-14);
  }
}

TEST(Shift, DriftsWithinItsBound_P19) {
  // A shift adds at most 2^-22 of a pair's length: cos and sin within an ulp, a product and a sum rounded. A thousand add
  // up to a thousand times that in the worst case; here they stay well below it.
  const Rotation rotation(yarn_like(Pairing::half));
  TestTensor key(DType::f32, "SHD", {1, 4, 14}), direct(DType::f32, "SHD", {1, 4, 14});
  direct.fill_from(key.fill_at_random(6));
  rotate(key, rotation, {.offset = 5000});
  for (int i = 0; i < 1000; ++i) shift(key, rotation, -3);
  rotate(direct, rotation, {.offset = 2000});
  expect_near(key, direct, 1001 * 0x1p-22 * std::sqrt(2.0) * largest(direct));
  EXPECT_NE(key.values(), direct.values());
}

TEST(Shift, TurnsTheWayOfTheRotation_L18) {
  RotationSpec spec = yarn_like(Pairing::half);
  spec.direction = -1;
  const Rotation rotation(spec);
  TestTensor shifted(DType::f64, "SHD", {3, 1, 14}), direct(DType::f64, "SHD", {3, 1, 14});
  direct.fill_from(shifted.fill_at_random(7));
  rotate(shifted, rotation);
  shift(shifted, rotation, 4);
  rotate(direct, rotation, {.offset = 4});
  expect_near(shifted, direct, 1e-14);
}

TEST(Shift, RefusesDistancesThatAreNoneBeforeWriting_V12) {
  const Rotation rotation(yarn_like(Pairing::half));
  TestTensor x(DType::f32, "BSHD", {2, 3, 1, 14});
  const std::vector<double> before = x.fill_at_random(8).values();
  const auto refusal = [&](const auto& distance) {
    return error_sentence(ErrorCode::invalid_argument, [&] { shift(x, rotation, distance); });
  };
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL, 1e300, -0x1p54}) {
    EXPECT_NE(refusal(bad).find("shift: distances must be finite and at most 2^53 in size"), std::string::npos);
  }
  const std::int64_t lowest[] = {0, std::numeric_limits<std::int64_t>::min()};
  EXPECT_EQ(refusal(ConstTensorView(lowest, "B", {2})),
            "shift: distances must be at most 2^53 in size, got -9223372036854775808 for token 0 of row 1");
  const std::int32_t three[] = {1, 2, 3};
  EXPECT_EQ(refusal(ConstTensorView(three, "B", {3})),
            "shift: distances must have one row, or one per batch row, got 3 for 2");
  EXPECT_EQ(refusal(ConstTensorView(three, "S", {2})),
            "shift: distances must have one entry per token, got 2 for 3 tokens");
  EXPECT_EQ(refusal(ConstTensorView(three, "H", {3})), "shift: distances must have axes among A, B, S, got \"H\"");
  EXPECT_EQ(refusal(ConstTensorView()), "shift: distances must be given");
  const AngleTable table = AngleTable::build(rotation, 0, 8);
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument, [&] { shift(x, rotation, 1, {.table = &table}); }),
            "shift: takes no table: its rows belong to positions, not to distances");
  EXPECT_EQ(x.values(), before);
}

}  // namespace
}  // namespace rotary
