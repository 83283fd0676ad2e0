// What is done to scores: softcap, sinks, biases and temperatures.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "rotary/attention.hpp"
#include "rotary/position_bias.hpp"
#include "support/attention_case.h"
#include "support/error_sentence.h"

namespace rotary {
namespace {

using Case = AttentionCase;
using Sizes = AttentionSizes;

/// One query and one key: lse is the score.
double score(double product, AttentionOptions options) {
  const double one = 1;
  double out = 0, lse = 0;
  options.scale = 1;
  options.lse = TensorView(&lse, "S", {1});
  attention(ConstTensorView(&product, "SD", {1, 1}), ConstTensorView(&one, "SD", {1, 1}),
            ConstTensorView(&one, "SD", {1, 1}), TensorView(&out, "SD", {1, 1}), options);
  return lse;
}

// ---- softcap ----

TEST(AttentionScores, AreCappedByTanh) {
  for (const double x : {0.0, 1e-300, 1e-8, 0.3, -1.0, 4.9, 50.0, -1e4, 1e300}) {
    for (const double cap : {0.5, 5.0, 50.0, 1e-30, 1e30}) {
      const double expected = cap * std::tanh(x / cap);
      EXPECT_NEAR(score(x, {.softcap = cap}), expected, 8e-16 * std::abs(expected)) << x << " " << cap;
    }
  }
  EXPECT_EQ(score(infinity, {.softcap = 5}), 5) << "an infinite product is a finite score";
  EXPECT_EQ(score(-infinity, {.softcap = 5}), -5) << "and does not hide its key";
  EXPECT_TRUE(std::isnan(score(nan, {.softcap = 5})));
}

TEST(AttentionScores, TanhIsWithin4Ulp) {
  const auto check = [](auto zero, double ulp) {
    using T = decltype(zero);
    const AttentionKernels<T>& kernels = attention_kernels<T>();
    const auto rows = static_cast<std::size_t>(kernels.rows);
    alignas(64) static T scores[64];
    ASSERT_LE(rows, 64u);
    double worst = 0;
    for (int i = 0; i < 400000; i += static_cast<int>(rows)) {
      std::vector<double> x(rows);
      for (std::size_t r = 0; r < rows; ++r) {
        const double size = std::exp2(-30 + 36.0 * (i + static_cast<double>(r)) / 400000);  // 1e-9 to 64
        scores[r] = static_cast<T>(r % 2 == 0 ? size : -size);
        x[r] = static_cast<double>(scores[r]);
      }
      kernels.softcap(scores, 1, 1);
      for (std::size_t r = 0; r < rows; ++r) {
        const long double exact = std::tanh(static_cast<long double>(x[r]));
        worst = std::max(worst, static_cast<double>(std::abs(static_cast<long double>(scores[r]) / exact - 1)) / ulp);
      }
    }
    EXPECT_LE(worst, 4);
    EXPECT_GT(worst, 0.1) << "something is measured";
  };
  check(0.0f, 0x1p-23);
  check(0.0, 0x1p-52);
}

TEST(AttentionScores, AreCappedBeforeAnythingIsAdded) {
  const double mask[] = {-infinity, 0, 3};
  const ConstTensorView view(mask, "K", {3});
  for (const DType dtype : dtypes) {
    Case c({.num_queries = 5, .num_keys = 3}, dtype);
    c.options.softcap = 0.7;
    c.options.attn_mask = view;
    c.largest_added = 3;
    expect_agrees_with_reference(c, name(dtype));
  }
  EXPECT_NEAR(score(100, {.softcap = 2, .attn_mask = ConstTensorView(mask + 2, "K", {1})}), 5, 1e-15);
}

// ---- sinks ----

TEST(AttentionScores, ASinkIsAKeyWithoutAValue) {
  for (const DType dtype : dtypes) {
    Case c({.batch = 2, .num_q_heads = 6, .num_kv_heads = 2, .num_queries = 31, .num_keys = 140}, dtype);
    TestTensor sinks(dtype, "H", {6});
    const double numbers[] = {0, 1.5, -20, 20, -infinity, 100};
    for (std::int64_t h = 0; h < 6; ++h) sinks.set(h, numbers[h]);
    c.options.causal = Causal::bottom_right;
    c.options.sinks = sinks.view();
    c.largest_added = 100;
    expect_agrees_with_reference(c, name(dtype));

    // The same as one key more, whose product is the sink and whose value is 0.
    if (dtype != DType::f64) continue;
    Case more({.num_queries = 1, .num_keys = 6, .head_dim = 2}, dtype);
    more.q.set(0, 1);
    for (std::int64_t j = 0; j < 6; ++j) {
      more.k.set({0, 0, j, 1}, 0);
      for (std::int64_t d = 0; d < 8 && j == 5; ++d) more.v.set({0, 0, j, d}, 0);
    }
    more.k.set({0, 0, 5, 0}, 0.25);
    more.options.scale = 1;
    const std::vector<double> expected = attended(more), lse = more.lse.values();
    const double sink = 0.25;
    const ConstTensorView k = more.k.view().slice('S', 0, 5), v = more.v.view().slice('S', 0, 5);
    more.options.sinks = ConstTensorView(&sink, "H", {1});
    attention(more.q, k, v, more.out, more.options);
    for (std::int64_t d = 0; d < 8; ++d) EXPECT_NEAR(more.out[d], expected[static_cast<std::size_t>(d)], 4e-16);
    EXPECT_NEAR(more.lse[0], lse[0], 9e-16) << "two units of a number above 2";
  }
}

TEST(AttentionScores, ARowThatSeesNothingHasItsSinkAsLse_M1) {
  for (const DType dtype : dtypes) {
    Case c({.num_q_heads = 2, .num_queries = 3, .num_keys = 2}, dtype);
    const double sinks[] = {0.75, -infinity};
    c.options.sinks = ConstTensorView(sinks, "H", {2});
    c.options.causal = Causal::bottom_right;  // row 0 sees nothing
    c.attend();
    for (std::int64_t d = 0; d < 8; ++d) {
      EXPECT_EQ(c.out.at({0, 0, 0, d}), 0);
      EXPECT_EQ(c.out.at({0, 1, 0, d}), 0);
    }
    EXPECT_EQ(c.lse.at({0, 0, 0}), 0.75);
    EXPECT_EQ(c.lse.at({0, 1, 0}), -infinity);
  }
}

// ---- biases ----

std::vector<PositionBias> biases(std::int64_t num_heads) {
  TestTensor t5(DType::f32, "NH", {32, num_heads}), clipped(DType::f64, "NH", {7, num_heads});
  t5.fill_at_random(5);
  clipped.fill_at_random(6);
  return {PositionBias::alibi(alibi_slopes(num_heads)), PositionBias::t5(t5.view(), T5Buckets()),
          PositionBias::clipped(clipped.view())};
}

/// |bias| of a distance up to 10^6, and of the tables.
constexpr double largest_bias = 1e6;

double far_apart(const void* context, std::int64_t head, double q_position, double k_position) {
  if (k_position == q_position - 2) return -infinity;
  return *static_cast<const double*>(context) * static_cast<double>(head) * std::sin(q_position - k_position);
}

TEST(AttentionScores, ABiasIsWhatItsMaskWouldBe) {
  const Sizes sizes{.batch = 2, .num_q_heads = 6, .num_kv_heads = 2, .num_queries = 31, .num_keys = 140};
  const std::int64_t offsets[] = {3, 100};
  const Positions q_positions{.offset = 109, .offsets = ConstTensorView(offsets, "B", {2})};
  const Positions k_positions{.offsets = ConstTensorView(offsets, "B", {2})};
  for (const PositionBias& bias : biases(6)) {
    for (const DType dtype : dtypes) {
      for (const Causal causal : {Causal::none, Causal::bottom_right}) {
        Case c(sizes, dtype), masked(sizes, dtype);
        c.options.causal = masked.options.causal = causal;
        c.options.q_positions = q_positions;
        c.options.k_positions = k_positions;
        c.options.bias = &bias;
        c.largest_added = 140;
        TestTensor mask(DType::f64, "BHQK", {2, 6, 31, 140});
        position_bias(mask, bias, {.q_positions = q_positions, .k_positions = k_positions});
        masked.options.attn_mask = mask.view();
        EXPECT_EQ(attended(c), attended(masked)) << name(bias.kind()) << " " << name(dtype);
        expect_agrees_with_reference(c, std::string(name(bias.kind())) + " " + name(dtype));
      }
    }
  }
}

TEST(AttentionScores, BiasesCountFromAnywhere) {
  for (const PositionBias& bias : biases(2)) {
    for (const double far : {1.0, 10.0, 1e5, 1e6}) {
      Case c({.num_q_heads = 2, .num_queries = 3, .num_keys = 4}, DType::f64);
      const double ids[] = {far, far + 2, 0, 7};
      c.options.q_positions = {.position_ids = ConstTensorView(ids, "S", {3})};
      c.options.k_positions = {.position_ids = ConstTensorView(ids, "S", {4})};
      c.options.bias = &bias;
      c.largest_added = largest_bias;
      expect_agrees_with_reference(c, std::string(name(bias.kind())) + " at " + std::to_string(far));
    }
  }
}

TEST(AttentionScores, TakesAnyFunctionAsABias) {
  const double factor = 0.5;
  const Rotation rotation = plain_rotation(8, 8);
  for (const DType dtype : dtypes) {
    Case c({.batch = 2, .num_q_heads = 4, .num_kv_heads = 2, .num_queries = 9, .num_keys = 133}, dtype);
    c.options.rotation = &rotation;
    c.options.q_positions = {.offset = 124};
    c.options.causal = Causal::bottom_right;
    c.options.bias_function = {far_apart, &factor};
    const PositionBias alibi = PositionBias::alibi(alibi_slopes(4));
    for (const bool both : {false, true}) {
      if (both) c.options.bias = &alibi;
      c.largest_added = 133;
      expect_agrees_with_reference(c, name(dtype));
      const std::vector<double> before = attended(c);
      for (const int threads : {2, 3}) {
        ThreadPool pool(threads);
        c.options.executor = &pool;
        EXPECT_EQ(attended(c), before);
        c.options.executor = nullptr;
      }
    }
  }
}

TEST(AttentionScores, AHiddenKeyHasNoWeightWhateverTheFunctionSays_M9) {
  for (const double said : {infinity, -infinity, nan}) {
    Case c({.num_queries = 3, .num_keys = 5});
    for (std::int64_t i = 0; i < 3; ++i) c.mask.set({0, 0, i, 1}, -infinity);
    c.options.attn_mask = c.mask.view();
    c.options.causal = Causal::bottom_right;
    const std::vector<double> expected = attended(c);
    c.options.bias_function = {[](const void* number, std::int64_t, double q_position, double k_position) {
                                 const bool hidden = k_position == 1 || k_position > q_position + 2;
                                 return hidden ? *static_cast<const double*>(number) : 0;
                               },
                               &said};
    EXPECT_EQ(attended(c), expected) << said;
  }
}

TEST(AttentionScores, AFunctionMayThrow) {
  Case c({.num_queries = 40, .num_keys = 40});
  c.options.bias_function.function = [](const void*, std::int64_t, double q, double) -> double {
    if (q == 33) throw std::runtime_error("no such place");
    return 0;
  };
  EXPECT_THROW(c.attend(), std::runtime_error);
  ThreadPool pool(2);
  c.options.executor = &pool;
  EXPECT_THROW(c.attend(), std::runtime_error);
}

// ---- temperatures ----

TEST(AttentionScores, ATemperatureMultipliesTheProductsOfItsQuery) {
  for (const DType dtype : dtypes) {
    for (const DType of_temperatures : dtypes) {
      for (const char* axes : {"S", "BS", "SB"}) {
        Case c({.batch = 2, .num_q_heads = 4, .num_kv_heads = 2, .num_queries = 21, .num_keys = 50}, dtype);
        TestTensor temperatures(of_temperatures, axes,
                                std::string(axes) == "S"    ? Dims{21}
                                : std::string(axes) == "BS" ? Dims{2, 21}
                                                            : Dims{21, 2});
        temperatures.fill_at_random(8);
        c.options.temperatures = temperatures.view();
        c.options.softcap = 3;
        c.options.scale = -0.5;
        expect_agrees_with_reference(c, std::string(name(dtype)) + " " + name(of_temperatures) + " " + axes);
      }
    }
  }
  const double two = 2;
  EXPECT_NEAR(score(0.75, {.temperatures = ConstTensorView(&two, "S", {1})}), 1.5, 1e-15);
}

// ---- all together ----

TEST(AttentionScores, EveryCombinationAgreesWithTheReference) {
  const std::int64_t lanes = attention_kernels<float>().rows;
  const std::vector<PositionBias> all_biases = biases(6);
  const double factor = 0.25;
  const std::vector<std::int64_t> ends = {0, 1, 1, lanes + 1, 3 * lanes};
  for (std::uint64_t n = 0; n < 128; ++n) {
    const bool packed = n % 3 == 0;
    const Sizes sizes{.batch = packed ? 1 : 2,
                      .num_q_heads = 6,
                      .num_kv_heads = 2,
                      .num_queries = packed ? ends.back() : lanes - 1,
                      .num_keys = packed ? ends.back() : tile_keys + 3,
                      .head_dim = 10,
                      .value_dim = 5,
                      .packed = packed};
    Case c(sizes, dtypes[(n + n / 4 + n / 16) % 4]);
    const Rotation rotation = plain_rotation(10, 6);
    const TestTensor sinks = [] {
      TestTensor x(DType::f32, "H", {6});
      x.fill_at_random(7);
      return x;
    }();
    TestTensor temperatures(DType::f32, packed ? "T" : "S", {sizes.num_queries});
    temperatures.fill_at_random(8);
    AttentionOptions& o = c.options;
    if (packed) o.cu_seqlens = ConstTensorView(ends.data(), "N", {5});
    if (n & 1) o.rotation = &rotation;
    if (n & 2) o.causal = Causal::bottom_right;
    if (n & 4) o.softcap = 2;
    if (n & 8) o.sinks = sinks.view();
    if (n & 16) o.bias = &all_biases[n % 3];
    if (n & 32) o.temperatures = temperatures.view();
    if (n & 64) o.bias_function = {far_apart, &factor};
    if (n % 5 == 0) o.window_left = 20;
    c.largest_added = 150;
    expect_agrees_with_reference(c, "options " + std::to_string(n));
  }
}

TEST(AttentionScores, ARowIsTheSameWhateverComesWithIt) {
  const PositionBias alibi = PositionBias::alibi(alibi_slopes(2));
  const double sinks[] = {1, -1};
  for (const DType dtype : {DType::f64, DType::f32}) {
    Case all({.num_q_heads = 2, .num_queries = 300, .num_keys = 300}, dtype);
    all.options = {.causal = Causal::bottom_right, .softcap = 4, .bias = &alibi, .sinks = ConstTensorView(sinks, "H", {2})};
    all.attend();
    for (const std::int64_t i : {0, 1, 127, 128, 200, 299}) {
      TestTensor out(dtype, "BHSD", {1, 2, 1, 8});
      AttentionOptions options = all.options;
      options.q_positions.offset = i;
      attention(all.q.view().slice('S', i, i + 1), all.k.view().slice('S', 0, i + 1), all.v.view().slice('S', 0, i + 1),
                out, options);
      for (std::int64_t h = 0; h < 2; ++h) {
        for (std::int64_t d = 0; d < 8; ++d) EXPECT_EQ(out.at({0, h, 0, d}), all.out.at({0, h, i, d})) << "row " << i;
      }
    }
  }
}

// ---- refusals ----

TEST(AttentionScores, NamesTheRuleThatIsBroken) {
  const auto sentence = [](const std::function<void(AttentionOptions&)>& spoil) {
    Case c({.batch = 2, .num_q_heads = 2, .num_queries = 3, .num_keys = 5});
    const std::string said = error_sentence(ErrorCode::invalid_argument, [&] {
      spoil(c.options);
      c.attend();
    });
    for (const double x : c.out.values()) EXPECT_TRUE(std::isnan(x)) << "nothing is written: " << said;
    return said;
  };
  using O = AttentionOptions;
  for (const double cap : {-1.0, nan, infinity, 1e-31, 1e31}) {
    EXPECT_NE(
        sentence([&](O& o) { o.softcap = cap; }).find("attention: softcap must be 0 for none, or 1e-30 to 1e30, got "),
        std::string::npos);
  }
  const std::vector<PositionBias> three = biases(3), two = biases(2);
  EXPECT_EQ(sentence([&](O& o) { o.bias = &three[0]; }), "attention: bias must have as many heads as q, got 3 and 2");
  const double halves[] = {0, 1, 2.5, 3, 4};
  const Positions at_halves{.position_ids = ConstTensorView(halves, "S", {5})};
  EXPECT_EQ(sentence([&](O& o) {
              o.bias = &two[1];
              o.k_positions = at_halves;
            }),
            "attention: positions must be whole numbers, to find a distance in the table of the bias, got 2.5");
  const double numbers[] = {1, nan, infinity, 0, 0};
  EXPECT_EQ(sentence([&](O& o) { o.temperatures = ConstTensorView(numbers, "S", {3}); }),
            "attention: temperatures must be finite, got nan");
  EXPECT_EQ(sentence([&](O& o) { o.temperatures = ConstTensorView(numbers, "S", {5}); }),
            "attention: temperatures must have an entry per query, got 5 for 3");
  EXPECT_EQ(sentence([&](O& o) {
              o.temperatures = ConstTensorView(numbers, "SH", {3, 1});
            }),
            "attention: temperatures must have axes among BS, got \"SH\"");
  EXPECT_EQ(sentence([&](O& o) { o.sinks = ConstTensorView(numbers, "H", {2}); }),
            "attention: sinks must be finite or -infinity, got nan");
  EXPECT_EQ(sentence([&](O& o) { o.sinks = ConstTensorView(numbers, "H", {3}); }),
            "attention: sinks must be as long as q along H, got 3 and 2");
  EXPECT_EQ(sentence([&](O& o) { o.sinks = ConstTensorView(numbers, "N", {2}); }),
            "attention: sinks must have the axis H alone, got \"N\"");
  const std::int64_t whole[] = {1, 2};
  EXPECT_EQ(sentence([&](O& o) { o.sinks = ConstTensorView(whole, "H", {2}); }),
            "attention: sinks must be float64, float32, float16 or bfloat16, got int64");
}

}  // namespace
}  // namespace rotary
