// What stands behind LayerRotation and ModelRotations.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "models/llama_kind.h"
#include "models/provenance.h"
#include "rotary/frequencies.hpp"
#include "rotary/model.hpp"

namespace rotary {

struct LayerRotation::Contents {
  std::int64_t head_dim = 0;
  std::int64_t num_q_heads = 0;
  std::int64_t num_kv_heads = 0;
  double softmax_scale = 0;
  std::int64_t sliding_window = 0;
  Pairing pairing = Pairing::unspecified;
  FrequencyRule rule;
  std::optional<Rotation> fixed;  // where the length has no say

  Rotation at(std::int64_t length) const;
};

struct ModelRotations::Contents {
  std::atomic<int> owners{1};
  std::string model_type;
  std::string source;
  std::int64_t num_layers = 0;
  std::int64_t max_position_embeddings = 0;
  std::deque<LayerRotation::Contents> layers;  // one per group; they do not move
  std::vector<LayerGroup> groups;
  Provenance provenance;

  void add_layers(const LlamaKind& model);
};

}  // namespace rotary
