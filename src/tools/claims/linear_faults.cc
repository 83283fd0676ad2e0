// Wrong linear attention: normalizers, the place of the rotation, feature maps, streams.
#include <cmath>

#include "rotary/rotate.hpp"
#include "tools/claims/fault.h"
#include "tools/claims/rows.h"

namespace rotary::claims {
namespace {

/// Changes the options of every call.
class OtherOptions : public Operations {
 public:
  LinearAttentionReport linear_attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                                         const TensorView& out, const Places& places,
                                         LinearAttentionOptions options) const override {
    change(options);
    return Operations::linear_attention(q, k, v, out, places, options);
  }
  LinearWeights linear_weights(const ConstTensorView& q, const ConstTensorView& k, const TensorView& weights,
                               const Places& places, LinearAttentionOptions options) const override {
    change(options);
    return Operations::linear_weights(q, k, weights, places, options);
  }

 private:
  virtual void change(LinearAttentionOptions& options) const = 0;
};

class NormalizerRotated : public OtherOptions {
  void change(LinearAttentionOptions& options) const override {
    if (options.normalizer == Normalizer::features) options.normalizer = Normalizer::rotated;
  }
};

class NormalizerUnrotated : public OtherOptions {
  void change(LinearAttentionOptions& options) const override {
    if (options.normalizer != Normalizer::none) options.normalizer = Normalizer::features;
  }
};

class NormalizerOfPairNorms : public OtherOptions {
  void change(LinearAttentionOptions& options) const override {
    const bool may_turn = options.rotate == Rotate::after_map && options.rotation != nullptr;
    if (options.normalizer != Normalizer::none && may_turn) options.normalizer = Normalizer::pair_norms;
  }
};

class RotateBeforeTheMap : public OtherOptions {
  void change(LinearAttentionOptions& options) const override {
    if (options.rotate == Rotate::after_map) options.rotate = Rotate::before_map;
  }
};

class RotateAfterTheMap : public OtherOptions {
  void change(LinearAttentionOptions& options) const override {
    if (options.feature_map.features == Features::elu_plus_1) options.rotate = Rotate::after_map;
  }
};

class CausalRuleForgotten : public OtherOptions {
  void change(LinearAttentionOptions& options) const override {
    if (!options.decay) options.is_causal = false;
  }
};

class DecayIgnored : public OtherOptions {
  void change(LinearAttentionOptions& options) const override { options.decay = {}; }
};

/// exp(w . x) of turned rows, x = row / width^(1/4).
Rows exponentials(const ConstTensorView& rows, const FeatureMap& map) {
  const Rows x = copy_of(rows);
  const auto* const projection = static_cast<const double*>(map.projection.data());
  const double factor = std::pow(static_cast<double>(x.width), -0.25);
  Rows features(x.count, map.projection.size('N'));
  for (std::int64_t i = 0; i < x.count; ++i) {
    for (std::int64_t f = 0; f < features.width; ++f) {
      double sum = 0;
      for (std::int64_t c = 0; c < x.width; ++c) sum += projection[f * x.width + c] * x.at(i, c);
      features.at(i, f) = static_cast<float>(std::exp(factor * sum));
    }
  }
  return features;
}

/// All channels and all products of two of them, x = row / width^(1/4): the kernel 1 + s + s^2.
Rows whole_squares(const ConstTensorView& rows) {
  const Rows x = copy_of(rows);
  const double factor = std::pow(static_cast<double>(x.width), -0.25);
  Rows features(x.count, 1 + x.width + x.width * x.width);
  for (std::int64_t i = 0; i < x.count; ++i) {
    features.at(i, 0) = 1;
    for (std::int64_t c = 0; c < x.width; ++c) {
      features.at(i, 1 + c) = static_cast<float>(factor * x.at(i, c));
      for (std::int64_t e = 0; e < x.width; ++e) {
        features.at(i, 1 + (1 + c) * x.width + e) = static_cast<float>(factor * factor * x.at(i, c) * x.at(i, e));
      }
    }
  }
  return features;
}

/// Turned queries and keys become features by another map.
class OtherMap : public Operations {
  LinearAttentionReport linear_attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                                         const TensorView& out, const Places& places,
                                         LinearAttentionOptions options) const override {
    if (options.feature_map.features != replaced() || options.rotate != Rotate::before_map) {
      return Operations::linear_attention(q, k, v, out, places, options);
    }
    Rows turned_q = copy_of(q), turned_k = copy_of(k);
    rotate_queries(turned_q, *options.rotation, places);
    rotate_keys(turned_k, *options.rotation, places);
    const Rows features_q = mapped(turned_q, options.feature_map), features_k = mapped(turned_k, options.feature_map);
    options.rotation = nullptr;
    options.feature_map = {.features = Features::identity};
    return Operations::linear_attention(features_q, features_k, v, out, places, options);
  }
  virtual Features replaced() const = 0;
  virtual Rows mapped(const ConstTensorView& turned, const FeatureMap& map) const = 0;
};

class FavorWithoutNormTerm : public OtherMap {
  Features replaced() const override { return Features::favor_plus; }
  Rows mapped(const ConstTensorView& turned, const FeatureMap& map) const override { return exponentials(turned, map); }
};

class TaylorWithoutTheHalf : public OtherMap {
  Features replaced() const override { return Features::taylor2; }
  Rows mapped(const ConstTensorView& turned, const FeatureMap& /*map*/) const override { return whole_squares(turned); }
};

class CosformerHalfTurn : public Operations {
  Rotation cosformer_rotation(std::int64_t head_dim, double M) const override {
    return Operations::cosformer_rotation(head_dim, M / 2);
  }
};

class StreamRestartsPositions : public Operations {
  LinearAttentionReport linear_attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                                         const TensorView& out, const Places& places,
                                         LinearAttentionOptions options) const override {
    const Places there = options.state == nullptr ? places : places_from(0, q.size('S'));
    return Operations::linear_attention(q, k, v, out, there, options);
  }
};

}  // namespace

std::vector<Fault> linear_faults() {
  return {{{"normalizer-rotated", "the denominator turns where RoFormer's does not", "RoFormer 的分母也旋转"},
           make<NormalizerRotated>},
          {{"normalizer-unrotated", "no denominator turns", "任何分母都不旋转"}, make<NormalizerUnrotated>},
          {{"normalizer-of-pair-norms", "every denominator is made of the lengths of pairs", "所有分母都用各对特征的长度"},
           make<NormalizerOfPairNorms>},
          {{"rotate-before-the-map", "queries and keys turn, then become features", "先旋转查询与键，再映射成特征"},
           make<RotateBeforeTheMap>},
          {{"rotate-after-the-map", "elu + 1 always comes first", "总是先做 elu + 1 再旋转"}, make<RotateAfterTheMap>},
          {{"favor-without-norm-term", "random features without the norm in the exponent", "随机特征的指数里漏了范数项"},
           make<FavorWithoutNormTerm>},
          {{"taylor-without-the-half", "the Taylor polynomial is 1 + s + s²", "泰勒多项式写成了 1 + s + s²"},
           make<TaylorWithoutTheHalf>},
          {{"cosformer-half-turn", "cosFormer turns by π instead of π/2 over M positions",
            "cosFormer 在 M 个位置上转 π 而不是 π/2"},
           make<CosformerHalfTurn>},
          {{"stream-restarts-positions", "every call of a stream counts from 0", "数据流每次调用都从 0 数起"},
           make<StreamRestartsPositions>},
          {{"causal-rule-forgotten", "queries of linear attention see all keys", "线性注意力的查询能看到所有键"},
           make<CausalRuleForgotten>},
          {{"decay-ignored", "a decay has no effect", "衰减不起作用"}, make<DecayIgnored>}};
}

}  // namespace rotary::claims
