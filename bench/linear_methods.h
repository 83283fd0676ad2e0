// The methods of linear attention that benchmarks name, and something to attend to.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "filled.h"
#include "half_rotation.h"
#include "rotary/linear_attention.hpp"

namespace rotary::bench {

inline constexpr std::int64_t width = 64;

/// The methods of `rotary attend --linear`.
inline constexpr const char* linear_methods[] = {"roformer",  "elu",          "rotated",   "pair-norms", "lrpe",
                                                 "retention", "one-plus-cos", "cosformer", "performer",  "performer-relu",
                                                 "taylor2"};

/// One of them by its name, causal, with what its options refer to. A Performer has as many features as channels.
class LinearMethod {
 public:
  explicit LinearMethod(std::string_view name, std::int64_t num_kv_heads = 1) {
    options.is_causal = true;
    const bool lifted = name == "cosformer" || name == "lrpe";
    const bool of_features = name == "roformer" || name == "rotated" || name == "pair-norms" || name == "retention";
    if (name == "cosformer") rotation_.emplace(cosformer_rotation(width, 1 << 20));
    else if (name != "elu") rotation_.emplace(half_rotation(lifted ? 2 * width : width));
    if (rotation_) options.rotation = &*rotation_;
    options.rotate = lifted ? Rotate::lifted : of_features ? Rotate::after_map : Rotate::before_map;
    if (name == "rotated" || name == "cosformer") options.normalizer = Normalizer::rotated;
    if (name == "pair-norms") options.normalizer = Normalizer::pair_norms;
    if (name == "lrpe" || name == "retention") options.normalizer = Normalizer::none;
    FeatureMap& map = options.feature_map;
    if (name == "cosformer") map.features = Features::relu;
    if (name == "one-plus-cos") map.features = Features::one_plus_cos;
    if (name == "taylor2") map.features = Features::taylor2;
    if (name == "performer" || name == "performer-relu") {
      projection_ = favor_projection(width, width, 1);
      map = {.features = name == "performer" ? Features::favor_plus : Features::favor_relu,
             .projection = {projection_.data(), "ND", {width, width}},
             .epsilon = name == "performer" ? 0 : 1e-3};
    }
    if (name == "retention") {
      map.features = Features::identity;
      for (std::int64_t h = 0; h < num_kv_heads; ++h) decay_.push_back(1 - std::exp2(static_cast<double>(-5 - h)));
      options.decay = {decay_.data(), "H", {num_kv_heads}};
    }
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
  std::vector<double> projection_, decay_;
};

/// q, k, v of some heads, each head's tokens side by side.
class Inputs {
 public:
  Inputs(std::int64_t heads, std::int64_t length)
      : q_(tensor(heads, length, 1)),
        k_(tensor(heads, length, 2)),
        v_(tensor(heads, length, 3)),
        out_(tensor(heads, length, 4)) {}

  ConstTensorView q() const { return q_; }
  ConstTensorView k() const { return k_; }
  ConstTensorView v() const { return v_; }
  TensorView out() const { return out_; }

  void attend(const LinearAttentionOptions& options) const { linear_attention(q(), k(), v(), out(), options); }

 private:
  static Filled tensor(std::int64_t heads, std::int64_t length, unsigned seed) {
    return Filled(DType::f32, "HSD", {heads, length, width}, seed);
  }

  Filled q_, k_, v_, out_;
};

}  // namespace rotary::bench
