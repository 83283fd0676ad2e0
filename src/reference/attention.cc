#include "reference/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/element.h"
#include "reference/rotate.h"
#include "rotary/position_bias.hpp"
#include "rotation/positions.h"

namespace rotary::reference {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

using Row = std::vector<double>;

char token_axis(const ConstTensorView& x) { return x.has('T') ? 'T' : 'S'; }

Row read_row(const ConstTensorView& x, std::int64_t b, std::int64_t s, std::int64_t h) {
  Row row;
  for (std::int64_t d = 0; d < x.size('D'); ++d) {
    row.push_back(load_element(x.dtype(), x.data(),
                               b * x.stride('B') + s * x.stride(token_axis(x)) + h * x.stride('H') + d * x.stride('D')));
  }
  return row;
}

std::int64_t whole(const ConstTensorView& view, std::int64_t element) {
  return view.dtype() == DType::i32 ? static_cast<const std::int32_t*>(view.data())[element]
                                    : static_cast<const std::int64_t*>(view.data())[element];
}

/// The element of a view that has some of the axes B, H, Q (queries), K (keys) and S or T (tokens); an axis that is missing
/// or of length 1 does not count.
struct Index {
  std::int64_t b = 0, h = 0, q = 0, k = 0, token = 0;
  std::int64_t of(const ConstTensorView& view) const {
    std::int64_t element = 0;
    for (int i = 0; i < view.rank(); ++i) {
      const char axis = view.axes()[i];
      const std::int64_t at = axis == 'B' ? b : axis == 'H' ? h : axis == 'Q' ? q : axis == 'K' ? k : token;
      if (view.shape()[i] > 1) element += at * view.strides()[i];
    }
    return element;
  }
};

Positions within_sequences(const Positions& given, const ConstTensorView& cu_seqlens) {
  Positions positions = given;
  if (cu_seqlens && !given.position_ids) positions.cu_seqlens = cu_seqlens;
  return positions;
}

/// One question answered about one query and one key of one sequence at a time.
class Attention {
 public:
  Attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v, const TensorView& out,
            const AttentionOptions& options)
      : q_(q),
        k_(k),
        v_(v),
        out_(out),
        o_(options),
        k_ends_(options.k_cu_seqlens ? options.k_cu_seqlens : options.cu_seqlens) {
    const auto row = [](const ConstTensorView& x, const Positions& positions, std::vector<Row>& all) {
      const TokenPositions resolved("attention", positions, tokens_of("attention", x), 1);
      for (std::int64_t b = 0; b < x.size('B'); ++b) {
        all.emplace_back(static_cast<std::size_t>(x.size(token_axis(x))));
        for (std::size_t s = 0; s < all.back().size(); ++s) {
          resolved.read(b, static_cast<std::int64_t>(s), &all.back()[s]);
        }
      }
    };
    if (o_.chunk_size == 0 && o_.bias == nullptr && !o_.bias_function) return;
    row(q, within_sequences(o_.q_positions, o_.cu_seqlens), q_positions_);
    row(k, within_sequences(o_.k_positions, k_ends_), k_positions_);
  }

  /// q and k turned by then, if they turn.
  void run() {
    const std::int64_t num_sequences = o_.cu_seqlens ? o_.cu_seqlens.size('N') - 1 : q_.size('B');
    for (n_ = 0; n_ < num_sequences; ++n_) {
      const auto end = [&](const ConstTensorView& ends, std::int64_t i) { return whole(ends, i * ends.stride('N')); };
      b_ = o_.cu_seqlens ? 0 : n_;
      first_query_ = o_.cu_seqlens ? end(o_.cu_seqlens, n_) : 0;
      first_key_ = o_.cu_seqlens ? end(k_ends_, n_) : 0;
      num_queries_ = o_.cu_seqlens ? end(o_.cu_seqlens, n_ + 1) - first_query_ : q_.size('S');
      num_keys_ = o_.cu_seqlens ? end(k_ends_, n_ + 1) - first_key_ : k_.size('S');
      for (std::int64_t h = 0; h < q_.size('H'); ++h) attend_head(h);
    }
  }

 private:
  bool hidden_by_causality(std::int64_t i, std::int64_t j) const {
    if (o_.prefix_lengths && j < whole(o_.prefix_lengths, n_ * o_.prefix_lengths.strides()[0])) return false;
    switch (o_.causal) {
      case Causal::none: return false;
      case Causal::top_left: return j > i;
      case Causal::bottom_right: return num_keys_ - j < num_queries_ - i;  // fewer keys after it than queries after
    }
    return false;
  }

  bool hidden_by_window(std::int64_t i, std::int64_t j) const {
    const std::int64_t diagonal = o_.causal == Causal::bottom_right ? i + num_keys_ - num_queries_ : i;
    return (o_.window_left >= 0 && diagonal - j > o_.window_left) ||
           (o_.window_right >= 0 && j - diagonal > o_.window_right);
  }

  bool hidden_by_chunk(std::int64_t i, std::int64_t j) const {
    if (o_.chunk_size == 0) return false;
    const auto chunk = [&](double position) { return std::floor(position / static_cast<double>(o_.chunk_size)); };
    return chunk(q_position(i)) != chunk(k_position(j));
  }

  bool hidden_by_document(std::int64_t i, std::int64_t j) const {
    const ConstTensorView &of_q = o_.q_document_ids, &of_k = o_.k_document_ids;
    if (!of_q) return false;
    return whole(of_q, Index{.b = b_, .token = first_query_ + i}.of(of_q)) !=
           whole(of_k, Index{.b = b_, .token = first_key_ + j}.of(of_k));
  }

  bool is_padding(std::int64_t j) const {
    const ConstTensorView& mask = o_.key_padding_mask;
    return mask && !static_cast<const bool*>(mask.data())[Index{.b = b_, .token = first_key_ + j}.of(mask)];
  }

  bool hidden(std::int64_t i, std::int64_t j) const {
    return hidden_by_causality(i, j) || hidden_by_window(i, j) || hidden_by_chunk(i, j) || hidden_by_document(i, j) ||
           is_padding(j);
  }

  double mask_at(std::int64_t h, std::int64_t i, std::int64_t j) const {
    const ConstTensorView& mask = o_.attn_mask;
    if (!mask) return 0;
    const std::int64_t element = Index{.b = b_, .h = h, .q = first_query_ + i, .k = first_key_ + j}.of(mask);
    if (mask.dtype() == DType::boolean) return static_cast<const bool*>(mask.data())[element] ? 0 : -infinity;
    return load_element(mask.dtype(), mask.data(), element);
  }

  double q_position(std::int64_t i) const {
    return q_positions_[static_cast<std::size_t>(b_)][static_cast<std::size_t>(first_query_ + i)];
  }
  double k_position(std::int64_t j) const {
    return k_positions_[static_cast<std::size_t>(b_)][static_cast<std::size_t>(first_key_ + j)];
  }

  static double dot(const Row& a, const Row& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  }

  double bias_at(std::int64_t h, std::int64_t i, std::int64_t j) const {
    double sum = 0;
    if (o_.bias != nullptr) sum += o_.bias->at(h, q_position(i), k_position(j));
    if (o_.bias_function) sum += o_.bias_function.function(o_.bias_function.context, h, q_position(i), k_position(j));
    return sum;
  }

  double temperature(std::int64_t i) const {
    const ConstTensorView& t = o_.temperatures;
    return t ? load_element(t.dtype(), t.data(), Index{.b = b_, .token = first_query_ + i}.of(t)) : 1;
  }

  double score(std::int64_t h, std::int64_t i, std::int64_t j, const Row& query, const Row& key) const {
    const double mask = mask_at(h, i, j);
    if (mask == -infinity || hidden(i, j)) return -infinity;
    const double scale = o_.scale != 0 ? o_.scale : 1 / std::sqrt(static_cast<double>(q_.size('D')));
    const double product = scale * temperature(i) * dot(query, key), bias = bias_at(h, i, j);
    if (bias == -infinity) return -infinity;
    return (o_.softcap != 0 ? o_.softcap * std::tanh(product / o_.softcap) : product) + bias + mask;
  }

  /// Softmax of the scores and the sink, which has no value, times the values. Nothing in the sum: zeros, lse -infinity.
  static void weighted_mean(const Row& scores, double sink, const std::vector<Row>& values, Row& mean, double& lse) {
    double max = sink;
    for (const double score : scores) max = std::max(max, score);
    double sum = sink == -infinity ? 0 : std::exp(sink - max);
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

  void attend_head(std::int64_t h) {
    const std::int64_t kv_head = h / (q_.size('H') / k_.size('H'));
    std::vector<Row> keys, values;
    for (std::int64_t j = 0; j < num_keys_; ++j) {
      keys.push_back(read_row(k_, b_, first_key_ + j, kv_head));
      values.push_back(read_row(v_, b_, first_key_ + j, kv_head));
    }
    const double sink = o_.sinks ? load_element(o_.sinks.dtype(), o_.sinks.data(), Index{.h = h}.of(o_.sinks)) : -infinity;
    for (std::int64_t i = 0; i < num_queries_; ++i) {
      const Row query = read_row(q_, b_, first_query_ + i, h);
      Row scores;
      for (std::int64_t j = 0; j < num_keys_; ++j)
        scores.push_back(score(h, i, j, query, keys[static_cast<std::size_t>(j)]));
      Row mean(static_cast<std::size_t>(v_.size('D')));
      double lse = 0;
      weighted_mean(scores, sink, values, mean, lse);
      write(h, i, mean, lse);
    }
  }

  void write(std::int64_t h, std::int64_t i, const Row& mean, double lse) const {
    const auto element = [&](const TensorView& to) {
      return b_ * to.stride('B') + (first_query_ + i) * to.stride(token_axis(to)) + h * to.stride('H');
    };
    for (std::int64_t d = 0; d < out_.size('D'); ++d) {
      store_element(out_.dtype(), out_.data(), element(out_) + d * out_.stride('D'), mean[static_cast<std::size_t>(d)]);
    }
    if (o_.lse) store_element(o_.lse.dtype(), o_.lse.data(), element(o_.lse), lse);
  }

  const ConstTensorView &q_, &k_, &v_;
  const TensorView& out_;
  const AttentionOptions& o_;
  const ConstTensorView& k_ends_;
  std::vector<Row> q_positions_, k_positions_;  // per batch row and token, where something counts them
  std::int64_t n_ = 0, b_ = 0, first_query_ = 0, num_queries_ = 0, first_key_ = 0, num_keys_ = 0;  // the sequence
};

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

}  // namespace

void attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v, const TensorView& out,
               const AttentionOptions& options) {
  if (options.rotation == nullptr) return Attention(q, k, v, out, options).run();
  const ConstTensorView& k_ends = options.k_cu_seqlens ? options.k_cu_seqlens : options.cu_seqlens;
  const Turned turned_q(q, *options.rotation, within_sequences(options.q_positions, options.cu_seqlens));
  const Turned turned_k(k, *options.rotation, within_sequences(options.k_positions, k_ends));
  Attention(turned_q.view(), turned_k.view(), v, out, options).run();
}

}  // namespace rotary::reference
