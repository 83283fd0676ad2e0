#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

#include "attention/added_scores.h"
#include "attention/aligned_array.h"
#include "attention/arena.h"
#include "attention/bias_view.h"
#include "attention/problem.h"
#include "attention/sequences.h"
#include "attention/shaw_table.h"
#include "attention/turned_rows.h"
#include "attention/visible_keys.h"
#include "base/element.h"
#include "base/fail.h"
#include "base/parallel.h"
#include "rotary/shaw.hpp"

namespace rotary {
namespace {

constexpr const char* operation = "add_shaw_values";
constexpr double infinity = std::numeric_limits<double>::infinity();

/// Values of 0, for a check of everything else.
ConstTensorView no_values(const ConstTensorView& k, std::int64_t width) {
  static constexpr double zero = 0;
  return {&zero, DType::f64, "BSHD", {k.size('B'), k.size('S'), k.size('H'), width}, {0, 0, 0, 0}};
}

/// The queries of one sequence and KV head, one after another.
class Rows {
 public:
  Rows(const AttentionProblem& problem, const AttentionSequence& sequence, std::int64_t kv_head)
      : p_(problem),
        s_(sequence),
        visible_(problem),
        added_(problem),
        memory_(unset_array<std::byte>(num_bytes(problem))),
        arena_(memory_[0]),
        query_rows_(problem.q, problem.q_angles, arena_),
        key_rows_(problem.k, problem.k_angles, arena_),
        query_(static_cast<std::size_t>(problem.head_dim)),
        weights_(static_cast<std::size_t>(problem.num_keys)),
        k_positions_(weights_.size()) {
    added_.load_positions(s_, 0, p_.num_keys, k_positions_.data());
    keys_.resize(weights_.size() * query_.size());
    for (std::int64_t j = 0; j < p_.num_keys; ++j) key_rows_.load(s_.row, j, kv_head, keys_.data() + j * p_.head_dim);
  }

  /// The weights of the keys that the query may see, all 0 where it sees none.
  const std::vector<double>& weights(std::int64_t i, std::int64_t head) {
    query_rows_.load(s_.row, i, head, query_.data());
    added_.row(s_, i, head, 0, p_.num_keys, k_positions_.data(), weights_.data());
    const KeyRange range = visible_.range(s_, i);
    const double scale = p_.scale_of(s_.row, i), cap = p_.options.softcap, sink = p_.sink(head);
    double largest = sink;
    for (std::int64_t j = 0; j < p_.num_keys; ++j) {
      double& score = weights_[static_cast<std::size_t>(j)];
      if (j < range.begin || j >= range.end) score = -infinity;
      if (score == -infinity) continue;
      const double product = scale * std::inner_product(query_.begin(), query_.end(), key(j), 0.0);
      score += cap != 0 ? cap * std::tanh(product / cap) : product;
      largest = std::max(largest, score);
    }
    double sum = sink == -infinity ? 0 : std::exp(sink - largest);
    for (double& weight : weights_) {
      weight = weight == -infinity ? 0 : std::exp(weight - largest);
      sum += weight;
    }
    for (double& weight : weights_) weight = weight == 0 ? 0 : weight / sum;
    return weights_;
  }

 private:
  static std::int64_t num_bytes(const AttentionProblem& problem) {
    Arena count;
    const TurnedRows<double> query_rows(problem.q, problem.q_angles, count);
    const TurnedRows<double> key_rows(problem.k, problem.k_angles, count);
    return count.num_bytes();
  }
  const double* key(std::int64_t j) const noexcept { return keys_.data() + j * p_.head_dim; }

  const AttentionProblem& p_;
  const AttentionSequence& s_;
  VisibleKeys visible_;
  AddedScores added_;
  AlignedArray<std::byte> memory_;
  Arena arena_;
  TurnedRows<double> query_rows_, key_rows_;
  std::vector<double> query_, keys_, weights_, k_positions_;
};

}  // namespace

void add_shaw_values(const TensorView& out, const ConstTensorView& q, const ConstTensorView& k,
                     const ConstTensorView& table, const AttentionOptions& how, const ShawOptions& options) {
  AttentionOptions weights = how;
  weights.lse = {};
  if (how.cu_seqlens) fail_argument(operation, "packed sequences (cu_seqlens) have no weights of Shaw's: attend to each");
  const ConstTensorView v = no_values(k, out.size('D'));
  const AttentionProblem problem = check_attention(q, k, v, out, weights);
  check_bias_positions(operation, out, options.q_positions, options.k_positions);
  check_shaw_table(operation, table, out, "out", out);
  const SidePositions queries("add_shaw_values, q_positions", options.q_positions, problem.num_sequences,
                              problem.num_queries, PositionNumbers::whole);
  const SidePositions keys("add_shaw_values, k_positions", options.k_positions, problem.num_sequences, problem.num_keys,
                           PositionNumbers::whole);
  const ShawTable vectors(table);
  const VisibleKeys visible(problem);
  parallel_for(options.executor, problem.num_sequences * problem.num_kv_heads, [&](std::int64_t task) {
    const std::int64_t b = task / problem.num_kv_heads, kv_head = task % problem.num_kv_heads;
    const AttentionSequence tokens = visible.sequence(b);
    Rows rows(problem, tokens, kv_head);
    std::vector<double> by_row(static_cast<std::size_t>(vectors.num_rows()));  // the weights of each row of the table
    for (std::int64_t n = 0; n < problem.heads_per_kv_head * problem.num_queries; ++n) {
      const std::int64_t i = n % problem.num_queries;
      const std::int64_t head = kv_head * problem.heads_per_kv_head + n / problem.num_queries;
      const std::vector<double>& weight = rows.weights(i, head);
      std::fill(by_row.begin(), by_row.end(), 0.0);
      for (std::int64_t j = 0; j < problem.num_keys; ++j) {
        by_row[static_cast<std::size_t>(vectors.row_of(keys.at(b, j) - queries.at(b, i)))] +=
            weight[static_cast<std::size_t>(j)];
      }
      for (std::int64_t d = 0; d < problem.value_dim; ++d) {
        const std::int64_t at = b * out.stride('B') + i * out.stride('S') + head * out.stride('H') + d * out.stride('D');
        double sum = load_element(out.dtype(), out.data(), at);
        for (std::int64_t row = 0; row < vectors.num_rows(); ++row) {
          sum += by_row[static_cast<std::size_t>(row)] * vectors.row(head, row)[d];
        }
        store_element(out.dtype(), out.data(), at, sum);
      }
    }
  });
}

}  // namespace rotary
