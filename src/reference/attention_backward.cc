#include "reference/attention_backward.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/element.h"
#include "reference/attention.h"
#include "reference/rotate.h"
#include "rotation/positions.h"

namespace rotary::reference {
namespace {

/// Numbers in double with the axes and lengths of another tensor, in its order.
class Doubles {
 public:
  Doubles(Axes axes, const Dims& shape) {
    std::int64_t size = 1;
    for (int i = 0; i < axes.rank(); ++i) size *= shape[i];
    numbers_.resize(static_cast<std::size_t>(size));
    view_ = TensorView(numbers_.data(), DType::f64, axes, shape);
  }
  explicit Doubles(const ConstTensorView& like) : Doubles(like.axes(), like.shape()) {}

  const TensorView& view() const { return view_; }

 private:
  std::vector<double> numbers_;
  TensorView view_;
};

char token_axis(const ConstTensorView& x) { return x.has('T') ? 'T' : 'S'; }

/// Token t of head h of batch row b, and a channel of it.
struct Element {
  std::int64_t b, t, h;
  std::int64_t of(const ConstTensorView& x, std::int64_t d = 0) const {
    return b * x.stride('B') + t * x.stride(token_axis(x)) + h * x.stride('H') + d * x.stride('D');
  }
  double read(const ConstTensorView& x, std::int64_t d = 0) const { return load_element(x.dtype(), x.data(), of(x, d)); }
  void add(const TensorView& x, std::int64_t d, double value) const { static_cast<double*>(x.data())[of(x, d)] += value; }
};

void copy(const ConstTensorView& from, const TensorView& to) {
  for (std::int64_t b = 0; b < from.size('B'); ++b) {
    for (std::int64_t t = 0; t < from.size(token_axis(from)); ++t) {
      for (std::int64_t h = 0; h < from.size('H'); ++h) {
        const Element at{b, t, h};
        for (std::int64_t d = 0; d < from.size('D'); ++d)
          store_element(to.dtype(), to.data(), at.of(to, d), at.read(from, d));
      }
    }
  }
}

PositionOf positions_of(const ConstTensorView& x, const Positions& given, const ConstTensorView& cu_seqlens,
                        const Rotation& rotation) {
  Positions positions = given;
  if (cu_seqlens && !given.position_ids) positions.cu_seqlens = cu_seqlens;
  const TokenPositions resolved("attention", positions, tokens_of("attention", x), rotation.num_axes());
  return [resolved](std::int64_t b, std::int64_t s, int axis) {
    double position[max_position_axes];
    resolved.read(b, s, position);
    return position[axis];
  };
}

/// The weights of every query and head over all keys "BHSD", D counting keys: what attention() makes of values that are 1 in
/// the channel of their own key.
Doubles weights(const ConstTensorView& q, const ConstTensorView& k, const AttentionOptions& options) {
  const std::int64_t num_keys = k.size(token_axis(k));
  Doubles ones(k.has('T') ? "THD" : "BSHD",
               k.has('T') ? Dims{num_keys, k.size('H'), num_keys} : Dims{k.size('B'), num_keys, k.size('H'), num_keys});
  for (std::int64_t b = 0; b < k.size('B'); ++b) {
    for (std::int64_t j = 0; j < num_keys; ++j) {
      for (std::int64_t h = 0; h < k.size('H'); ++h) Element{b, j, h}.add(ones.view(), j, 1);
    }
  }
  Doubles all(q.has('T') ? "THD" : "BSHD", q.has('T') ? Dims{q.size('T'), q.size('H'), num_keys}
                                                      : Dims{q.size('B'), q.size('S'), q.size('H'), num_keys});
  AttentionOptions without_lse = options;
  without_lse.lse = {};
  reference::attention(q, k, ones.view(), all.view(), without_lse);
  return all;
}

/// For all heads: q and k turned already, gradients with respect to them.
struct Backward {
  const ConstTensorView &q, &k, &v, &dout, &dlse, &weights;
  const AttentionOptions& options;
  const TensorView &dq, &dk, &dv, &dsinks;

  void run() const {
    for (std::int64_t b = 0; b < q.size('B'); ++b) {
      for (std::int64_t i = 0; i < q.size(token_axis(q)); ++i) {
        for (std::int64_t h = 0; h < q.size('H'); ++h) add_row({b, i, h});
      }
    }
  }

  /// What the product of a query with a key is multiplied by.
  double scale_of(const Element& query) const {
    const double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(q.size('D')));
    const ConstTensorView& t = options.temperatures;
    if (!t) return scale;
    return scale * load_element(t.dtype(), t.data(),
                                (t.size('B') > 1 ? query.b * t.stride('B') : 0) + query.t * t.stride(token_axis(t)));
  }

  /// The derivative of softcap * tanh(score / softcap).
  double slope(const Element& query, const Element& key) const {
    if (options.softcap == 0) return 1;
    double product = 0;
    for (std::int64_t d = 0; d < q.size('D'); ++d) product += query.read(q, d) * key.read(k, d);
    const double t = std::tanh(scale_of(query) * product / options.softcap);
    return 1 - t * t;
  }

  void add_row(const Element& query) const {
    const std::int64_t num_keys = k.size(token_axis(k)), kv_head = query.h / (q.size('H') / k.size('H'));
    const auto key = [&](std::int64_t j) { return Element{query.b, j, kv_head}; };
    std::vector<double> dweights;
    double delta = dlse ? -query.read(dlse) : 0, weight_of_sink = 1;
    for (std::int64_t j = 0; j < num_keys; ++j) {
      const double weight = query.read(weights, j);
      double sum = 0;
      for (std::int64_t d = 0; weight != 0 && d < v.size('D'); ++d) sum += query.read(dout, d) * key(j).read(v, d);
      dweights.push_back(sum);
      delta += weight * sum;
      weight_of_sink -= weight;
    }
    if (options.sinks && Element{0, 0, query.h}.read(options.sinks) != -std::numeric_limits<double>::infinity()) {
      Element{0, 0, query.h}.add(dsinks, 0, -weight_of_sink * delta);
    }
    for (std::int64_t j = 0; j < num_keys; ++j) {
      const double weight = query.read(weights, j);
      if (weight == 0) continue;  // not seen
      const double dscore =
          scale_of(query) * slope(query, key(j)) * weight * (dweights[static_cast<std::size_t>(j)] - delta);
      for (std::int64_t d = 0; d < v.size('D'); ++d) key(j).add(dv, d, weight * query.read(dout, d));
      for (std::int64_t d = 0; d < q.size('D'); ++d) key(j).add(dk, d, dscore * query.read(q, d));
      for (std::int64_t d = 0; d < q.size('D'); ++d) query.add(dq, d, dscore * key(j).read(k, d));
    }
  }
};

}  // namespace

void attention_backward(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                        const ConstTensorView& dout, const AttentionGradients& gradients, const AttentionOptions& options,
                        const ConstTensorView& dlse) {
  const Doubles all = weights(q, k, options), turned_q(q), turned_k(k), dq(q), dk(k), dv(v), dsinks("H", {q.size('H')});
  copy(q, turned_q.view());
  copy(k, turned_k.view());
  PositionOf q_positions, k_positions;
  if (options.rotation != nullptr) {
    q_positions = positions_of(q, options.q_positions, options.cu_seqlens, *options.rotation);
    k_positions = positions_of(k, options.k_positions, options.k_cu_seqlens ? options.k_cu_seqlens : options.cu_seqlens,
                               *options.rotation);
    rotate(turned_q.view(), turned_q.view(), *options.rotation, q_positions);
    rotate(turned_k.view(), turned_k.view(), *options.rotation, k_positions);
  }
  Backward{turned_q.view(), turned_k.view(), v,         dout,      dlse,         all.view(),
           options,         dq.view(),       dk.view(), dv.view(), dsinks.view()}
      .run();
  if (options.rotation != nullptr) {
    rotate_backward(dq.view(), dq.view(), *options.rotation, q_positions);
    rotate_backward(dk.view(), dk.view(), *options.rotation, k_positions);
  }
  if (gradients.q) copy(dq.view(), gradients.q);
  if (gradients.k) copy(dk.view(), gradients.k);
  if (gradients.v) copy(dv.view(), gradients.v);
  if (gradients.sinks) copy(dsinks.view(), gradients.sinks);
}

}  // namespace rotary::reference
