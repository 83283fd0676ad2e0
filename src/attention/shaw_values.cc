#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "attention/bias_view.h"
#include "attention/problem.h"
#include "attention/shaw_table.h"
#include "attention/turned_rows.h"
#include "base/element.h"
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

double mask_at(const ConstTensorView& mask, std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) noexcept {
  if (!mask) return 0;
  const auto step = [&](char axis, std::int64_t index) { return mask.size(axis) > 1 ? index * mask.stride(axis) : 0; };
  return load_element(mask.dtype(), mask.data(), step('B', b) + step('H', h) + step('Q', i) + step('K', j));
}

/// The queries of one batch row and KV head, one after another.
class Rows {
 public:
  Rows(const AttentionProblem& problem, std::int64_t b, std::int64_t kv_head)
      : p_(problem),
        b_(b),
        query_rows_(problem.q, problem.q_angles, b),
        query_(static_cast<std::size_t>(problem.head_dim)),
        weights_(static_cast<std::size_t>(problem.num_keys)) {
    TurnedRows<double> key_rows(problem.k, problem.k_angles, b);
    keys_.resize(weights_.size() * query_.size());
    for (std::int64_t j = 0; j < p_.num_keys; ++j) key_rows.load(j, kv_head, keys_.data() + j * p_.head_dim);
  }

  /// The weights of the keys that the query may see, all 0 where it sees none.
  const std::vector<double>& weights(std::int64_t i, std::int64_t head) {
    query_rows_.load(i, head, query_.data());
    const std::int64_t num_visible = p_.num_visible(i);
    double largest = -infinity, sum = 0;
    for (std::int64_t j = 0; j < p_.num_keys; ++j) {
      double& score = weights_[static_cast<std::size_t>(j)];
      const double mask = j < num_visible ? mask_at(p_.attn_mask, b_, head, i, j) : -infinity;
      score = mask == -infinity ? mask : mask + p_.scale * std::inner_product(query_.begin(), query_.end(), key(j), 0.0);
      largest = std::max(largest, score);
    }
    for (double& weight : weights_) {
      weight = weight == -infinity ? 0 : std::exp(weight - largest);
      sum += weight;
    }
    for (double& weight : weights_) weight = weight == 0 ? 0 : weight / sum;
    return weights_;
  }

 private:
  const double* key(std::int64_t j) const noexcept { return keys_.data() + j * p_.head_dim; }

  const AttentionProblem& p_;
  std::int64_t b_;
  TurnedRows<double> query_rows_;
  std::vector<double> query_, keys_, weights_;
};

}  // namespace

void add_shaw_values(const TensorView& out, const ConstTensorView& q, const ConstTensorView& k,
                     const ConstTensorView& table, const AttentionOptions& how, const ShawOptions& options) {
  AttentionOptions weights = how;
  weights.lse = {};
  const AttentionProblem problem = check_attention(q, k, no_values(k, out.size('D')), out, weights);
  check_bias_positions(operation, out, options.q_positions, options.k_positions);
  check_shaw_table(operation, table, out, "out", out);
  const SidePositions queries("add_shaw_values, q_positions", options.q_positions, problem.batch, problem.num_queries,
                              PositionNumbers::whole);
  const SidePositions keys("add_shaw_values, k_positions", options.k_positions, problem.batch, problem.num_keys,
                           PositionNumbers::whole);
  const ShawTable vectors(table);
  parallel_for(options.executor, problem.batch * problem.num_kv_heads, [&](std::int64_t task) {
    const std::int64_t b = task / problem.num_kv_heads, kv_head = task % problem.num_kv_heads;
    Rows rows(problem, b, kv_head);
    std::vector<double> by_row(static_cast<std::size_t>(vectors.num_rows()));  // the weights of each row of the table
    for (std::int64_t n = 0; n < problem.heads_per_kv_head() * problem.num_queries; ++n) {
      const std::int64_t i = n % problem.num_queries;
      const std::int64_t head = kv_head * problem.heads_per_kv_head() + n / problem.num_queries;
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
