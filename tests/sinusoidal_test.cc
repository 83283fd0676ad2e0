#include "rotary/sinusoidal.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "reference/sinusoidal.h"
#include "rotary/frequencies.hpp"
#include "rotary/tensor_file.hpp"
#include "support/error_sentence.h"
#include "support/test_tensor.h"

namespace rotary {
namespace {

constexpr Sinusoidal encodings[] = {Sinusoidal::interleaved, Sinusoidal::concatenated, Sinusoidal::tensor2tensor};
constexpr DType dtypes[] = {DType::f64, DType::f32, DType::f16, DType::bf16};

/// Half a unit in the last place of 1: what rounding a sine to the dtype may cost.
double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::f64: return 0x1p-53;
    case DType::f32: return 0x1p-24;
    case DType::f16: return 0x1p-11;
    default: return 0x1p-8;
  }
}

/// Computed in double within 2 ulp, or in float32 within 0.501 ulp, then rounded to the dtype.
double tolerance(DType dtype) {
  return dtype == DType::f64 ? 4 * unit_roundoff(dtype) : 1.001 * unit_roundoff(dtype) + 0x1p-24;
}

double largest_difference(const TestTensor& a, const TestTensor& b) {
  double worst = 0;
  for (std::int64_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    if (!(difference <= worst)) worst = difference;
  }
  return worst;
}

TestTensor table(DType dtype, const Rotation& rotation, std::vector<double> positions) {
  const auto length = static_cast<std::int64_t>(positions.size());
  TestTensor out(dtype, "SD", {length, rotation.head_dim()});
  sinusoidal(out, rotation, {.position_ids = ConstTensorView(positions.data(), "S", {length})});
  return out;
}

// ---- the published tables ----

TEST(Sinusoidal, WritesThePublishedTables) {
  const TensorFile file(ROTARY_TEST_DATA "/absolute/sinusoidal.npz");
  const ConstTensorView positions = file.at("positions").view("S");
  for (const Sinusoidal encoding : encodings) {
    for (const std::int64_t width : {6, 64, 512}) {
      const ConstTensorView expected =
          file.at((std::string(name(encoding)) + "_" + std::to_string(width)).c_str()).view("SD");
      const Rotation rotation = sinusoidal_rotation(encoding, width);
      for (const DType dtype : dtypes) {
        TestTensor out(dtype, "SD", {6, width});
        sinusoidal(out, rotation, {.position_ids = positions});
        for (std::int64_t i = 0; i < out.size(); ++i) {
          // inv_freq is a double within 2 ulp: the angle is off by 2^-52 of its size, and the sine by as much.
          const auto p = static_cast<const std::int64_t*>(positions.data())[i / width];
          const double bound = tolerance(dtype) + static_cast<double>(p) * 0x1p-52;
          ASSERT_NEAR(out[i], static_cast<const double*>(expected.data())[i], bound)
              << name(encoding) << " " << width << " " << name(dtype) << " position " << p << " channel " << i % width;
        }
      }
    }
  }
}

TEST(Sinusoidal, LeavesTheLastChannelOfAnOddWidthAtZero) {
  const Rotation odd = sinusoidal_rotation(Sinusoidal::tensor2tensor, 9);
  const TestTensor nine = table(DType::f32, odd, {0, 7});
  const TestTensor eight = table(DType::f32, sinusoidal_rotation(Sinusoidal::tensor2tensor, 8), {0, 7});
  for (std::int64_t s = 0; s < 2; ++s) {
    for (std::int64_t d = 0; d < 8; ++d) EXPECT_EQ(nine.at({s, d}), eight.at({s, d})) << d;
    EXPECT_EQ(nine.at({s, 8}), 0);
  }
}

TEST(Sinusoidal, TellsTheTwoTablesOfSinesThenCosinesApart) {
  const Rotation paper = sinusoidal_rotation(Sinusoidal::concatenated, 64);
  const Rotation code = sinusoidal_rotation(Sinusoidal::tensor2tensor, 64);
  EXPECT_EQ(code.inv_freq().back(), 1e-4);
  EXPECT_GT(paper.inv_freq().back(), 1.3e-4);
  EXPECT_GT(largest_difference(table(DType::f64, paper, {10}), table(DType::f64, code, {10})), 0.1);
}

// ---- what it is ----

TEST(Sinusoidal, IsWhatTheOppositeRotationMakesOfPairsThatHoldZeroAndOne) {
  const Rotation encoding = sinusoidal_rotation(Sinusoidal::interleaved, 10);
  RotationSpec spec{.head_dim = 10, .pairing_in = Pairing::interleaved, .inv_freq = encoding.inv_freq(), .direction = -1};
  TestTensor pairs(DType::f64, "SD", {5, 10});
  for (std::int64_t i = 0; i < pairs.size(); ++i) pairs.set(i, static_cast<double>(i % 2));
  rotate(pairs, Rotation(spec), {.offset = 1000000});
  TestTensor written(DType::f64, "SD", {5, 10});
  sinusoidal(written, encoding, {.offset = 1000000});
  EXPECT_LE(largest_difference(pairs, written), 0x1p-52);
}

TEST(Sinusoidal, GivesTwoPositionsAnInnerProductOfTheirDistanceAlone) {
  const Rotation rotation = sinusoidal_rotation(Sinusoidal::concatenated, 64);
  const auto product = [&](double m, double n) {
    const TestTensor rows = table(DType::f64, rotation, {m, n});
    double sum = 0;
    for (std::int64_t d = 0; d < 64; ++d) sum += rows.at({0, d}) * rows.at({1, d});
    return sum;
  };
  for (const double distance : {0.0, 1.0, 17.0, 1000.0}) {
    for (const double start : {10.0, 4096.0, 1e5, 1e6}) {
      EXPECT_NEAR(product(start, start + distance), product(0, distance), 64 * 4 * 0x1p-53) << start << " " << distance;
    }
  }
}

// ---- agreement with the plain loops ----

TEST(Sinusoidal, AgreesWithTheReferenceInEveryDtypeLayoutAndKindOfRotation) {
  const Rotation rotations[] = {sinusoidal_rotation(Sinusoidal::interleaved, 2),
                                sinusoidal_rotation(Sinusoidal::concatenated, 6),
                                sinusoidal_rotation(Sinusoidal::tensor2tensor, 73),
                                Rotation({.head_dim = 20,
                                          .rotary_offset = 5,
                                          .pairing_in = Pairing::interleaved,
                                          .pairing_out = Pairing::half,
                                          .inv_freq = {1, 0.1, 0.01},
                                          .amplitude = 1.5,
                                          .direction = -1}),
                                Rotation({.head_dim = 7,
                                          .pairing_in = Pairing::listed,
                                          .inv_freq = {1, 0.3},
                                          .axis = {0, 1},
                                          .pairs_in = {{6, 1}, {2, 3}}})};
  const double ids[2][2][3] = {{{1, 10, 511}, {1e5, 1e6, -2.5}}, {{0, 3, 1 << 20}, {7, 0.25, 4096}}};  // [axis][row][token]
  for (const Rotation& rotation : rotations) {
    for (const DType dtype : dtypes) {
      for (const Layout& layout : {Layout{}, Layout{.order = "DSB", .step = 2, .reversed = "S"}}) {
        const int axes = rotation.num_axes();
        TestTensor out(dtype, "BSD", {2, 3, rotation.head_dim()}, layout);
        TestTensor expected(DType::f64, "BSD", {2, 3, rotation.head_dim()});
        sinusoidal(out, rotation, {.position_ids = ConstTensorView(&ids[0][0][0], "ABS", {axes, 2, 3})});
        reference::sinusoidal(expected, rotation, [&](auto b, auto s, int axis) { return ids[axis][b][s]; });
        EXPECT_LE(largest_difference(out, expected), rotation.amplitude() * tolerance(dtype))
            << name(dtype) << " width " << rotation.head_dim();
        EXPECT_TRUE(out.guards_intact());
      }
    }
  }
}

TEST(Sinusoidal, AddsToEveryHeadAndTokenOfATensor) {
  const Rotation rotation = sinusoidal_rotation(Sinusoidal::tensor2tensor, 11);
  const std::int64_t starts[] = {7, 100000};
  const Positions positions{.offsets = ConstTensorView(starts, "B", {2})};
  for (const DType dtype : dtypes) {
    TestTensor x(dtype, "BHSD", {2, 3, 67, 11}, {.order = "BSHD"}), out(dtype, "SBDH", {67, 2, 11, 3});
    x.fill_at_random(1);
    TestTensor encoding(DType::f64, "BSD", {2, 67, 11});
    sinusoidal(encoding, rotation, positions);
    add_sinusoidal_to(x.view(), out, rotation, positions);
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t h = 0; h < 3; ++h) {
        for (std::int64_t s = 0; s < 67; ++s) {
          for (std::int64_t d = 0; d < 11; ++d) {
            const double exact =
                x.at({b, h, s, d}) + encoding.at({b, s, d});  // below 4: two roundings of that size at most
            ASSERT_NEAR(out.at({s, b, d, h}), exact, 4 * tolerance(dtype)) << name(dtype);
          }
        }
      }
    }
    add_sinusoidal(x, rotation, positions);
    EXPECT_EQ(x.at({1, 2, 66, 4}), out.at({66, 1, 4, 2}));
    EXPECT_EQ(x.at({0, 0, 0, 0}), out.at({0, 0, 0, 0}));
    EXPECT_TRUE(x.guards_intact() && out.guards_intact());
  }
}

TEST(Sinusoidal, CountsPackedSequencesFromZeroEach) {
  const Rotation rotation = sinusoidal_rotation(Sinusoidal::interleaved, 6);
  const std::int32_t ends[] = {0, 2, 2, 5};
  TestTensor packed(DType::f32, "TD", {5, 6});
  sinusoidal(packed, rotation, {.cu_seqlens = ConstTensorView(ends, "N", {4})});
  const TestTensor rows = table(DType::f32, rotation, {0, 1, 0, 1, 2});
  EXPECT_EQ(packed.values(), rows.values());
}

TEST(Sinusoidal, GivesTheSameBitsOnAnyNumberOfThreadsAndInAnyCompany) {
  const Rotation rotation = sinusoidal_rotation(Sinusoidal::concatenated, 72);
  ThreadPool pool(3);
  TestTensor alone(DType::f32, "SD", {1, 72}), many(DType::f32, "SD", {1000, 72}), threads(DType::f32, "SD", {1000, 72});
  sinusoidal(many, rotation, {.offset = 5});
  sinusoidal(threads, rotation, {.offset = 5}, {.executor = &pool});
  EXPECT_EQ(many.values(), threads.values());
  sinusoidal(alone, rotation, {.offset = 1004});
  for (std::int64_t d = 0; d < 72; ++d) EXPECT_EQ(alone[d], many.at({999, d}));
}

TEST(Sinusoidal, TakesRowsFromATable) {
  const Rotation rotation = sinusoidal_rotation(Sinusoidal::concatenated, 10);
  const AngleTable angles = AngleTable::build(rotation, 100, 3);
  TestTensor computed(DType::f32, "SD", {3, 10}), looked_up(DType::f32, "SD", {3, 10});
  sinusoidal(computed, rotation, {.offset = 100});
  sinusoidal(looked_up, rotation, {.offset = 100}, {.table = &angles});
  EXPECT_EQ(computed.values(), looked_up.values());
  expect_refused([&] { sinusoidal(looked_up, rotation, {.offset = 101}, {.table = &angles}); }, "103");
}

TEST(Sinusoidal, TakesTensorsWithoutElements) {
  const Rotation rotation = sinusoidal_rotation(Sinusoidal::interleaved, 6);
  TestTensor no_tokens(DType::f32, "BSD", {2, 0, 6}), no_rows(DType::f32, "BSD", {0, 3, 6});
  sinusoidal(no_tokens, rotation);
  add_sinusoidal(no_rows, rotation);
}

// ---- errors ----

TEST(Sinusoidal, RefusesWidthsThatItsRuleDoesNotKnow) {
  expect_refused([] { sinusoidal_rotation(Sinusoidal::interleaved, 7); }, "width must be even, from 2 to 1048576, got 7");
  expect_refused([] { sinusoidal_rotation(Sinusoidal::concatenated, 0); }, "got 0");
  expect_refused([] { sinusoidal_rotation(Sinusoidal::tensor2tensor, 3); }, "width must be from 4 to 1048576, got 3");
  expect_refused([] { sinusoidal_rotation(Sinusoidal::tensor2tensor, max_rotary_dim + 1); }, "got 1048577");
  expect_refused([] { sinusoidal_rotation(static_cast<Sinusoidal>(9), 8); }, "got number 9");
}

TEST(Sinusoidal, RefusesTensorsAndPositionsThatDoNotFitAndWritesNothing) {
  const Rotation rotation = sinusoidal_rotation(Sinusoidal::interleaved, 6);
  TestTensor out(DType::f32, "SD", {3, 6}), narrow(DType::f32, "SD", {3, 4}), longer(DType::f32, "SD", {4, 6});
  const double past[] = {1, 2, std::numeric_limits<double>::quiet_NaN()};
  expect_refused([&] { sinusoidal(TensorView(), rotation); }, "out must be given");
  expect_refused([&] { sinusoidal(narrow, rotation); }, "got 4 for head_dim 6");
  expect_refused([&] { sinusoidal(out, rotation, {.position_ids = ConstTensorView(past, "S", {3})}); },
                 "position_ids must be finite");
  expect_refused([&] { sinusoidal(out, rotation, {.position_ids = ConstTensorView(past, "S", {2})}); },
                 "one entry per token");
  expect_refused([&] { add_sinusoidal_to(out.view(), longer, rotation); }, "same axes and lengths");
  std::int32_t whole[6] = {};
  expect_refused([&] { sinusoidal(TensorView(whole, "SD", {1, 6}), rotation); }, "got int32");
  float numbers[12] = {};
  expect_refused([&] { sinusoidal(TensorView(numbers, DType::f32, "SD", {3, 6}, {1, 1}), rotation); }, "overlap");
  double shared[18] = {};
  expect_refused(
      [&] {
        sinusoidal(TensorView(shared, "SD", {3, 6}), rotation, {.position_ids = ConstTensorView(shared + 15, "S", {3})});
      },
      "what is written must not overlap the positions");
  for (std::int64_t i = 0; i < out.size(); ++i) EXPECT_TRUE(std::isnan(out[i]));
}

}  // namespace
}  // namespace rotary
