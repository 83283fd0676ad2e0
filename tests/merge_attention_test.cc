#include "rotary/merge_attention.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "rotary/attention.hpp"
#include "support/attention_case.h"
#include "support/error_sentence.h"

namespace rotary {
namespace {

using Case = AttentionCase;

/// out and lse of some keys of a case.
struct Part {
  Part(const Case& c, std::int64_t begin, std::int64_t end, DType dtype)
      : out(dtype, c.out.view().axes(), c.out.view().shape()), lse(DType::f64, c.lse.view().axes(), c.lse.view().shape()) {
    AttentionOptions options = c.options;
    options.lse = lse;
    if (options.attn_mask) options.attn_mask = options.attn_mask.slice('K', begin, end);
    if (options.rotation != nullptr) options.k_positions.offset += begin;
    if (begin != 0) options.sinks = {};  // a sink belongs to one part
    attention(c.q, c.k.view().slice('S', begin, end), c.v.view().slice('S', begin, end), out, options);
  }
  operator AttentionPart() const { return {out.view(), lse.view()}; }
  TestTensor out, lse;
};

TEST(MergeAttention, IsAttentionOverAllKeys) {
  const Rotation rotation = plain_rotation(8, 8);
  const double sinks[] = {1, 2, 3, 4, 5, 6};
  for (const DType dtype : dtypes) {
    for (const bool with_sinks : {false, true}) {
      Case c({.batch = 2, .num_q_heads = 6, .num_kv_heads = 2, .num_queries = 5, .num_keys = 300}, dtype);
      c.options.rotation = &rotation;
      c.options.q_positions.offset = 400;
      c.options.softcap = 3;
      c.options.attn_mask = c.mask.fill_at_random(4).view();
      if (with_sinks) c.options.sinks = ConstTensorView(sinks, "H", {6});
      c.attend();
      const Part a(c, 0, 1, dtype), b(c, 1, 130, dtype), none(c, 130, 130, dtype), d(c, 130, 300, dtype);
      TestTensor out(dtype, "SBDH", {5, 2, 8, 6}), lse(DType::f32, "HSB", {6, 5, 2});
      merge_attention({a, b, none, d}, out, lse);
      // Each part is off as the whole is, and 16-bit parts are rounded before they are summed.
      const double bound = tolerance(c);
      for (std::int64_t i = 0; i < out.size(); ++i) {
        const std::int64_t h = i % 6, channel = i / 6 % 8, row = i / 48 % 2, s = i / 96;
        EXPECT_NEAR(out[i], c.out.at({row, h, s, channel}), 3 * bound) << name(dtype) << " " << i;
        EXPECT_NEAR(lse.at({h, s, row}), c.lse.at({row, h, s}), 2 * bound + 1e-6) << name(dtype) << " " << i;
      }
    }
  }
}

TEST(MergeAttention, IsItsDefinition) {
  // Against the two equations in long double.
  TestTensor outs[3] = {{DType::f64, "HD", {4, 5}}, {DType::f64, "HD", {4, 5}}, {DType::f64, "HD", {4, 5}}};
  TestTensor lses[3] = {{DType::f64, "HS", {4, 1}}, {DType::f64, "HS", {4, 1}}, {DType::f64, "HS", {4, 1}}};
  std::vector<AttentionPart> parts;
  const double given[3][4] = {{0, 700, -1e4, 3}, {1, 701, -1e4 - 1, -infinity}, {-800, 699.5, -1e4 + 2, 2.5}};
  for (std::size_t n = 0; n < 3; ++n) {
    outs[n].fill_at_random(n + 1);
    for (std::int64_t h = 0; h < 4; ++h) lses[n].set(h, given[n][h]);
    const TensorView& o = outs[n].view();
    parts.push_back({ConstTensorView(o.data(), o.dtype(), "SHD", {1, 4, 5}), lses[n].view()});
  }
  TestTensor out(DType::f64, "SHD", {1, 4, 5}), lse(DType::f64, "SH", {1, 4});
  merge_attention(parts, out, lse);
  for (std::size_t h = 0; h < 4; ++h) {
    const auto head = static_cast<std::int64_t>(h);
    long double largest = -infinity, total = 0;
    for (const auto& of : given) largest = std::max<long double>(largest, of[h]);
    for (const auto& of : given) total += std::exp(of[h] - largest);
    const long double whole = largest + std::log(total);
    EXPECT_NEAR(lse[head], static_cast<double>(whole), 2e-16 * std::abs(static_cast<double>(whole)) + 4e-16);
    for (std::int64_t d = 0; d < 5; ++d) {
      long double expected = 0;
      for (std::size_t n = 0; n < 3; ++n) expected += std::exp(given[n][h] - whole) * outs[n].at({head, d});
      EXPECT_NEAR(out.at({0, head, d}), static_cast<double>(expected), 2e-15) << h << " " << d;
    }
  }
}

TEST(MergeAttention, APartThatSeesNothingTakesNoPartWhateverItHolds_M1) {
  TestTensor a(DType::f32, "SD", {2, 3}), b(DType::f32, "SD", {2, 3}), out(DType::f32, "SD", {2, 3});
  TestTensor lse_a(DType::f32, "S", {2}), lse_b(DType::f32, "S", {2}), lse(DType::f32, "S", {2});
  a.fill_at_random(1);
  b.fill(nan);
  lse_a.set(0, 4);
  lse_a.set(1, -infinity);
  lse_b.fill(-infinity);
  merge_attention({{a.view(), lse_a.view()}, {b.view(), lse_b.view()}}, out, lse);
  for (std::int64_t d = 0; d < 3; ++d) {
    EXPECT_EQ(out.at({0, d}), a.at({0, d}));
    EXPECT_EQ(out.at({1, d}), 0);
  }
  EXPECT_EQ(lse[0], 4);
  EXPECT_EQ(lse[1], -infinity);
}

TEST(MergeAttention, MayTakeThePlaceOfAPart) {
  for (const DType dtype : dtypes) {
    Case c({.num_q_heads = 3, .num_kv_heads = 3, .num_queries = 70, .num_keys = 40}, dtype);
    Part a(c, 0, 17, dtype);
    const Part b(c, 17, 40, dtype);
    TestTensor out(dtype, "BHSD", {1, 3, 70, 8}), lse(DType::f64, "BHS", {1, 3, 70});
    merge_attention({a, b}, out, lse);
    ThreadPool pool(3);
    merge_attention({a, b}, a.out, a.lse, &pool);
    EXPECT_EQ(a.out.values(), out.values());
    EXPECT_EQ(a.lse.values(), lse.values());
  }
}

TEST(MergeAttention, TakesPackedTokens) {
  TestTensor a(DType::f64, "THD", {5, 2, 3}), lse_a(DType::f64, "HT", {2, 5}), out(DType::f64, "HTD", {2, 5, 3});
  a.fill_at_random(1);
  lse_a.fill_at_random(2);
  merge_attention({{a.view(), lse_a.view()}, {a.view(), lse_a.view()}}, out);
  for (std::int64_t t = 0; t < 5; ++t) EXPECT_EQ(out.at({1, t, 2}), a.at({t, 1, 2}));
}

TEST(MergeAttention, NamesTheRuleThatIsBroken) {
  TestTensor a(DType::f32, "SHD", {2, 3, 4}), lse(DType::f32, "SH", {2, 3}), out(DType::f32, "SHD", {2, 3, 4});
  const auto sentence = [](const std::function<void()>& call) { return error_sentence(ErrorCode::invalid_argument, call); };
  const AttentionPart part{a.view(), lse.view()};
  EXPECT_EQ(sentence([&] { merge_attention({}, out); }), "merge_attention: there must be a part");
  EXPECT_EQ(sentence([&] { merge_attention({part}, {}); }), "merge_attention: out must be given");
  EXPECT_EQ(sentence([&] { merge_attention({{a.view(), {}}}, out); }), "merge_attention: lse of a part must be given");
  EXPECT_EQ(sentence([&] {
              merge_attention({{a.view().slice('D', 0, 3), lse.view()}}, out);
            }),
            "merge_attention: out of a part must be as long as out along D, got 3 and 4");
  EXPECT_EQ(sentence([&] {
              merge_attention({{a.view(), lse.view().slice('S', 0, 1)}}, out);
            }),
            "merge_attention: lse of a part must be as long as out along S, got 1 and 2");
  EXPECT_EQ(sentence([&] {
              merge_attention({{a.view(), a.view()}}, out);
            }),
            "merge_attention: lse of a part must have axes among BSH, got \"SHD\"");
  const TestTensor halves(DType::f16, "SH", {2, 3});
  EXPECT_EQ(sentence([&] {
              merge_attention({{a.view(), halves.view()}}, out);
            }),
            "merge_attention: lse of a part must be float32 or float64, got float16");
  const TensorView& o = a.view();
  const TensorView reversed = TensorView(o).reversed('S');
  EXPECT_EQ(sentence([&] { merge_attention({part}, reversed); }),
            "merge_attention: out must be apart from a part, or the very same");
  EXPECT_EQ(sentence([&] {
              merge_attention({part}, out, TensorView(out.view().data(), DType::f32, "SH", {2, 3}));
            }),
            "merge_attention: lse must not overlap out");
}

}  // namespace
}  // namespace rotary
