#include "reference/linear_attention.h"

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

double dot(const Row& x, const Row& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

char token_axis(const ConstTensorView& x) { return x.has('T') ? 'T' : 'S'; }

/// Features of one token and head; those of favor_plus are exp(log_scale) times as large.
struct FeatureRow {
  Row numerator, denominator;
  double log_scale = 0;
};

Row projected(const FeatureMap& map, const Row& x) {
  const ConstTensorView& w = map.projection;
  Row products;
  for (std::int64_t f = 0; f < w.size('N'); ++f) {
    double sum = 0;
    for (std::int64_t d = 0; d < w.size('D'); ++d) {
      sum += load_element(w.dtype(), w.data(), f * w.stride('N') + d * w.stride('D')) * x[static_cast<std::size_t>(d)];
    }
    products.push_back(sum);
  }
  return products;
}

Row mapped(const FeatureMap& map, Row x, double& log_scale) {
  const double length = std::sqrt(dot(x, x));
  const double scale = map.scale != 0 ? map.scale : 1 / std::sqrt(static_cast<double>(x.size()));
  Row features;
  switch (map.features) {
    case Features::identity: return x;
    case Features::relu:
      for (const double t : x) features.push_back(std::max(t, 0.0));
      return features;
    case Features::elu_plus_1:
      for (const double t : x) features.push_back(t > 0 ? 1 + t : std::exp(t));
      return features;
    case Features::one_plus_cos:
      features.push_back(1);
      for (const double t : x) features.push_back(length == 0 ? 0 : t / length);
      return features;
    case Features::taylor2:  // every product once per order: more features than needed, the same inner products
      features.push_back(1);
      for (const double t : x) features.push_back(t * std::sqrt(scale));
      for (const double t : x) {
        for (const double u : x) features.push_back(t * u * scale / std::sqrt(2.0));
      }
      return features;
    default: break;
  }
  for (double& t : x) t *= std::sqrt(scale);
  features = projected(map, x);
  if (map.features == Features::favor_relu) {
    for (double& f : features) f = std::max(f, 0.0) + map.epsilon;
    return features;
  }
  const double largest = *std::max_element(features.begin(), features.end());
  log_scale = largest - dot(x, x) / 2;
  for (double& f : features) f = std::exp(f - largest) / std::sqrt(static_cast<double>(features.size()));
  return features;
}

/// The lengths of the pairs that turn, and the sizes of the features that do not.
Row pair_lengths(const Rotation* rotation, Rotate rotate, const Row& features) {
  Row lengths, still = features;
  if (rotation != nullptr && rotate == Rotate::after_map) {
    for (const Pair& pair : rotation->pairs_in()) {
      const auto first = static_cast<std::size_t>(pair.first), second = static_cast<std::size_t>(pair.second);
      lengths.push_back(rotation->amplitude() * std::hypot(features[first], features[second]));
      still[first] = still[second] = 0;
    }
  }
  for (const double f : still) {
    lengths.push_back(std::abs(f) * (rotation != nullptr && rotate == Rotate::lifted ? rotation->amplitude() : 1));
  }
  return lengths;
}

/// The features of all rows of q or of k.
class AllFeatures {
 public:
  AllFeatures(const ConstTensorView& x, const LinearAttentionOptions& options, const Positions& positions)
      : x_(x), options_(options), heads_(x.size('H')), length_(x.size(token_axis(x))) {
    std::vector<Row> rows = read();
    const Rotation* const rotation = options.rotation;
    if (rotation != nullptr && options.rotate == Rotate::before_map) rows = turned(rows, *rotation, positions);
    std::vector<Row> features;
    for (const Row& row : rows) {
      rows_.push_back({});
      features.push_back(mapped(options.feature_map, row, rows_.back().log_scale));
    }
    std::vector<Row> turned_features = features;
    if (rotation != nullptr && options.rotate == Rotate::lifted)
      turned_features = turned(lifted(features), *rotation, positions);
    if (rotation != nullptr && options.rotate == Rotate::after_map)
      turned_features = turned(features, *rotation, positions);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      rows_[i].numerator = turned_features[i];
      switch (options.normalizer) {
        case Normalizer::none: break;
        case Normalizer::features: rows_[i].denominator = features[i]; break;
        case Normalizer::rotated: rows_[i].denominator = turned_features[i]; break;
        case Normalizer::pair_norms: rows_[i].denominator = pair_lengths(rotation, options.rotate, features[i]); break;
      }
    }
  }

  const FeatureRow& at(std::int64_t row, std::int64_t token, std::int64_t head) const {
    return rows_[static_cast<std::size_t>((row * length_ + token) * heads_ + head)];
  }

 private:
  std::vector<Row> read() const {
    std::vector<Row> rows;
    for (std::int64_t b = 0; b < x_.size('B'); ++b) {
      for (std::int64_t s = 0; s < length_; ++s) {
        for (std::int64_t h = 0; h < heads_; ++h) {
          Row row;
          for (std::int64_t d = 0; d < x_.size('D'); ++d) {
            row.push_back(
                load_element(x_.dtype(), x_.data(),
                             b * x_.stride('B') + s * x_.stride(token_axis(x_)) + h * x_.stride('H') + d * x_.stride('D')));
          }
          rows.push_back(row);
        }
      }
    }
    return rows;
  }

  std::vector<Row> lifted(const std::vector<Row>& features) const {
    std::vector<Row> all;
    for (const Row& row : features) {
      Row wide(2 * row.size());
      for (std::size_t f = 0; f < row.size(); ++f)
        wide[static_cast<std::size_t>(options_.rotation->pairs_in()[f].first)] = row[f];
      all.push_back(wide);
    }
    return all;
  }

  std::vector<Row> turned(const std::vector<Row>& rows, const Rotation& rotation, const Positions& positions) const {
    if (rows.empty()) return rows;
    const auto width = static_cast<std::int64_t>(rows[0].size());
    Row numbers;
    for (const Row& row : rows) numbers.insert(numbers.end(), row.begin(), row.end());
    Positions where = positions;
    if (options_.cu_seqlens && !where.position_ids && !where.cu_seqlens) where.cu_seqlens = options_.cu_seqlens;
    const TokenPositions resolved("linear_attention", where, tokens_of("linear_attention", x_), rotation.num_axes());
    const TensorView view = x_.has('T') ? TensorView(numbers.data(), "THD", {length_, heads_, width})
                                        : TensorView(numbers.data(), "BSHD", {x_.size('B'), length_, heads_, width});
    rotate(view, view, rotation, [&](std::int64_t b, std::int64_t s, int axis) {
      double position[max_position_axes];
      resolved.read(b, s, position);
      return position[axis];
    });
    std::vector<Row> all;
    for (auto begin = numbers.begin(); begin != numbers.end(); begin += width) all.emplace_back(begin, begin + width);
    return all;
  }

  const ConstTensorView& x_;
  const LinearAttentionOptions& options_;
  std::int64_t heads_, length_;
  std::vector<FeatureRow> rows_;
};

bool is_token(const ConstTensorView& mask, std::int64_t row, std::int64_t key) {
  if (!mask) return true;
  const std::int64_t at = (mask.size('B') > 1 ? row * mask.stride('B') : 0) + key * mask.stride(token_axis(mask));
  return static_cast<const bool*>(mask.data())[at];
}

/// Of packed token `token`; the batch row's only one otherwise.
std::int64_t sequence_of(const ConstTensorView& cu_seqlens, std::int64_t token) {
  if (!cu_seqlens) return 0;
  std::int64_t sequence = 0;
  for (std::int64_t i = 1; i < cu_seqlens.size('N'); ++i) {
    const std::int64_t at = i * cu_seqlens.stride('N');
    const std::int64_t end = cu_seqlens.dtype() == DType::i64 ? static_cast<const std::int64_t*>(cu_seqlens.data())[at]
                                                              : static_cast<const std::int32_t*>(cu_seqlens.data())[at];
    sequence += end <= token;
  }
  return sequence;
}

}  // namespace

void linear_attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v, const TensorView& out,
                      const LinearAttentionOptions& options) {
  const AllFeatures queries(q, options, options.q_positions), keys(k, options, options.k_positions);
  const std::int64_t num_keys = k.size(token_axis(k));
  for (std::int64_t b = 0; b < q.size('B'); ++b) {
    for (std::int64_t h = 0; h < q.size('H'); ++h) {
      const std::int64_t kv_head = h / (q.size('H') / k.size('H'));
      const double decay =
          options.decay ? load_element(options.decay.dtype(), options.decay.data(), kv_head * options.decay.stride('H'))
                        : 1;
      for (std::int64_t i = 0; i < q.size(token_axis(q)); ++i) {
        const FeatureRow& query = queries.at(b, i, h);
        std::vector<std::int64_t> seen;
        double log_scale = -infinity;
        for (std::int64_t j = 0; j < num_keys; ++j) {
          if (options.is_causal && j > i) continue;
          if (options.cu_seqlens && sequence_of(options.cu_seqlens, i) != sequence_of(options.cu_seqlens, j)) continue;
          if (!is_token(options.key_padding_mask, b, j)) continue;
          seen.push_back(j);
          log_scale = std::max(log_scale, keys.at(b, j, kv_head).log_scale);
        }
        Row sum(static_cast<std::size_t>(v.size('D')));
        double divisor = 0;
        for (std::size_t n = 0; n < seen.size(); ++n) {
          const FeatureRow& key = keys.at(b, seen[n], kv_head);
          const double factor =
              std::exp(key.log_scale - log_scale) * std::pow(decay, static_cast<double>(seen.size() - 1 - n));
          const double weight = factor * dot(query.numerator, key.numerator);
          divisor += factor * dot(query.denominator, key.denominator);
          for (std::int64_t d = 0; d < v.size('D'); ++d) {
            sum[static_cast<std::size_t>(d)] +=
                weight * load_element(v.dtype(), v.data(),
                                      b * v.stride('B') + seen[n] * v.stride(token_axis(v)) + kv_head * v.stride('H') +
                                          d * v.stride('D'));
          }
        }
        if (options.normalizer == Normalizer::none) divisor = 1;
        for (std::int64_t d = 0; d < out.size('D'); ++d) {
          store_element(out.dtype(), out.data(),
                        b * out.stride('B') + i * out.stride(token_axis(out)) + h * out.stride('H') + d * out.stride('D'),
                        divisor == 0 ? 0 : sum[static_cast<std::size_t>(d)] / divisor);
        }
      }
    }
  }
}

}  // namespace rotary::reference
