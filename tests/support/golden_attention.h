// The cases of tests/data/attention, as calls of attention().
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "rotary/attention.hpp"
#include "rotary/frequencies.hpp"
#include "rotary/position_bias.hpp"
#include "rotary/tensor_file.hpp"
#include "support/copied.h"
#include "support/test_tensor.h"

namespace rotary {

inline Causal causal_of(const nlohmann::json& options) {
  if (!options.at("is_causal")) return Causal::none;
  return options.at("causal_alignment") == "bottom_right" ? Causal::bottom_right : Causal::top_left;
}

inline std::optional<Rotation> rotation_of(const nlohmann::json& rope, std::int64_t head_dim) {
  if (rope.is_null()) return std::nullopt;
  return Rotation({.head_dim = head_dim,
                   .rotary_dim = rope.at("rotary_dim"),
                   .rotary_offset = rope.at("rotary_offset"),
                   .pairing_in = rope.at("pairing") == "half" ? Pairing::half : Pairing::interleaved,
                   .inv_freq = default_frequencies(rope.at("base"), rope.at("rotary_dim")).inv_freq,
                   .amplitude = rope.at("amplitude")});
}

/// A case in `dtype`: its inputs, and its options as attention() takes them. Bits of the file are used where they lie.
struct GoldenCase {
  GoldenCase(const TensorFile& of, const nlohmann::json& description, DType dtype)
      : file(of),
        said(description.at("options")),
        packed(description.at("axes") == "THD"),
        q(copied(view("q"), dtype)),
        k(copied(view("k"), dtype)),
        v(copied(view("v"), dtype)),
        out(dtype, q.view().axes(), shape_of_out()),
        lse(copied(has("lse_with_sink") ? lse_view("lse_with_sink") : lse_view("lse"), DType::f64)),
        rotation(rotation_of(said.at("rope"), q.view().size('D'))) {
    lse.fill(std::numeric_limits<double>::quiet_NaN());
    options.causal = causal_of(said);
    options.window_left = said.at("window")[0];
    options.window_right = said.at("window")[1];
    options.scale = said.at("scale");
    options.softcap = said.at("softcap");
    options.lse = lse;
    if (rotation) options.rotation = &*rotation;
    choose_positions();
    choose_masks();
    choose_bias();
    if (has("sinks")) options.sinks = file.at("sinks").view("H");
  }

  bool has(const char* name) const { return file.find(name) != nullptr; }
  ConstTensorView view(const char* name) const { return file.at(name).view(packed ? "THD" : "BHSD"); }
  ConstTensorView lse_view(const char* name) const { return file.at(name).view(packed ? "HT" : "BHS"); }

  Dims shape_of_out() const {
    Dims shape = q.view().shape();
    shape[q.view().axes().find('D')] = v.view().size('D');
    return shape;
  }

  void choose_positions() {
    if (packed) {
      const auto ends = [&](const char* name) { return static_cast<const std::int32_t*>(file.at(name).data); };
      options.cu_seqlens = file.at("cu_seqlens_q").view("N");
      options.k_cu_seqlens = file.at("cu_seqlens_k").view("N");
      if (options.causal != Causal::bottom_right) return;
      for (std::int64_t n = 0; n + 1 < options.cu_seqlens.size('N'); ++n) {  // the last query stands at the last key
        q_starts.push_back(ends("cu_seqlens_k")[n + 1] - ends("cu_seqlens_k")[n] - ends("cu_seqlens_q")[n + 1] +
                           ends("cu_seqlens_q")[n]);
      }
      options.q_positions.offsets = ConstTensorView(q_starts.data(), "N", {static_cast<std::int64_t>(q_starts.size())});
    } else if (has("q_position_ids")) {
      const auto ids = [&](const char* which) {
        return file.at(which).view(file.at(which).shape.size() == 2 ? "BS" : "S");
      };
      options.q_positions = {.position_ids = ids("q_position_ids")};
      options.k_positions = {.position_ids = ids("k_position_ids")};
    } else if (rotation) {
      options.q_positions = {.offset = said.at("q_offset")};
      options.k_positions = {.offset = said.at("k_offset")};
    }
  }

  void choose_masks() {
    if (has("key_padding_mask")) options.key_padding_mask = file.at("key_padding_mask").view("BS");
    if (has("attn_mask")) options.attn_mask = file.at("attn_mask").view("QK");
    if (has("bias")) options.attn_mask = file.at("bias").view("BHQK");
    EXPECT_FALSE(has("attn_mask") && has("bias"));
  }

  void choose_bias() {
    if (has("alibi_slopes")) bias = PositionBias::alibi(copied(file.at("alibi_slopes").view("H"), DType::f64).values());
    if (has("t5_table")) {
      const nlohmann::json& rule = said.at("t5");
      bias = PositionBias::t5(file.at("t5_table").view("NH"), T5Buckets({.num_buckets = rule.at("num_buckets"),
                                                                         .max_distance = rule.at("max_distance"),
                                                                         .bidirectional = rule.at("bidirectional")}));
    }
    if (bias) options.bias = &*bias;
  }

  const TensorFile& file;
  const nlohmann::json& said;
  bool packed;
  TestTensor q, k, v, out, lse;
  std::optional<Rotation> rotation;
  std::optional<PositionBias> bias;
  std::vector<std::int64_t> q_starts;
  AttentionOptions options;
};

}  // namespace rotary
