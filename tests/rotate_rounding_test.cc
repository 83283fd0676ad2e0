// Where rotate rounds: every float16 and bfloat16 value, in every mode, against the formula written out one operation at a
// time with base's conversions.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "rotary/isa.hpp"
#include "rotary/rotate.hpp"

namespace rotary {
namespace {

bool has_fma() { return active_isa() != Isa::scalar && active_isa() != Isa::sse4; }

float16 narrow(float value, float16) { return to_float16(value); }
bfloat16 narrow(float value, bfloat16) { return to_bfloat16(value); }
float narrow(float value, float) { return value; }
float widened(float16 x) { return to_float(x); }
float widened(bfloat16 x) { return to_float(x); }
float widened(float x) { return x; }

template <class T>
struct Members {
  T u, v;
};

/// What a pair must become, bit for bit.
template <class T>
Members<T> expected_pair(T u16, T v16, float c, float s, Precision precision) {
  const float u = widened(u16), v = widened(v16);
  if (precision == Precision::transformers) {
    // q * cos + rotate_half(q) * sin, every step in the dtype of q
    const auto step = [](float x) { return widened(narrow(x, T{})); };
    c = step(c);
    s = step(s);
    return {narrow(step(u * c) + step(-v * s), T{}), narrow(step(v * c) + step(u * s), T{})};
  }
  if (precision == Precision::ggml || has_fma()) {
    return {narrow(std::fma(u, c, -(v * s)), T{}), narrow(std::fma(u, s, v * c), T{})};
  }
  return {narrow(u * c - v * s, T{}), narrow(u * s + v * c, T{})};
}

std::uint32_t bits_of(float16 x) { return x.bits; }
std::uint32_t bits_of(bfloat16 x) { return x.bits; }
std::uint32_t bits_of(float x) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
template <class T>
bool same(T a, T b) {
  if (std::isnan(widened(a)) && std::isnan(widened(b))) return true;
  return bits_of(a) == bits_of(b);
}

template <class T>
T element(std::uint32_t i) {
  if constexpr (std::is_same_v<T, float>) {
    const std::uint32_t bits = i * 2654435761u;
    float x = 0;
    std::memcpy(&x, &bits, sizeof x);
    return x;
  } else {
    return {static_cast<std::uint16_t>(i)};
  }
}

/// All 65,536 patterns as first members, 64 pairs a head, with scattered partners. The sums of one pair often lie in the middle
/// between two bfloat16.
template <class T>
void check_every_pattern(Pairing pairing, Precision precision, double amplitude) {
  constexpr std::int64_t num_pairs = 64, rows = 1024;
  std::vector<double> inv_freq(num_pairs, 0.0);
  const Rotation rotation({.head_dim = 2 * num_pairs, .pairing_in = pairing, .inv_freq = inv_freq, .amplitude = amplitude});
  std::vector<double> cos, sin;
  for (int j = 0; j < num_pairs; ++j) {
    cos.push_back(amplitude * (j == 37 ? 1 : std::cos(0.1 * j)));
    sin.push_back(amplitude * (j == 37 ? 0x1p-8 : std::sin(0.1 * j)));
  }
  const AngleTable table =
      AngleTable::given(rotation, {cos.data(), "ND", {1, num_pairs}}, {sin.data(), "ND", {1, num_pairs}});

  std::vector<T> x(static_cast<std::size_t>(rows * 2 * num_pairs));
  const auto at = [&](std::int64_t row, std::int64_t channel) -> T& {
    return x[static_cast<std::size_t>(row * 2 * num_pairs + channel)];
  };
  const auto u_of = [](std::int64_t row, std::int64_t j) { return static_cast<std::uint32_t>(row * num_pairs + j); };
  const auto v_of = [&](std::int64_t row, std::int64_t j) { return (u_of(row, j) * 40503u + 12345u) & 0xffffu; };
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t j = 0; j < num_pairs; ++j) {
      const Pair pair = rotation.pairs_in()[static_cast<std::size_t>(j)];
      at(row, pair.first) = element<T>(u_of(row, j));
      at(row, pair.second) = element<T>(v_of(row, j));
    }
  }
  rotate(TensorView(x.data(), "SHD", {1, rows, 2 * num_pairs}), rotation, {}, {.precision = precision, .table = &table});
  std::int64_t wrong = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t j = 0; j < num_pairs; ++j) {
      const Pair pair = rotation.pairs_in()[static_cast<std::size_t>(j)];
      const auto expected =
          expected_pair(element<T>(u_of(row, j)), element<T>(v_of(row, j)), table.cos(0)[j], table.sin(0)[j], precision);
      const bool right = same(at(row, pair.first), expected.u) && same(at(row, pair.second), expected.v);
      if (!right && ++wrong <= 5) {
        ADD_FAILURE() << name(dtype_of<T>) << " " << name(pairing) << " " << name(precision) << " amplitude " << amplitude
                      << ": pair (" << widened(element<T>(u_of(row, j))) << ", " << widened(element<T>(v_of(row, j)))
                      << ") became (" << widened(at(row, pair.first)) << ", " << widened(at(row, pair.second)) << "), not ("
                      << widened(expected.u) << ", " << widened(expected.v) << ")";
      }
    }
  }
  EXPECT_EQ(wrong, 0);
}

template <class T>
void check_every_mode() {
  for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
    for (const Precision precision : {Precision::exact, Precision::transformers, Precision::ggml}) {
      // Plain; into the subnormals; over the largest number.
      for (const double amplitude : {1.0, 0x1p-12, 8.0}) check_every_pattern<T>(pairing, precision, amplitude);
    }
  }
}

TEST(RotateRounding, RoundsFloat16OnceOrWhereTransformersDoes_D11_D13) { check_every_mode<float16>(); }
TEST(RotateRounding, RoundsBfloat16OnceOrWhereTransformersDoes_D3_D11_D13) { check_every_mode<bfloat16>(); }
TEST(RotateRounding, RoundsFloat32WhereItsModeSays_D13) { check_every_mode<float>(); }

TEST(RotateRounding, IsTheSameForGatheredRows) {
  // The same pairs listed one by one take another way to the kernel.
  const std::vector<double> inv_freq = {1, 0.5, 0.25, 0.125, 0.1, 0.01, 0.001};
  std::vector<Pair> pairs;
  for (std::int64_t j = 0; j < 7; ++j) pairs.push_back({j, j + 7});
  const Rotation half({.head_dim = 14, .pairing_in = Pairing::half, .inv_freq = inv_freq});
  const Rotation listed({.head_dim = 14, .pairing_in = Pairing::listed, .inv_freq = inv_freq, .pairs_in = pairs});
  for (const Precision precision : {Precision::exact, Precision::transformers}) {
    std::vector<bfloat16> a, b;
    std::vector<float16> c, d;
    for (std::uint32_t i = 0; i < 5 * 3 * 14; ++i) {
      a.push_back(to_bfloat16(static_cast<float>(i % 97) / 7));
      c.push_back(to_float16(static_cast<float>(i % 89) / 11));
    }
    b = a;
    d = c;
    rotate(TensorView(a.data(), "SHD", {5, 3, 14}), half, {.offset = 3}, {.precision = precision});
    rotate(TensorView(b.data(), "SHD", {5, 3, 14}), listed, {.offset = 3}, {.precision = precision});
    rotate(TensorView(c.data(), "SHD", {5, 3, 14}), half, {.offset = 3}, {.precision = precision});
    rotate(TensorView(d.data(), "SHD", {5, 3, 14}), listed, {.offset = 3}, {.precision = precision});
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].bits, b[i].bits);
      EXPECT_EQ(c[i].bits, d[i].bits);
    }
  }
}

TEST(RotateRounding, CopiesOtherChannelsAsTheyAre) {
  const Rotation rotation({.head_dim = 4, .pairing_in = Pairing::half, .inv_freq = {1}});
  const float16 x[] = {to_float16(1.0f), to_float16(2.0f), {0x7c01}, {0xfe55}};  // two NaNs, one of them signalling
  float16 y[4] = {};
  rotate_to(ConstTensorView(x, "SHD", {1, 1, 4}), TensorView(y, "SHD", {1, 1, 4}), rotation, {.offset = 1});
  EXPECT_EQ(y[2].bits, 0x7c01);
  EXPECT_EQ(y[3].bits, 0xfe55);
}

TEST(RotateRounding, LeavesNanAndInfinityInTheirPair) {
  const Rotation rotation({.head_dim = 6, .pairing_in = Pairing::half, .inv_freq = {1, 1, 1}});
  bfloat16 x[6];
  for (bfloat16& value : x) value = to_bfloat16(1.0f);
  x[0] = {0x7fff};  // the NaN with the largest payload
  x[4] = {0x7f80};  // infinity
  rotate(TensorView(x, "SHD", {1, 1, 6}), rotation, {.offset = 1});
  EXPECT_TRUE(std::isnan(to_float(x[0])) && std::isnan(to_float(x[3])));
  EXPECT_TRUE(std::isinf(to_float(x[1])) && std::isinf(to_float(x[4])));
  EXPECT_TRUE(std::isfinite(to_float(x[2])) && std::isfinite(to_float(x[5])));
}

}  // namespace
}  // namespace rotary
