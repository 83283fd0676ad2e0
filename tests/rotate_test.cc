#include "rotary/rotate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "reference/rotate.h"
#include "rotary/frequencies.hpp"
#include "support/error_sentence.h"
#include "support/plain_rotation.h"
#include "support/test_tensor.h"

namespace rotary {
namespace {

using Numbers = std::vector<double>;

RotationSpec spec_of(Pairing pairing, std::int64_t head_dim, std::int64_t rotary_dim = 0, std::int64_t rotary_offset = 0) {
  return {.head_dim = head_dim,
          .rotary_offset = rotary_offset,
          .pairing_in = pairing,
          .inv_freq = default_frequencies(1e4, rotary_dim == 0 ? head_dim : rotary_dim).inv_freq};
}

Numbers ramp(std::int64_t length) {
  Numbers values(static_cast<std::size_t>(length));
  std::iota(values.begin(), values.end(), 1);
  return values;
}

/// One head, turned at one position, in double.
Numbers turned(const Numbers& x, const RotationSpec& spec, double position) {
  Numbers y = x;
  const TensorView view(y.data(), "SHD", {1, 1, spec.head_dim});
  rotate(view, Rotation(spec), {.position_ids = ConstTensorView(&position, "S", {1})});
  return y;
}
Numbers turned_ramp(const RotationSpec& spec, double position) { return turned(ramp(spec.head_dim), spec, position); }

void expect_near(const Numbers& actual, const Numbers& expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], tolerance) << "channel " << i;
}

double dot(const Numbers& a, const Numbers& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }
double norm(const Numbers& a) { return std::sqrt(dot(a, a)); }

// Values of others are printed with 10 digits, or with 6 decimals: half of their last one.
constexpr double ten_digits = 5e-10 * 10;
constexpr double six_decimals = 5e-7;

// ---- known values ----

TEST(Rotate, GivesTheKnownValuesOfBothPairings_L1_L2_L17) {
  const RotationSpec interleaved = spec_of(Pairing::interleaved, 4), half = spec_of(Pairing::half, 4);
  expect_near(turned_ramp(interleaved, 0), {1, 2, 3, 4}, 0);
  expect_near(turned_ramp(interleaved, 1), {-1.142640, 1.922076, 2.959851, 4.029800}, six_decimals);
  expect_near(turned_ramp(interleaved, 10), {0.248971, -2.222164, 2.585679, 4.279517}, six_decimals);
  expect_near(turned_ramp(half, 0), {1, 2, 3, 4}, 0);
  expect_near(turned_ramp(half, 1), {-1.984111, 1.959901, 2.462378, 4.019800}, six_decimals);
  expect_near(turned_ramp(half, 10), {0.792992, 1.590675, -3.061236, 4.179683}, six_decimals);
  expect_near(turned_ramp(half, -1), {3.064715, 2.039899, 0.779436, 3.979800}, six_decimals);

  expect_near(turned_ramp(spec_of(Pairing::interleaved, 8), 3),
              {-1.272232513, -1.838864985, 1.683928641, 4.707906576, 4.817777168, 6.147277704, 6.975968536, 8.020963969},
              ten_digits);
  expect_near(turned_ramp(spec_of(Pairing::half, 8), 3),
              {-1.695592537, 0.1375517383, 2.7886816, 3.975982036, -4.808842475, 6.323059348, 7.086836737, 8.011963982},
              ten_digits);
}

TEST(Rotate, PutsPairsBackWhereTheyCameFrom_L1) {
  for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
    EXPECT_EQ(turned_ramp(spec_of(pairing, 8), 0), ramp(8));
  }
}

TEST(Rotate, TurnsTheOtherWayWhereTheDirectionSaysSo_L18) {
  const Numbers interleaved_back = {-0.7077524805, -2.121105001, 4.048090294, 2.934785337,
                                    5.17772317,    5.847322701,  7.023968464, 7.978964032};
  const Numbers half_back = {-0.2843924563, 3.683794218, 3.208618603, 4.023981964,
                             -5.091082491,  5.140978521, 6.906863736, 7.987964018};
  for (const auto& [pairing, expected] : {std::pair{Pairing::interleaved, interleaved_back}, {Pairing::half, half_back}}) {
    RotationSpec spec = spec_of(pairing, 8);
    expect_near(turned_ramp(spec, -3), expected, ten_digits);
    spec.direction = -1;
    expect_near(turned_ramp(spec, 3), expected, ten_digits);
    EXPECT_EQ(turned_ramp(spec, -3), turned_ramp(spec_of(pairing, 8), 3));
  }
}

TEST(Rotate, TurnsOnlyItsSlice_L6_L7_L8) {
  expect_near(turned_ramp(spec_of(Pairing::interleaved, 8, 4), 3),
              {-1.272232513, -1.838864985, 2.8786681, 4.088186636, 5, 6, 7, 8}, ten_digits);
  expect_near(turned_ramp(spec_of(Pairing::half, 8, 4), 3),
              {-1.413352521, 1.879118067, -2.828857482, 4.058191135, 5, 6, 7, 8}, ten_digits);
  expect_near(turned_ramp(spec_of(Pairing::interleaved, 8, 4, 4), 3),
              {1, 2, 3, 4, -5.796682531, -5.234354939, 6.756886235, 8.206368771}, ten_digits);
}

TEST(Rotate, PairsAcrossTheWholeHeadWhereFrequenciesAreZero_L6_L9) {
  const RotationSpec proportional{.head_dim = 8, .pairing_in = Pairing::half, .inv_freq = {1, 0.1, 0, 0}};
  expect_near(turned_ramp(proportional, 3), {-1.695592537, 0.1375517383, 3, 4, -4.808842475, 6.323059348, 7, 8},
              ten_digits);
  // The same, pair by pair: channels of no pair are not touched.
  const RotationSpec listed{
      .head_dim = 8, .pairing_in = Pairing::listed, .inv_freq = {1, 0.1}, .pairs_in = {{0, 4}, {1, 5}}};
  EXPECT_EQ(turned_ramp(listed, 3), turned_ramp(proportional, 3));
}

TEST(Rotate, ReadsNeighboursAndWritesHalvesWhereThePairingsDiffer) {
  RotationSpec spec = spec_of(Pairing::interleaved, 8);
  const Numbers in_place = turned_ramp(spec, 3);
  spec.pairing_out = Pairing::half;
  const Numbers emitted = turned_ramp(spec, 3);
  for (std::size_t j = 0; j < 4; ++j) {
    EXPECT_EQ(emitted[j], in_place[2 * j]);
    EXPECT_EQ(emitted[j + 4], in_place[2 * j + 1]);
  }
}

TEST(Rotate, ShowsTheSmallestExample) {
  // A quarter turn per position, one pair. Query (1, 0) at position m, key at position n: the score is cos or sin of the
  // distance.
  const double quarter = std::acos(0.0);
  const RotationSpec spec{.head_dim = 2, .pairing_in = Pairing::half, .inv_freq = {quarter}};
  const auto score = [&](const Numbers& q, double m, const Numbers& k, double n) {
    return dot(turned(q, spec, m), turned(k, spec, n));
  };
  EXPECT_NEAR(score({1, 0}, 0, {1, 0}, 0), 1, 1e-15);  // the same content, the same place
  EXPECT_NEAR(score({1, 0}, 1, {1, 0}, 0), 0, 1e-15);  // a quarter turn apart
  EXPECT_NEAR(score({1, 0}, 0, {0, 1}, 0), 0, 1e-15);  // unlike contents
  EXPECT_NEAR(score({1, 0}, 1, {0, 1}, 0), 1, 1e-15);  // a score of zero becomes one by the distance alone
}

// ---- properties ----

const Numbers query = {0.3, -1.2, 0.7, 0.5, -0.4, 0.9, 1.1, -0.2};
const Numbers key = {0.6, 0.1, -0.8, 1.3, 0.2, -0.5, 0.4, 0.9};

TEST(Rotate, MakesScoresDependOnTheDistanceAlone_P1) {
  for (const double both : {0.0, 5.0, 1000.0, 100000.0, 1000000.0}) {
    const RotationSpec spec = spec_of(Pairing::half, 8);
    const double score = dot(turned(query, spec, 7 + both), turned(key, spec, 3 + both));
    EXPECT_NEAR(score, -0.219486675394, 1e-12) << both;
  }
}

TEST(Rotate, KeepsNorms) {
  for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
    for (const double position : {1.0, 10.0, 131071.0, 1e6, 0.5, -3.0}) {
      EXPECT_NEAR(norm(turned(query, spec_of(pairing, 8), position)), norm(query), 1e-14) << position;
    }
  }
}

TEST(Rotate, AddsUp) {
  const RotationSpec spec = spec_of(Pairing::interleaved, 8);
  expect_near(turned(turned(query, spec, 1e5), spec, 7.25), turned(query, spec, 1e5 + 7.25), 1e-14);
  expect_near(turned(turned(query, spec, 1e6), spec, -1e6), query, 1e-14);
}

TEST(Rotate, OfHalvesIsRotateOfNeighboursAfterThePermutation_L20_L21) {
  // Where channel d of the half layout goes in the interleaved one, and back: one way is not the other beyond width 4.
  const std::array<std::size_t, 8> to_interleaved = {0, 4, 1, 5, 2, 6, 3, 7}, to_half = {0, 2, 4, 6, 1, 3, 5, 7};
  const auto permuted = [](const Numbers& x, const std::array<std::size_t, 8>& order) {
    Numbers y;
    for (const std::size_t i : order) y.push_back(x[i]);
    return y;
  };
  EXPECT_EQ(permuted(permuted(ramp(8), to_interleaved), to_half), ramp(8));
  for (const double position : {1.0, 10.0, 1e5}) {
    const Numbers half = turned(query, spec_of(Pairing::half, 8), position);
    const Numbers interleaved = turned(permuted(query, to_interleaved), spec_of(Pairing::interleaved, 8), position);
    EXPECT_EQ(permuted(half, to_interleaved), interleaved);
    EXPECT_EQ(half, permuted(interleaved, to_half));
  }
}

TEST(Rotate, MultipliesByTheAmplitudeInEveryLayout_F22) {
  for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
    RotationSpec spec = spec_of(pairing, 8);
    const Numbers plain = turned(query, spec, 11);
    spec.amplitude = 1.4158883083359672;
    const Numbers larger = turned(query, spec, 11);
    for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(larger[i], plain[i] * spec.amplitude, 1e-15);
  }
}

TEST(Rotate, ChangesSomethingWhereThePositionIsNotZero_S16) {
  for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
    EXPECT_NE(turned_ramp(spec_of(pairing, 8), 1), ramp(8));
  }
}

// ---- against the plain version ----

constexpr DType all_dtypes[] = {DType::f64, DType::f32, DType::f16, DType::bf16};

/// Where token `token` of batch row `row` stands: near and far, whole and not.
double place(std::int64_t row, std::int64_t token, int axis) {
  constexpr double places[] = {0, 1, 10, 4097, 1e5, 1e6, -3, 0.5};
  return places[(row * 3 + token + axis) % 8];
}

/// The same as position_ids "ABS".
std::vector<double> places(int num_axes, std::int64_t batch, std::int64_t length) {
  std::vector<double> ids;
  for (int a = 0; a < num_axes; ++a) {
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t s = 0; s < length; ++s) ids.push_back(place(b, s, a));
    }
  }
  return ids;
}

std::string about(DType dtype, Pairing pairing, std::int64_t rotary_dim) {
  return std::string(name(dtype)) + " " + name(pairing) + " " + std::to_string(rotary_dim);
}

TEST(Rotate, AgreesWithThePlainVersionForEveryDtypeAndWidth_S4_S12_S17) {
  const std::vector<double> ids = places(1, 2, 7);
  for (const DType dtype : all_dtypes) {
    for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
      for (const std::int64_t rotary_dim :
           {2, 4, 6, 8, 10, 14, 16, 18, 20, 24, 30, 32, 34, 62, 64, 66, 72, 128, 130, 254}) {
        RotationSpec spec = spec_of(pairing, rotary_dim + 5, rotary_dim, 3);
        spec.amplitude = 1.25;
        const Rotation rotation(spec);
        TestTensor x(dtype, "BSHD", {2, 7, 3, spec.head_dim}), y(dtype, "BSHD", {2, 7, 3, spec.head_dim});
        x.fill_at_random(1);
        y.fill_from(x);
        rotate(y, rotation, {.position_ids = {ids.data(), "BS", {2, 7}}});
        expect_like_plain(reference::rotate, x, y, rotation, place, about(dtype, pairing, rotary_dim));
        EXPECT_TRUE(y.guards_intact()) << about(dtype, pairing, rotary_dim);
      }
    }
  }
}

TEST(Rotate, AgreesWithThePlainVersionForHeadsWiderThanItsBuffers) {
  const std::vector<double> ids = places(1, 1, 3);
  for (const DType dtype : {DType::f64, DType::bf16}) {
    for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
      const Rotation rotation(spec_of(pairing, 9002, 9000));
      TestTensor x(dtype, "SHD", {3, 2, 9002}), y(dtype, "SHD", {3, 2, 9002});
      x.fill_at_random(2);
      y.fill_from(x);
      rotate(y, rotation, {.position_ids = {ids.data(), "S", {3}}});
      expect_like_plain(reference::rotate, x, y, rotation, place, about(dtype, pairing, 9000));
    }
  }
}

TEST(Rotate, AgreesWithThePlainVersionFromAnyDtypeToAnyOther) {
  const std::vector<double> ids = places(1, 2, 3);
  const Rotation rotation(spec_of(Pairing::half, 22, 18, 2));
  for (const DType from : all_dtypes) {
    for (const DType to : all_dtypes) {
      TestTensor x(from, "BSHD", {2, 3, 2, 22}), y(to, "BSHD", {2, 3, 2, 22});
      x.fill_at_random(3);
      rotate_to(x.view(), y, rotation, {.position_ids = {ids.data(), "BS", {2, 3}}});
      expect_like_plain(reference::rotate, x, y, rotation, place, std::string(name(from)) + " to " + name(to));
      EXPECT_TRUE(y.guards_intact());
    }
  }
}

/// Every way in which pairs can lie, of a head of 10 channels.
std::vector<RotationSpec> every_pairing() {
  const RotationSpec base{.head_dim = 10, .pairing_in = Pairing::half, .inv_freq = {1, 0.25, 0.01, 0}};
  std::vector<RotationSpec> specs(6, base);
  specs[0].rotary_offset = 1;
  specs[1].pairing_in = Pairing::interleaved;
  specs[2].pairing_in = Pairing::interleaved;
  specs[2].pairing_out = Pairing::half;
  specs[2].direction = -1;
  specs[3].pairing_out = Pairing::interleaved;
  specs[3].rotary_offset = 2;
  specs[3].amplitude = 1.5;
  specs[4].pairing_in = Pairing::listed;
  specs[4].pairs_in = {{9, 0}, {3, 5}, {1, 8}, {7, 2}};
  specs[5] = specs[4];
  specs[5].pairing_out = Pairing::listed;
  specs[5].pairs_out = {{0, 1}, {2, 3}, {5, 7}, {8, 9}};
  specs[5].axis = {0, 1, 2, 0};
  return specs;
}

const Layout layouts[] = {{},
                          {.order = "BHSD"},
                          {.order = "SBHD"},
                          {.order = "HDBS"},
                          {.order = "BSHD", .step = 2},
                          {.order = "BHSD", .reversed = "S"},
                          {.order = "SBHD", .step = 3, .reversed = "BSHD"},
                          {.order = "DHSB", .reversed = "D"}};

TEST(Rotate, AgreesWithThePlainVersionInEveryPairingAndLayout_S5_S8) {
  for (const RotationSpec& spec : every_pairing()) {
    const Rotation rotation(spec);
    const std::vector<double> ids = places(rotation.num_axes(), 2, 5);
    const Positions positions{.position_ids = {ids.data(), "ABS", {rotation.num_axes(), 2, 5}}};
    for (const DType dtype : all_dtypes) {
      for (const Layout& layout : layouts) {
        const std::string what = about(dtype, spec.pairing_in, 8) + " " + (layout.order != nullptr ? layout.order : "");
        TestTensor x(dtype, "BSHD", {2, 5, 3, 10}), y(dtype, "BSHD", {2, 5, 3, 10}, layout);
        x.fill_at_random(4);
        y.fill_from(x);
        rotate(y, rotation, positions);
        expect_like_plain(reference::rotate, x, y, rotation, place, what);
        EXPECT_TRUE(y.guards_intact()) << what;

        TestTensor out(dtype, "BSHD", {2, 5, 3, 10}, layout);
        rotate_to(x.view(), out, rotation, positions);
        EXPECT_EQ(out.values(), y.values()) << what;  // S2: in place or not is the same
        EXPECT_TRUE(out.guards_intact()) << what;

        TestTensor back(dtype, "BSHD", {2, 5, 3, 10}, layout);
        back.fill_from(x);
        unrotate(back, rotation, positions);
        expect_like_plain(reference::unrotate, x, back, rotation, place, what);
        back.fill_from(x);
        rotate_backward(back, rotation, positions);
        expect_like_plain(reference::rotate_backward, x, back, rotation, place, what);
        EXPECT_TRUE(back.guards_intact()) << what;
      }
    }
  }
}

TEST(Rotate, UndoesWhatItDid) {
  for (const RotationSpec& spec : every_pairing()) {
    const Rotation rotation(spec);
    TestTensor x(DType::f64, "SHD", {5, 2, 10}), y(DType::f64, "SHD", {5, 2, 10});
    x.fill_at_random(5);
    y.fill_from(x);
    const Positions positions{.offset = 100000};
    rotate(y, rotation, positions);
    EXPECT_NE(y.values(), x.values());
    unrotate(y, rotation, positions);
    expect_near(y.values(), x.values(), 1e-14);
  }
}

TEST(Rotate, BackwardIsTheTranspose) {
  // g . (R x) = (R^T g) . x
  for (const RotationSpec& spec : every_pairing()) {
    const Rotation rotation(spec);
    TestTensor x(DType::f64, "SHD", {3, 1, 10}), g(DType::f64, "SHD", {3, 1, 10});
    x.fill_at_random(6);
    g.fill_at_random(7);
    const Numbers before_x = x.values(), before_g = g.values();
    rotate(x, rotation, {.offset = 11});
    rotate_backward(g, rotation, {.offset = 11});
    EXPECT_NEAR(dot(before_g, x.values()), dot(g.values(), before_x), 1e-13);
  }
}

TEST(Rotate, ToAnotherBufferIsTheSameAsInPlace) {
  for (RotationSpec spec : every_pairing()) {
    spec.amplitude = 1.25;
    const Rotation rotation(spec);
    const Positions positions{.offset = 1000};
    TestTensor x(DType::f32, "BSHD", {2, 3, 2, 10}), inverse(DType::f32, "BSHD", {2, 3, 2, 10}),
        backward(DType::f32, "BSHD", {2, 3, 2, 10});
    const Numbers before = x.fill_at_random(9).values();
    unrotate(inverse.fill_from(x), rotation, positions);
    rotate_backward(backward.fill_from(x), rotation, positions);

    TestTensor out(DType::f32, "BSHD", {2, 3, 2, 10}, {.order = "BHSD", .reversed = "S"});
    unrotate_to(x, out, rotation, positions);
    EXPECT_EQ(out.values(), inverse.values());
    rotate_backward_to(x, out, rotation, positions);
    EXPECT_EQ(out.values(), backward.values());
    EXPECT_TRUE(out.guards_intact());
    EXPECT_EQ(x.values(), before);

    TestTensor narrow(DType::bf16, "BSHD", {2, 3, 2, 10});
    unrotate_to(x, narrow, rotation, positions);
    const auto position = [](std::int64_t, std::int64_t s, int) { return 1000.0 + static_cast<double>(s); };
    expect_like_plain(reference::unrotate, x, narrow, rotation, position, "unrotate_to");
    rotate_backward_to(x, narrow, rotation, positions);
    expect_like_plain(reference::rotate_backward, x, narrow, rotation, position, "rotate_backward_to");
    unrotate_to(x, x, rotation, positions);  // x itself
    EXPECT_EQ(x.values(), inverse.values());
  }
}

// ---- tensors ----

TEST(Rotate, TurnsQueriesAndKeysOfDifferentHeadCountsAlike_S5) {
  const Rotation rotation(spec_of(Pairing::half, 10));
  for (const DType dtype : all_dtypes) {
    TestTensor q(dtype, "BSHD", {2, 7, 6, 10}), k(dtype, "BSHD", {2, 7, 2, 10}, {.order = "BHSD"});
    TestTensor q_alone(dtype, "BSHD", {2, 7, 6, 10}), k_alone(dtype, "BSHD", {2, 7, 2, 10});
    q_alone.fill_from(q.fill_at_random(8));
    k_alone.fill_from(k.fill_at_random(9));
    rotate(q, k, rotation, {.offset = 300});
    rotate(q_alone, rotation, {.offset = 300});
    rotate(k_alone, rotation, {.offset = 300});
    EXPECT_EQ(q.values(), q_alone.values());
    EXPECT_EQ(k.values(), k_alone.values());
    EXPECT_TRUE(q.guards_intact());
    EXPECT_TRUE(k.guards_intact());
  }
}

TEST(Rotate, TurnsQueriesAndKeysOfDifferentDtypes) {
  const Rotation rotation(spec_of(Pairing::half, 10));
  TestTensor q(DType::f64, "SHD", {3, 2, 10}), k(DType::bf16, "SHD", {3, 1, 10});
  TestTensor before_q(DType::f64, "SHD", {3, 2, 10}), before_k(DType::bf16, "SHD", {3, 1, 10});
  before_q.fill_from(q.fill_at_random(8));
  before_k.fill_from(k.fill_at_random(9));
  rotate(q, k, rotation, {.offset = 1});
  const auto position = [](std::int64_t, std::int64_t s, int) { return static_cast<double>(s + 1); };
  expect_like_plain(reference::rotate, before_q, q, rotation, position, "q");
  expect_like_plain(reference::rotate, before_k, k, rotation, position, "k");
}

TEST(Rotate, TurnsInsideAFusedBufferAndLeavesTheValues) {
  // One token: q of 4 heads, k and v of 2, side by side.
  const Rotation rotation(spec_of(Pairing::interleaved, 6));
  TestTensor qkv(DType::f32, "BSHD", {2, 5, 8, 6}), expected(DType::f32, "BSHD", {2, 5, 8, 6});
  expected.fill_from(qkv.fill_at_random(10));
  const TensorView& all = qkv;
  rotate(all.slice('H', 0, 4), all.slice('H', 4, 6), rotation, {.offset = 1});
  rotate(expected.view().slice('H', 0, 6), rotation, {.offset = 1});
  EXPECT_EQ(qkv.values(), expected.values());
  TestTensor before(DType::f32, "BSHD", {2, 5, 8, 6});
  before.fill_at_random(10);
  for (std::int64_t s = 0; s < 5; ++s) EXPECT_EQ(qkv.at({1, s, 7, 3}), before.at({1, s, 7, 3}));
}

TEST(Rotate, TreatsAllHeadsOfATokenAlike_L15) {
  const Rotation rotation(spec_of(Pairing::half, 8));
  TestTensor x(DType::f32, "BSHD", {1, 3, 5, 8});
  for (std::int64_t i = 0; i < x.size(); ++i) x.set(i, static_cast<double>(i % 8));
  rotate(x, rotation, {.offset = 2});
  for (std::int64_t s = 0; s < 3; ++s) {
    for (std::int64_t h = 1; h < 5; ++h) {
      for (std::int64_t d = 0; d < 8; ++d) EXPECT_EQ(x.at({0, s, h, d}), x.at({0, s, 0, d}));
    }
  }
  EXPECT_NE(x.at({0, 0, 0, 1}), x.at({0, 1, 0, 1}));
}

TEST(Rotate, KeepsBatchRowsApartAtLengthOne_S1) {
  const Rotation rotation(spec_of(Pairing::half, 10));
  for (const DType dtype : all_dtypes) {
    for (const char* order : {"BSHD", "BHSD", "SBHD"}) {
      TestTensor x(dtype, "BSHD", {3, 1, 2, 10});
      for (std::int64_t i = 0; i < x.size(); ++i) x.set(i, static_cast<double>(i % 20) / 8);
      TestTensor y(dtype, "BSHD", {3, 1, 2, 10}, {.order = order});  // poisoned with NaN
      rotate_to(x.view(), y, rotation, {.offset = 17});
      const Numbers values = y.values();
      for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], values[i % 20]);
      EXPECT_NE(values[0], x[0]);
    }
  }
}

TEST(Rotate, WritesEveryElementOfItsOutput_S1) {
  for (const RotationSpec& spec : every_pairing()) {
    const Rotation rotation(spec);
    for (const DType dtype : all_dtypes) {
      TestTensor x(dtype, "BSHD", {2, 1, 3, 10}), y(dtype, "BSHD", {2, 1, 3, 10});
      rotate_to(x.fill(1).view(), y, rotation, {.offset = 5});
      for (const double value : y.values()) EXPECT_TRUE(std::isfinite(value));
    }
  }
}

TEST(Rotate, ReadsABroadcastAxis) {
  const Rotation rotation(spec_of(Pairing::half, 4));
  const float row[] = {1, 2, 3, 4};
  TestTensor out(DType::f32, "BSHD", {2, 2, 3, 4}), expected(DType::f32, "BSHD", {2, 2, 3, 4});
  for (std::int64_t i = 0; i < expected.size(); ++i) expected.set(i, row[i % 4]);
  rotate_to({row, DType::f32, "BSHD", {2, 2, 3, 4}, {0, 0, 0, 1}}, out, rotation, {.offset = 1});
  rotate(expected, rotation, {.offset = 1});
  EXPECT_EQ(out.values(), expected.values());
}

TEST(Rotate, AcceptsTensorsWithoutElements) {
  const Rotation rotation(spec_of(Pairing::half, 4));
  rotate(TensorView(nullptr, DType::f32, "BSHD", {2, 0, 3, 4}), rotation);
  rotate(TensorView(nullptr, DType::f32, "BSHD", {0, 2, 3, 4}), rotation);
  // Without heads there are tokens, but no address that could be counted from (UBSan watches).
  const TensorView headless(nullptr, DType::f32, "BSHD", {2, 5, 0, 4}), half(nullptr, DType::f16, "BHSD", {2, 0, 5, 4});
  rotate(headless, headless, rotation);
  rotate(half, rotation);
  rotate_to(headless, half, rotation);
  TestTensor q(DType::f32, "BSHD", {2, 5, 3, 4}), alone(DType::f32, "BSHD", {2, 5, 3, 4});
  alone.fill_from(q.fill_at_random(1));
  rotate(q, headless, rotation);
  rotate(alone, rotation);
  EXPECT_EQ(q.values(), alone.values());
}

TEST(Rotate, TakesComplexNumbersAsPairs) {
  const Rotation rotation(spec_of(Pairing::interleaved, 8, 6, 2));
  TestTensor real(DType::f32, "BSHD", {1, 5, 3, 8});
  real.fill_at_random(11);
  std::vector<float> numbers;
  for (std::int64_t i = 0; i < real.size(); ++i) numbers.push_back(static_cast<float>(real[i]));
  rotate(TensorView(numbers.data(), DType::c64, "SHD", {5, 3, 4}), rotation, {.offset = 9});
  rotate(real, rotation, {.offset = 9});
  for (std::int64_t i = 0; i < real.size(); ++i) EXPECT_EQ(numbers[static_cast<std::size_t>(i)], real[i]);

  // As the complex product that it is.
  const Rotation one(RotationSpec{.head_dim = 2, .pairing_in = Pairing::interleaved, .inv_freq = {0.5}});
  double z[] = {3, 4};
  rotate(TensorView(z, DType::c128, "SHD", {1, 1, 1}), one, {.offset = 7});
  EXPECT_NEAR(z[0], 3 * std::cos(3.5) - 4 * std::sin(3.5), 1e-14);
  EXPECT_NEAR(z[1], 3 * std::sin(3.5) + 4 * std::cos(3.5), 1e-14);
}

// ---- positions ----

TEST(Rotate, InOneGoIsRotateTokenByToken_P5_P6_P10) {
  const Rotation rotation(spec_of(Pairing::half, 10));
  for (const DType dtype : all_dtypes) {
    TestTensor whole(dtype, "SHD", {7, 3, 10}), stepwise(dtype, "SHD", {7, 3, 10});
    stepwise.fill_from(whole.fill_at_random(12));
    rotate(whole, rotation, {.offset = 1000});
    const TensorView& steps = stepwise;
    rotate(steps.slice('S', 0, 4), rotation, {.offset = 1000});
    for (std::int64_t s = 4; s < 7; ++s) rotate(steps.slice('S', s, s + 1), rotation, {.offset = 1000 + s});
    EXPECT_EQ(whole.values(), stepwise.values());
  }
}

TEST(Rotate, HasNoMemoryOfEarlierCalls_P12) {
  const RotationSpec spec = spec_of(Pairing::half, 8);
  const Numbers at_zero = turned(query, spec, 0), at_five = turned(query, spec, 5);
  EXPECT_NE(at_zero, at_five);
  EXPECT_EQ(turned(query, spec, 0), at_zero);
}

TEST(Rotate, UsesTheGivenIdsPerRow_P3_P23_S14) {
  const Rotation rotation(spec_of(Pairing::half, 6));
  const auto rotated_with = [&](const Positions& positions) {
    TestTensor x(DType::f32, "BSHD", {2, 3, 2, 6});
    x.fill_at_random(13);
    rotate(x, rotation, positions);
    return x.values();
  };
  const std::int64_t both[] = {0, 1, 2, 0, 1, 2}, other[] = {0, 1, 2, 7, 1, 2};
  const Numbers expected = rotated_with({.position_ids = {both, "BS", {2, 3}}});
  EXPECT_EQ(rotated_with({.position_ids = {both, "S", {3}}}), expected);
  EXPECT_EQ(rotated_with({.position_ids = {both, "BS", {1, 3}}}), expected);
  EXPECT_EQ(rotated_with({}), expected);
  const Numbers different = rotated_with({.position_ids = {other, "BS", {2, 3}}});
  EXPECT_TRUE(std::equal(different.begin(), different.begin() + 36, expected.begin()));
  EXPECT_NE(different[36], expected[36]);
}

TEST(Rotate, TellsNeighboursApartInAnyDtype_P4_D1) {
  const Rotation rotation(spec_of(Pairing::half, 4));
  for (const DType dtype : all_dtypes) {
    TestTensor x(dtype, "SHD", {1, 1, 4}), y(dtype, "SHD", {1, 1, 4});
    rotate(x.fill(1), rotation, {.offset = 256});
    rotate(y.fill(1), rotation, {.offset = 257});
    EXPECT_NE(x.values(), y.values()) << name(dtype);
  }
}

TEST(Rotate, KeepsPackedSequencesApart) {
  const Rotation rotation(spec_of(Pairing::interleaved, 6));
  const std::int32_t ends[] = {0, 3, 3, 4, 7};
  TestTensor packed(DType::f32, "THD", {7, 2, 6}), apart(DType::f32, "SHD", {7, 2, 6});
  apart.fill_from(packed.fill_at_random(14));
  rotate(packed, rotation, {.cu_seqlens = {ends, "N", {5}}});
  const TensorView& rows = apart;
  rotate(rows.slice('S', 0, 3), rotation);
  rotate(rows.slice('S', 3, 4), rotation);
  rotate(rows.slice('S', 4, 7), rotation);
  EXPECT_EQ(packed.values(), apart.values());
}

TEST(Rotate, FollowsTheAxisOfEachPair) {
  RotationSpec spec = spec_of(Pairing::half, 6);
  spec.axis = {0, 1, 2};
  const std::int64_t ids[] = {5, 7, 9};
  double x[] = {1, 1, 1, 0, 0, 0};
  rotate(TensorView(x, "SHD", {1, 1, 6}), Rotation(spec), {.position_ids = {ids, "AS", {3, 1}}});
  for (std::size_t j = 0; j < 3; ++j) {
    const double angle = static_cast<double>(ids[j]) * spec.inv_freq[j];
    EXPECT_NEAR(x[j], std::cos(angle), 1e-14);
    EXPECT_NEAR(x[j + 3], std::sin(angle), 1e-14);
  }
}

// ---- tables ----

TEST(Rotate, TakesAnglesFromATable_K5) {
  RotationSpec spec = spec_of(Pairing::half, 10);
  spec.axis = {0, 1, 0, 1, 1};
  spec.amplitude = 1.1;
  for (const RotationSpec& each : {spec_of(Pairing::half, 10), spec}) {
    const Rotation rotation(each);
    const AngleTable table = AngleTable::build(rotation, -2, 40);  // longer than needed
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      const std::int64_t ids[] = {37, -2, 5, 0, 3, 17};
      const Positions positions{
          .position_ids = {ids, rotation.num_axes() == 1 ? "S" : "AS", rotation.num_axes() == 1 ? Dims{3} : Dims{2, 3}}};
      TestTensor x(dtype, "SHD", {3, 2, 10}), y(dtype, "SHD", {3, 2, 10});
      y.fill_from(x.fill_at_random(15));
      rotate(x, rotation, positions);
      rotate(y, rotation, positions, {.table = &table});
      EXPECT_EQ(x.values(), y.values());
    }
  }
}

TEST(Rotate, TakesATableOfOneRowPerToken) {
  const Rotation rotation(spec_of(Pairing::half, 4));
  const float cos[] = {1, 0.6f, 0.8f, 0, 1, -1}, sin[] = {0, 0.8f, -0.6f, 1, 0, 0};
  const AngleTable one_row = AngleTable::given(rotation, {cos, "SD", {3, 2}}, {sin, "SD", {3, 2}});
  TestTensor x(DType::f32, "BSHD", {2, 3, 1, 4});
  rotate(x.fill(1), rotation, {}, {.table = &one_row});
  const Numbers expected = {1, 0.6f - 0.8f, 1, 0.6f + 0.8f, 0.8f + 0.6f, -1, 0.8f - 0.6f, 1, 1, -1, 1, -1};
  for (std::int64_t i = 0; i < 24; ++i) EXPECT_NEAR(x[i], expected[static_cast<std::size_t>(i % 12)], 1e-7);

  const AngleTable rows = AngleTable::given(rotation, {cos, "BSD", {3, 1, 2}}, {sin, "BSD", {3, 1, 2}});
  TestTensor y(DType::f32, "BSHD", {3, 1, 1, 4});
  rotate(y.fill(1), rotation, {}, {.table = &rows});
  for (std::int64_t i = 0; i < 12; ++i) EXPECT_NEAR(y[i], expected[static_cast<std::size_t>(i)], 1e-7);

  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument, [&] { rotate(x, rotation, {}, {.table = &rows}); }),
            "rotate: the table must have one row per token, got 3 x 1 for 2 x 3 tokens");
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument, [&] { rotate(x, rotation, {.offset = 1}, {.table = &one_row}); }),
            "rotate: a table with one row per token leaves no use for positions: give none");
}

TEST(Rotate, RefusesPositionsWithoutARowBeforeWriting_K4_V11) {
  const Rotation rotation(spec_of(Pairing::half, 4));
  const AngleTable table = AngleTable::build(rotation, 0, 8);
  for (const double bad : {-1.0, 8.0, 0.5, 0x1p53, -0x1p53, 1e300, std::nan("")}) {
    TestTensor x(DType::f32, "SHD", {3, 1, 4});
    const Numbers before = x.fill_at_random(16).values();
    const double ids[] = {0, 7, bad};
    error_sentence(ErrorCode::invalid_argument, [&] {
      rotate(x, rotation, {.position_ids = {ids, "S", {3}}}, {.table = &table});
    });
    EXPECT_EQ(x.values(), before);
  }
  for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{8}, std::numeric_limits<std::int64_t>::max(),
                                 std::numeric_limits<std::int64_t>::min()}) {
    TestTensor x(DType::f32, "SHD", {3, 1, 4});
    const Numbers before = x.fill_at_random(16).values();
    const std::int64_t ids[] = {0, 7, bad};
    error_sentence(ErrorCode::invalid_argument, [&] {
      rotate(x, rotation, {.position_ids = {ids, "S", {3}}}, {.table = &table});
    });
    EXPECT_EQ(x.values(), before);
  }
  TestTensor x(DType::f32, "SHD", {3, 1, 4});
  EXPECT_EQ(
      error_sentence(ErrorCode::invalid_argument, [&] { rotate(x.fill(0), rotation, {.offset = 6}, {.table = &table}); }),
      "rotate: the table must have a row for every position, got position 8 of token 2 in row 0 and rows 0 to 7");
  const Rotation wider(spec_of(Pairing::half, 6));
  TestTensor y(DType::f32, "SHD", {3, 1, 6});
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument, [&] { rotate(y.fill(0), wider, {}, {.table = &table}); }),
            "rotate: the table must have one column per pair of the rotation, got 2 for 3");
}

TEST(Rotate, RefusesATableOfAnotherRotation) {
  RotationSpec spec = spec_of(Pairing::half, 4);
  const Rotation rotation(spec);
  const AngleTable table = AngleTable::build(rotation, 0, 8);
  const float cos[] = {1, 0.6f}, sin[] = {0, 0.8f};
  const AngleTable given = AngleTable::given(rotation, {cos, "ND", {1, 2}}, {sin, "ND", {1, 2}});
  const AngleTable given_per_token = AngleTable::given(rotation, {cos, "SD", {1, 2}}, {sin, "SD", {1, 2}});
  TestTensor x(DType::f32, "SHD", {1, 1, 4});
  const Numbers before = x.fill_at_random(16).values();
  const auto refusal = [&](const RotationSpec& other, const AngleTable& offered) {
    return error_sentence(ErrorCode::invalid_argument, [&] { rotate(x, Rotation(other), {}, {.table = &offered}); });
  };

  RotationSpec other_base = spec;
  other_base.inv_freq = default_frequencies(5e5, 4).inv_freq;
  EXPECT_EQ(refusal(other_base, table).rfind("rotate: the table must be built from the inv_freq of the rotation, got ", 0),
            0u);
  EXPECT_NE(refusal(other_base, table.extended(300)).find("in pair 1"), std::string::npos);
  RotationSpec louder = spec;
  louder.amplitude = 1.5;
  for (const AngleTable* each : {&table, &given, &given_per_token}) {
    EXPECT_EQ(refusal(louder, *each), "rotate: the table must have the amplitude of the rotation, got 1 for 1.5");
  }
  EXPECT_EQ(x.values(), before);
  rotate(x, Rotation(other_base), {}, {.table = &given});  // whose frequencies only its maker knows
}

TEST(Rotate, TakesATableWhateverThePairingAndTheAxes) {
  // A row holds every pair at one position: what drives a pair, and where it lies, is no matter of the table.
  RotationSpec spec = spec_of(Pairing::half, 6);
  const AngleTable table = AngleTable::build(Rotation(spec), 0, 8);
  spec.pairing_in = Pairing::interleaved;
  spec.axis = {1, 0, 1};
  const Rotation rotation(spec);
  const std::int32_t ids[] = {5, 1, 7, 3};
  TestTensor x(DType::f32, "SHD", {2, 1, 6}), y(DType::f32, "SHD", {2, 1, 6});
  y.fill_from(x.fill_at_random(16));
  rotate(x, rotation, {.position_ids = {ids, "AS", {2, 2}}}, {.table = &table});
  rotate(y, rotation, {.position_ids = {ids, "AS", {2, 2}}});
  EXPECT_EQ(x.values(), y.values());
}

// ---- refusals: a sentence, and nothing written ----

TEST(Rotate, RefusesTensorsThatDoNotFitTheRotation) {
  const Rotation rotation(spec_of(Pairing::half, 8));
  std::vector<float> memory(64);
  const auto refusal = [&](DType dtype, Axes axes, const Dims& shape) {
    return error_sentence(ErrorCode::invalid_argument,
                          [&] { rotate(TensorView(memory.data(), dtype, axes, shape), rotation); });
  };
  EXPECT_EQ(refusal(DType::f32, "SHD", {1, 1, 6}), "rotate: x must have head_dim channels along D, got 6 for head_dim 8");
  EXPECT_EQ(refusal(DType::f32, "SH", {1, 8}), "rotate: x must have head_dim channels along D, got 0 for head_dim 8");
  EXPECT_EQ(refusal(DType::i32, "SHD", {1, 1, 8}),
            "rotate: x must be float64, float32, float16, bfloat16, complex128 or complex64, got int32");
  EXPECT_EQ(refusal(DType::f32, "SNHD", {1, 1, 1, 8}), "rotate: x must have axes among B, S, T, H and D, got \"SNHD\"");
  EXPECT_EQ(refusal(DType::f32, "BHD", {1, 1, 8}), "rotate: tokens must be on one axis, S or T (packed), got \"BHD\"");
  EXPECT_EQ(refusal(DType::c64, "SHD", {1, 1, 4}),
            "rotate: x can be complex only where every pair is one number: pairing interleaved, even offset");
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument, [&] { rotate(TensorView(), rotation); }),
            "rotate: x must be given");
}

TEST(Rotate, RefusesComplexNumbersThatAreNotThePairs) {
  std::vector<float> memory(64);
  const Rotation odd(spec_of(Pairing::interleaved, 8, 4, 1)), even(spec_of(Pairing::interleaved, 8, 4, 2));
  const TensorView close(memory.data(), DType::c64, "SHD", {1, 1, 4});
  const TensorView spread(memory.data(), DType::c64, "SHD", {1, 1, 4}, {8, 8, 2});
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument, [&] { rotate(close, odd); }),
            "rotate: x can be complex only where every pair is one number: pairing interleaved, even offset");
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument, [&] { rotate(spread, even); }),
            "rotate: x must have stride 1 along D where it is complex, got 2");
}

TEST(Rotate, RefusesQueriesAndKeysOfDifferentTokens) {
  const Rotation rotation(spec_of(Pairing::half, 4));
  TestTensor q(DType::f32, "BSHD", {2, 3, 1, 4}), k(DType::f32, "BSHD", {2, 4, 1, 4}), packed(DType::f32, "THD", {6, 1, 4});
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument, [&] { rotate(q, k, rotation); }),
            "rotate: q and k must have the same tokens, got 2 x 3 and 2 x 4");
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument, [&] { rotate(q, packed, rotation); }),
            "rotate: q and k must have the same tokens, got 2 x 3 and 1 x 6, one of them packed");
}

TEST(Rotate, RefusesToWriteWhereThingsOverlap_S2) {
  const Rotation rotation(spec_of(Pairing::half, 4));
  std::vector<float> memory(100, 1);
  const std::vector<float> before = memory;
  const auto view = [&](std::int64_t begin, const Dims& strides) {
    return TensorView(memory.data() + begin, DType::f32, "SHD", {3, 2, 4}, strides);
  };
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument,
                           [&] {
                             rotate(view(0, {8, 0, 1}), rotation);
                           }),
            "rotate: x must have elements that do not overlap each other");
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument,
                           [&] {
                             rotate(view(0, {6, 3, 1}), rotation);
                           }),
            "rotate: x must have elements that do not overlap each other");
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument,
                           [&] {
                             rotate(view(0, {8, 4, 1}), view(20, {8, 4, 1}), rotation);
                           }),
            "rotate: q and k must not overlap");
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument,
                           [&] {
                             rotate_to(view(0, {8, 4, 1}), view(1, {8, 4, 1}), rotation);
                           }),
            "rotate_to: out must be x itself or not overlap it");
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument,
                           [&] {
                             rotate_to(view(0, {8, 4, 1}), view(0, {4, 12, 1}), rotation);
                           }),
            "rotate_to: out must be x itself or not overlap it");
  EXPECT_EQ(memory, before);
  rotate_to(view(0, {8, 4, 1}), view(0, {8, 4, 1}), rotation);  // x itself
  rotate(view(0, {16, 8, 1}), view(4, {16, 8, 1}), rotation);   // side by side in one buffer
}

TEST(Rotate, RefusesToWriteOverThePositions) {
  // They are checked, and read again while the tensor is written.
  const Rotation rotation(spec_of(Pairing::half, 4));
  const AngleTable table = AngleTable::build(rotation, 0, 8);
  std::vector<std::int64_t> memory(24);
  std::iota(memory.begin(), memory.end(), 0);
  const std::vector<std::int64_t> before = memory;
  const TensorView x(memory.data(), DType::f32, "SHD", {3, 2, 4}), k(memory.data() + 12, DType::f32, "SHD", {3, 2, 4});
  const TensorView rows(memory.data(), DType::f32, "BSHD", {3, 1, 2, 4}),
      packed(memory.data(), DType::f32, "THD", {3, 2, 4});
  const Positions ids{.position_ids = {memory.data() + 5, "S", {3}}};
  const auto refusal = [](const auto& call) { return error_sentence(ErrorCode::invalid_argument, call); };

  EXPECT_EQ(refusal([&] { rotate(x, rotation, ids, {.table = &table}); }), "rotate: x must not overlap position_ids");
  EXPECT_EQ(refusal([&] { rotate(x, k, rotation, ids); }), "rotate: q must not overlap position_ids");
  EXPECT_EQ(refusal([&] { rotate(k, x, rotation, ids); }), "rotate: k must not overlap position_ids");
  EXPECT_EQ(refusal([&] { rotate_to(k, x, rotation, ids); }), "rotate_to: out must not overlap position_ids");
  EXPECT_EQ(refusal([&] { unrotate_to(k, x, rotation, ids); }), "unrotate_to: out must not overlap position_ids");
  EXPECT_EQ(refusal([&] { rotate_backward_to(k, x, rotation, ids); }),
            "rotate_backward_to: out must not overlap position_ids");
  EXPECT_EQ(refusal([&] { shift_to(k, x, rotation, ConstTensorView(memory.data(), "S", {3})); }),
            "shift_to: out must not overlap distances");
  EXPECT_EQ(refusal([&] { unrotate(x, rotation, ids); }), "unrotate: x must not overlap position_ids");
  EXPECT_EQ(refusal([&] { rotate_backward(x, rotation, ids); }), "rotate_backward: gradient must not overlap position_ids");
  EXPECT_EQ(refusal([&] {
              rotate(rows, rotation, {.offsets = {memory.data(), "B", {3}}});
            }),
            "rotate: x must not overlap offsets");
  memory[10] = 0;
  memory[11] = 3;
  EXPECT_EQ(refusal([&] {
              rotate(packed, rotation, {.cu_seqlens = {memory.data() + 10, "N", {2}}});
            }),
            "rotate: x must not overlap cu_seqlens");
  EXPECT_EQ(refusal([&] { shift(x, rotation, ConstTensorView(memory.data(), "S", {3})); }),
            "shift: the tensor must not overlap distances");
  memory[10] = before[10];
  memory[11] = before[11];
  EXPECT_EQ(memory, before);
}

TEST(Rotate, RefusesAnOutputOfAnotherShape) {
  const Rotation rotation(spec_of(Pairing::half, 4));
  TestTensor x(DType::f32, "SHD", {3, 2, 4}), heads(DType::f32, "SHD", {3, 1, 4}), batch(DType::f32, "BSHD", {1, 3, 2, 4});
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument, [&] { rotate_to(x.fill(1).view(), heads, rotation); }),
            "rotate_to: x and out must have the same axes and lengths, got \"SHD\" and \"SHD\" with 2 and 1 along H");
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument, [&] { rotate_to(x.view(), batch, rotation); }),
            "rotate_to: x and out must have the same axes and lengths, got \"SHD\" and \"BSHD\" with 1 and 1 along B");
}

TEST(Rotate, RefusesALengthThatDoesNotFitBeforeReading_P8) {
  const Rotation rotation(spec_of(Pairing::half, 4));
  TestTensor x(DType::f32, "SHD", {4, 1, 4});
  const Numbers before = x.fill_at_random(17).values();
  const std::int64_t ids[] = {0, 1, 2};
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument,
                           [&] {
                             rotate(x, rotation, {.position_ids = {ids, "S", {3}}});
                           }),
            "rotate: position_ids must have one entry per token, got 3 for 4 tokens");
  EXPECT_EQ(x.values(), before);
}

TEST(Rotate, RefusesAnglesTooLargeToReduce) {
  const Rotation rotation(RotationSpec{.head_dim = 2, .pairing_in = Pairing::half, .inv_freq = {1e9}});
  TestTensor x(DType::f32, "SHD", {2, 1, 2});
  const Numbers before = x.fill_at_random(18).values();
  const double ids[] = {1, 0x1p52};
  EXPECT_NE(error_sentence(ErrorCode::invalid_argument,
                           [&] {
                             rotate(x, rotation, {.position_ids = {ids, "S", {2}}});
                           })
                .find("at most 2^60 radians"),
            std::string::npos);
  EXPECT_EQ(x.values(), before);
}

TEST(Rotate, RefusesAPrecisionThatItDoesNotKnow_L5) {
  const Rotation rotation(spec_of(Pairing::half, 4));
  const AngleTable table = AngleTable::build(rotation, 0, 8);
  TestTensor x(DType::f32, "SHD", {3, 1, 4});
  for (const AngleTable* const given : {&table, static_cast<const AngleTable*>(nullptr)}) {
    EXPECT_EQ(
        error_sentence(ErrorCode::invalid_argument,
                       [&] { rotate(x.fill(1), rotation, {}, {.precision = static_cast<Precision>(9), .table = given}); }),
        "rotate: precision must be exact, transformers or ggml, got number 9");
  }
}

TEST(Rotate, RefusesAPairingThatNobodyNamed_L5) {
  EXPECT_THROW(Rotation(RotationSpec{.head_dim = 2, .inv_freq = {1}}), Error);
  EXPECT_THROW(Rotation(RotationSpec{.head_dim = 2, .pairing_in = static_cast<Pairing>(9), .inv_freq = {1}}), Error);
}

}  // namespace
}  // namespace rotary
