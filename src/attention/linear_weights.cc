#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "attention/linear_problem.h"
#include "attention/linear_rows.h"
#include "attention/row_sums.h"
#include "attention/tensor_checks.h"
#include "base/element.h"
#include "base/fail.h"
#include "rotary/linear_attention.hpp"

namespace rotary {
namespace {

constexpr const char* operation = "linear_weights";
constexpr AttentionNames names{operation, "linear_weights, q_positions", "linear_weights, k_positions"};
constexpr double infinity = std::numeric_limits<double>::infinity();

struct Row {
  std::vector<double> a, c, m;
  double log_scale = -infinity;
};

double inner_product(const std::vector<double>& x, const std::vector<double>& y) {
  return dot(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
}

Row load(LinearRows<double>& rows, const LinearProblem& p, std::int64_t batch_row, std::int64_t token, std::int64_t head) {
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  Row row{std::vector<double>(size(p.a_width)), std::vector<double>(size(p.c_width)), std::vector<double>(size(p.m_width))};
  rows.load(batch_row, token, head, row.a.data(), row.c.data(), row.m.data(), row.log_scale);
  return row;
}

/// The weights of one query, 0 for keys that it does not see.
std::vector<double> weights_of(const LinearProblem& p, const Row& query, const std::vector<Row>& keys,
                               const std::vector<bool>& seen) {
  double log_scale = -infinity;
  for (std::size_t j = 0; j < keys.size(); ++j) {
    if (seen[j]) log_scale = std::max(log_scale, keys[j].log_scale);
  }
  std::vector<double> weights(keys.size());
  double sum = 0, bound = 0;
  for (std::size_t j = 0; j < keys.size(); ++j) {
    if (!seen[j]) continue;
    const double scale = log_scale == -infinity ? 1 : std::exp(keys[j].log_scale - log_scale);
    weights[j] = scale * inner_product(query.a, keys[j].a);
    sum += scale * inner_product(query.c, keys[j].c);
    bound += scale * inner_product(query.m, keys[j].m);
  }
  if (p.normalizer == Normalizer::none) return weights;
  const bool usable = is_usable(sum, bound);
  for (double& weight : weights) weight = usable ? weight / sum : 0;
  return weights;
}

void check_written(const TensorView& weights, const ConstTensorView& q, const ConstTensorView& k,
                   const LinearAttentionOptions& options) {
  const TensorChecks checks{operation};
  if (weights.dtype() != DType::f32 && weights.dtype() != DType::f64) {
    fail_argument(operation, "weights must be float32 or float64, got ", name(weights.dtype()));
  }
  checks.axes(weights, "weights", "BHQK");
  const struct {
    char axis;
    std::int64_t length;
  } expected[] = {{'B', q.size('B')}, {'H', q.size('H')}, {'Q', q.size('S')}, {'K', k.size('S')}};
  for (const auto& [axis, length] : expected) {
    if (weights.size(axis) == length) continue;
    fail_argument(operation, "weights must have the length ", length, " along ", axis, ", got ", weights.size(axis));
  }
  check_linear_written(operation, weights, "weights", q, k, k, options);
}

/// Not a number where one of the two is none.
double least(double a, double b) noexcept { return b < a || std::isnan(b) ? b : a; }
double greatest(double a, double b) noexcept { return b > a || std::isnan(b) ? b : a; }

void count(LinearWeights& all, const std::vector<double>& weights, const std::vector<bool>& seen) {
  double sum = 0;
  std::int64_t num_seen = 0;
  for (std::size_t j = 0; j < weights.size(); ++j) {
    if (!seen[j]) continue;
    ++num_seen;
    sum += weights[j];
    all.num_negative += weights[j] < 0;
    all.lowest = least(all.lowest, weights[j]);
    all.highest = greatest(all.highest, weights[j]);
  }
  if (num_seen == 0) return;
  all.num_weights += num_seen;
  all.lowest_row_sum = least(all.lowest_row_sum, sum);
  all.highest_row_sum = greatest(all.highest_row_sum, sum);
}

}  // namespace

LinearWeights linear_weights(const ConstTensorView& q, const ConstTensorView& k, const TensorView& weights,
                             const LinearAttentionOptions& options) {
  if (options.state != nullptr || options.decay || options.cu_seqlens) {
    fail_argument(operation, "takes no state, no decay and no cu_seqlens");
  }
  const LinearProblem p = check_linear_inputs(names, q, k, k, options);
  if (weights) check_written(weights, q, k, options);
  const FeatureRows<double> map(p.feature_map, p.head_dim);
  LinearRows<double> query_rows(p, map, p.q, p.q_angles), key_rows(p, map, p.k, p.k_angles());
  LinearWeights all{.lowest = infinity, .highest = -infinity, .lowest_row_sum = infinity, .highest_row_sum = -infinity};
  for (std::int64_t n = 0; n < p.num_sequences; ++n) {
    const LinearSequence s = p.sequence(n);
    for (std::int64_t head = 0; head < p.num_q_heads; ++head) {
      std::vector<Row> keys;
      std::vector<bool> tokens;
      for (std::int64_t j = 0; j < s.num_keys; ++j) {
        keys.push_back(load(key_rows, p, s.row, j, head / p.heads_per_kv_head));
        tokens.push_back(p.is_token(s.row, j));
      }
      for (std::int64_t i = 0; i < s.num_queries; ++i) {
        std::vector<bool> seen = tokens;
        if (p.is_causal) std::fill(seen.begin() + i + 1, seen.end(), false);
        const std::vector<double> row = weights_of(p, load(query_rows, p, s.row, i, head), keys, seen);
        count(all, row, seen);
        if (!weights) continue;
        for (std::int64_t j = 0; j < s.num_keys; ++j) {
          store_element(
              weights.dtype(), weights.data(),
              s.row * weights.stride('B') + head * weights.stride('H') + i * weights.stride('Q') + j * weights.stride('K'),
              row[static_cast<std::size_t>(j)]);
        }
      }
    }
  }
  return all.num_weights > 0 ? all : LinearWeights{};
}

}  // namespace rotary
