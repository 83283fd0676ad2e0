// Wrong scores, wrong terms, wrong biases, wrong attention.
#include <cmath>
#include <cstddef>
#include <limits>

#include "tools/claims/fault.h"
#include "tools/claims/rows.h"

namespace rotary::claims {
namespace {

/// An element-wise weight: every score times the cosine of an angle.
class RotateAfterScores : public Operations {
  std::vector<double> scores(const ConstTensorView& q, const Places& q_places, const ConstTensorView& k,
                             const Places& k_places, const Rotation& rotation) const override {
    const Rows queries = copy_of(q), keys = copy_of(k);
    std::vector<double> scores;
    for (std::size_t i = 0; i < q_places.size(); ++i) {
      for (std::size_t j = 0; j < k_places.size(); ++j) {
        const double weight = std::cos((k_places[j] - q_places[i]) * rotation.inv_freq()[0]);
        scores.push_back(weight * dot(queries, static_cast<std::int64_t>(i), keys, static_cast<std::int64_t>(j)));
      }
    }
    return scores;
  }
};

class RotateValues : public Operations {
  void attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v, const TensorView& out,
                 const Places& places, AttentionOptions options) const override {
    Rows values = copy_of(v);
    if (options.rotation != nullptr && values.width == options.rotation->head_dim()) {
      rotate_keys(values, *options.rotation, places);
    }
    Operations::attention(q, k, values, out, places, options);
  }
};

/// 1 + s + s^2 / 2 in place of exp(s): a kernel that factors.
class KeysSummedFirst : public Operations {
  void attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v, const TensorView& out,
                 const Places& places, AttentionOptions options) const override {
    linear_attention(
        q, k, v, out, places,
        {.feature_map = {.features = Features::taylor2}, .rotation = options.rotation, .rotate = Rotate::before_map});
  }
};

class WindowOf16 : public Operations {
  void attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v, const TensorView& out,
                 const Places& places, AttentionOptions options) const override {
    const std::int64_t N = k.size('S');
    Rows hidden(q.size('S'), N);
    for (std::int64_t i = 0; i < hidden.count; ++i) {
      for (std::int64_t j = 0; j < N; ++j) {
        if (j > i || j + 16 <= i) hidden.at(i, j) = -std::numeric_limits<float>::infinity();
      }
    }
    options.attn_mask = {hidden.values.data(), "QK", {hidden.count, N}};
    Operations::attention(q, k, v, out, places, options);
  }
};

/// As if w_q = w_k = 1: embeddings of half the width, met as they are.
class NoProjections : public Operations {
  ScoreTerms score_terms(const ConstTensorView& x, const ConstTensorView& p, const ConstTensorView& /*w_q*/,
                         const ConstTensorView& /*w_k*/) const override {
    const Rows identity = identity_rows(x.size('D'));
    const ConstTensorView w(identity.values.data(), "ND", {identity.count, identity.count});
    return Operations::score_terms(x, p, w, w);
  }
};

class BiasOfTheKeyAlone : public Operations {
  void position_bias(const TensorView& out, const PositionBias& bias) const override {
    Operations::position_bias(out, bias);
    auto* const values = static_cast<double*>(out.data());
    const std::int64_t N = out.size('K');
    for (std::int64_t i = 1; i < out.size('Q'); ++i) {
      for (std::int64_t j = 0; j < N; ++j) values[i * N + j] = values[j];
    }
  }
};

}  // namespace

std::vector<Fault> attention_faults() {
  return {{{"rotate-after-scores", "scores come first, and each is multiplied by the cosine of the first pair's angle",
            "先算分数，再把每个分数乘以第一对通道角度的余弦"},
           make<RotateAfterScores>},
          {{"no-projections", "positions meet without learned projections", "位置之间不经过学习得到的投影"},
           make<NoProjections>},
          {{"rotate-values", "values turn like keys", "值向量也像键一样旋转"}, make<RotateValues>},
          {{"keys-summed-first", "attention is linear attention, with the second Taylor polynomial of exp",
            "注意力换成线性注意力，exp 换成它的二阶泰勒多项式"},
           make<KeysSummedFirst>},
          {{"window-of-16", "attention sees the last 16 keys", "注意力只看最近的 16 个键"}, make<WindowOf16>},
          {{"bias-of-the-key-alone", "a position bias ignores where the query stands", "位置偏置不看查询的位置"},
           make<BiasOfTheKeyAlone>}};
}

}  // namespace rotary::claims
