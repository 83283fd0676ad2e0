#include "rotary/verify.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "attention/causal.h"
#include "base/element.h"
#include "base/fail.h"
#include "models/layer_attention.h"
#include "rotary/rotate.hpp"
#include "rotation/positions.h"
#include "tools/rounding_bound.h"

namespace rotary {
namespace {

constexpr const char* operation = "verify";

/// Numbers of one head, a row per token.
struct Matrix {
  Matrix(std::int64_t rows_, std::int64_t columns_)
      : rows(rows_), columns(columns_), values(static_cast<std::size_t>(rows_ * columns_)) {}

  double* row(std::int64_t i) { return values.data() + i * columns; }
  const double* row(std::int64_t i) const { return values.data() + i * columns; }
  TensorView view() { return {values.data(), "SD", {rows, columns}}; }
  ConstTensorView view() const { return {values.data(), "SD", {rows, columns}}; }

  std::int64_t rows, columns;
  std::vector<double> values;
};

/// One head of one batch row: elements by token and channel.
class Head {
 public:
  Head(const ConstTensorView& x, std::int64_t batch, std::int64_t head)
      : data_(x.data()),
        dtype_(x.dtype()),
        first_(batch * x.stride('B') + head * x.stride('H')),
        token_stride_(x.stride('S')),
        channel_stride_(x.stride('D')) {}

  double at(std::int64_t token, std::int64_t channel) const {
    return load_element(dtype_, data_, first_ + token * token_stride_ + channel * channel_stride_);
  }

 private:
  const void* data_;
  DType dtype_;
  std::int64_t first_, token_stride_, channel_stride_;
};

Matrix copy(const ConstTensorView& x, std::int64_t batch, std::int64_t head) {
  Matrix matrix(x.size('S'), x.size('D'));
  const Head source(x, batch, head);
  for (std::int64_t s = 0; s < matrix.rows; ++s) {
    for (std::int64_t c = 0; c < matrix.columns; ++c) matrix.row(s)[c] = source.at(s, c);
  }
  return matrix;
}

void check_axes(const char* name, const ConstTensorView& x) {
  if (!x) return;
  if (!is_real_float(x.dtype())) fail_argument(operation, name, " must hold floats, got ", rotary::name(x.dtype()));
  const int others = (x.has('B') ? 1 : 0) + (x.has('H') ? 1 : 0);
  if (!x.has('S') || !x.has('D') || x.rank() != 2 + others) {
    fail_argument(operation, name, " must have the axes S and D, and B and H where there are several, got \"",
                  x.axes().c_str(), "\"");
  }
}

void require_equal(const char* what, std::int64_t got, std::int64_t expected, const char* rule) {
  if (got != expected) fail_argument(operation, what, " must be ", rule, ", got ", got, " and ", expected);
}

/// The same tensor after an operation: as many batch rows, tokens and heads.
void require_match(const char* name, const ConstTensorView& x, const ConstTensorView& origin, const char* origin_name) {
  for (const char axis : {'B', 'S', 'H'}) {
    if (x.size(axis) != origin.size(axis)) {
      fail_argument(operation, name, " must be as long along ", axis, " as ", origin_name, ", got ", x.size(axis), " and ",
                    origin.size(axis));
    }
  }
}

void check_sinks(const Capture& capture) {
  if (capture.sinks.rank() != 1 || !capture.sinks.has('H')) {
    fail_argument(operation, "sinks must have the axis H alone, got \"", capture.sinks.axes().c_str(), "\"");
  }
  require_equal("H of sinks", capture.sinks.size('H'), capture.q.size('H'), "H of q");
}

void check(const Capture& capture, const Rotation& rotation) {
  const std::pair<const char*, const ConstTensorView*> all[] = {{"q", &capture.q},         {"k", &capture.k},
                                                                {"v", &capture.v},         {"q_rot", &capture.q_rot},
                                                                {"k_rot", &capture.k_rot}, {"attn_out", &capture.attn_out}};
  for (const auto& [name, x] : all) check_axes(name, *x);
  if (!capture.q_rot && !capture.k_rot && !capture.attn_out) {
    fail_argument(operation, "one of q_rot, k_rot and attn_out must be given: there is nothing to compare with");
  }
  if ((capture.q_rot || capture.attn_out) && !capture.q)
    fail_argument(operation, "q must be given to check q_rot or attn_out");
  if ((capture.k_rot || capture.attn_out) && !capture.k)
    fail_argument(operation, "k must be given to check k_rot or attn_out");
  if (capture.attn_out && !capture.v) fail_argument(operation, "v must be given to check attn_out");

  if (capture.q) require_equal("D of q", capture.q.size('D'), rotation.head_dim(), "head_dim");
  if (capture.k) require_equal("D of k", capture.k.size('D'), rotation.head_dim(), "head_dim");
  if (capture.q_rot) {
    require_match("q_rot", capture.q_rot, capture.q, "q");
    require_equal("D of q_rot", capture.q_rot.size('D'), rotation.head_dim(), "head_dim");
  }
  if (capture.k_rot) {
    require_match("k_rot", capture.k_rot, capture.k, "k");
    require_equal("D of k_rot", capture.k_rot.size('D'), rotation.head_dim(), "head_dim");
  }
  for (const auto& [name, x] : {all[3], all[4], all[5]}) {
    if (*x && x->num_elements() == 0) fail_argument(operation, name, " must have elements to compare, got none");
  }
  if (capture.q && capture.k) {
    require_equal("S of k", capture.k.size('S'), capture.q.size('S'), "S of q");
    require_equal("B of k", capture.k.size('B'), capture.q.size('B'), "B of q");
  }
  if (capture.attn_out) {
    require_match("v", capture.v, capture.k, "k");
    require_match("attn_out", capture.attn_out, capture.q, "q");
    require_equal("D of attn_out", capture.attn_out.size('D'), capture.v.size('D'), "D of v");
    if (capture.sinks) check_sinks(capture);
    if (capture.k.size('H') == 0 || capture.q.size('H') % capture.k.size('H') != 0) {
      fail_argument(operation, "query heads must be a multiple of key heads, got ", capture.q.size('H'), " and ",
                    capture.k.size('H'));
    }
  }
}

/// Collects the differences of one tensor.
class Comparison {
 public:
  explicit Comparison(const char* name) { check_.name = name; }

  void add(double expected, double found, double bound, std::int64_t batch, std::int64_t head, std::int64_t token,
           double position, std::int64_t channel) {
    const double difference = std::abs(expected - found);
    const double size = std::isfinite(difference) ? difference : std::numeric_limits<double>::infinity();
    ++check_.num_elements;
    if (!(size <= bound)) ++check_.num_outside;
    if (std::isfinite(size)) sum_of_squares_ += size * size;
    check_.max_ratio = std::max(check_.max_ratio, size == 0 ? 0 : size / bound);
    if (check_.num_elements > 1 && !(size > check_.max_abs_diff)) return;
    check_.max_abs_diff = size;
    check_.bound = bound;
    check_.expected = expected;
    check_.found = found;
    check_.batch = batch;
    check_.head = head;
    check_.token = token;
    check_.position = position;
    check_.channel = channel;
  }

  TensorCheck result() const {
    TensorCheck check = check_;
    if (check.num_elements > 0) check.typical_diff = std::sqrt(sum_of_squares_ / static_cast<double>(check.num_elements));
    return check;
  }

 private:
  TensorCheck check_;
  double sum_of_squares_ = 0;
};

class Verification {
 public:
  Verification(const Capture& capture, const Rotation& rotation, double scale, const LayerAttention* layer,
               const VerifyOptions& options)
      : capture_(capture),
        rotation_(rotation),
        scale_(scale),
        layer_(layer),
        options_(options),
        any_(capture.q ? capture.q : capture.k),
        positions_(operation, capture.positions, tokens_of(operation, any_), rotation.num_axes()) {}

  VerifyReport run() {
    for (std::int64_t b = 0; b < any_.size('B'); ++b) verify_batch_row(b);
    VerifyReport report;
    if (capture_.q_rot) report.tensors.push_back(q_rot_.result());
    if (capture_.k_rot) report.tensors.push_back(k_rot_.result());
    if (capture_.attn_out) report.tensors.push_back(attn_out_.result());
    return report;
  }

 private:
  void verify_batch_row(std::int64_t b) {
    read_positions(b);
    const std::int64_t num_q_heads = capture_.q ? capture_.q.size('H') : 0;
    const std::int64_t num_k_heads = capture_.k ? capture_.k.size('H') : 0;
    const std::int64_t group = capture_.attn_out ? capture_.q.size('H') / capture_.k.size('H') : 0;
    for (std::int64_t h = 0; h < num_k_heads; ++h) {
      const Matrix k = rotated(capture_.k, b, h);
      const auto k_norms = compare_rotated(capture_.k, capture_.k_rot, k, b, h, k_rot_);
      for (std::int64_t member = 0; member < group; ++member) {
        const std::int64_t q_head = h * group + member;
        verify_query_head(b, q_head, k, k_norms, h);
        report_progress(b, q_head, num_q_heads);
      }
    }
    if (capture_.attn_out) return;
    for (std::int64_t h = 0; h < num_q_heads; ++h) {
      compare_rotated(capture_.q, capture_.q_rot, rotated(capture_.q, b, h), b, h, q_rot_);
      report_progress(b, h, num_q_heads);
    }
  }

  void report_progress(std::int64_t b, std::int64_t head, std::int64_t num_heads) const {
    const Progress& progress = options_.progress;
    if (progress) progress.function(progress.context, b * num_heads + head + 1, any_.size('B') * num_heads);
  }

  void read_positions(std::int64_t b) {
    const std::int64_t num_axes = rotation_.num_axes();
    num_tokens_ = any_.size('S');
    position_rows_.assign(static_cast<std::size_t>(num_tokens_ * num_axes), 0);
    for (std::int64_t s = 0; s < num_tokens_; ++s) positions_.read(b, s, position(s));
  }
  double* position(std::int64_t token) { return position_rows_.data() + token * rotation_.num_axes(); }

  /// In double, from the capture's own numbers.
  Matrix rotated(const ConstTensorView& x, std::int64_t b, std::int64_t h) {
    Matrix head = copy(x, b, h);
    rotate(head.view(), rotation_, position_ids(), {.precision = options_.precision, .executor = options_.executor});
    return head;
  }

  /// Of the batch row that was read last.
  Positions position_ids() const {
    const std::int64_t num_axes = rotation_.num_axes();
    const ConstTensorView ids(position_rows_.data(), DType::f64, "AS", {num_axes, num_tokens_}, {1, num_axes});
    return {.position_ids = num_axes == 1 ? ids.select('A', 0) : ids};
  }

  /// Compares where the capture has the rotated tensor; the norms are needed in any case.
  std::vector<HeadNorms> compare_rotated(const ConstTensorView& x, const ConstTensorView& captured, const Matrix& turned,
                                         std::int64_t b, std::int64_t h, Comparison& comparison) {
    std::vector<HeadNorms> norms;
    const double unit = rounding_unit(captured ? captured.dtype() : x.dtype());
    std::vector<double> bounds(static_cast<std::size_t>(turned.columns));
    for (std::int64_t s = 0; s < turned.rows; ++s) {
      norms.push_back(bound_channels(turned.row(s), position(s), unit, bounds));
      if (!captured) continue;
      const Head found(captured, b, h);
      for (std::int64_t c = 0; c < turned.columns; ++c) {
        comparison.add(turned.row(s)[c], found.at(s, c), bounds[static_cast<std::size_t>(c)], b, h, s, *position(s), c);
      }
    }
    return norms;
  }

  /// Channels outside the slice are copied, and must be equal bit for bit.
  HeadNorms bound_channels(const double* head, const double* position, double unit, std::vector<double>& bounds) const {
    std::fill(bounds.begin(), bounds.end(), 0.0);
    const std::vector<double> per_pair = pair_rounding(rotation_, position, unit);
    double error = 0, length = 0;
    for (std::size_t j = 0; j < per_pair.size(); ++j) {
      const Pair pair = rotation_.pairs_out()[j];
      const double pair_length = std::hypot(head[pair.first], head[pair.second]) / rotation_.amplitude();
      const double bound = pair_length * per_pair[j];
      bounds[static_cast<std::size_t>(pair.first)] = bounds[static_cast<std::size_t>(pair.second)] = bound;
      error += 2 * bound * bound;
    }
    for (std::int64_t c = 0; c < rotation_.head_dim(); ++c) length += head[c] * head[c];
    return {std::sqrt(length), std::sqrt(error)};
  }

  void verify_query_head(std::int64_t b, std::int64_t h, const Matrix& k, const std::vector<HeadNorms>& k_norms,
                         std::int64_t kv_head) {
    const Matrix q = rotated(capture_.q, b, h);
    const auto q_norms = compare_rotated(capture_.q, capture_.q_rot, q, b, h, q_rot_);

    const Matrix values = values_and_sums(b, kv_head, k_norms);
    Matrix out(q.rows, values.columns);
    AttentionOptions how{.causal = options_.causal, .scale = scale_, .executor = options_.executor};
    if (layer_ != nullptr) layer_->add_to(how);
    if (how.temperatures) how.temperatures = how.temperatures.select('B', b);
    if (how.chunk_size != 0) how.q_positions = how.k_positions = position_ids();
    if (capture_.sinks) how.sinks = capture_.sinks.slice('H', h, h + 1);
    attention(q.view(), k.view(), values.view(), out.view(), how);
    compare_output(b, h, q_norms, out);
  }

  /// What the attention sums up: the values themselves, and what the bound needs (WeightedSums), side by side.
  Matrix values_and_sums(std::int64_t b, std::int64_t kv_head, const std::vector<HeadNorms>& k_norms) const {
    const std::int64_t width = capture_.v.size('D');
    Matrix values(capture_.v.size('S'), 4 * width + 2);
    const Head v(capture_.v, b, kv_head);
    for (std::int64_t s = 0; s < values.rows; ++s) {
      const HeadNorms& k = k_norms[static_cast<std::size_t>(s)];
      double* row = values.row(s);
      for (std::int64_t c = 0; c < width; ++c) {
        row[c] = v.at(s, c);
        row[width + c] = std::abs(row[c]);
        row[2 * width + c] = row[width + c] * k.length;
        row[3 * width + c] = row[width + c] * k.error;
      }
      row[4 * width] = k.length;
      row[4 * width + 1] = k.error;
    }
    return values;
  }

  void compare_output(std::int64_t b, std::int64_t h, const std::vector<HeadNorms>& q_norms, const Matrix& out) {
    const double unit = rounding_unit(capture_.attn_out.dtype());
    const std::int64_t width = capture_.v.size('D');
    const Head found(capture_.attn_out, b, h);
    for (std::int64_t i = 0; i < out.rows; ++i) {
      const double* row = out.row(i);
      const std::int64_t num_keys = num_visible_keys(options_.causal, i, out.rows, capture_.k.size('S'));  // or fewer
      const double factor = layer_ != nullptr ? layer_->temperature(b, i) : 1;
      const HeadNorms& as_turned = q_norms[static_cast<std::size_t>(i)];
      const HeadNorms query = factor == 1 ? as_turned : with_factor(as_turned, unit);
      const ScoreShape scores{factor * scale_, rotation_.head_dim(), layer_ != nullptr && layer_->caps(),
                              num_keys + (capture_.sinks ? 1 : 0)};
      for (std::int64_t c = 0; c < width; ++c) {
        const WeightedSums sums{row[width + c], row[2 * width + c], row[3 * width + c], row[4 * width], row[4 * width + 1]};
        const double bound = output_rounding(query, sums, row[c], scores, unit);
        attn_out_.add(row[c], found.at(i, c), bound, b, h, i, *position(i), c);
      }
    }
  }

  const Capture& capture_;
  const Rotation& rotation_;
  double scale_;
  const LayerAttention* layer_;  // nullptr: rotation, scale and causality are all
  const VerifyOptions& options_;
  const ConstTensorView& any_;
  TokenPositions positions_;
  std::int64_t num_tokens_ = 0;
  std::vector<double> position_rows_;
  Comparison q_rot_{"q_rot"}, k_rot_{"k_rot"}, attn_out_{"attn_out"};
};

VerifyReport verify_with(const Capture& capture, const Rotation& rotation, double scale, const LayerAttention* layer,
                         const VerifyOptions& options) {
  const Rotation chosen = options.pairing == Pairing::unspecified ? rotation : with_pairing(rotation, options.pairing);
  check(capture, chosen);
  if (!(std::isfinite(scale) && scale != 0)) fail_argument(operation, "scale must be finite and not 0, got ", scale);
  return Verification(capture, chosen, scale, layer, options).run();
}

}  // namespace

bool VerifyReport::ok() const noexcept {
  return !tensors.empty() &&
         std::all_of(tensors.begin(), tensors.end(), [](const TensorCheck& check) { return check.ok(); });
}

VerifyReport verify(const Capture& capture, const Rotation& rotation, double scale, const VerifyOptions& options) {
  return verify_with(capture, rotation, scale, nullptr, options);
}

VerifyReport verify(const Capture& capture, const LayerRotation& layer, const VerifyOptions& options) {
  if (!capture.q && !capture.k) fail_argument(operation, "q or k must be given: there is nothing to rotate");
  if (capture.q) require_equal("H of q", capture.q.size('H'), layer.num_q_heads(), "num_q_heads of the model");
  if (capture.k) require_equal("H of k", capture.k.size('H'), layer.num_kv_heads(), "num_kv_heads of the model");
  const ConstTensorView& any = capture.q ? capture.q : capture.k;
  const bool has_output = capture.attn_out && capture.k;
  const std::int64_t length = has_output || layer.depends_on_length() ? position_range(any, capture.positions).length() : 0;
  if (!has_output) return verify_with(capture, layer.rotation(length), 1, nullptr, options);  // no score is looked at
  if (layer.has_sinks() && !capture.sinks) {
    fail_argument(operation, "sinks must be given to check attn_out: the layer has one per query head");
  }
  const LayerAttention attention(operation, layer, any, capture.positions);
  return verify_with(capture, layer.rotation(length), layer.softmax_scale(), &attention, options);
}

}  // namespace rotary
