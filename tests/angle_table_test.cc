#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "rotary/angles.hpp"
#include "rotary/frequencies.hpp"
#include "rotary/tensor_file.hpp"
#include "support/error_sentence.h"

namespace rotary {
namespace {

Rotation rope(double base, std::int64_t rotary_dim, Pairing pairing = Pairing::half, double amplitude = 1) {
  return Rotation({.head_dim = rotary_dim,
                   .pairing_in = pairing,
                   .inv_freq = default_frequencies(base, rotary_dim).inv_freq,
                   .amplitude = amplitude});
}

::testing::AssertionResult row_is(const AngleTable& table, std::int64_t row, const Rotation& rotation, double position,
                                  Precision precision = Precision::exact) {
  const auto n = static_cast<std::size_t>(rotation.num_pairs());
  const std::vector<double> on_all_axes(max_position_axes, position);
  std::vector<float> cos(n), sin(n);
  angles(rotation, on_all_axes.data(), cos.data(), sin.data(), precision);
  if (std::memcmp(cos.data(), table.cos(row), n * sizeof(float)) == 0 &&
      std::memcmp(sin.data(), table.sin(row), n * sizeof(float)) == 0) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "row " << row << " is not that of position " << position;
}

TEST(AngleTable, HasTheRowsOfItsPositionsAndNoMore_K6) {
  const Rotation rotation = rope(1e4, 20);
  for (const Precision precision : {Precision::exact, Precision::transformers, Precision::ggml}) {
    for (const std::int64_t first : {-3, 0, 131071}) {
      const AngleTable table = AngleTable::build(rotation, first, 7, precision);
      EXPECT_EQ(table.first_position(), first);
      EXPECT_EQ(table.num_rows(), 7);
      EXPECT_EQ(table.num_pairs(), 10);
      EXPECT_FALSE(table.per_token());
      for (std::int64_t row = 0; row < 7; ++row) {
        EXPECT_TRUE(row_is(table, row, rotation, static_cast<double>(first + row), precision));
      }
    }
  }
}

TEST(AngleTable, HasTheBitsOfSingleTokensInEveryRow) {
  for (const double amplitude : {1.0, 0x1p-30}) {
    const Rotation rotation = rope(5e5, 20, Pairing::half, amplitude);
    for (const std::int64_t first : {-40, 0, 1000000}) {
      const AngleTable table = AngleTable::build(rotation, first, 600).extended(700);
      for (std::int64_t row = 0; row < 700; ++row) {
        EXPECT_TRUE(row_is(table, row, rotation, static_cast<double>(first + row)));
      }
    }
  }
}

TEST(AngleTable, StaysRightToTheEndOfALongContext_K2) {
  const Rotation rotation = rope(1e6, 10);
  const AngleTable table = AngleTable::build(rotation, 0, 262144);
  for (const std::int64_t row : {4095, 4096, 131072, 262143}) {
    EXPECT_TRUE(row_is(table, row, rotation, static_cast<double>(row)));
  }
}

TEST(AngleTable, KeepsRowsBitForBitWhenItGrows_K3_D4) {
  const Rotation rotation = rope(5e5, 128);
  for (const Precision precision : {Precision::exact, Precision::transformers}) {
    const AngleTable small = AngleTable::build(rotation, 0, 16, precision);
    AngleTable table = small;
    for (const std::int64_t count : {64, 16, 128, 255, 256, 257, 700, 1024}) {
      table = table.extended(count);
      ASSERT_GE(table.num_rows(), count);
      for (std::int64_t row = 0; row < table.num_rows(); ++row) {
        ASSERT_TRUE(row_is(table, row, rotation, static_cast<double>(row), precision));
      }
    }
    EXPECT_EQ(small.num_rows(), 16);
    EXPECT_TRUE(row_is(small, 15, rotation, 15, precision));
  }
}

TEST(AngleTable, IsMadeAnewOnlyWhenItIsTooShort_K5_K8) {
  AngleTable table = AngleTable::build(rope(1e4, 8), 0, 10);
  int rebuilds = 1;
  for (const std::int64_t count : {8, 10, 12, 0, 11}) {
    const float* before = table.cos(0);
    table = table.extended(count);
    rebuilds += table.cos(0) != before;
  }
  EXPECT_EQ(rebuilds, 2);
}

TEST(AngleTable, SharesMemoryWithTheTableItGrewFrom) {
  const AngleTable table = AngleTable::build(rope(1e4, 8), 0, 1000);
  const AngleTable longer = table.extended(2000);
  EXPECT_EQ(longer.cos(0), table.cos(0));
  EXPECT_EQ(longer.sin(700), table.sin(700));
}

TEST(AngleTable, CostsWhatIsUsedAndNotWhatAConfigAdmits_K7) {
  const Rotation rotation = rope(1e4, 128);
  const AngleTable table = AngleTable::build(rotation, 10'000'000 - 16, 16);
  EXPECT_EQ(table.num_rows(), 16);
  EXPECT_TRUE(row_is(table, 15, rotation, 9'999'999));
}

TEST(AngleTable, HasNoMemoryOfOtherOffsets_P12) {
  const Rotation rotation = rope(1e4, 8);
  for (const std::int64_t offset : {0, 5, 0}) {
    const AngleTable table = AngleTable::build(rotation, offset, 3);
    for (std::int64_t row = 0; row < 3; ++row) {
      EXPECT_TRUE(row_is(table, row, rotation, static_cast<double>(offset + row)));
    }
  }
}

TEST(AngleTable, TellsAllPositionsApart_D1_D2_D6) {
  // A table made in bfloat16 has 769 different rows here, one in float16 3073.
  const AngleTable table = AngleTable::build(rope(1e4, 128), 0, 4096);
  std::set<std::vector<float>> rows;
  for (std::int64_t row = 0; row < 4096; ++row) rows.emplace(table.cos(row), table.cos(row) + 64);
  EXPECT_EQ(rows.size(), 4096u);
}

TEST(AngleTable, RefusesRangesWithoutPositions) {
  const Rotation rotation = rope(1e4, 8);
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  struct Range {
    std::int64_t first, count;
  };
  for (const Range& range : {Range{0, -1}, Range{most, 2}, Range{0, most},
                             Range{std::numeric_limits<std::int64_t>::min(), 1}, Range{(std::int64_t{1} << 53) - 1, 3}}) {
    const std::string said =
        error_sentence(ErrorCode::invalid_argument, [&] { AngleTable::build(rotation, range.first, range.count); });
    EXPECT_EQ(said.find("AngleTable: "), 0u) << range.first << ' ' << range.count;
  }
  const AngleTable table = AngleTable::build(rotation, 0, 2);
  error_sentence(ErrorCode::invalid_argument, [&] { table.extended(most); });
  EXPECT_EQ(AngleTable::build(rotation, 5, 0).num_rows(), 0);
}

TEST(AngleTable, IsReadByManyThreadsWhileCopiesComeAndGo) {
  const Rotation rotation = rope(1e4, 64);
  const AngleTable table = AngleTable::build(rotation, 0, 300);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const AngleTable mine = i % 10 == 0 ? table.extended(600) : AngleTable(table);
        const std::int64_t row = (37 * i + t) % 300;
        wrong[static_cast<std::size_t>(t)] += !row_is(mine, row, rotation, static_cast<double>(row));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

// ---- given

struct Values {
  std::vector<float> cos, sin;
};

/// The table of `rotation` at 0 … count - 1, a column per channel: pair j in columns first(j) and second(j).
template <class First, class Second>
Values per_channel(const Rotation& rotation, std::int64_t count, const First& first, const Second& second) {
  const AngleTable table = AngleTable::build(rotation, 0, count);
  const std::int64_t width = rotation.rotary_dim();
  Values values{std::vector<float>(static_cast<std::size_t>(count * width)),
                std::vector<float>(static_cast<std::size_t>(count * width))};
  for (std::int64_t row = 0; row < count; ++row) {
    for (std::int64_t j = 0; j < rotation.num_pairs(); ++j) {
      for (const std::int64_t column : {first(j), second(j)}) {
        values.cos[static_cast<std::size_t>(row * width + column)] = table.cos(row)[j];
        values.sin[static_cast<std::size_t>(row * width + column)] = table.sin(row)[j];
      }
    }
  }
  return values;
}

Values halves(const Rotation& rotation, std::int64_t count) {
  return per_channel(
      rotation, count, [](std::int64_t j) { return j; }, [&](std::int64_t j) { return j + rotation.num_pairs(); });
}

Values neighbours(const Rotation& rotation, std::int64_t count) {
  return per_channel(
      rotation, count, [](std::int64_t j) { return 2 * j; }, [](std::int64_t j) { return 2 * j + 1; });
}

TEST(GivenAngleTable, IsTransformersTableBitForBit) {
  const TensorFile file(ROTARY_TEST_DATA "/angles/transformers.safetensors");
  const ConstTensorView cos = file.at("cos").view("SD"), sin = file.at("sin").view("SD");
  const AngleTable table = AngleTable::given(rope(1e5, 64), cos, sin);
  EXPECT_TRUE(table.per_token());
  ASSERT_EQ(table.num_rows(), 173);
  for (std::int64_t row = 0; row < 173; ++row) {
    EXPECT_EQ(std::memcmp(table.cos(row), static_cast<const float*>(cos.data()) + row * 64, 32 * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(table.sin(row), static_cast<const float*>(sin.data()) + row * 64, 32 * sizeof(float)), 0);
  }
}

TEST(GivenAngleTable, HasAColumnPerPairOrPerChannel) {
  for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
    const Rotation rotation = rope(1e4, 12, pairing, 1.5);
    const Values values = pairing == Pairing::half ? halves(rotation, 5) : neighbours(rotation, 5);
    const AngleTable wide =
        AngleTable::given(rotation, {values.cos.data(), "ND", {5, 12}}, {values.sin.data(), "ND", {5, 12}});
    // its even columns for neighbours, its first half for halves: a view with strides
    const std::int64_t step = pairing == Pairing::half ? 1 : 2;
    const ConstTensorView cos(values.cos.data(), DType::f32, "ND", {5, 6}, {12, step});
    const ConstTensorView sin(values.sin.data(), DType::f32, "ND", {5, 6}, {12, step});
    const AngleTable narrow = AngleTable::given(rotation, cos, sin);
    for (std::int64_t row = 0; row < 5; ++row) {
      EXPECT_TRUE(row_is(wide, row, rotation, static_cast<double>(row)));
      EXPECT_TRUE(row_is(narrow, row, rotation, static_cast<double>(row)));
    }
    EXPECT_FALSE(wide.per_token());
    EXPECT_EQ(wide.first_position(), 0);
  }
}

TEST(GivenAngleTable, ReadsListedPairsInTheOrderOfTheirChannels) {
  RotationSpec spec{.head_dim = 10, .pairing_in = Pairing::listed, .inv_freq = default_frequencies(1e4, 6).inv_freq};
  spec.pairs_in = {{9, 1}, {3, 4}, {8, 0}};
  const Rotation rotation(spec);
  constexpr std::int64_t first[] = {5, 2, 4}, second[] = {1, 3, 0};  // of the channels 0 1 3 4 8 9
  const Values values = per_channel(
      rotation, 4, [&](std::int64_t j) { return first[j]; }, [&](std::int64_t j) { return second[j]; });
  const AngleTable table =
      AngleTable::given(rotation, {values.cos.data(), "TD", {4, 6}}, {values.sin.data(), "TD", {4, 6}});
  for (std::int64_t row = 0; row < 4; ++row) EXPECT_TRUE(row_is(table, row, rotation, static_cast<double>(row)));
}

TEST(GivenAngleTable, HasRowsPerBatchRowAndToken) {
  const Rotation rotation = rope(1e4, 6);
  const Values values = halves(rotation, 6);
  const AngleTable table =
      AngleTable::given(rotation, {values.cos.data(), "BSD", {2, 3, 6}}, {values.sin.data(), "BSD", {2, 3, 6}});
  EXPECT_TRUE(table.per_token());
  EXPECT_EQ(table.batch_size(), 2);
  EXPECT_EQ(table.num_rows(), 6);
  for (std::int64_t row = 0; row < 6; ++row) EXPECT_TRUE(row_is(table, row, rotation, static_cast<double>(row)));
}

TEST(GivenAngleTable, IsNoRotationWhenTheColumnsOfAPairDiffer_L3) {
  const Rotation half = rope(1e4, 4), interleaved = rope(1e4, 4, Pairing::interleaved);
  const Values for_neighbours = neighbours(half, 3), for_halves = halves(half, 3);
  const auto sentence = [](const Rotation& rotation, const Values& values) {
    return error_sentence(ErrorCode::invalid_argument, [&] {
      AngleTable::given(rotation, {values.cos.data(), "ND", {3, 4}}, {values.sin.data(), "ND", {3, 4}});
    });
  };
  EXPECT_NE(
      sentence(half, for_neighbours).find("must have the same cos and sin, or the map is no rotation; pair 0 of row 1"),
      std::string::npos);
  EXPECT_NE(sentence(interleaved, for_halves).find("is the table laid out for another pairing?"), std::string::npos);
}

TEST(GivenAngleTable, RefusesASineThatCarriesTheSignsOfTheFormula) {
  const Rotation rotation = rope(1e4, 8);
  Values values = halves(rotation, 3);  // (-sin, sin), as code that multiplies by a swapped head keeps it
  for (std::size_t i = 0; i < values.sin.size(); ++i) values.sin[i] *= i % 8 < 4 ? -1.0f : 1.0f;
  EXPECT_NE(
      error_sentence(ErrorCode::invalid_argument,
                     [&] {
                       AngleTable::given(rotation, {values.cos.data(), "ND", {3, 8}}, {values.sin.data(), "ND", {3, 8}});
                     })
          .find("must have the same cos and sin"),
      std::string::npos);
}

TEST(GivenAngleTable, RefusesBuffersThatNobodyFilled_D12) {
  const Rotation rotation = rope(1e4, 8, Pairing::half, 1.25);
  const Values good = halves(rotation, 3);
  const auto try_value = [&](float c, float s) {
    Values bad = good;
    bad.cos[10] = bad.cos[14] = c;
    bad.sin[10] = bad.sin[14] = s;
    return error_sentence(ErrorCode::invalid_argument, [&] {
      AngleTable::given(rotation, {bad.cos.data(), "ND", {3, 8}}, {bad.sin.data(), "ND", {3, 8}});
    });
  };
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(try_value(0, 0),
            "AngleTable: cos^2 + sin^2 must be amplitude^2 = 1.5625, got cos 0 and sin 0 for pair 2 of row 1");
  EXPECT_NE(try_value(nan, 0), "");
  EXPECT_NE(try_value(1.25f, nan), "");
  EXPECT_NE(try_value(infinity, 0), "");
  EXPECT_NE(try_value(1e-42f, 1e-42f), "");
  EXPECT_NE(try_value(1, 0), "");  // the amplitude is missing
}

TEST(GivenAngleTable, CostsHalfAStepOfItsDtype_D3_D9) {
  const Rotation rotation = rope(1e4, 128);
  constexpr std::int64_t rows = 4096, pairs = 64;
  const AngleTable exact = AngleTable::build(rotation, 0, rows);
  std::vector<bfloat16> bf16_cos, bf16_sin;
  std::vector<float16> f16_cos, f16_sin;
  std::vector<double> f64_cos, f64_sin;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t j = 0; j < pairs; ++j) {
      const float c = exact.cos(row)[j], s = exact.sin(row)[j];
      bf16_cos.push_back(to_bfloat16(c)), bf16_sin.push_back(to_bfloat16(s));
      f16_cos.push_back(to_float16(c)), f16_sin.push_back(to_float16(s));
      f64_cos.push_back(c), f64_sin.push_back(s);
    }
  }
  const auto worst = [&](const void* cos, const void* sin, DType dtype) {
    const AngleTable table =
        AngleTable::given(rotation, {cos, dtype, "ND", {rows, pairs}}, {sin, dtype, "ND", {rows, pairs}});
    float largest = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t j = 0; j < pairs; ++j) {
        largest = std::max(
            {largest, std::abs(table.cos(row)[j] - exact.cos(row)[j]), std::abs(table.sin(row)[j] - exact.sin(row)[j])});
      }
    }
    return largest;
  };
  EXPECT_EQ(worst(f64_cos.data(), f64_sin.data(), DType::f64), 0);
  EXPECT_LE(worst(f16_cos.data(), f16_sin.data(), DType::f16), 0x1p-12f);
  EXPECT_GT(worst(f16_cos.data(), f16_sin.data(), DType::f16), 0x1p-13f);
  EXPECT_LE(worst(bf16_cos.data(), bf16_sin.data(), DType::bf16), 0x1p-9f);
  EXPECT_GT(worst(bf16_cos.data(), bf16_sin.data(), DType::bf16), 0x1p-10f);
}

TEST(GivenAngleTable, RefusesViewsOfTheWrongShape) {
  const Rotation rotation = rope(1e4, 8);
  const Values values = halves(rotation, 4);
  const std::vector<std::int64_t> ids(32);
  const ConstTensorView good(values.cos.data(), "ND", {4, 8});
  for (const ConstTensorView& bad :
       {ConstTensorView(), ConstTensorView(values.sin.data(), "SD", {4, 8}),
        ConstTensorView(values.sin.data(), "ND", {3, 8}), ConstTensorView(values.sin.data(), "ND", {4, 6}),
        ConstTensorView(values.sin.data(), "ND", {4, 4}), ConstTensorView(values.sin.data(), "BND", {1, 4, 8}),
        ConstTensorView(ids.data(), "ND", {4, 8})}) {
    error_sentence(ErrorCode::invalid_argument, [&] { AngleTable::given(rotation, good, bad); });
    error_sentence(ErrorCode::invalid_argument, [&] { AngleTable::given(rotation, bad, good); });
  }
}

TEST(GivenAngleTable, CannotGrow) {
  const Rotation rotation = rope(1e4, 8);
  const Values values = halves(rotation, 4);
  const AngleTable table =
      AngleTable::given(rotation, {values.cos.data(), "ND", {4, 8}}, {values.sin.data(), "ND", {4, 8}});
  EXPECT_EQ(table.extended(4).cos(0), table.cos(0));
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument, [&] { table.extended(5); }),
            "AngleTable: a given table has no rule for further rows, got 5 and 4 rows");
}

}  // namespace
}  // namespace rotary
