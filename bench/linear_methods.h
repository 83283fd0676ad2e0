// The methods of linear attention that benchmarks name, and something to attend to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rotary/frequencies.hpp"
#include "rotary/linear_attention.hpp"

namespace rotary::bench {

inline constexpr std::int64_t width = 64;

inline std::vector<float> numbers(std::int64_t count, unsigned seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(seed >> 8) * 0x1p-23f - 1;
  }
  return values;
}

inline Rotation half_rotation() {
  return Rotation({.head_dim = width, .pairing_in = Pairing::half, .inv_freq = default_frequencies(10000, width).inv_freq});
}

/// roformer, elu, cosformer, performer (64 features), taylor2: causal, with what its options refer to.
class LinearMethod {
 public:
  explicit LinearMethod(const std::string& name) {
    options.is_causal = true;
    if (name == "elu") return;
    if (name == "cosformer") {
      rotation_.emplace(cosformer_rotation(width, 1 << 20));
      options.feature_map.features = Features::relu;
      options.rotate = Rotate::lifted;
      options.normalizer = Normalizer::rotated;
    } else {
      rotation_.emplace(half_rotation());
      if (name != "roformer") options.rotate = Rotate::before_map;
      if (name == "taylor2") options.feature_map.features = Features::taylor2;
      if (name == "performer") {
        projection_ = favor_projection(width, width, 1);
        options.feature_map = {.features = Features::favor_plus, .projection = {projection_.data(), "ND", {width, width}}};
      }
    }
    options.rotation = &*rotation_;
  }
  LinearMethod(const LinearMethod&) = delete;
  LinearMethod& operator=(const LinearMethod&) = delete;

  /// Of the numerator.
  std::int64_t num_features() const {
    return (options.rotate == Rotate::lifted ? 2 : 1) * rotary::num_features(options.feature_map, width);
  }

  LinearAttentionOptions options;

 private:
  std::optional<Rotation> rotation_;
  std::vector<double> projection_;
};

/// q, k, v of some heads, each head's tokens side by side.
class Inputs {
 public:
  Inputs(std::int64_t heads, std::int64_t length)
      : heads_(heads),
        length_(length),
        q_(numbers(heads * length * width, 1)),
        k_(numbers(heads * length * width, 2)),
        v_(numbers(heads * length * width, 3)),
        out_(q_.size()) {}

  ConstTensorView q() const { return view(q_); }
  ConstTensorView k() const { return view(k_); }
  ConstTensorView v() const { return view(v_); }
  TensorView out() const { return {out_.data(), "HSD", {heads_, length_, width}}; }

  void attend(const LinearAttentionOptions& options) const { linear_attention(q(), k(), v(), out(), options); }

 private:
  ConstTensorView view(const std::vector<float>& x) const { return {x.data(), "HSD", {heads_, length_, width}}; }

  std::int64_t heads_, length_;
  std::vector<float> q_, k_, v_;
  mutable std::vector<float> out_;
};

}  // namespace rotary::bench
