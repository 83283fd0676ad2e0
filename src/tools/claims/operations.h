// What the claims are made about: rotary's own functions. A fault overrides one or two of them.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/attention.hpp"
#include "rotary/linear_attention.hpp"
#include "rotary/position_bias.hpp"
#include "rotary/positions.hpp"
#include "rotary/rotation.hpp"
#include "rotary/score_terms.hpp"
#include "rotary/tensor.hpp"

namespace rotary::claims {

/// The position of every row.
using Places = std::vector<double>;

Places places_from(double first, std::int64_t count);
Positions positions_of(const Places& places);

/// Tensors have the axes S and D.
class Operations {
 public:
  Operations() = default;
  Operations(const Operations&) = delete;
  Operations& operator=(const Operations&) = delete;
  virtual ~Operations() = default;

  /// Where rows stand that are meant to stand there.
  virtual Places placed(Places places) const { return places; }

  virtual std::vector<double> inv_freq(double base, std::int64_t rotary_dim) const;
  virtual void rotate_queries(const TensorView& q, const Rotation& rotation, const Places& places) const;
  virtual void rotate_keys(const TensorView& k, const Rotation& rotation, const Places& places) const;
  virtual void rotate_backward(const TensorView& gradient, const Rotation& rotation, const Places& places) const;
  virtual void shift(const TensorView& rotated, const Rotation& rotation, double distance) const;
  virtual void sinusoidal(const TensorView& out, const Rotation& rotation, const Places& places) const;

  /// Of every query and key, not scaled: rotate_queries, rotate_keys, and products summed in double. Row by row.
  virtual std::vector<double> scores(const ConstTensorView& q, const Places& q_places, const ConstTensorView& k,
                                     const Places& k_places, const Rotation& rotation) const;
  virtual ScoreTerms score_terms(const ConstTensorView& x, const ConstTensorView& p, const ConstTensorView& w_q,
                                 const ConstTensorView& w_k) const;
  virtual void position_bias(const TensorView& out, const PositionBias& bias) const;

  /// Queries and keys stand at the same places; where there is no rotation, places say nothing.
  virtual void attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                         const TensorView& out, const Places& places, AttentionOptions options) const;
  virtual LinearAttentionReport linear_attention(const ConstTensorView& q, const ConstTensorView& k,
                                                 const ConstTensorView& v, const TensorView& out, const Places& places,
                                                 LinearAttentionOptions options) const;
  virtual LinearWeights linear_weights(const ConstTensorView& q, const ConstTensorView& k, const TensorView& weights,
                                       const Places& places, LinearAttentionOptions options) const;
  virtual Rotation cosformer_rotation(std::int64_t head_dim, double M) const;
};

/// RoPE as published: base 10000, all channels, j with j + num_pairs.
Rotation rope(const Operations& operations, std::int64_t width, double base = 10000, Pairing pairing = Pairing::half);

/// One pair that turns by `angle` per position.
Rotation one_pair(double angle);

}  // namespace rotary::claims
