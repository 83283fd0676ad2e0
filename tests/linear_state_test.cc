// Sums that are brought together from parts, and turned to another origin.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support/error_sentence.h"
#include "support/linear_case.h"

namespace rotary {
namespace {

constexpr std::int64_t length = 40;
const Sizes sizes{.batch = 2, .num_q_heads = 4, .num_kv_heads = 2, .num_queries = length, .num_keys = length};

Numbers values(const TensorView& dense) {
  Numbers all;
  for (std::int64_t i = 0; i < dense.num_elements(); ++i) all.push_back(load_element(dense.dtype(), dense.data(), i));
  return all;
}

/// Numerator, denominator and magnitude, as if nothing had been divided out, relative to what `like` divides by.
Numbers sums_of(LinearState& state, LinearState& like) {
  Numbers all;
  const Numbers own = values(state.log_scale()), wanted = values(like.log_scale());
  for (const TensorView& part : {state.numerator(), state.denominator(), state.magnitude()}) {
    const Numbers numbers = values(part);
    const std::size_t per_head = numbers.size() / own.size();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const double from = own[i / per_head], to = wanted[i / per_head];
      all.push_back(numbers[i] * (from == to ? 1 : std::exp(from - to)));
    }
  }
  return all;
}

void expect_same(LinearState& state, LinearState& expected, double bound, const std::string& about) {
  const Numbers actual = sums_of(state, expected), wanted = sums_of(expected, expected);
  ASSERT_EQ(actual.size(), wanted.size()) << about;
  double largest = 0;
  for (const double x : wanted) largest = std::max(largest, std::abs(x));
  for (std::size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(actual[i], wanted[i], bound * largest) << about << ' ' << i;
}

LinearAttentionOptions options_at(Case& c, double begin, LinearState& state) {
  LinearAttentionOptions options = c.options();
  options.is_causal = true;
  options.state = &state;
  if (options.rotation != nullptr) {
    options.q_positions = options.k_positions = {.offset = static_cast<std::int64_t>(begin)};
  }
  return options;
}

/// Tokens `begin` to `end`, of which the first stands at `position`.
void attend_part(Case& c, std::int64_t begin, std::int64_t end, double position, LinearState& state) {
  const auto cut = [&](const TestTensor& x) { return x.view().slice('S', begin, end); };
  linear_attention(cut(c.q), cut(c.k), cut(c.v), cut(c.out), options_at(c, position, state));
}

/// decay^count of every KV head; not given for a method without one.
class Passed {
 public:
  Passed(Case& c, std::int64_t count) {
    const ConstTensorView& decay = c.options().decay;
    for (std::int64_t h = 0; decay && h < decay.size('H'); ++h) {
      numbers_.push_back(std::pow(static_cast<const double*>(decay.data())[h], static_cast<double>(count)));
    }
  }
  ConstTensorView view() const {
    if (numbers_.empty()) return {};
    return {numbers_.data(), "H", {static_cast<std::int64_t>(numbers_.size())}};
  }

 private:
  Numbers numbers_;
};

// Sums of 40 terms in another order: 40 roundings, of exponents of size 4 with favor_plus.
TEST(LinearState, IsMadeOfPartsInAnyGrouping_P31) {
  for (const std::string& name : methods) {
    for (const DType dtype : {DType::f64, DType::f32}) {
      const double bound = (dtype == DType::f64 ? 0x1p-53 : 0x1p-24) * 40 * 4;
      Case c(sizes, name, dtype);
      LinearState whole;
      attend_part(c, 0, length, 0, whole);
      for (const auto& [first, second] : {std::pair<std::int64_t, std::int64_t>{1, 2}, {7, 33}, {20, 20}, {0, 39}}) {
        LinearState a, b, d;
        attend_part(c, 0, first, 0, a);
        attend_part(c, first, second, static_cast<double>(first), b);
        attend_part(c, second, length, static_cast<double>(second), d);
        LinearState from_left = a, right = b, from_right = a;
        from_left.combine(b, Passed(c, second - first).view());
        from_left.combine(d, Passed(c, length - second).view());
        right.combine(d, Passed(c, length - second).view());
        from_right.combine(right, Passed(c, length - first).view());
        expect_same(from_left, whole, bound, name + " from the left");
        expect_same(from_right, whole, bound, name + " from the right");
      }
    }
  }
}

TEST(LinearState, LetsPartsThatWereSummedApartBeReadInOrder_P31) {
  for (const std::string& name : methods) {
    Case whole(sizes, name, DType::f64), parts(sizes, name, DType::f64);
    LinearState all, none, before, middle;
    attend_part(whole, 0, length, 0, all);
    const double condition =
        linear_attention(whole.q, whole.k, whole.v, whole.out, options_at(whole, 0, none)).worst_condition;
    attend_part(parts, 0, 13, 0, before);
    attend_part(parts, 13, 30, 13, middle);
    LinearState at_30 = before;
    at_30.combine(middle, Passed(parts, 17).view());
    attend_part(parts, 30, length, 30, at_30);
    attend_part(parts, 13, 30, 13, before);
    for (std::int64_t i = 0; i < whole.out.size(); ++i) {
      ASSERT_NEAR(parts.out[i], whole.out[i], 1e-13 * condition * 40) << name << ' ' << i;
    }
  }
}

TEST(LinearState, CombinesWithOneThatIsEmpty) {
  Case c(sizes, "roformer");
  LinearState state, empty;
  attend_part(c, 0, length, 0, state);
  LinearState copy = state;
  copy.combine(empty);
  EXPECT_EQ(values(copy.numerator()), values(state.numerator()));
  empty.combine(state);
  EXPECT_EQ(values(empty.numerator()), values(state.numerator()));
  empty.clear();
  Case in_double(sizes, "roformer", DType::f64);
  attend_part(in_double, 0, length, 0, empty);  // still of any dtype
  EXPECT_EQ(empty.dtype(), DType::f64);
  copy.combine(copy);
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(values(copy.numerator())[i], 2 * values(state.numerator())[i]);
}

TEST(LinearState, RefusesToCombineWhatDoesNotFit) {
  Case c(sizes, "roformer"), norms(sizes, "pair_norms"), in_double(sizes, "roformer", DType::f64);
  Case one({.num_queries = length, .num_keys = length}, "roformer");
  LinearState state, other_norms, doubles, small, fixed(DType::f32);
  attend_part(c, 0, length, 0, state);
  attend_part(norms, 0, length, 0, other_norms);
  attend_part(in_double, 0, length, 0, doubles);
  attend_part(one, 0, length, 0, small);
  const Numbers before = values(state.numerator());
  expect_refused([&] { state.combine(other_norms); }, "one shape");
  expect_refused([&] { state.combine(small); }, "one shape");
  expect_refused([&] { state.combine(doubles); }, "one dtype, got float32 and float64");
  expect_refused([&] { fixed.combine(doubles); }, "one dtype, got float32 and float64");
  const double two[] = {2, 2}, half[] = {0.5, 0.5, 0.5};
  expect_refused([&] { state.combine(state, {two, "H", {2}}); }, "above 0 and at most 1, got 2");
  expect_refused([&] { state.combine(state, {half, "H", {3}}); }, "as long as the state along B and H");
  expect_refused([&] { state.combine(state, {half, "S", {2}}); }, "axes among B and H");
  EXPECT_EQ(values(state.numerator()), before);
}

// ---- another origin ----

const std::vector<std::string> turned_after = {"roformer", "relu", "both", "pair_norms", "cosformer", "decay", "retention"};

/// The frame that moves with the tokens: S <- R(-1) S + phi(k) v^T, o = phi(q)^T S. No absolute position anywhere.
TEST(LinearState, TurnsBackByOneForEveryTokenInsteadOfPositions_P16) {
  for (const std::string& name : turned_after) {
    Case absolute(sizes, name, DType::f64), relative(sizes, name, DType::f64);
    LinearState all, moving;
    const double condition =
        linear_attention(absolute.q, absolute.k, absolute.v, absolute.out, options_at(absolute, 0, all)).worst_condition;
    for (std::int64_t t = 0; t < length; ++t) {
      attend_part(relative, t, t + 1, 0, moving);
      moving.rebase(1, relative.options());
    }
    // 40 turns, each rounded.
    for (std::int64_t i = 0; i < absolute.out.size(); ++i) {
      ASSERT_NEAR(relative.out[i], absolute.out[i], 1e-13 * condition * 40) << name << ' ' << i;
    }
  }
}

TEST(LinearState, GivesTheSameFromAnotherOrigin_P16) {
  for (const std::string& name : turned_after) {
    for (const double origin : {1.0, 20.0, -1000000.0, 1e15}) {
      Case whole(sizes, name, DType::f64), parts(sizes, name, DType::f64);
      LinearState all, state;
      const double start = std::max(origin, 0.0);
      const double condition =
          linear_attention(whole.q, whole.k, whole.v, whole.out, options_at(whole, 0, all)).worst_condition;
      attend_part(parts, 0, 20, start, state);
      state.rebase(origin, parts.options());
      attend_part(parts, 20, length, start + 20 - origin, state);
      // An angle at 10^15 turns, of which rotation keeps the last 2^-53 of a turn.
      for (std::int64_t i = 0; i < whole.out.size(); ++i) {
        ASSERT_NEAR(parts.out[i], whole.out[i], 1e-12 * condition * 40) << name << " from " << origin << ", " << i;
      }
    }
  }
}

TEST(LinearState, IsTurnedInFloat32WithinAFewRoundings_P16) {
  Case c(sizes, "roformer");
  LinearState state;
  attend_part(c, 0, length, 0, state);
  LinearState there_and_back = state;
  there_and_back.rebase(100000, c.options());
  there_and_back.rebase(-100000, c.options());
  expect_same(there_and_back, state, 2 * 0x1p-22, "there and back");
}

TEST(LinearState, RefusesToTurnWhatWasMappedAfterTurning_P16) {
  Case performer(sizes, "performer"), elu(sizes, "elu"), roformer(sizes, "roformer"), cosformer(sizes, "cosformer");
  LinearState state;
  EXPECT_NE(
      error_sentence(ErrorCode::unsupported, [&] { state.rebase(1, performer.options()); }).find("mapped from turned"),
      std::string::npos);
  expect_refused([&] { state.rebase(1, elu.options()); }, "needs the rotation");
  expect_refused([&] { state.rebase(std::numeric_limits<double>::infinity(), roformer.options()); }, "finite");
  state.rebase(1, roformer.options());  // nothing is in there
  EXPECT_TRUE(state.empty());
  attend_part(roformer, 0, length, 0, state);
  expect_refused([&] { state.rebase(1, cosformer.options()); }, "the number of features in the state, got 16 and 8");
}

}  // namespace
}  // namespace rotary
