#include "rotary/score_terms.hpp"

#include <cmath>
#include <vector>

#include "attention/bias_view.h"
#include "base/apart.h"
#include "base/element.h"
#include "base/fail.h"
#include "base/float_view.h"
#include "base/parallel.h"

namespace rotary {
namespace {

constexpr const char* operation = "score_terms";
constexpr int num_terms = 4;  // in the order of ScoreTerms

struct Problem {
  ConstTensorView x, p, w_q, w_k;
  TensorView written[num_terms];  // may be not given
  std::int64_t batch, length, width, heads, heads_per_key_head, head_width;
  double scale;
  bool is_causal;
};

void check_length(const ConstTensorView& view, const char* what, char axis, std::int64_t expected, const char* whose) {
  if (view.size(axis) == expected) return;
  fail_argument(operation, what, " must be as long along ", axis, " as ", whose, ", got ", view.size(axis), " and ",
                expected);
}

void check_written(const Problem& problem) {
  const ConstTensorView read[] = {problem.x, problem.p, problem.w_q, problem.w_k};
  for (int t = 0; t < num_terms; ++t) {
    const TensorView& out = problem.written[t];
    if (!out) continue;
    check_bias_view(operation, out, problem.heads, {}, {});
    check_length(out, "a term", 'B', problem.batch, "x");
    check_length(out, "a term", 'Q', problem.length, "x along S");
    check_length(out, "a term", 'K', problem.length, "x along S");
    for (const ConstTensorView& view : read) check_apart(operation, "a term", out, "the inputs", view);
    for (int other = 0; other < t; ++other) check_apart(operation, "a term", out, "another", problem.written[other]);
  }
}

Problem check(const ConstTensorView& x, const ConstTensorView& p, const ConstTensorView& w_q, const ConstTensorView& w_k,
              const ScoreTermsOptions& options) {
  check_float_view(operation, "x", x, "SD", "BSD");
  check_float_view(operation, "p", p, "SD", "BSD");
  check_float_view(operation, "w_q", w_q, "ND", "NHD");
  check_float_view(operation, "w_k", w_k, "ND", "NHD");
  check_length(p, "p", 'S', x.size('S'), "x");
  check_length(p, "p", 'D', x.size('D'), "x");
  if (p.has('B')) check_length(p, "p", 'B', x.size('B'), "x");
  check_length(w_q, "w_q", 'N', x.size('D'), "x along D");
  check_length(w_k, "w_k", 'N', x.size('D'), "x along D");
  check_length(w_k, "w_k", 'D', w_q.size('D'), "w_q");
  if (w_q.size('D') < 1) fail_argument(operation, "a head must have a width of at least 1, got ", w_q.size('D'));
  const std::int64_t heads = w_q.size('H'), key_heads = w_k.size('H');
  if (key_heads < 1 || heads % key_heads != 0) {
    fail_argument(operation, "the number of query heads must be a multiple of the number of key heads, got ", heads,
                  " and ", key_heads);
  }
  if (!std::isfinite(options.scale)) fail_argument(operation, "scale must be finite, got ", options.scale);
  Problem problem{
      .x = x,
      .p = p,
      .w_q = w_q,
      .w_k = w_k,
      .written = {options.content_content, options.content_position, options.position_content, options.position_position},
      .batch = x.size('B'),
      .length = x.size('S'),
      .width = x.size('D'),
      .heads = heads,
      .heads_per_key_head = heads / key_heads,
      .head_width = w_q.size('D'),
      .scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(w_q.size('D'))),
      .is_causal = options.is_causal};
  check_written(problem);
  return problem;
}

double at(const ConstTensorView& view, std::int64_t element) { return load_element(view.dtype(), view.data(), element); }

/// rows * w: a row per token.
std::vector<double> projected(const ConstTensorView& rows, std::int64_t b, const ConstTensorView& w, std::int64_t head) {
  std::vector<double> result;
  for (std::int64_t s = 0; s < rows.size('S'); ++s) {
    for (std::int64_t d = 0; d < w.size('D'); ++d) {
      double sum = 0;
      for (std::int64_t n = 0; n < w.size('N'); ++n) {
        sum += at(rows, b * rows.stride('B') + s * rows.stride('S') + n * rows.stride('D')) *
               at(w, n * w.stride('N') + head * w.stride('H') + d * w.stride('D'));
      }
      result.push_back(sum);
    }
  }
  return result;
}

/// Numbers as they come: their mean, and the sum of squares around it (Welford 1962).
struct Spread {
  double count = 0, mean = 0, squares = 0;

  void add(double x) noexcept {
    const double from_old = x - mean;
    mean += from_old / ++count;
    squares += from_old * (x - mean);
  }
};

struct Sums {
  double squares[num_terms] = {};
  double beyond_distance[num_terms] = {};  // what is left of the squares around the means
  double score_squares = 0;
};

/// One batch row and head.
Sums measure(const Problem& problem, std::int64_t b, std::int64_t h) {
  const std::int64_t key_head = h / problem.heads_per_key_head, length = problem.length, width = problem.head_width;
  const std::vector<double> queries[] = {projected(problem.x, b, problem.w_q, h), projected(problem.p, b, problem.w_q, h)};
  const std::vector<double> keys[] = {projected(problem.x, b, problem.w_k, key_head),
                                      projected(problem.p, b, problem.w_k, key_head)};
  Sums sums;
  std::vector<Spread> spreads(static_cast<std::size_t>(num_terms * (2 * length)));
  for (std::int64_t i = 0; i < length; ++i) {
    for (std::int64_t j = 0; j < length; ++j) {
      const bool counts = !problem.is_causal || j <= i;
      double score = 0;
      for (int t = 0; t < num_terms; ++t) {
        const double* const query = queries[t / 2].data() + i * width;
        const double* const key = keys[t % 2].data() + j * width;
        double term = 0;
        for (std::int64_t d = 0; d < width; ++d) term += query[d] * key[d];
        term *= problem.scale;
        score += term;
        if (const TensorView& out = problem.written[t]; out) {
          const std::int64_t to = b * out.stride('B') + h * out.stride('H') + i * out.stride('Q') + j * out.stride('K');
          store_element(out.dtype(), out.data(), to, term);
        }
        if (!counts) continue;
        sums.squares[t] += term * term;
        spreads[static_cast<std::size_t>(t * 2 * length + j - i + length)].add(term);
      }
      if (counts) sums.score_squares += score * score;
    }
  }
  for (std::size_t n = 0; n < spreads.size(); ++n) {
    sums.beyond_distance[n / static_cast<std::size_t>(2 * length)] += spreads[n].squares;
  }
  return sums;
}

}  // namespace

ScoreTerms score_terms(const ConstTensorView& x, const ConstTensorView& p, const ConstTensorView& w_q,
                       const ConstTensorView& w_k, const ScoreTermsOptions& options) {
  const Problem problem = check(x, p, w_q, w_k, options);
  std::vector<Sums> parts(static_cast<std::size_t>(problem.batch * problem.heads));
  parallel_for(options.executor, problem.batch * problem.heads, [&](std::int64_t task) {
    parts[static_cast<std::size_t>(task)] = measure(problem, task / problem.heads, task % problem.heads);
  });

  ScoreTerms result;
  ScoreTerm* const terms[] = {&result.content_content, &result.content_position, &result.position_content,
                              &result.position_position};
  double all = 0;
  for (const Sums& part : parts) {
    result.score_sum_of_squares += part.score_squares;
    for (int t = 0; t < num_terms; ++t) {
      terms[t]->sum_of_squares += part.squares[t];
      terms[t]->beyond_distance += part.beyond_distance[t];
      all += part.squares[t];
    }
  }
  for (ScoreTerm* const term : terms) {
    if (term->sum_of_squares == 0) continue;
    term->share = term->sum_of_squares / all;
    term->beyond_distance /= term->sum_of_squares;
  }
  return result;
}

}  // namespace rotary
