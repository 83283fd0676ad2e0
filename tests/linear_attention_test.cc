#include "rotary/linear_attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "reference/linear_attention.h"
#include "rotary/attention.hpp"
#include "rotary/frequencies.hpp"
#include "support/allocation_watch.h"
#include "support/error_sentence.h"
#include "support/linear_case.h"
#include "support/test_tensor.h"

namespace rotary {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// ---- every method against the definition ----

/// Sums of products are off by a unit roundoff for every few terms that are added one after another, relative to the sums of
/// their sizes; inputs at random make that a small multiple of the result's size for positive weights. Where terms cancel the
/// error is `condition` times as large. 16-bit results are rounded once more.
double tolerance(const Case& c, double condition) {
  const DType dtype = c.out.view().dtype();
  const double computed = dtype == DType::f64 ? 0x1p-53 : 0x1p-24, largest = 4;
  const double rounding = dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : 0;
  return largest * condition * (64 * computed + rounding);
}

void expect_near(Case& c, const TestTensor& expected, double extra_condition) {
  const LinearAttentionReport report = c.attend();
  double largest = 1;
  for (const double x : expected.values()) largest = std::max(largest, std::abs(x));
  const double bound = tolerance(c, report.worst_condition * extra_condition) * largest;
  for (std::int64_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(c.out[i], expected[i], bound) << c.about << ", " << name(c.out.view().dtype()) << ", element " << i;
  }
  EXPECT_TRUE(c.out.guards_intact()) << c.about;
}

void expect_agrees_with_reference(Case& c, double extra_condition = 1) {
  TestTensor expected(DType::f64, "BHSD", c.out.view().shape());
  reference::linear_attention(c.q, c.k, c.v, expected, c.options());
  expect_near(c, expected, extra_condition);
}

TEST(LinearAttention, AgreesWithTheDefinitionForEveryMethodCausalAndFull_P1) {
  for (const std::string& name : methods) {
    for (const DType dtype : {DType::f64, DType::f32}) {
      Case c({.batch = 2,
              .num_q_heads = 6,
              .num_kv_heads = 2,
              .num_queries = 37,
              .num_keys = 37,
              .head_dim = 10,
              .value_dim = 7},
             name, dtype);
      expect_agrees_with_reference(c);
      if (!c.method.needs_causal()) {
        c.options().is_causal = true;
        expect_agrees_with_reference(c);
      }
    }
  }
}

TEST(LinearAttention, AgreesWithTheDefinitionAtAwkwardWidthsAndLengths_A11) {
  for (const std::int64_t width : {2, 6, 10, 20, 72}) {
    for (const std::int64_t length : {1, 3, 4, 5, 31, 32, 33, 65}) {
      for (const std::string name : {"roformer", "performer", "cosformer", "pair_norms"}) {
        Case c({.batch = 2, .num_queries = length, .num_keys = length, .head_dim = width, .value_dim = width + 1}, name);
        c.options().is_causal = true;
        // Exponents of size width: exp multiplies their rounding by it.
        expect_agrees_with_reference(c, name == "performer" ? static_cast<double>(width) : 1);
      }
    }
  }
}

TEST(LinearAttention, GivesTheSameForEveryChunkSize_A11_P2) {
  for (const std::string& name : methods) {
    for (const std::int64_t length : {1, 2, 31, 32, 33, 63, 100, 257}) {
      Case c({.num_q_heads = 2, .num_kv_heads = 1, .num_queries = length, .num_keys = length, .head_dim = 6}, name,
             DType::f64);
      c.options().is_causal = true;
      TestTensor expected(DType::f64, "BHSD", c.out.view().shape());
      reference::linear_attention(c.q, c.k, c.v, expected, c.options());
      for (const std::int64_t size :
           {std::int64_t{1}, std::int64_t{3}, std::int64_t{16}, std::int64_t{31}, std::int64_t{32}, std::int64_t{33},
            std::int64_t{64}, std::int64_t{97}, length, length + 5}) {
        c.options().chunk_size = size;
        expect_near(c, expected, 1);
      }
    }
  }
}

TEST(LinearAttention, GivesTheSameInChunksOfFourAndForLongPackedSequences_A11) {
  for (const std::int64_t length : {1, 3, 4, 5, 8, 9}) {
    Case c({.num_queries = length, .num_keys = length}, "roformer");
    c.options().is_causal = true;
    c.options().chunk_size = 4;
    expect_agrees_with_reference(c);
  }
  const std::int32_t ends[] = {0, 781, 781 + 1267};
  Method method("roformer", 8, 1);
  method.options.cu_seqlens = {ends, "N", {3}};
  method.options.is_causal = true;
  TestTensor q(DType::f32, "THD", {2048, 1, 8}), out(DType::f32, "THD", {2048, 1, 8}),
      expected(DType::f64, "THD", {2048, 1, 8});
  q.fill_at_random(1);
  linear_attention(q, q, q, out, method.options);
  reference::linear_attention(q, q, q, expected, method.options);
  for (std::int64_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], expected[i], 1e-5) << i / 8;
}

TEST(LinearAttention, TakesEveryLayoutAndDtype) {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    for (const Layout& layout : {Layout{.order = "BSHD"}, Layout{.order = "DHSB", .step = 3}, Layout{.reversed = "SH"}}) {
      Case c({.batch = 2, .num_q_heads = 4, .num_kv_heads = 2, .num_queries = 9, .num_keys = 9}, "roformer", dtype, layout);
      expect_agrees_with_reference(c);
    }
  }
}

TEST(LinearAttention, LetsQueriesAndKeysDifferInNumberWhenNotCausal) {
  for (const std::int64_t num_keys : {1, 5, 70}) {
    Case c({.batch = 2, .num_queries = 40, .num_keys = num_keys}, "roformer");
    expect_agrees_with_reference(c);
  }
}

TEST(LinearAttention, HasZerosWhereThereIsNoKey) {
  Case c({.num_queries = 3, .num_keys = 0}, "elu");
  EXPECT_EQ(c.attend().num_zero_rows, 3);
  EXPECT_EQ(c.out.values(), Numbers(24, 0.0));
}

TEST(LinearAttention, ServesRunsOfQueryHeadsByOneKvHead_P32) {
  Case grouped({.num_q_heads = 6, .num_kv_heads = 2, .num_queries = 20, .num_keys = 20}, "roformer");
  Case repeated({.num_q_heads = 6, .num_kv_heads = 6, .num_queries = 20, .num_keys = 20}, "roformer");
  for (std::int64_t i = 0; i < repeated.k.size(); ++i) {
    const std::int64_t per_head = 20 * 8, from = i / per_head / 3 * per_head + i % per_head;
    repeated.k.set(i, grouped.k[from]);
    repeated.v.set(i, grouped.v[from]);
  }
  grouped.options().is_causal = repeated.options().is_causal = true;
  EXPECT_EQ(grouped.attended(), repeated.attended());
}

// ---- what the past and the future may do ----

TEST(LinearAttention, DoesNotChangeByABitWhenTheFutureChanges_P4) {
  for (const std::string& name : methods) {
    Case c({.num_q_heads = 2, .num_kv_heads = 1, .num_queries = 70, .num_keys = 70}, name);
    c.options().is_causal = true;
    const Numbers before = c.attended();
    for (const std::int64_t changed : {69, 33, 32, 31, 1}) {
      Case other({.num_q_heads = 2, .num_kv_heads = 1, .num_queries = 70, .num_keys = 70}, name);
      other.options().is_causal = true;
      for (std::int64_t t = changed; t < 70; ++t) {
        for (std::int64_t d = 0; d < 8; ++d) {
          other.k.set({0, 0, t, d}, t % 2 == 0 ? 30 : nan);
          other.v.set({0, 0, t, d}, 1e6);
        }
      }
      const Numbers after = other.attended();
      for (std::int64_t h = 0; h < 2; ++h) {
        for (std::int64_t i = 0; i < changed * 8; ++i) {
          const auto at = static_cast<std::size_t>(h * 70 * 8 + i);
          ASSERT_EQ(after[at], before[at]) << name << ", token " << i / 8 << " changed with token " << changed;
        }
      }
    }
  }
}

TEST(LinearAttention, HasTheSameBitsWhereTheFutureIsCutOff) {
  const Sizes sizes{.num_q_heads = 6, .num_kv_heads = 2, .num_queries = 70, .num_keys = 70, .head_dim = 10, .value_dim = 7};
  for (const std::string& name : methods) {
    Case c(sizes, name);
    c.options().is_causal = true;
    const Numbers whole = c.attended();
    for (const std::int64_t length : {1, 2, 5, 8, 31, 33, 40}) {
      const auto cut = [&](const TestTensor& x) { return x.view().slice('S', 0, length); };
      TestTensor out(DType::f32, "BHSD", {1, 6, length, 7});
      linear_attention(cut(c.q), cut(c.k), cut(c.v), out, c.options());
      for (std::int64_t h = 0; h < 6; ++h) {
        for (std::int64_t i = 0; i < length * 7; ++i) {
          ASSERT_EQ(out[h * length * 7 + i], whole[static_cast<std::size_t>(h * 70 * 7 + i)])
              << name << ", token " << i / 7 << " of " << length;
        }
      }
    }
  }
}

/// Angles are read once for all heads, a few hundred tokens at a time.
TEST(LinearAttention, GivesEveryHeadTheAnglesOfItsTokens) {
  for (const bool is_causal : {true, false}) {
    Case all({.num_q_heads = 3, .num_kv_heads = 3, .num_queries = 600, .num_keys = 600, .head_dim = 64}, "roformer");
    all.options().is_causal = is_causal;
    all.options().q_positions.offset = 3;  // keys have angles of their own
    const Numbers together = all.attended();
    for (std::int64_t h = 0; h < 3; ++h) {
      TestTensor alone(DType::f32, "BHSD", {1, 1, 600, 8});
      const auto head = [&](const TestTensor& x) { return x.view().slice('H', h, h + 1); };
      linear_attention(head(all.q), head(all.k), head(all.v), alone, all.options());
      for (std::int64_t i = 0; i < alone.size(); ++i) {
        ASSERT_EQ(alone[i], together[static_cast<std::size_t>(h * alone.size() + i)]) << "head " << h << ", element " << i;
      }
    }
    expect_agrees_with_reference(all);
  }
}

TEST(LinearAttention, ShowsANaNThatIsSeen) {
  Case c({.num_queries = 10, .num_keys = 10}, "roformer");
  c.options().is_causal = true;
  c.k.set({0, 0, 4, 1}, nan);
  const Numbers out = c.attended();
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(std::isnan(out[i]), i / 8 >= 4) << i;
}

TEST(LinearAttention, DoesNotSeeThePadding_A12_P5) {
  for (const std::string& name : methods) {
    for (const double garbage : {1e9, nan}) {
      const std::int64_t length = 40, tokens = 25;
      Case padded({.batch = 2, .num_queries = length, .num_keys = length}, name, DType::f64);
      Case plain({.num_queries = tokens, .num_keys = tokens}, name, DType::f64);
      padded.options().is_causal = plain.options().is_causal = true;
      bool mask[2][40];
      std::int64_t positions[2][40];
      for (std::int64_t t = 0; t < length; ++t) {
        // Row 0 is padded at the left, row 1 at both ends and in the middle.
        const std::int64_t from[] = {t - 15, t < 3 || t == 10 || t == 11 ? -1 : t < 10 ? t - 3 : t - 5};
        for (std::int64_t b = 0; b < 2; ++b) {
          const std::int64_t token = from[b] < tokens ? from[b] : -1;
          mask[b][t] = token >= 0;
          positions[b][t] = std::max<std::int64_t>(token, 0);
          for (std::int64_t d = 0; d < 8; ++d) {
            padded.q.set({b, 0, t, d}, token >= 0 ? plain.q.at({0, 0, token, d}) : garbage);
            padded.k.set({b, 0, t, d}, token >= 0 ? plain.k.at({0, 0, token, d}) : garbage);
            padded.v.set({b, 0, t, d}, token >= 0 ? plain.v.at({0, 0, token, d}) : garbage);
          }
        }
      }
      padded.options().key_padding_mask = {&mask[0][0], DType::boolean, "BS", {2, length}};
      if (padded.options().rotation != nullptr) {
        padded.options().q_positions =
            padded.options().k_positions = {.position_ids = {&positions[0][0], "BS", {2, length}}};
      }
      const double condition = plain.attend().worst_condition;
      padded.attend();
      for (std::int64_t b = 0; b < 2; ++b) {
        for (std::int64_t t = 0; t < length; ++t) {
          for (std::int64_t d = 0; mask[b][t] && d < 8; ++d) {
            ASSERT_NEAR(padded.out.at({b, 0, t, d}), plain.out.at({0, 0, positions[b][t], d}), 1e-12 * condition)
                << name << ", row " << b << ", token " << t;
          }
        }
      }
    }
  }
}

TEST(LinearAttention, KeepsPackedSequencesApart) {
  const std::int64_t ends[] = {0, 5, 5, 38, 39, 70}, length = 70;
  for (const std::string& name : methods) {
    Method method(name, 8, 2);
    method.options.cu_seqlens = {ends, "N", {6}};
    method.options.is_causal = true;
    TestTensor q(DType::f64, "THD", {length, 4, 8}), k(DType::f64, "THD", {length, 2, 8}),
        v(DType::f64, "THD", {length, 2, 8});
    TestTensor out(DType::f64, "THD", {length, 4, 8}), expected(DType::f64, "THD", {length, 4, 8});
    q.fill_at_random(1);
    k.fill_at_random(2);
    v.fill_at_random(3);
    const LinearAttentionReport report = linear_attention(q, k, v, out, method.options);
    reference::linear_attention(q, k, v, expected, method.options);
    for (std::int64_t i = 0; i < out.size(); ++i) {
      ASSERT_NEAR(out[i], expected[i], 1e-12 * report.worst_condition) << name << ", token " << i / 32;
    }
  }
}

TEST(LinearAttention, MovesWithItsPositionsWhereItIsRelative_P6_P7) {
  for (const std::string& name : methods) {
    Case c({.num_queries = 40, .num_keys = 40}, name, DType::f64);
    if (c.options().rotation == nullptr) continue;
    c.options().is_causal = true;
    const Numbers before = c.attended();
    const WeightKinds kinds = weight_kinds(c.options());
    const bool exactly = kinds.relative && !name.starts_with("performer");
    for (const std::int64_t shift : {1000, 100000, 1000000}) {
      c.options().q_positions = c.options().k_positions = {.offset = shift};
      const Numbers after = c.attended();
      double largest = 0, difference = 0;
      for (std::size_t i = 0; i < before.size(); ++i) {
        largest = std::max(largest, std::abs(before[i]));
        difference = std::max(difference, std::abs(after[i] - before[i]));
      }
      if (exactly) EXPECT_LT(difference, 1e-8 * largest) << name << " at " << shift;
      else EXPECT_GT(difference, 0.01 * largest) << name << " at " << shift;
    }
  }
}

TEST(LinearAttention, HasTheWeightsThatItSaysItHas_P8) {
  for (const std::string& name : methods) {
    Case c({.num_queries = 40, .num_keys = 40}, name, DType::f64);
    c.options().is_causal = true;
    const WeightKinds kinds = weight_kinds(c.options());
    c.options().decay = {};
    const LinearWeights weights = linear_weights(c.q, c.k, {}, c.options());
    EXPECT_EQ(weights.num_weights, 40 * 41 / 2);
    EXPECT_EQ(weights.num_negative == 0, kinds.non_negative) << name;
    EXPECT_EQ(std::abs(weights.lowest_row_sum - 1) < 1e-9 && std::abs(weights.highest_row_sum - 1) < 1e-9, kinds.sum_to_one)
        << name << ' ' << weights.lowest_row_sum << ' ' << weights.highest_row_sum;
  }
}

/// Features that do not turn are summed as without a rotation.
TEST(LinearAttention, LeavesTheTailOfAPartialRotation_P33) {
  const Sizes sizes{.num_queries = 20, .num_keys = 20, .head_dim = 10, .value_dim = 3};
  for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
    const Rotation partial(
        {.head_dim = 10, .rotary_dim = 4, .pairing_in = pairing, .inv_freq = default_frequencies(10000, 4).inv_freq});
    Case turned(sizes, "roformer", DType::f64), plain(sizes, "elu", DType::f64);
    LinearState turned_sums, plain_sums;
    turned.options().rotation = &partial;
    turned.options().state = &turned_sums;
    plain.options().state = &plain_sums;
    turned.attend();
    plain.attend();
    const auto* a = static_cast<const double*>(turned_sums.numerator().data());
    const auto* b = static_cast<const double*>(plain_sums.numerator().data());
    for (std::int64_t i = 0; i < 4 * 3; ++i) EXPECT_GT(std::abs(a[i] - b[i]), 1e-6) << i;
    for (std::int64_t i = 4 * 3; i < 10 * 3; ++i) EXPECT_EQ(a[i], b[i]) << i;
  }
}

/// pair_norms apart, which takes pairs of features for its normaliser wherever they stand.
TEST(LinearAttention, IsPlainWithEveryTokenAtPositionZero_P12) {
  const std::vector<std::int64_t> zeros(20);
  for (const std::string& name : methods) {
    Case turned({.num_queries = 20, .num_keys = 20}, name, DType::f64),
        plain({.num_queries = 20, .num_keys = 20}, name, DType::f64);
    if (turned.options().rotation == nullptr || name == "pair_norms") continue;
    turned.options().q_positions = turned.options().k_positions = {.position_ids = {zeros.data(), "S", {20}}};
    plain.options().rotation = nullptr;
    const Numbers expected = plain.attended(), actual = turned.attended();
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 1e-14) << name << ' ' << i;
  }
}

/// Keys in another order, with their values, and with their positions where they have some.
TEST(LinearAttention, DoesNotMindTheOrderOfKeysWithTheirPositions_P15) {
  const std::int64_t length = 30;
  for (const std::string& name : methods) {
    Case c({.num_queries = length, .num_keys = length}, name, DType::f64),
        mixed({.num_queries = length, .num_keys = length}, name, DType::f64);
    if (c.method.needs_causal()) continue;
    std::vector<std::int64_t> positions;
    for (std::int64_t t = 0; t < length; ++t) {
      const std::int64_t from = (7 * t + 3) % length;
      positions.push_back(from);
      for (std::int64_t d = 0; d < 8; ++d) {
        mixed.k.set({0, 0, t, d}, c.k.at({0, 0, from, d}));
        mixed.v.set({0, 0, t, d}, c.v.at({0, 0, from, d}));
      }
    }
    if (mixed.options().rotation != nullptr)
      mixed.options().k_positions = {.position_ids = {positions.data(), "S", {length}}};
    const double condition = c.attend().worst_condition;
    mixed.attend();
    for (std::int64_t i = 0; i < c.out.size(); ++i)
      ASSERT_NEAR(mixed.out[i], c.out[i], 1e-13 * condition) << name << ' ' << i;
    if (name != "roformer") continue;
    mixed.options().k_positions = {};  // positions stay: now another result
    mixed.attend();
    double difference = 0;
    for (std::int64_t i = 0; i < c.out.size(); ++i) difference = std::max(difference, std::abs(mixed.out[i] - c.out[i]));
    EXPECT_GT(difference, 1e-3);
  }
}

/// Rows of length `length`, of which every query is at right angles to the one key, up to rounding: the weight is 1, and the
/// sizes of the terms that it is made of sum to 1 + |q'| |k'| + (|q'| |k'|)^2 / 2. Roundings as in tolerance() above.
TEST(LinearAttention, SaysWhatTaylorLosesOfLongRowsAtRightAngles_P18) {
  const std::int64_t width = 64, rows = 20;
  for (const double length : {3.0, 30.0, 60.0, 100.0, 300.0}) {
    Case c({.num_queries = rows, .num_keys = 1, .head_dim = width}, "taylor2");
    c.options().rotation = nullptr;
    const auto along = [&](const TestTensor& x, std::int64_t row, const TestTensor& y, std::int64_t other) {
      double sum = 0;
      for (std::int64_t d = 0; d < width; ++d) sum += x.at({0, 0, row, d}) * y.at({0, 0, other, d});
      return sum;
    };
    const auto make_long = [&](TestTensor& x, std::int64_t row) {
      const double size = std::sqrt(along(x, row, x, row));
      for (std::int64_t d = 0; d < width; ++d) x.set({0, 0, row, d}, x.at({0, 0, row, d}) * length / size);
    };
    make_long(c.k, 0);
    for (std::int64_t i = 0; i < rows; ++i) {
      const double part = along(c.q, i, c.k, 0) / along(c.k, 0, c.k, 0);
      for (std::int64_t d = 0; d < width; ++d) c.q.set({0, 0, i, d}, c.q.at({0, 0, i, d}) - part * c.k.at({0, 0, 0, d}));
      make_long(c.q, i);
    }
    const LinearAttentionReport report = c.attend();
    const double product = length * length / 8, bound = 1 + product + product * product / 2;
    if (bound > 0x1p17) {
      EXPECT_EQ(report.num_zero_rows, rows) << length;
      EXPECT_EQ(c.out.values(), Numbers(static_cast<std::size_t>(rows) * 8, 0.0)) << length;
      continue;
    }
    EXPECT_EQ(report.num_zero_rows, 0) << length;
    EXPECT_NEAR(report.worst_condition, bound, 0.1 * bound) << length;
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t d = 0; d < 8; ++d) {
        const double value = c.v.at({0, 0, 0, d});
        ASSERT_NEAR(c.out.at({0, 0, i, d}), value, std::abs(value) * report.worst_condition * 64 * 0x1p-24) << length;
      }
    }
  }
}

TEST(LinearAttention, CountsDenominatorsThatOverflow) {
  for (const std::string name : {"elu", "taylor2"}) {
    Case c({.num_queries = 3, .num_keys = 3}, name);
    EXPECT_EQ(c.attend().num_non_finite_denominators, 0) << name;
    for (std::int64_t d = 0; d < 8; ++d) {
      c.q.set({0, 0, 1, d}, 1e30);
      c.k.set({0, 0, 0, d}, 1e30);
    }
    c.options().is_causal = true;
    EXPECT_GE(c.attend().num_non_finite_denominators, 1) << name;
  }
}

TEST(LinearAttention, HasWeightsThatAreNoNumbersWhereOneIsNot) {
  Case c({.num_queries = 2, .num_keys = 2}, "elu");
  c.q.set({0, 0, 0, 3}, nan);
  const LinearWeights weights = linear_weights(c.q, c.k, {}, c.options());
  EXPECT_EQ(weights.num_weights, 4);
  for (const double x : {weights.lowest, weights.highest, weights.lowest_row_sum, weights.highest_row_sum}) {
    EXPECT_TRUE(std::isnan(x)) << x;
  }
}

TEST(LinearAttention, KeepsTheSumOfSizesBelowOneForSignedFeatures_P11) {
  Case c({.num_queries = 50, .num_keys = 50}, "pair_norms", DType::f64);
  c.options().feature_map.features = Features::identity;
  for (const bool is_causal : {false, true}) {
    c.options().is_causal = is_causal;
    TestTensor weights(DType::f64, "QK", {50, 50});
    EXPECT_GT(linear_weights(c.q, c.k, weights, c.options()).num_negative, 100);
    for (std::int64_t i = 0; i < 50; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < 50; ++j) sum += std::abs(weights.at({i, j}));
      EXPECT_LE(sum, 1 + 1e-12) << i;
    }
  }
}

TEST(LinearAttention, IsTheValueWhereThereIsOneToken_A1_P13) {
  for (const std::string& name : methods) {
    Case c({.batch = 2, .num_queries = 1, .num_keys = 1}, name, DType::f64);
    if (c.options().normalizer == Normalizer::none || name == "pair_norms") continue;
    c.options().is_causal = true;
    const Numbers out = c.attended();
    for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], c.v[static_cast<std::int64_t>(i)], 1e-14) << name;
  }
}

TEST(LinearAttention, DoesNotMindTheSizeOfFeatures_P14) {
  Case c({.num_queries = 30, .num_keys = 30}, "relu", DType::f64);
  const Numbers before = c.attended();
  for (const double factor : {0x1p-40, 0x1p40}) {
    Case scaled({.num_queries = 30, .num_keys = 30}, "relu", DType::f64);
    for (std::int64_t i = 0; i < scaled.q.size(); ++i) scaled.q.set(i, factor * scaled.q[i]);
    for (std::int64_t i = 0; i < scaled.k.size(); ++i) scaled.k.set(i, factor * scaled.k[i]);
    EXPECT_EQ(scaled.attended(), before);
  }
}

TEST(LinearAttention, HasTheCosinesOfCosFormerAsWeights_P17) {
  const std::int64_t length = 40;
  const double M = 17;
  Case c({.num_queries = length, .num_keys = length}, "cosformer", DType::f64);
  const Rotation lift = cosformer_rotation(8, M);
  c.options().rotation = &lift;
  c.options().q_positions = {.offset = 100000};
  c.options().k_positions = {.offset = 100003};
  c.options().normalizer = Normalizer::none;
  TestTensor weights(DType::f64, "QK", {length, length});
  linear_weights(c.q, c.k, weights, c.options());
  for (std::int64_t i = 0; i < length; ++i) {
    for (std::int64_t j = 0; j < length; ++j) {
      double product = 0;
      for (std::int64_t d = 0; d < 8; ++d) {
        product += std::max(c.q.at({0, 0, i, d}), 0.0) * std::max(c.k.at({0, 0, j, d}), 0.0);
      }
      const double cosine = std::cos(std::numbers::pi / 2 * static_cast<double>(i - j - 3) / M);
      ASSERT_NEAR(weights.at({i, j}), product * cosine, 1e-10) << i << ' ' << j;
    }
  }
}

TEST(LinearAttention, TurnsCosFormerWeightsNegativeBeyondM_P17) {
  Case c({.num_queries = 40, .num_keys = 40}, "cosformer", DType::f64);
  const Rotation at_40 = cosformer_rotation(8, 40), at_12 = cosformer_rotation(8, 12);
  c.options().rotation = &at_40;
  EXPECT_EQ(linear_weights(c.q, c.k, {}, c.options()).num_negative, 0);
  c.options().rotation = &at_12;
  EXPECT_GT(linear_weights(c.q, c.k, {}, c.options()).num_negative, 0);
}

// ---- streams ----

TEST(LinearAttention, CarriesAStateOverEverySplitPoint_P3) {
  for (const std::string& name : methods) {
    const std::int64_t length = 40;
    const Sizes sizes{.batch = 2, .num_q_heads = 4, .num_kv_heads = 2, .num_queries = length, .num_keys = length};
    Case whole(sizes, name), parts(sizes, name);
    whole.options().is_causal = parts.options().is_causal = true;
    const double condition = whole.attend().worst_condition;
    double largest = 4;
    for (const double x : whole.out.values()) largest = std::max(largest, std::abs(x));
    for (std::int64_t split = 0; split <= length; ++split) {
      LinearState state;
      const std::int64_t ends[] = {0, split, std::min(split + 1, length), length};
      for (int part = 0; part < 3; ++part) {
        const auto cut = [&](const TestTensor& x) { return x.view().slice('S', ends[part], ends[part + 1]); };
        LinearAttentionOptions options = parts.options();
        options.state = &state;
        if (options.rotation != nullptr) options.q_positions = options.k_positions = {.offset = ends[part]};
        linear_attention(cut(parts.q), cut(parts.k), cut(parts.v), cut(parts.out), options);
      }
      for (std::int64_t i = 0; i < whole.out.size(); ++i) {
        ASSERT_NEAR(parts.out[i], whole.out[i], 64 * 0x1p-24 * condition * largest) << name << ", split at " << split;
      }
    }
  }
}

/// With a mask, if only of tokens, a call of one token is computed like any other.
TEST(LinearAttention, HasTheBitsOfAChunkInAStep) {
  const std::int64_t before = 21;
  const bool is_token[1][1] = {{true}};
  for (const std::int64_t width : {10, 72}) {
    for (const std::string& name : methods) {
      const Sizes sizes{.num_q_heads = 4, .num_kv_heads = 2, .num_queries = 22, .num_keys = 22, .head_dim = width};
      Case c(sizes, name);
      LinearAttentionOptions& options = c.options();
      options.is_causal = true;
      LinearState state;
      options.state = &state;
      const auto attend = [&](std::int64_t begin, std::int64_t end) {
        const auto cut = [&](const TestTensor& x) { return x.view().slice('S', begin, end); };
        if (options.rotation != nullptr) options.q_positions = options.k_positions = {.offset = begin};
        linear_attention(cut(c.q), cut(c.k), cut(c.v), cut(c.out), options);
        return c.out.values();
      };
      attend(0, before);
      LinearState other = state;
      const Numbers step = attend(before, before + 1);
      options.key_padding_mask = {&is_token[0][0], DType::boolean, "BS", {1, 1}};
      options.state = &other;
      EXPECT_EQ(attend(before, before + 1), step) << name << ", width " << width;
      const auto sums = [](LinearState& of) {
        const auto* const first = static_cast<const float*>(of.numerator().data());
        return std::vector<float>(first, first + of.num_bytes() / 4);
      };
      EXPECT_EQ(sums(other), sums(state)) << name << ", width " << width;
    }
  }
}

TEST(LinearAttention, StreamsAMillionTokensInAsLittleMemory_P28) {
  const std::int64_t width = 4, total = 1000000, piece = 10000;
  const Rotation rotation(
      {.head_dim = width, .pairing_in = Pairing::half, .inv_freq = default_frequencies(10000, width).inv_freq});
  TestTensor x(DType::f32, "SD", {piece, width}), out(DType::f32, "SD", {piece, width}),
      exact(DType::f32, "SD", {piece, width});
  LinearState state, in_double(DType::f64);
  std::int64_t bytes = 0;
  for (std::int64_t first = 0; first < total; first += piece) {
    x.fill_at_random(static_cast<std::uint64_t>(first));
    LinearAttentionOptions options{.rotation = &rotation, .normalizer = Normalizer::pair_norms};
    options.q_positions = options.k_positions = {.offset = first};
    options.is_causal = true;
    options.state = &state;
    linear_attention(x, x, x, out, options);
    options.state = &in_double;
    linear_attention(x, x, x, exact, options);
    if (bytes == 0) bytes = state.num_bytes();
    EXPECT_EQ(state.num_bytes(), bytes);
  }
  EXPECT_EQ(bytes, (width * width + width / 2 + 1) * 4);
  EXPECT_EQ(in_double.dtype(), DType::f64);
  // Each of n additions to a sum rounds by up to 2^-24 of the sum so far, in no one direction: by 3^(-1/2) of that in the mean
  // square. Sums of lengths grow as n, and end 2^-24 n^(1/2) / 3 of themselves off; sums of terms of both signs grow as the
  // root of n, and end 2^-24 n / 6^(1/2) of a term off, beside n lengths. Five of such deviations for the largest of 40,000.
  const double deviation = std::sqrt(static_cast<double>(total)) / 3;
  for (std::int64_t i = 0; i < out.size(); ++i) {
    ASSERT_NEAR(out[i], exact[i], 5 * 0x1p-24 * (deviation * std::abs(exact[i]) + 1)) << i;
  }
}

TEST(LinearAttention, KeepsItsSumsOverSixtyFiveThousandTokens_A11_P28) {
  const std::int64_t length = 65537, width = 32;
  TestTensor x(DType::f32, "SD", {length, width}), v(DType::f32, "SD", {length, width}),
      out(DType::f32, "SD", {length, width}), exact(DType::f64, "SD", {length, width});
  x.fill_at_random(1);
  for (std::int64_t i = 0; i < v.size(); ++i) v.set(i, x[i] + 3);  // from 1 to 5, so that every sum grows evenly
  linear_attention(x, x, v, out, {.is_causal = true});
  linear_attention(x, x, v, exact, {.is_causal = true});
  // A sum of n = 65,537 such terms, added one after another, is off by 2^-24 n^(1/2) / 3 of itself in the mean square (as
  // above), 5.1e-6. A result is a mean over 32 of them by a mean over 32 others: (2 / 32)^(1/2) of that, 1.3e-6, and with
  // features that weigh differently (their mean square is 1.55 times their squared mean) 1.6e-6. Six of them for the largest.
  const double deviation = 0x1p-24 * std::sqrt(static_cast<double>(length)) / 3 * std::sqrt(2 * 1.55 / width);
  for (std::int64_t i = out.size() - 4096; i < out.size(); ++i) {
    ASSERT_NEAR(out[i], exact[i], 6 * deviation * std::abs(exact[i])) << i;
  }
}

TEST(LinearAttention, LosesToSixteenBitsWhatRoundingLosesAtAnyLength_P30) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const std::int64_t length : {64, 16384}) {
      TestTensor x(dtype, "SD", {length, 16}), out(dtype, "SD", {length, 16}), exact(DType::f64, "SD", {length, 16});
      x.fill_at_random(1);
      linear_attention(x, x, x, out, {.is_causal = true});
      linear_attention(x, x, x, exact, {.is_causal = true});  // of the same rounded inputs
      const double rounding = dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
      for (std::int64_t i = 0; i < out.size(); ++i) {
        ASSERT_NEAR(out[i], exact[i], rounding * std::abs(exact[i]) + 1e-5) << name(dtype) << ' ' << length << ' ' << i;
      }
    }
  }
}

// One head of 16 channels: the score matrix of 8,192 tokens would be 256 MiB in float32.
TEST(LinearAttention, AsksForNoMemoryThatGrowsWithTheLength) {
  const auto largest_of = [](std::int64_t length) {
    TestTensor x(DType::f32, "SD", {length, 16}), out(DType::f32, "SD", {length, 16});
    x.fill_at_random(1);
    largest_allocation = 0;
    linear_attention(x, x, x, out, {.is_causal = true});
    return largest_allocation.load();
  };
  EXPECT_EQ(largest_of(8192), largest_of(64));
  EXPECT_LT(largest_of(64), 1U << 16);
}

TEST(LinearAttention, DecaysForAHundredThousandTokens_A6_P29) {
  const std::int64_t length = 100000;
  const double decay[] = {0.97};
  TestTensor x(DType::f32, "SD", {length, 4}), out(DType::f32, "SD", {length, 4});
  x.fill_at_random(1);
  linear_attention(x, x, x, out, {.is_causal = true, .decay = {decay, "H", {1}}});
  // The last row sees no further back than float64 does.
  TestTensor expected(DType::f64, "SD", {2000, 4});
  const ConstTensorView tail = x.view().slice('S', length - 2000, length);
  reference::linear_attention(tail, tail, tail, expected, {.is_causal = true, .decay = {decay, "H", {1}}});
  for (std::int64_t d = 0; d < 4; ++d) EXPECT_NEAR(out.at({length - 1, d}), expected.at({1999, d}), 1e-5);
  for (const double y : out.values()) ASSERT_TRUE(std::isfinite(y));
}

/// The logarithms of the gates sum to -1,900, far below what exp takes.
TEST(LinearAttention, TakesDecaysWhoseProductsVanish_A10) {
  const double tiny[] = {1e-21};
  for (const DType dtype : {DType::f64, DType::f32}) {
    Case c({.num_queries = 40, .num_keys = 40}, "decay", dtype);
    c.options().decay = {tiny, "H", {1}};
    expect_agrees_with_reference(c);
  }
}

TEST(LinearAttention, DecayOfOneIsNoDecay_P29) {
  const double one[] = {1};
  Case c({.num_queries = 40, .num_keys = 40}, "roformer");
  c.options().is_causal = true;
  const Numbers plain = c.attended();
  c.options().decay = {one, "H", {1}};
  EXPECT_EQ(c.attended(), plain);
}

TEST(LinearState, IsOfOneShapeAndDtype) {
  Case c({.num_queries = 4, .num_keys = 4}, "roformer");
  LinearState state;
  c.options().state = &state;
  c.attend();
  const auto refused = [&](Case& other, const std::string& words) {
    other.options().state = &state;
    expect_refused([&] { other.attend(); }, words);
  };
  Case batch({.batch = 2, .num_queries = 4, .num_keys = 4}, "roformer"),
      wide({.num_queries = 4, .num_keys = 4, .value_dim = 9}, "roformer");
  Case features({.num_queries = 4, .num_keys = 4, .head_dim = 12}, "roformer"),
      norms({.num_queries = 4, .num_keys = 4}, "pair_norms");
  Case doubles({.num_queries = 4, .num_keys = 4}, "roformer", DType::f64);
  refused(batch, "number of batch rows");
  refused(wide, "value width");
  refused(features, "number of features of the call, got 8 and 12");
  refused(norms, "normalizer");
  refused(doubles, "float64 state");
  state.clear();
  doubles.options().state = &state;
  doubles.attend();
  expect_refused([] { LinearState state(DType::bf16); }, "float32 or float64");
}

TEST(LinearState, IsCopiedToBranchOff) {
  Case c({.num_queries = 4, .num_keys = 4}, "roformer");
  LinearState state;
  c.options().state = &state;
  c.attend();
  LinearState branch = state;
  const Numbers once = c.attended();
  c.options().state = &branch;
  EXPECT_EQ(c.attended(), once);
}

TEST(LinearAttention, DoesNotDependOnTheExecutor_P31) {
  ThreadPool pool(3);
  for (const std::string name : {"roformer", "performer"}) {
    Case c({.batch = 3, .num_q_heads = 4, .num_kv_heads = 2, .num_queries = 50, .num_keys = 50}, name);
    c.options().is_causal = true;
    const Numbers alone = c.attended();
    c.options().executor = &pool;
    EXPECT_EQ(c.attended(), alone);
  }
}

// ---- refusals ----

TEST(LinearAttention, RefusesAMaskThatDependsOnTheQuery_A8) {
  Case c({.num_queries = 2, .num_keys = 2}, "elu");
  const bool mask[] = {true, false, true, true};
  c.options().key_padding_mask = {mask, DType::boolean, "QK", {2, 2}};
  expect_refused([&] { c.attend(); }, "no mask can depend on the query");
}

TEST(LinearAttention, RefusesWhatDoesNotFit) {
  const auto refused = [](const std::string& name, const Sizes& sizes, const std::function<void(Case&)>& change,
                          const std::string& words) {
    Case c(sizes, name);
    change(c);
    expect_refused([&] { c.attend(); }, words);
    for (const double x : c.out.values()) EXPECT_TRUE(std::isnan(x)) << "written in spite of: " << words;
  };
  const Sizes four{.num_queries = 4, .num_keys = 4};
  const double high[] = {1.5}, half[] = {0.5};
  const bool mask[] = {true, true, true};
  const Rotation wide({.head_dim = 16, .pairing_in = Pairing::half, .inv_freq = {1, 2, 3, 4, 5, 6, 7, 8}});
  const Rotation partial({.head_dim = 16, .rotary_dim = 4, .pairing_in = Pairing::half, .inv_freq = {1, 2}});
  refused(
      "elu", {.num_queries = 4, .num_keys = 5}, [](Case& c) { c.options().is_causal = true; }, "as many queries as keys");
  refused(
      "elu", {.num_q_heads = 4, .num_kv_heads = 3}, [](Case&) {}, "multiple of the number of KV heads");
  refused(
      "elu", four, [](Case& c) { c.options().chunk_size = 0; }, "chunk_size must be 1 to 1024");
  refused(
      "elu", four,
      [&](Case& c) {
        c.options().decay = {half, "H", {1}};
      },
      "decay needs is_causal");
  refused(
      "decay", four,
      [&](Case& c) {
        c.options().decay = {high, "H", {1}};
      },
      "above 0 and at most 1");
  refused(
      "decay", {.num_q_heads = 2, .num_kv_heads = 2},
      [&](Case& c) {
        c.options().decay = {half, "H", {1}};
      },
      "decay must be as long as k along H");
  refused(
      "elu", four, [](Case& c) { c.options().q_positions = {.offset = 1}; }, "need a rotation");
  refused(
      "roformer", four, [&](Case& c) { c.options().rotation = &wide; }, "the number of features");
  refused(
      "taylor2", four, [&](Case& c) { c.options().rotation = &wide; }, "the width of q and k");
  refused(
      "cosformer", four, [&](Case& c) { c.options().rotation = &partial; }, "must turn every channel");
  refused(
      "performer", four, [](Case& c) { c.options().normalizer = Normalizer::none; }, "favor_plus needs a normalizer");
  refused(
      "elu", four,
      [&](Case& c) {
        c.options().key_padding_mask = {mask, DType::boolean, "S", {3}};
      },
      "an entry per key");
  refused(
      "elu", four,
      [&](Case& c) {
        c.options().key_padding_mask = {half, "S", {1}};
      },
      "must be boolean");
  expect_refused([] { cosformer_rotation(8, 0); }, "M must be above 0");
  Case c(four, "elu");
  expect_refused([&] { linear_attention(c.q, c.k, c.v, c.q, c.options()); }, "out must not overlap q");
  std::vector<float> shared(12 * 8, 0.5f);
  const TensorView out(shared.data(), "SD", {4, 8}), scores(shared.data(), "QK", {4, 4});
  const ConstTensorView tokens = c.q.view().select('B', 0).select('H', 0);
  const LinearAttentionOptions projected{
      .feature_map = {.features = Features::favor_relu, .projection = {shared.data(), "ND", {12, 8}}}};
  const LinearAttentionOptions decaying{.is_causal = true, .decay = {&shared[5], "H", {1}}};
  expect_refused([&] { linear_attention(tokens, tokens, tokens, out, projected); }, "out must not overlap projection");
  expect_refused([&] { linear_weights(tokens, tokens, scores, projected); }, "weights must not overlap projection");
  expect_refused([&] { linear_attention(tokens, tokens, tokens, out, decaying); }, "out must not overlap decay");
  LinearState state;
  const LinearAttentionOptions streaming{.is_causal = true, .state = &state};
  TestTensor apart(DType::f32, "SD", {4, 8});
  linear_attention(tokens, tokens, tokens, apart, streaming);
  const TensorView sums(static_cast<float*>(state.numerator().data()), "SD", {4, 8});
  expect_refused([&] { linear_attention(tokens, tokens, tokens, sums, streaming); }, "out must not overlap the state");
  expect_refused([&] { linear_attention_backward(tokens, tokens, tokens, apart, {.q = sums}, streaming); },
                 "dq must not overlap the state");
  expect_refused(
      [&] { linear_attention_backward(tokens, tokens, tokens, apart, {.q = sums, .state = &state}, {.is_causal = true}); },
      "dq must not overlap the state");
  TestTensor packed(DType::f32, "THD", {4, 1, 8});
  expect_refused([&] { linear_attention(packed, packed, packed, packed); }, "need cu_seqlens");
}

}  // namespace
}  // namespace rotary
