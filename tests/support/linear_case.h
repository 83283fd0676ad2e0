// Linear attention by every method, with tensors at random.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rotary/frequencies.hpp"
#include "rotary/linear_attention.hpp"
#include "support/test_tensor.h"

namespace rotary {

using Numbers = std::vector<double>;

struct Sizes {
  std::int64_t batch = 1, num_q_heads = 1, num_kv_heads = 1, num_queries = 1, num_keys = 1, head_dim = 8, value_dim = 8;
};

/// A method by name, with what it needs to live.
class Method {
 public:
  Method(const std::string& name, std::int64_t head_dim, std::int64_t num_kv_heads) : name_(name) {
    const std::int64_t num_features = 12;
    if (name.starts_with("performer") || name == "generalised") {
      projection_ = favor_projection(num_features, head_dim, 5);
      options.feature_map.projection = {projection_.data(), "ND", {num_features, head_dim}};
      options.feature_map.features = name == "generalised" ? Features::favor_relu : Features::favor_plus;
      options.feature_map.epsilon = name == "generalised" ? 1e-3 : 0;
      options.rotate = Rotate::before_map;
    }
    if (name == "taylor2") options.feature_map.features = Features::taylor2;
    if (name == "one_plus_cos") options.feature_map.features = Features::one_plus_cos;
    if (name == "taylor2" || name == "one_plus_cos" || name == "rotate_then_elu") options.rotate = Rotate::before_map;
    if (name == "relu" || name == "cosformer") options.feature_map.features = Features::relu;
    if (name == "pair_norms") options.normalizer = Normalizer::pair_norms;
    if (name == "both" || name == "cosformer") options.normalizer = Normalizer::rotated;
    if (name == "retention") {
      options.feature_map.features = Features::identity;
      options.normalizer = Normalizer::none;
    }
    if (name == "retention" || name == "decay" || name == "performer_decay") {
      for (std::int64_t h = 0; h < num_kv_heads; ++h) decay_.push_back(1 - std::exp2(-3 - static_cast<double>(h)));
      options.decay = {decay_.data(), "H", {num_kv_heads}};
    }
    if (name == "cosformer") {
      rotation_ = cosformer_rotation(head_dim, 1000);
      options.rotate = Rotate::lifted;
    } else if (name != "elu") {
      const std::int64_t width = head_dim, rotary_dim = width % 4 == 2 && width > 2 ? width - 2 : width;
      rotation_ = Rotation({.head_dim = width,
                            .rotary_dim = rotary_dim,
                            .pairing_in = Pairing::half,
                            .inv_freq = default_frequencies(10000, rotary_dim).inv_freq});
    }
    if (rotation_) options.rotation = &*rotation_;
  }
  Method(const Method&) = delete;

  bool needs_causal() const { return static_cast<bool>(options.decay); }

  LinearAttentionOptions options;

 private:
  std::string name_;
  Numbers projection_, decay_;
  std::optional<Rotation> rotation_;
};

inline const std::vector<std::string> methods = {
    "elu",       "roformer",        "relu",        "both",         "pair_norms", "cosformer", "taylor2",
    "performer", "rotate_then_elu", "generalised", "one_plus_cos", "decay",      "retention", "performer_decay"};

struct Case {
  Case(const Sizes& s, const std::string& name, DType dtype = DType::f32, const Layout& layout = {})
      : sizes(s),
        method(name, s.head_dim, s.num_kv_heads),
        about(name),
        q(dtype, "BHSD", {s.batch, s.num_q_heads, s.num_queries, s.head_dim}, layout),
        k(dtype, "BHSD", {s.batch, s.num_kv_heads, s.num_keys, s.head_dim}, layout),
        v(dtype, "BHSD", {s.batch, s.num_kv_heads, s.num_keys, s.value_dim}, layout),
        out(dtype, "BHSD", {s.batch, s.num_q_heads, s.num_queries, s.value_dim}, layout) {
    q.fill_at_random(1);
    k.fill_at_random(2);
    v.fill_at_random(3);
    options().is_causal = method.needs_causal();
  }

  LinearAttentionOptions& options() { return method.options; }
  LinearAttentionReport attend() { return linear_attention(q, k, v, out, options()); }
  Numbers attended() {
    attend();
    return out.values();
  }

  Sizes sizes;
  Method method;
  std::string about;
  TestTensor q, k, v, out;
};

}  // namespace rotary
