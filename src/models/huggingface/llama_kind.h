// Models like Llama: every layer turns the whole head by one rule, in halves, and the softmax scale is 1 / sqrt(head_dim).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/config_object.h"
#include "models/findings.h"
#include "models/provenance.h"
#include "rotary/frequencies.hpp"
#include "rotary/rotation.hpp"

namespace rotary {

struct LlamaKind {
  std::int64_t num_layers;
  std::int64_t num_q_heads;
  std::int64_t num_kv_heads;
  std::int64_t head_dim;
  std::int64_t max_position_embeddings;
  double softmax_scale;
  Pairing pairing;
  FrequencyRule rule;
  std::vector<std::int64_t> sliding_windows;  ///< per layer; 0: all keys
};

/// Throws Error (unsupported) for a model_type that is not of this kind, (invalid_file) where the file breaks a rule.
LlamaKind read_llama_kind(const ConfigObject& config, const std::string& model_type, Provenance& provenance, Findings& findings);

}  // namespace rotary
