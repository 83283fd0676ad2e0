#include "reference/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/element.h"
#include "reference/angles.h"
#include "rotation/positions.h"

namespace rotary::reference {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<double> read_row(const ConstTensorView& x, std::int64_t b, std::int64_t s, std::int64_t h) {
  std::vector<double> row;
  for (std::int64_t d = 0; d < x.size('D'); ++d) {
    row.push_back(
        load_element(x.dtype(), x.data(), b * x.stride('B') + s * x.stride('S') + h * x.stride('H') + d * x.stride('D')));
  }
  return row;
}

/// A row of q or k, turned by its position where there is a rotation.
std::vector<double> read_turned(const ConstTensorView& x, const TokenPositions& positions, const Rotation* rotation,
                                std::int64_t b, std::int64_t s, std::int64_t h) {
  const std::vector<double> row = read_row(x, b, s, h);
  if (rotation == nullptr) return row;
  double position[max_position_axes];
  positions.read(b, s, position);
  std::vector<double> cos(rotation->inv_freq().size()), sin(cos.size());
  reference::angles(*rotation, position, cos.data(), sin.data());

  std::vector<double> turned = row;
  for (std::size_t j = 0; j < cos.size(); ++j) {
    const auto [u, v] = rotation->pairs_in()[j];
    const auto [u_out, v_out] = rotation->pairs_out()[j];
    const double s_j = rotation->direction() * sin[j];
    turned[u_out] = row[u] * cos[j] - row[v] * s_j;
    turned[v_out] = row[v] * cos[j] + row[u] * s_j;
  }
  return turned;
}

bool hidden(Causal causal, std::int64_t query, std::int64_t key, std::int64_t num_queries, std::int64_t num_keys) {
  switch (causal) {
    case Causal::none: return false;
    case Causal::top_left: return key > query;
    case Causal::bottom_right: return num_keys - key < num_queries - query;  // fewer keys after it than queries after
  }
  return false;
}

double mask_at(const ConstTensorView& mask, std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t k) {
  if (!mask) return 0;
  std::int64_t element = 0;
  const std::int64_t index[] = {b, h, q, k};
  for (int i = 0; i < 4; ++i) {
    const char axis = "BHQK"[i];
    if (mask.size(axis) > 1) element += index[i] * mask.stride(axis);
  }
  return load_element(mask.dtype(), mask.data(), element);
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Softmax of the scores times the values. No key that is seen: zeros, and lse -infinity.
void weighted_mean(const std::vector<double>& scores, const std::vector<std::vector<double>>& values,
                   std::vector<double>& mean, double& lse) {
  double max = -infinity, sum = 0;
  for (const double score : scores) max = std::max(max, score);
  for (std::size_t j = 0; j < scores.size(); ++j) {
    if (scores[j] == -infinity) continue;  // what is hidden takes no part, whatever its value
    const double weight = std::exp(scores[j] - max);
    sum += weight;
    for (std::size_t d = 0; d < mean.size(); ++d) mean[d] += weight * values[j][d];
  }
  if (sum != 0) {
    for (double& x : mean) x /= sum;
  }
  lse = max + std::log(sum);
}

}  // namespace

void attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v, const TensorView& out,
               const AttentionOptions& options) {
  const Rotation* const rotation = options.rotation;
  const int num_axes = rotation != nullptr ? rotation->num_axes() : 1;
  const TokenPositions q_positions("attention", options.q_positions, tokens_of("attention", q), num_axes);
  const TokenPositions k_positions("attention", options.k_positions, tokens_of("attention", k), num_axes);
  const std::int64_t num_queries = q.size('S'), num_keys = k.size('S');
  const double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(q.size('D')));

  for (std::int64_t b = 0; b < q.size('B'); ++b) {
    for (std::int64_t h = 0; h < q.size('H'); ++h) {
      const std::int64_t kv_head = h / (q.size('H') / k.size('H'));
      std::vector<std::vector<double>> keys, values;
      for (std::int64_t j = 0; j < num_keys; ++j) {
        keys.push_back(read_turned(k, k_positions, rotation, b, j, kv_head));
        values.push_back(read_row(v, b, j, kv_head));
      }
      for (std::int64_t i = 0; i < num_queries; ++i) {
        const std::vector<double> query = read_turned(q, q_positions, rotation, b, i, h);
        std::vector<double> scores;
        for (std::int64_t j = 0; j < num_keys; ++j) {
          const double mask = mask_at(options.attn_mask, b, h, i, j);
          const bool unseen = mask == -infinity || hidden(options.causal, i, j, num_queries, num_keys);
          scores.push_back(unseen ? -infinity : scale * dot(query, keys[j]) + mask);
        }
        std::vector<double> mean(v.size('D'));
        double lse = 0;
        weighted_mean(scores, values, mean, lse);
        for (std::int64_t d = 0; d < out.size('D'); ++d) {
          store_element(out.dtype(), out.data(),
                        b * out.stride('B') + i * out.stride('S') + h * out.stride('H') + d * out.stride('D'), mean[d]);
        }
        if (options.lse) {
          const TensorView& to = options.lse;
          store_element(to.dtype(), to.data(), b * to.stride('B') + i * to.stride('S') + h * to.stride('H'), lse);
        }
      }
    }
  }
}

}  // namespace rotary::reference
