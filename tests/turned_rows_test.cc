#include "attention/turned_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "attention/arena.h"
#include "attention/tensor_rows.h"
#include "kernels/float_rows.h"
#include "rotary/frequencies.hpp"
#include "rotary/rotate.hpp"

namespace rotary {
namespace {

constexpr std::int64_t num_heads = 2;

std::vector<float> numbers(std::int64_t count) {
  std::vector<float> x(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 37) % 101) / 50 - 1;
  return x;
}

/// Loads every token, runs of `run` at a time, and each with all its heads, and looks whether the rows are those of rotate(),
/// which asks for one token's angles at a time. Then turns them back, as
/// rotate_backward() does.
void expect_rows_of_rotate(const ConstTensorView& x, const Rotation& rotation, const Positions& positions,
                           std::int64_t run) {
  const std::int64_t length = x.size('S') * x.size('T'), width = x.size('D'), token_size = num_heads * width;
  std::vector<float> expected(static_cast<std::size_t>(length * token_size));
  load_row(x.dtype(), x.data(), 0, 1, length * token_size, expected.data());
  rotate(TensorView(expected.data(), x.axes().c_str(), {length, num_heads, width}), rotation, positions);
  std::vector<float> expected_back = expected, loaded(expected.size());
  rotate_backward(TensorView(expected_back.data(), x.axes().c_str(), {length, num_heads, width}), rotation, positions);

  const std::optional<TokenAngles> angles(std::in_place, "test", rotation, positions, tokens_of("test", x),
                                          RotateOptions{});
  std::optional<TurnedRows<float>> rows;
  const auto memory = laid_out([&](Arena arena) {
    rows.emplace(x, angles, arena);
    return arena.num_bytes();
  });
  const auto at = [&](std::int64_t token, std::int64_t head) {
    return &loaded[static_cast<std::size_t>(token * token_size + head * width)];
  };
  const auto differ = [&](const std::vector<float>& those) {
    return std::memcmp(loaded.data(), those.data(), loaded.size() * sizeof(float)) != 0;
  };
  for (std::int64_t token = 0; token < length; ++token) rows->load_heads(0, token, 0, num_heads, at(token, 0), width);
  EXPECT_FALSE(differ(expected)) << "heads";
  std::fill(loaded.begin(), loaded.end(), 0.0f);
  for (std::int64_t head = 0; head < num_heads; ++head) {
    for (std::int64_t token = 0; token < length; token += run) {
      rows->load_run(0, token, std::min(run, length - token), head, at(token, head), token_size);
    }
  }
  EXPECT_FALSE(differ(expected)) << "runs of " << run;
  for (std::int64_t token = 0; token < length; ++token) {
    rows->turn_back(0, token, num_heads, at(token, 0), width);
  }
  EXPECT_FALSE(differ(expected_back)) << "back";
}

struct Case {
  const char* name;
  Pairing pairing;
  std::int64_t rotary_dim, rotary_offset;
  double amplitude;
};

class TurnedRowsOf : public testing::TestWithParam<Case> {
 protected:
  static constexpr std::int64_t width = 72, length = 150;
  Rotation rotation{{.head_dim = width,
                     .rotary_dim = GetParam().rotary_dim,
                     .rotary_offset = GetParam().rotary_offset,
                     .pairing_in = GetParam().pairing,
                     .inv_freq = default_frequencies(1e4, GetParam().rotary_dim).inv_freq,
                     .amplitude = GetParam().amplitude}};
  std::vector<float> x = numbers(length * num_heads * width);
  ConstTensorView by_token{x.data(), "SHD", {length, num_heads, width}},
      packed{x.data(), "THD", {length, num_heads, width}};
};

TEST_P(TurnedRowsOf, CountFromAnyOffset) {
  for (const std::int64_t offset : {0, 1, 4095, 1000000, -70}) {
    for (const std::int64_t run : {1, 5, 16, 150}) {
      SCOPED_TRACE(offset);
      expect_rows_of_rotate(by_token, rotation, {.offset = offset}, run);
    }
  }
}

TEST_P(TurnedRowsOf, AreWidenedFrom16Bits) {
  std::vector<std::uint16_t> narrow(x.size());
  for (const DType dtype : {DType::f16, DType::bf16}) {
    narrow_row(x.data(), static_cast<std::int64_t>(x.size()), dtype, narrow.data());
    for (const std::int64_t run : {1, 16}) {
      expect_rows_of_rotate({narrow.data(), dtype, "SHD", {length, num_heads, width}}, rotation, {.offset = 9}, run);
    }
  }
}

TEST_P(TurnedRowsOf, BeginAgainWithEverySequence) {
  const std::vector<std::int32_t> cu_seqlens = {0, 3, 3, 21, 120, 121, 150};
  const std::vector<std::int64_t> offsets = {5, 0, 1000, 131071, 0, 7};
  expect_rows_of_rotate(
      packed, rotation,
      {.offsets = ConstTensorView(offsets.data(), "N", {6}), .cu_seqlens = ConstTensorView(cu_seqlens.data(), "N", {7})},
      40);
}

TEST_P(TurnedRowsOf, FollowListedPositions) {
  std::vector<double> counted(length), broken(length), fractions(length);
  for (std::int64_t i = 0; i < length; ++i) {
    const auto n = static_cast<std::size_t>(i);
    counted[n] = static_cast<double>(i + 100);
    broken[n] = static_cast<double>(i % 11 == 7 ? 3 : i + i / 20);
    fractions[n] = static_cast<double>(i) + 0.3;
  }
  for (const std::vector<double>* ids : {&counted, &broken, &fractions}) {
    expect_rows_of_rotate(by_token, rotation, {.position_ids = ConstTensorView(ids->data(), "S", {length})}, 30);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, TurnedRowsOf,
                         testing::Values(Case{"Half", Pairing::half, 72, 0, 1},
                                         Case{"Interleaved", Pairing::interleaved, 72, 0, 1.25},
                                         Case{"PartOfARow", Pairing::half, 36, 20, 0.8}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace rotary
