#include "tools/claims/operations.h"

#include <utility>

#include "rotary/frequencies.hpp"
#include "rotary/rotate.hpp"
#include "rotary/sinusoidal.hpp"
#include "tools/claims/rows.h"

namespace rotary::claims {
Places places_from(double first, std::int64_t count) {
  Places places;
  for (std::int64_t i = 0; i < count; ++i) places.push_back(first + static_cast<double>(i));
  return places;
}

Positions positions_of(const Places& places) {
  return {.position_ids = {places.data(), "S", {static_cast<std::int64_t>(places.size())}}};
}

std::vector<double> Operations::inv_freq(double base, std::int64_t rotary_dim) const {
  return default_frequencies(base, rotary_dim).inv_freq;
}

void Operations::rotate_queries(const TensorView& q, const Rotation& rotation, const Places& places) const {
  const Places there = placed(places);
  rotary::rotate(q, rotation, positions_of(there));
}

void Operations::rotate_keys(const TensorView& k, const Rotation& rotation, const Places& places) const {
  const Places there = placed(places);
  rotary::rotate(k, rotation, positions_of(there));
}

void Operations::rotate_backward(const TensorView& gradient, const Rotation& rotation, const Places& places) const {
  const Places there = placed(places);
  rotary::rotate_backward(gradient, rotation, positions_of(there));
}

void Operations::shift(const TensorView& rotated, const Rotation& rotation, double distance) const {
  rotary::shift(rotated, rotation, distance);
}

void Operations::sinusoidal(const TensorView& out, const Rotation& rotation, const Places& places) const {
  const Places there = placed(places);
  rotary::sinusoidal(out, rotation, positions_of(there));
}

std::vector<double> Operations::scores(const ConstTensorView& q, const Places& q_places, const ConstTensorView& k,
                                       const Places& k_places, const Rotation& rotation) const {
  Rows turned_q = copy_of(q), turned_k = copy_of(k);
  rotate_queries(turned_q, rotation, q_places);
  rotate_keys(turned_k, rotation, k_places);
  std::vector<double> scores;
  for (std::int64_t i = 0; i < turned_q.count; ++i) {
    for (std::int64_t j = 0; j < turned_k.count; ++j) scores.push_back(dot(turned_q, i, turned_k, j));
  }
  return scores;
}

ScoreTerms Operations::score_terms(const ConstTensorView& x, const ConstTensorView& p, const ConstTensorView& w_q,
                                   const ConstTensorView& w_k) const {
  return rotary::score_terms(x, p, w_q, w_k);
}

void Operations::position_bias(const TensorView& out, const PositionBias& bias) const { rotary::position_bias(out, bias); }

void Operations::attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                           const TensorView& out, const Places& places, AttentionOptions options) const {
  const Places there = placed(places);
  if (options.rotation != nullptr) options.q_positions = options.k_positions = positions_of(there);
  rotary::attention(q, k, v, out, options);
}

LinearAttentionReport Operations::linear_attention(const ConstTensorView& q, const ConstTensorView& k,
                                                   const ConstTensorView& v, const TensorView& out, const Places& places,
                                                   LinearAttentionOptions options) const {
  const Places there = placed(places);
  if (options.rotation != nullptr) options.q_positions = options.k_positions = positions_of(there);
  return rotary::linear_attention(q, k, v, out, options);
}

LinearWeights Operations::linear_weights(const ConstTensorView& q, const ConstTensorView& k, const TensorView& weights,
                                         const Places& places, LinearAttentionOptions options) const {
  const Places there = placed(places);
  if (options.rotation != nullptr) options.q_positions = options.k_positions = positions_of(there);
  return rotary::linear_weights(q, k, weights, options);
}

Rotation Operations::cosformer_rotation(std::int64_t head_dim, double M) const {
  return rotary::cosformer_rotation(head_dim, M);
}

Rotation rope(const Operations& operations, std::int64_t width, double base, Pairing pairing) {
  return Rotation({.head_dim = width, .pairing_in = pairing, .inv_freq = operations.inv_freq(base, width)});
}

Rotation one_pair(double angle) { return Rotation({.head_dim = 2, .pairing_in = Pairing::half, .inv_freq = {angle}}); }

}  // namespace rotary::claims
