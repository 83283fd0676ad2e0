#include "rotary/score_terms.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "reference/score_terms.h"
#include "rotary/sinusoidal.hpp"
#include "rotary/tensor_file.hpp"
#include "support/error_sentence.h"
#include "support/test_tensor.h"

namespace rotary {
namespace {

constexpr DType dtypes[] = {DType::f64, DType::f32, DType::f16, DType::bf16};

TestTensor at_random(Axes axes, Dims shape, std::uint64_t seed, DType dtype = DType::f64) {
  TestTensor tensor(dtype, axes, shape);
  return std::move(tensor.fill_at_random(seed));
}

TestTensor sinusoids(std::int64_t length, std::int64_t width) {
  TestTensor p(DType::f64, "SD", {length, width});
  sinusoidal(p, sinusoidal_rotation(Sinusoidal::interleaved, width));
  return p;
}

TestTensor identity(std::int64_t width) {
  TestTensor one(DType::f64, "ND", {width, width});
  one.fill(0);
  for (std::int64_t d = 0; d < width; ++d) one.set({d, d}, 1);
  return one;
}

/// Where all four terms are written.
struct Written {
  Written(DType dtype, Axes axes, Dims shape)
      : terms{{dtype, axes, shape}, {dtype, axes, shape}, {dtype, axes, shape}, {dtype, axes, shape}} {}

  ScoreTermsOptions options(double scale) const {
    return {.scale = scale,
            .content_content = terms[0],
            .content_position = terms[1],
            .position_content = terms[2],
            .position_position = terms[3]};
  }

  TestTensor terms[4];
};

const ScoreTerm& term(const ScoreTerms& terms, int t) {
  const ScoreTerm* const all[] = {&terms.content_content, &terms.content_position, &terms.position_content,
                                  &terms.position_position};
  return *all[t];
}

TEST(ScoreTerms, AreThoseOfMatricesMultipliedElsewhere) {
  const TensorFile file(ROTARY_TEST_DATA "/absolute/four_terms.npz");
  const ConstTensorView x = file.at("x").view("SD"), p = file.at("p").view("SD");
  const ConstTensorView w_q = file.at("w_q").view("ND"), w_k = file.at("w_k").view("ND");
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Written written(dtype, "QK", {4, 4});
    const ScoreTerms terms = score_terms(x, p, w_q, w_k, written.options(1));
    const char* const names[] = {"content_content", "content_position", "position_content", "position_position"};
    double all = 0;
    for (int t = 0; t < 4; ++t) {
      const auto* expected = static_cast<const double*>(file.at(names[t]).data);
      double squares = 0;
      for (std::int64_t n = 0; n < 16; ++n) {
        EXPECT_NEAR(written.terms[t][n], expected[n], dtype == DType::f64 ? 1e-12 : 1e-5) << names[t] << " " << n;
        squares += expected[n] * expected[n];
      }
      EXPECT_NEAR(term(terms, t).sum_of_squares, squares, 1e-11 * squares) << names[t];
      all += squares;
    }
    double score_squares = 0;
    for (std::int64_t n = 0; n < 16; ++n) {
      const double score = static_cast<const double*>(file.at("score").data)[n];
      score_squares += score * score;
    }
    EXPECT_NEAR(terms.score_sum_of_squares, score_squares, 1e-11 * score_squares);
    double shares = 0;
    for (int t = 0; t < 4; ++t) {
      EXPECT_NEAR(term(terms, t).share, term(terms, t).sum_of_squares / all, 1e-12);
      shares += term(terms, t).share;
    }
    EXPECT_NEAR(shares, 1, 1e-15 * 4);
  }
}

TEST(ScoreTerms, AgreeWithTheReferenceForEveryBatchRowHeadAndDtype) {
  const std::int64_t batch = 2, length = 5, width = 7, heads = 6, key_heads = 2, head_width = 3;
  const TestTensor p = at_random("BSD", {batch, length, width}, 2);
  for (const DType dtype : dtypes) {
    const TestTensor x = at_random("SBD", {length, batch, width}, 1, dtype);
    const TestTensor w_q = at_random("NHD", {width, heads, head_width}, 3, dtype);
    const TestTensor w_k = at_random("DHN", {head_width, key_heads, width}, 4);
    Written written(DType::f64, "KBHQ", {length, batch, heads, length});
    const ScoreTerms terms = score_terms(x.view(), p.view(), w_q.view(), w_k.view(), written.options(0));
    double squares[4] = {};
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t h = 0; h < heads; ++h) {
        const ConstTensorView content = x.view().select('B', b), position = p.view().select('B', b);
        const ConstTensorView q_side = w_q.view().select('H', h), k_side = w_k.view().select('H', h / 3);
        for (std::int64_t i = 0; i < length; ++i) {
          for (std::int64_t j = 0; j < length; ++j) {
            for (int t = 0; t < 4; ++t) {
              const double expected = reference::score_term(t / 2 == 0 ? content : position,
                                                            t % 2 == 0 ? content : position, q_side, k_side, i, j) /
                                      std::sqrt(3.0);
              // 7 * 7 * 3 products below 16, in another order.
              ASSERT_NEAR(written.terms[t].at({j, b, h, i}), expected, 147 * 16 * 0x1p-50) << t << " " << name(dtype);
              squares[t] += expected * expected;
            }
          }
        }
      }
    }
    for (int t = 0; t < 4; ++t) EXPECT_NEAR(term(terms, t).sum_of_squares, squares[t], 1e-12 * squares[t]);
    for (const TestTensor& out : written.terms) EXPECT_TRUE(out.guards_intact());
  }
}

TEST(ScoreTerms, OfPositionsDependOnTheDistanceAloneUntilWeightsComeBetween) {
  const TestTensor x = at_random("SD", {64, 32}, 1), p = sinusoids(64, 32), one = identity(32);
  const ScoreTerms plain = score_terms(x.view(), p.view(), one.view(), one.view());
  EXPECT_LE(plain.position_position.beyond_distance, 1e-28) << "cos of differences: rounding squared";
  EXPECT_GT(plain.content_position.beyond_distance, 0.5);
  EXPECT_GT(plain.position_content.beyond_distance, 0.5);
  EXPECT_GT(plain.content_content.beyond_distance, 0.5);

  const TestTensor w_q = at_random("ND", {32, 32}, 2), w_k = at_random("ND", {32, 32}, 3);
  const ScoreTerms weighted = score_terms(x.view(), p.view(), w_q.view(), w_k.view());
  EXPECT_GT(weighted.position_position.beyond_distance, 0.1);
}

TEST(ScoreTerms, MeasureSpreadAroundTheMeanOfEveryDistance) {
  // Two tokens, width 1: the terms of contents 1 and 3 are 1 3 / 3 9. Distances -1 and 1 have one entry each, distance 0 has
  // 1 and 9: 16 + 16 around their mean 5, of 1 + 9 + 9 + 81.
  const double contents[] = {1, 3}, positions[] = {0, 0}, weight[] = {1};
  const ConstTensorView x(contents, "SD", {2, 1}), p(positions, "SD", {2, 1}), w(weight, "ND", {1, 1});
  const ScoreTerms terms = score_terms(x, p, w, w);
  EXPECT_EQ(terms.content_content.sum_of_squares, 100);
  EXPECT_EQ(terms.content_content.share, 1);
  EXPECT_DOUBLE_EQ(terms.content_content.beyond_distance, 0.32);
  EXPECT_EQ(terms.position_position.share, 0);
  EXPECT_EQ(terms.position_position.beyond_distance, 0);
  EXPECT_EQ(terms.score_sum_of_squares, 100);

  const ScoreTerms causal = score_terms(x, p, w, w, {.is_causal = true});  // 1, 3, 9
  EXPECT_EQ(causal.content_content.sum_of_squares, 91);
  EXPECT_DOUBLE_EQ(causal.content_content.beyond_distance, 32.0 / 91);
}

TEST(ScoreTerms, AreTheSameOnThreads) {
  ThreadPool pool(3);
  const TestTensor x = at_random("BSD", {3, 17, 10}, 1), p = sinusoids(17, 10), w = at_random("NHD", {10, 2, 5}, 2);
  const ScoreTerms alone = score_terms(x.view(), p.view(), w.view(), w.view());
  const ScoreTerms threads = score_terms(x.view(), p.view(), w.view(), w.view(), {.executor = &pool});
  for (int t = 0; t < 4; ++t) {
    EXPECT_EQ(term(alone, t).sum_of_squares, term(threads, t).sum_of_squares);
    EXPECT_EQ(term(alone, t).beyond_distance, term(threads, t).beyond_distance);
  }
  EXPECT_EQ(alone.score_sum_of_squares, threads.score_sum_of_squares);
}

TEST(ScoreTerms, OfNothingAreZero) {
  const TestTensor x(DType::f32, "BSD", {2, 0, 6}), p(DType::f32, "SD", {0, 6}), w = at_random("ND", {6, 6}, 1);
  const ScoreTerms terms = score_terms(x.view(), p.view(), w.view(), w.view());
  for (int t = 0; t < 4; ++t) EXPECT_EQ(term(terms, t).share, 0);
  EXPECT_EQ(terms.score_sum_of_squares, 0);
}

TEST(ScoreTerms, RefuseTensorsThatDoNotFitAndWriteNothing) {
  const TestTensor x = at_random("SD", {3, 6}, 1), p = at_random("SD", {3, 6}, 2), w = at_random("ND", {6, 4}, 3);
  const auto refused = [&](const ConstTensorView& x_, const ConstTensorView& p_, const ConstTensorView& q_,
                           const ConstTensorView& k_, const std::string& words, const ScoreTermsOptions& options = {}) {
    expect_refused([&] { score_terms(x_, p_, q_, k_, options); }, words);
  };
  const TestTensor longer = at_random("SD", {4, 6}, 1), wider = at_random("SD", {3, 8}, 1),
                   batched = at_random("BSD", {2, 3, 6}, 1), tall = at_random("ND", {8, 4}, 1),
                   wide = at_random("ND", {6, 5}, 1), two = at_random("NHD", {6, 2, 4}, 1),
                   three = at_random("NHD", {6, 3, 4}, 1), ints(DType::i32, "SD", {3, 6});
  refused({}, p, w, w, "x must be given");
  refused(ints.view(), p.view(), w.view(), w.view(), "got int32");
  refused(w.view(), p.view(), w.view(), w.view(), "x must have the axes SD and no others than BSD, got \"ND\"");
  refused(x.view(), longer.view(), w.view(), w.view(), "p must be as long along S as x, got 4 and 3");
  refused(x.view(), wider.view(), w.view(), w.view(), "p must be as long along D as x, got 8 and 6");
  refused(x.view(), batched.view(), w.view(), w.view(), "p must be as long along B as x, got 2 and 1");
  refused(x.view(), p.view(), tall.view(), w.view(), "w_q must be as long along N as x along D, got 8 and 6");
  refused(x.view(), p.view(), w.view(), wide.view(), "w_k must be as long along D as w_q, got 5 and 4");
  refused(x.view(), p.view(), three.view(), two.view(), "multiple of the number of key heads, got 3 and 2");
  refused(x.view(), p.view(), w.view(), w.view(), "scale must be finite", {.scale = INFINITY});

  TestTensor first(DType::f64, "QK", {3, 3}), small(DType::f64, "QK", {3, 2}), heads(DType::f64, "HQK", {2, 3, 3});
  refused(x.view(), p.view(), w.view(), w.view(), "a term must be as long along K as x along S, got 2 and 3",
          {.content_content = first, .position_content = small});
  refused(x.view(), p.view(), w.view(), w.view(), "out must have 1 heads along H, got 2", {.content_content = heads});
  refused(x.view(), p.view(), w.view(), w.view(), "a term must not overlap another",
          {.content_content = first, .position_position = first});
  refused(x.view(), p.view(), w.view(), w.view(), "a term must not overlap the inputs",
          {.content_content = TensorView(const_cast<void*>(x.view().data()), DType::f64, "QK", {3, 3})});
  for (std::int64_t i = 0; i < first.size(); ++i) EXPECT_TRUE(std::isnan(first[i]));
}

}  // namespace
}  // namespace rotary
