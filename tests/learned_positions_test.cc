#include "rotary/learned_positions.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "support/error_sentence.h"
#include "support/test_tensor.h"

namespace rotary {
namespace {

constexpr DType dtypes[] = {DType::f64, DType::f32, DType::f16, DType::bf16};

TestTensor random_table(std::int64_t rows, std::int64_t width, DType dtype = DType::f32) {
  TestTensor table(dtype, "ND", {rows, width}, {.order = "DN", .reversed = "N"});
  return std::move(table.fill_at_random(3));
}

double rounded(DType dtype, double x) {
  double memory = 0;
  store_element(dtype, &memory, 0, x);
  return load_element(dtype, &memory, 0);
}

TEST(LearnedPositions, WritesAndAddsTheRowOfEveryTokensPosition) {
  const std::int64_t starts[] = {0, 500};
  for (const DType table_dtype : dtypes) {
    for (const DType dtype : dtypes) {
      const TestTensor table = random_table(512, 7, table_dtype);
      TestTensor out(dtype, "BSD", {2, 11, 7}, {.order = "SDB", .step = 2}), x(dtype, "SBD", {11, 2, 7});
      const Positions positions{.offset = 1, .offsets = ConstTensorView(starts, "B", {2})};
      learned_positions(out, table.view(), positions);
      x.fill_at_random(4);
      const TestTensor before = std::move(TestTensor(dtype, "SBD", {11, 2, 7}).fill_from(x));
      add_learned_positions(x, table.view(), positions);
      const bool in_double = dtype == DType::f64 || table_dtype == DType::f64;
      for (std::int64_t b = 0; b < 2; ++b) {
        for (std::int64_t s = 0; s < 11; ++s) {
          for (std::int64_t d = 0; d < 7; ++d) {
            const double entry = table.at({starts[b] + 1 + s, d}), sum = before.at({s, b, d}) + entry;
            EXPECT_EQ(out.at({b, s, d}), rounded(dtype, entry));
            EXPECT_EQ(x.at({s, b, d}), rounded(dtype, in_double ? sum : static_cast<float>(sum)));
          }
        }
      }
      EXPECT_TRUE(out.guards_intact() && x.guards_intact());
    }
  }
}

TEST(LearnedPositions, FollowsPackedSequencesAndAnyOrderOfPositions) {
  const TestTensor table = random_table(4, 3);
  const std::int32_t ends[] = {0, 2, 5};
  TestTensor packed(DType::f32, "TD", {5, 3}), scattered(DType::f32, "SD", {5, 3});
  learned_positions(packed, table.view(), {.cu_seqlens = ConstTensorView(ends, "N", {3})});
  const double ids[] = {0, 1, 0, 1, 2};
  learned_positions(scattered, table.view(), {.position_ids = ConstTensorView(ids, "S", {5})});
  EXPECT_EQ(packed.values(), scattered.values());
  EXPECT_EQ(packed.at({4, 2}), table.at({2, 2}));
}

TEST(LearnedPositions, HasNothingToSayPastTheEndOfItsTable) {
  const TestTensor table = random_table(512, 6);
  TestTensor last(DType::f32, "SD", {512, 6}), past(DType::f32, "SD", {513, 6});
  learned_positions(last, table.view());
  expect_refused([&] { learned_positions(past, table.view()); },
                 "learned_positions: the table must have a row for every position, got 512 rows and position 512 for token "
                 "512 of row 0: a learned absolute scheme says nothing about positions that it was not trained with");
  expect_refused([&] { add_learned_positions(last, table.view(), {.offset = 1}); }, "position 512 for token 511");
  expect_refused([&] { learned_positions(last, table.view(), {.offset = -1}); }, "position -1 for token 0");
  for (std::int64_t i = 0; i < past.size(); ++i) EXPECT_TRUE(std::isnan(past[i])) << "nothing is written";
  EXPECT_EQ(last.at({511, 5}), table.at({511, 5})) << "and nothing added";
}

TEST(LearnedPositions, RefusesTensorsThatDoNotFit) {
  const TestTensor table = random_table(8, 6), sideways = random_table(8, 4);
  TestTensor out(DType::f32, "SD", {3, 6}), heads(DType::f32, "SHD", {3, 1, 6}), whole(DType::i32, "ND", {8, 6}),
      list(DType::f32, "N", {8}), no_tokens(DType::f32, "SD", {0, 6});
  learned_positions(no_tokens, table.view());
  const double half[] = {0, 0.5, 1};
  expect_refused([&] { learned_positions({}, table.view()); }, "what is written must be given");
  expect_refused([&] { learned_positions(out, {}); }, "table must be given");
  expect_refused([&] { learned_positions(out, sideways.view()); }, "got 6 for 4");
  expect_refused([&] { learned_positions(heads, table.view()); }, "the axes D and no others than BSTD, got \"SHD\"");
  expect_refused([&] { learned_positions(out, whole.view()); }, "got int32");
  expect_refused([&] { learned_positions(out, list.view()); }, "table must have the axes ND and no others, got \"N\"");
  expect_refused([&] { learned_positions(out, table.view(), {.position_ids = ConstTensorView(half, "S", {3})}); },
                 "whole numbers, to find a row of the table, got 0.5");
  float shared[48] = {};
  const ConstTensorView inside(shared, "ND", {8, 6});
  expect_refused([&] { learned_positions(TensorView(shared + 6, "SD", {3, 6}), inside); }, "must not overlap the table");
  expect_refused(
      [&] {
        learned_positions(TensorView(shared, DType::f32, "SD", {3, 6}, {0, 1}), table.view());
      },
      "overlap each other");
}

}  // namespace
}  // namespace rotary
