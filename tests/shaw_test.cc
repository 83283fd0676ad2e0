#include "rotary/shaw.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "reference/attention.h"
#include "reference/shaw.h"
#include "rotary/attention.hpp"
#include "rotary/frequencies.hpp"
#include "rotary/tensor_file.hpp"
#include "support/error_sentence.h"
#include "support/test_tensor.h"

namespace rotary {
namespace {

constexpr DType dtypes[] = {DType::f64, DType::f32, DType::f16, DType::bf16};

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::f64: return 0x1p-53;
    case DType::f32: return 0x1p-24;
    case DType::f16: return 0x1p-11;
    default: return 0x1p-8;
  }
}

TEST(Shaw, GivesAttentionTheScoresAndValuesOfAnotherImplementation) {
  const TensorFile file(ROTARY_TEST_DATA "/attention/shaw_reach_4.npz");
  const ConstTensorView q = file.at("q").view("BHSD"), k = file.at("k").view("BHSD"), v = file.at("v").view("BHSD"),
                        rel_k = file.at("rel_k").view("ND"), rel_v = file.at("rel_v").view("ND");
  const std::int64_t heads = 2, length = 12, width = 10;
  TestTensor mask(DType::f64, "HQK", {heads, length, length});
  shaw_scores(mask, q, rel_k);

  TestTensor out(DType::f64, "BHSD", {1, heads, length, width}), lse(DType::f64, "BHS", {1, heads, length});
  const AttentionOptions how{.attn_mask = mask.view()};
  AttentionOptions with_lse = how;
  with_lse.lse = lse;
  attention(q, k, v, out, with_lse);
  add_shaw_values(out, q, k, rel_v, how);
  const auto* expected_out = static_cast<const double*>(file.at("out").data);
  const auto* expected_lse = static_cast<const double*>(file.at("lse").data);
  for (std::int64_t i = 0; i < lse.size(); ++i) EXPECT_NEAR(lse[i], expected_lse[i], 1e-12) << i;
  for (std::int64_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], expected_out[i], 1e-12) << i;
}

TEST(Shaw, AgreesWithTheReferenceInEveryDtypeLayoutAndPlace) {
  const std::int64_t q_ids[] = {0, 10, 511, 100000, 1000000};
  const std::int32_t k_starts[] = {0, 99990};
  for (const std::int64_t width : {1, 6, 20, 73}) {
    for (const DType dtype : dtypes) {
      for (const bool per_head : {false, true}) {
        TestTensor q(dtype, "BHSD", {2, 3, 5, width}, {.order = "BSHD", .step = 2}),
            table(DType::f32, "NHD", {7, 3, width}), out(dtype, "KBHQ", {31, 2, 3, 5}, {.reversed = "K"});
        q.fill_at_random(1);
        table.fill_at_random(2);
        const ConstTensorView given = per_head ? ConstTensorView(table.view()) : table.view().select('H', 0);
        shaw_scores(out, q.view(), given,
                    {.q_positions = {.position_ids = ConstTensorView(q_ids, "S", {5})},
                     .k_positions = {.offsets = ConstTensorView(k_starts, "B", {2})},
                     .scale = 0.25});
        // Sums of `width` products below 4, in another order; then one rounding.
        const double size = 0.25 * 4 * static_cast<double>(width);
        const double bound = size * (static_cast<double>(width) * 0x1p-53 + unit_roundoff(dtype));
        for (std::int64_t b = 0; b < 2; ++b) {
          for (std::int64_t h = 0; h < 3; ++h) {
            for (std::int64_t i = 0; i < 5; ++i) {
              for (std::int64_t j = 0; j < 31; ++j) {
                const TestTensor same = [&] {  // the table as every head sees it
                  TestTensor all(DType::f32, "NHD", {7, 3, width});
                  for (std::int64_t n = 0; n < 7; ++n) {
                    for (std::int64_t d = 0; d < width; ++d) all.set({n, h, d}, table.at({n, per_head ? h : 0, d}));
                  }
                  return all;
                }();
                const std::int64_t distance = k_starts[b] + j - q_ids[i];
                ASSERT_NEAR(out.at({j, b, h, i}), reference::shaw_score(q.view(), same.view(), b, h, i, distance, 0.25),
                            bound)
                    << name(dtype) << " " << width;
              }
            }
          }
        }
        EXPECT_TRUE(out.guards_intact());
      }
    }
  }
}

/// The rows of the identity as values: what attention() makes of them is its weights.
TestTensor identity_values(std::int64_t batch, std::int64_t heads, std::int64_t length) {
  TestTensor rows(DType::f64, "BSHD", {batch, length, heads, length});
  rows.fill(0);
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t j = 0; j < length; ++j) rows.set({b, j, h, j}, 1);
    }
  }
  return rows;
}

TEST(Shaw, AddsValuesByTheWeightsOfAttentionWithEverythingThatItTakes) {
  const std::int64_t batch = 2, heads = 6, kv_heads = 2, num_queries = 5, num_keys = 9, width = 10, value_width = 7;
  const Rotation rotation(
      {.head_dim = width, .pairing_in = Pairing::half, .inv_freq = default_frequencies(10000, width).inv_freq});
  const std::int64_t ids[] = {0, 1, 10, 100000, 1000000};
  for (const DType dtype : dtypes) {
    for (const Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right}) {
      for (const bool per_head : {false, true}) {
        TestTensor q(dtype, "BSHD", {batch, num_queries, heads, width}, {.order = "HDSB"}),
            k(dtype, "BSHD", {batch, num_keys, kv_heads, width}), table(DType::f32, "NHD", {7, heads, value_width}),
            mask(DType::f32, "HQK", {heads, num_queries, num_keys}),
            out(dtype, "BSHD", {batch, num_queries, heads, value_width}, {.step = 2, .reversed = "S"}),
            weights(DType::f64, "BSHD", {batch, num_queries, heads, num_keys});
        q.fill_at_random(1);
        k.fill_at_random(2);
        table.fill_at_random(3);
        mask.fill_at_random(4);
        out.fill_at_random(5);
        for (std::int64_t h = 0; h < heads; ++h) {
          mask.set({h, 1, 0}, -INFINITY);
          for (std::int64_t j = 0; j < num_keys; ++j) mask.set({h, 2, j}, -INFINITY);  // sees nothing
          if (!per_head) {
            for (std::int64_t n = 0; n < 7; ++n) {
              for (std::int64_t d = 0; d < value_width; ++d) table.set({n, h, d}, table.at({n, 0, d}));
            }
          }
        }
        const TestTensor before = [&] {
          TestTensor copy(DType::f64, "BSHD", out.view().shape());
          copy.fill_from(out);
          return copy;
        }();
        const AttentionOptions how{.rotation = &rotation, .causal = causal, .scale = 0.25, .attn_mask = mask.view()};
        reference::attention(q, k, identity_values(batch, kv_heads, num_keys), weights, how);
        const ConstTensorView given = per_head ? ConstTensorView(table.view()) : table.view().select('H', 0);
        add_shaw_values(out, q, k, given, how, {.q_positions = {.position_ids = ConstTensorView(ids, "S", {5})}});
        for (std::int64_t b = 0; b < batch; ++b) {
          for (std::int64_t i = 0; i < num_queries; ++i) {
            for (std::int64_t h = 0; h < heads; ++h) {
              std::vector<double> row;
              std::vector<std::int64_t> distances;
              for (std::int64_t j = 0; j < num_keys; ++j) {
                row.push_back(weights.at({b, i, h, j}));
                distances.push_back(j - ids[i]);
              }
              const std::vector<double> values = reference::shaw_value(table.view(), h, row, distances);
              for (std::int64_t d = 0; d < value_width; ++d) {
                const double expected = before.at({b, i, h, d}) + values[static_cast<std::size_t>(d)];
                // Weights within a few roundings in double, numbers below 4, then one rounding.
                ASSERT_NEAR(out.at({b, i, h, d}), expected, 4 * (unit_roundoff(dtype) + 100 * 0x1p-53))
                    << name(dtype) << ' ' << name(causal) << ' ' << i << ' ' << h << ' ' << d;
              }
            }
          }
        }
        EXPECT_TRUE(out.guards_intact());
      }
    }
  }
}

TEST(Shaw, RefusesValuesThatDoNotFitAndWritesNothing) {
  TestTensor q(DType::f32, "HSD", {2, 3, 6}), k(DType::f32, "HSD", {2, 4, 6}), table(DType::f32, "ND", {5, 8}),
      even(DType::f32, "ND", {4, 8}), out(DType::f32, "HSD", {2, 3, 8}), narrow(DType::f32, "HSD", {2, 3, 7});
  expect_refused([&] { add_shaw_values(narrow, q.view(), k.view(), table.view()); }, "as wide as out along D");
  expect_refused([&] { add_shaw_values(out, q.view(), k.view(), even.view()); }, "an odd number, got 4");
  expect_refused([&] { add_shaw_values(out, k.view(), k.view(), table.view()); }, "out must be as long as q along S");
  expect_refused([&] { add_shaw_values({}, q.view(), k.view(), table.view()); }, "out must be given");
  expect_refused([&] { add_shaw_values(out, q.view(), k.view(), out.view().select('H', 0)); }, "table");
  const double half[] = {0, 0.5, 1};
  expect_refused(
      [&] {
        add_shaw_values(out, q.view(), k.view(), table.view(), {},
                        {.q_positions = {.position_ids = ConstTensorView(half, "S", {3})}});
      },
      "add_shaw_values, q_positions: positions must be whole numbers");
  for (std::int64_t i = 0; i < out.size(); ++i) EXPECT_TRUE(std::isnan(out[i]));
}

TEST(Shaw, RefusesTensorsThatDoNotFitAndWritesNothing) {
  TestTensor q(DType::f32, "HSD", {2, 3, 6}), table(DType::f32, "ND", {5, 6}), even(DType::f32, "ND", {4, 6}),
      narrow(DType::f32, "ND", {5, 4}), heads(DType::f32, "NHD", {5, 3, 6}), out(DType::f32, "HQK", {2, 3, 4}),
      longer(DType::f32, "HQK", {2, 4, 4}), more(DType::f32, "HQK", {3, 3, 4});
  expect_refused([&] { shaw_scores(out, {}, table.view()); }, "q must be given");
  expect_refused([&] { shaw_scores(out, table.view(), table.view()); }, "q must have the axes SD");
  expect_refused([&] { shaw_scores(out, q.view(), q.view()); }, "table must have the axes ND");
  expect_refused([&] { shaw_scores(out, q.view(), even.view()); }, "an odd number, got 4");
  expect_refused([&] { shaw_scores(out, q.view(), narrow.view()); }, "got 4 for 6");
  expect_refused([&] { shaw_scores(out, q.view(), heads.view()); }, "got 3 for 2");
  expect_refused([&] { shaw_scores(longer, q.view(), table.view()); }, "got 1 and 4 for 1 and 3");
  expect_refused([&] { shaw_scores(more, q.view(), table.view()); }, "2 heads along H, got 3");
  expect_refused([&] { shaw_scores(out, q.view(), table.view(), {.scale = NAN}); }, "scale must be finite");
  const double half[] = {0, 0.5, 1};
  expect_refused(
      [&] { shaw_scores(out, q.view(), table.view(), {.q_positions = {.position_ids = ConstTensorView(half, "S", {3})}}); },
      "shaw_scores, q_positions: positions must be whole numbers");
  float shared[36] = {};
  expect_refused(
      [&] {
        shaw_scores(TensorView(shared, "HQK", {2, 3, 4}), ConstTensorView(shared, "HSD", {2, 3, 6}), table.view());
      },
      "out must not overlap q");
  for (std::int64_t i = 0; i < out.size(); ++i) EXPECT_TRUE(std::isnan(out[i]));
}

}  // namespace
}  // namespace rotary
