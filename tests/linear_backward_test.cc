// Gradients of linear attention: against slopes of the definition, and against themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "reference/linear_attention.h"
#include "rotary/linear_attention.hpp"
#include "support/error_sentence.h"
#include "support/linear_case.h"

namespace rotary {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

struct Gradients {
  explicit Gradients(const Case& c, DType dtype = DType::f64)
      : dout(dtype, "BHSD", c.out.view().shape()),
        q(dtype, "BHSD", c.q.view().shape()),
        k(dtype, "BHSD", c.k.view().shape()),
        v(dtype, "BHSD", c.v.view().shape()) {
    dout.fill_at_random(4);
  }
  LinearAttentionReport of(Case& c, LinearState* state = nullptr) {
    return linear_attention_backward(c.q, c.k, c.v, dout, {.q = q, .k = k, .v = v, .state = state}, c.options());
  }

  TestTensor dout, q, k, v;
};

/// sum(out * dout) by the definition.
double loss(Case& c, const TestTensor& dout) {
  TestTensor out(DType::f64, "BHSD", c.out.view().shape());
  reference::linear_attention(c.q, c.k, c.v, out, c.options());
  double sum = 0;
  for (std::int64_t i = 0; i < out.size(); ++i) sum += out[i] * dout[i];
  return sum;
}

/// Central differences with steps of 1e-5: off by 1e-10 times third derivatives, and 2^-53 / 1e-5 = 1e-11 times the sum.
void expect_gradients_of_the_definition(Case& c) {
  Gradients gradients(c);
  const double condition = gradients.of(c).worst_condition;
  const struct {
    TestTensor& x;
    const TestTensor& dx;
    const char* what;
  } all[] = {{c.q, gradients.q, "dq"}, {c.k, gradients.k, "dk"}, {c.v, gradients.v, "dv"}};
  for (const auto& [x, dx, what] : all) {
    for (std::int64_t i = 0; i < x.size(); i += 3) {
      const double at = x[i], step = 1e-5;
      x.set(i, at + step);
      const double above = loss(c, gradients.dout);
      x.set(i, at - step);
      const double below = loss(c, gradients.dout);
      x.set(i, at);
      const double expected = (above - below) / (2 * step);
      ASSERT_NEAR(dx[i], expected, 1e-7 * condition * condition * std::max(1.0, std::abs(expected)))
          << c.about << ", " << what << ' ' << i;
    }
  }
}

TEST(LinearAttentionBackward, HasTheSlopesOfTheDefinitionForEveryMethod_P26) {
  for (const std::string& name : methods) {
    Case c({.num_q_heads = 2, .num_kv_heads = 1, .num_queries = 7, .num_keys = 7, .head_dim = 6, .value_dim = 3}, name,
           DType::f64);
    expect_gradients_of_the_definition(c);
    if (c.method.needs_causal()) continue;
    c.options().is_causal = true;
    expect_gradients_of_the_definition(c);
  }
}

TEST(LinearAttentionBackward, PassesGradientsFromPartToPart_P26) {
  for (const std::string& name : methods) {
    if (name.starts_with("performer")) continue;
    const std::int64_t length = 20;
    const Sizes sizes{.batch = 2, .num_q_heads = 4, .num_kv_heads = 2, .num_queries = length, .num_keys = length};
    Case c(sizes, name, DType::f64);
    c.options().is_causal = true;
    Gradients whole(c), parts(c);
    const double condition = whole.of(c).worst_condition;
    for (const std::int64_t split : {0, 1, 9, 20}) {
      LinearState between, gradient;
      const auto options_from = [&](std::int64_t begin, LinearState* state) {
        LinearAttentionOptions options = c.options();
        options.state = state;
        if (options.rotation != nullptr) options.q_positions = options.k_positions = {.offset = begin};
        return options;
      };
      const auto backward = [&](std::int64_t begin, std::int64_t end, LinearState* state) {
        const auto cut = [&](const TestTensor& x) { return x.view().slice('S', begin, end); };
        linear_attention_backward(cut(c.q), cut(c.k), cut(c.v), cut(parts.dout),
                                  {cut(parts.q), cut(parts.k), cut(parts.v), &gradient}, options_from(begin, state));
      };
      const auto first = [&](const TestTensor& x) { return x.view().slice('S', 0, split); };
      linear_attention(first(c.q), first(c.k), first(c.v), first(c.out), options_from(0, &between));
      backward(split, length, &between);
      backward(0, split, nullptr);
      const double bound = 1e-11 * condition * condition;
      for (std::int64_t i = 0; i < whole.q.size(); ++i) ASSERT_NEAR(parts.q[i], whole.q[i], bound) << name << " dq " << i;
      for (std::int64_t i = 0; i < whole.k.size(); ++i) ASSERT_NEAR(parts.k[i], whole.k[i], bound) << name << " dk " << i;
      for (std::int64_t i = 0; i < whole.v.size(); ++i) ASSERT_NEAR(parts.v[i], whole.v[i], bound) << name << " dv " << i;
    }
  }
}

TEST(LinearAttentionBackward, GivesPaddingNothingAndSeesNothingOfIt) {
  Case c({.batch = 2, .num_queries = 12, .num_keys = 12}, "roformer", DType::f64);
  bool mask[2][12];
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t t = 0; t < 12; ++t) mask[b][t] = b == 0 ? t >= 3 : t < 7;
  }
  c.options().key_padding_mask = {&mask[0][0], DType::boolean, "BS", {2, 12}};
  expect_gradients_of_the_definition(c);
  Gradients before(c), after(c);
  before.of(c);
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t t = 0; t < 12; ++t) {
      for (std::int64_t d = 0; !mask[b][t] && d < 8; ++d) {
        c.k.set({b, 0, t, d}, nan);
        c.v.set({b, 0, t, d}, nan);
        EXPECT_EQ(before.k.at({b, 0, t, d}), 0);
        EXPECT_EQ(before.v.at({b, 0, t, d}), 0);
      }
    }
  }
  after.of(c);
  EXPECT_EQ(after.q.values(), before.q.values());
  EXPECT_EQ(after.k.values(), before.k.values());
  EXPECT_EQ(after.v.values(), before.v.values());
}

TEST(LinearAttentionBackward, AgreesWithItselfOnPackedSequences) {
  const std::int64_t ends[] = {0, 5, 12}, length = 12;
  for (const std::string name : {"roformer", "performer", "decay"}) {
    Case whole({.num_q_heads = 2, .num_kv_heads = 1, .num_queries = length, .num_keys = length}, name, DType::f64);
    whole.options().is_causal = true;
    Gradients packed(whole), apart(whole);
    const auto tokens = [](const TestTensor& x) {
      const TensorView& v = x.view();
      return TensorView(v.data(), v.dtype(), "HTD", {v.size('H'), v.size('S'), v.size('D')},
                        {v.stride('H'), v.stride('S'), v.stride('D')});
    };
    LinearAttentionOptions options = whole.options();
    options.cu_seqlens = {ends, "N", {3}};
    linear_attention_backward(tokens(whole.q), tokens(whole.k), tokens(whole.v), tokens(packed.dout),
                              {tokens(packed.q), tokens(packed.k), tokens(packed.v)}, options);
    for (int i = 0; i < 2; ++i) {
      const auto cut = [&](const TestTensor& x) { return x.view().slice('S', ends[i], ends[i + 1]); };
      linear_attention_backward(cut(whole.q), cut(whole.k), cut(whole.v), cut(apart.dout),
                                {cut(apart.q), cut(apart.k), cut(apart.v)}, whole.options());
    }
    EXPECT_EQ(packed.q.values(), apart.q.values()) << name;
    EXPECT_EQ(packed.k.values(), apart.k.values()) << name;
    EXPECT_EQ(packed.v.values(), apart.v.values()) << name;
  }
}

// Relative to float64: sums of 4,096 terms, each off by 2^-24 of the sum so far at most, in no one direction.
TEST(LinearAttentionBackward, StaysExactInFloat32OverLongSequences) {
  const Sizes sizes{.num_queries = 4096, .num_keys = 4096};
  Case c(sizes, "roformer");
  c.options().is_causal = true;
  Gradients single(c, DType::f32), exact(c);
  for (std::int64_t i = 0; i < exact.dout.size(); ++i) exact.dout.set(i, single.dout[i]);
  single.of(c);
  exact.of(c);
  double largest = 0;
  for (const double x : exact.k.values()) largest = std::max(largest, std::abs(x));
  for (std::int64_t i = 0; i < exact.k.size(); ++i) ASSERT_NEAR(single.k[i], exact.k[i], 4e-6 * largest) << i;
}

TEST(LinearAttentionBackward, RefusesWhatDoesNotFit) {
  Case c({.num_queries = 4, .num_keys = 4}, "performer", DType::f64);
  Gradients gradients(c);
  LinearState state;
  EXPECT_NE(error_sentence(ErrorCode::unsupported, [&] { gradients.of(c, &state); }).find("favor_plus"), std::string::npos);
  Case plain({.num_queries = 4, .num_keys = 4}, "elu", DType::f64);
  plain.options().state = &state;
  expect_refused([&] { gradients.of(plain, &state); }, "must be two");
  plain.options().state = nullptr;
  expect_refused(
      [&] { linear_attention_backward(plain.q, plain.k, plain.v, gradients.dout, {.q = gradients.q, .k = gradients.q}); },
      "dq must not overlap dk");
  expect_refused([&] { linear_attention_backward(plain.q, plain.k, plain.v, {}, {.q = gradients.q}); },
                 "dout must be given");
}

}  // namespace
}  // namespace rotary
