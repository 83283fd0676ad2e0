// A small Llama as a config file, for tests that change one thing about it.
#pragma once

#include <nlohmann/json.hpp>

namespace rotary {

/// With these keys changed; null removes one.
inline nlohmann::json small_llama(const nlohmann::json& changes = nlohmann::json::object()) {
  nlohmann::json config = {{"model_type", "llama"},    {"hidden_size", 512},       {"num_hidden_layers", 4},
                           {"num_attention_heads", 8}, {"num_key_value_heads", 2}, {"max_position_embeddings", 4096},
                           {"rope_theta", 10000.0}};
  for (const auto& [key, value] : changes.items()) {
    if (value.is_null()) config.erase(key);
    else config[key] = value;
  }
  return config;
}

}  // namespace rotary
