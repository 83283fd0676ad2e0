// What a model that was read must say, against the expected.json files of tests/data/models and the cases of
// tests/data/families.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

#include "rotary/model.hpp"

namespace rotary {

/// The expected frequencies are float32 values of transformers: at most 3.8e-7 off the exact rule (tests/data/models).
/// Either the whole list, or {"count": 64, "first": 1, "second": …, "middle": …, "last": …}.
inline void expect_frequencies(const Rotation& rotation, const nlohmann::json& expected) {
  const std::vector<double>& inv_freq = rotation.inv_freq();
  const nlohmann::json& list = expected["inv_freq"];
  const auto expect_pair = [&](std::size_t j, double value) {
    ASSERT_NEAR(inv_freq[j], value, 3.9e-7 * value) << "pair " << j;
  };
  if (list.is_array()) {
    ASSERT_EQ(inv_freq.size(), list.size());
    for (std::size_t j = 0; j < list.size(); ++j) ASSERT_NO_FATAL_FAILURE(expect_pair(j, list[j]));
  } else {
    const std::size_t count = list["count"];
    ASSERT_EQ(inv_freq.size(), count);
    expect_pair(0, list["first"]);
    expect_pair(1 % count, list["second"]);
    expect_pair(count / 2, list["middle"]);
    expect_pair(count - 1, list["last"]);
  }
  EXPECT_NEAR(rotation.amplitude(), expected["attention_factor"].get<double>(), 1e-15);
}

inline void expect_layout(const Rotation& rotation, const nlohmann::json& group) {
  EXPECT_EQ(rotation.rotary_dim(), group["rotary_dim"].get<std::int64_t>());
  EXPECT_EQ(rotation.rotary_offset(), group["rotary_offset"].get<std::int64_t>());
  EXPECT_EQ(rotation.direction(), group["direction"].get<int>());
  const auto axis = group.value("axis", std::vector<std::uint8_t>(static_cast<std::size_t>(rotation.num_pairs()), 0));
  EXPECT_EQ(rotation.axis(), axis);
  if (group["pairing"] == "other") {
    std::vector<Pair> pairs;
    for (const nlohmann::json& pair : group["pairs"]) pairs.push_back({pair[0], pair[1]});
    EXPECT_EQ(rotation.pairs_in(), pairs);
    EXPECT_EQ(rotation.pairs_out(), pairs);
    return;
  }
  EXPECT_EQ(name(rotation.pairing_in()), group["pairing_in"].get<std::string>());
  EXPECT_EQ(name(rotation.pairing_out()), group["pairing_out"].get<std::string>());
}

inline void expect_layer(const LayerRotation& layer, const nlohmann::json& expected, const nlohmann::json& group) {
  const bool rotates = group["rotates"] == true;
  ASSERT_EQ(layer.rotates(), rotates) << layer.reason();
  EXPECT_EQ(layer.turning() == Turning::not_a_rotation, group["rotates"] == "not a rotation");
  EXPECT_EQ(layer.turning() == Turning::no_attention, group["label"] == "no softmax attention");
  if (group.contains("head_dim")) {
    EXPECT_EQ(layer.head_dim(), group["head_dim"].get<std::int64_t>());
    // Of the group, where its layers have their own.
    EXPECT_EQ(layer.num_q_heads(), group.value("num_q_heads", expected["num_q_heads"].get<std::int64_t>()));
    EXPECT_EQ(layer.num_kv_heads(), group.value("num_kv_heads", expected["num_kv_heads"].get<std::int64_t>()));
  }
  if (group.contains("softmax_scale")) {
    EXPECT_NEAR(layer.softmax_scale(), group["softmax_scale"].get<double>(), 1e-16);
  }
  for (const nlohmann::json& factor : group.value("query_factor", nlohmann::json::array())) {
    // They are float32 values of transformers.
    EXPECT_NEAR(layer.query_temperature().at(factor["position"]), factor["factor"].get<double>(), 4e-7);
  }
  EXPECT_EQ(layer.query_temperature().kind != QueryTemperature::Kind::none, group.contains("query_factor"));
  if (!rotates) return;

  const nlohmann::json calls = group.contains("by_length") ? group["by_length"] : nlohmann::json::array({group});
  EXPECT_EQ(layer.depends_on_length(), group.contains("by_length"));
  for (const nlohmann::json& call : calls) {
    const Rotation rotation = layer.rotation(call.value("length", std::int64_t{1}));
    expect_layout(rotation, group);
    expect_frequencies(rotation, call);
  }
}

inline void expect_same_as(const ModelRotations& model, const nlohmann::json& expected) {
  ASSERT_EQ(model.num_layers(), expected["num_layers"].get<std::int64_t>());
  std::int64_t layers_seen = 0;
  for (const nlohmann::json& group : expected["groups"]) {
    for (const nlohmann::json& index : group["layers"]) {
      SCOPED_TRACE("layer " + index.dump());
      ++layers_seen;
      ASSERT_NO_FATAL_FAILURE(expect_layer(model.layer(index), expected, group));
    }
  }
  EXPECT_EQ(layers_seen, model.num_layers());
}

}  // namespace rotary
