#include "rotary/shaw.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "reference/shaw.h"
#include "rotary/attention.hpp"
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

TEST(Shaw, GivesAttentionTheScoresOfAnotherImplementation) {
  const TensorFile file(ROTARY_TEST_DATA "/attention/shaw_reach_4.npz");
  const ConstTensorView q = file.at("q").view("BHSD"), k = file.at("k").view("BHSD"), v = file.at("v").view("BHSD"),
                        rel_k = file.at("rel_k").view("ND"), rel_v = file.at("rel_v").view("ND");
  const std::int64_t heads = 2, length = 12, width = 10, reach = 4;
  TestTensor mask(DType::f64, "HQK", {heads, length, length});
  shaw_scores(mask, q, rel_k);

  // The file's values are relative, too: v_j + b[clip(j - i)]. Attention over the rows of the identity gives the weights.
  TestTensor ones(DType::f64, "BHSD", {1, heads, length, length}), weights(DType::f64, "BHSD", {1, heads, length, length}),
      lse(DType::f64, "BHS", {1, heads, length});
  ones.fill(0);
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t j = 0; j < length; ++j) ones.set({0, h, j, j}, 1);
  }
  attention(q, k, ones.view(), weights, {.attn_mask = mask.view(), .lse = lse});
  const auto* expected_out = static_cast<const double*>(file.at("out").data);
  const auto* expected_lse = static_cast<const double*>(file.at("lse").data);
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t i = 0; i < length; ++i) {
      EXPECT_NEAR(lse.at({0, h, i}), expected_lse[h * length + i], 1e-12);
      for (std::int64_t d = 0; d < width; ++d) {
        double sum = 0;
        for (std::int64_t j = 0; j < length; ++j) {
          const std::int64_t row = std::max(-reach, std::min(reach, j - i)) + reach;
          const double value = load_element(v.dtype(), v.data(), (h * length + j) * width + d) +
                               load_element(rel_v.dtype(), rel_v.data(), row * width + d);
          sum += weights.at({0, h, i, j}) * value;
        }
        EXPECT_NEAR(sum, expected_out[(h * length + i) * width + d], 1e-12) << h << " " << i << " " << d;
      }
    }
  }
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
