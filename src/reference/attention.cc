#include "reference/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/element.h"
#include "reference/rotate.h"
#include "rotation/positions.h"

namespace rotary::reference {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

using Row = std::vector<double>;

Row read_row(const ConstTensorView& x, std::int64_t b, std::int64_t s, std::int64_t h) {
  Row row;
  for (std::int64_t d = 0; d < x.size('D'); ++d) {
    row.push_back(
        load_element(x.dtype(), x.data(), b * x.stride('B') + s * x.stride('S') + h * x.stride('H') + d * x.stride('D')));
  }
  return row;
}

/// x turned by its positions, in double.
class Turned {
 public:
  Turned(const ConstTensorView& x, const Rotation& rotation, const Positions& positions)
      : numbers_(static_cast<std::size_t>(x.num_elements())), view_(numbers_.data(), DType::f64, x.axes(), x.shape()) {
    const TokenPositions resolved("attention", positions, tokens_of("attention", x), rotation.num_axes());
    rotate(x, view_, rotation, [&](std::int64_t b, std::int64_t s, int axis) {
      double position[max_position_axes];
      resolved.read(b, s, position);
      return position[axis];
    });
  }
  const TensorView& view() const { return view_; }

 private:
  std::vector<double> numbers_;
  TensorView view_;
};

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

double dot(const Row& a, const Row& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Softmax of the scores times the values. No key that is seen: zeros, and lse -infinity.
void weighted_mean(const Row& scores, const std::vector<Row>& values, Row& mean, double& lse) {
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

void attend(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v, const TensorView& out,
            const AttentionOptions& options) {
  const std::int64_t num_queries = q.size('S'), num_keys = k.size('S');
  const double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(q.size('D')));
  for (std::int64_t b = 0; b < q.size('B'); ++b) {
    for (std::int64_t h = 0; h < q.size('H'); ++h) {
      const std::int64_t kv_head = h / (q.size('H') / k.size('H'));
      std::vector<Row> keys, values;
      for (std::int64_t j = 0; j < num_keys; ++j) {
        keys.push_back(read_row(k, b, j, kv_head));
        values.push_back(read_row(v, b, j, kv_head));
      }
      for (std::int64_t i = 0; i < num_queries; ++i) {
        const Row query = read_row(q, b, i, h);
        Row scores;
        for (std::int64_t j = 0; j < num_keys; ++j) {
          const double mask = mask_at(options.attn_mask, b, h, i, j);
          const bool unseen = mask == -infinity || hidden(options.causal, i, j, num_queries, num_keys);
          scores.push_back(unseen ? -infinity : scale * dot(query, keys[static_cast<std::size_t>(j)]) + mask);
        }
        Row mean(static_cast<std::size_t>(v.size('D')));
        double lse = 0;
        weighted_mean(scores, values, mean, lse);
        for (std::int64_t d = 0; d < out.size('D'); ++d) {
          const std::int64_t at = b * out.stride('B') + i * out.stride('S') + h * out.stride('H') + d * out.stride('D');
          store_element(out.dtype(), out.data(), at, mean[static_cast<std::size_t>(d)]);
        }
        if (options.lse) {
          const TensorView& to = options.lse;
          store_element(to.dtype(), to.data(), b * to.stride('B') + i * to.stride('S') + h * to.stride('H'), lse);
        }
      }
    }
  }
}

}  // namespace

void attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v, const TensorView& out,
               const AttentionOptions& options) {
  if (options.rotation == nullptr) return attend(q, k, v, out, options);
  const Turned turned_q(q, *options.rotation, options.q_positions);
  const Turned turned_k(k, *options.rotation, options.k_positions);
  attend(turned_q.view(), turned_k.view(), v, out, options);
}

}  // namespace rotary::reference
