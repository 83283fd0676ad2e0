// The rotation keys of a config.json of transformers, in each of their spellings:
//
//     old    "rope_theta": 5e5, "rope_scaling": {"type" or "rope_type": "yarn", "factor": 4, …}
//     new    "rope_parameters": {"rope_theta": 5e5, "rope_type": "yarn", "factor": 4, …}
//     by sort of layer    "rope_parameters": {"full_attention": {…}, "sliding_attention": {…} or null}
//
// Order of precedence as in transformers 5.24 (modeling_rope_utils.py), but where it would pick one of two values that
// differ, strict reading refuses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/huggingface/part.h"
#include "models/provenance.h"
#include "rotary/frequencies.hpp"

namespace rotary::huggingface {

/// What the keys are read for.
struct RopeQuestion {
  std::string sort;         ///< "full_attention"
  std::int64_t head_dim;    ///< of this sort
  std::int64_t mla_rotary;  ///< qk_rope_head_dim where the slice is mla
  Found<std::int64_t> max_position_embeddings;
  std::optional<Found<double>> base_of_layer;   ///< from a list with a base per layer
  std::optional<Found<double>> share_of_layer;  ///< from a list with a partial_rotary_factor per layer
  bool scaled = true;                           ///< whether the rule of the file is for this layer
};

struct RopeAnswer {
  bool rotates = true;  ///< false where the file has null for this sort
  std::string rule_name;
  FrequencyRule rule;
  std::int64_t rotary_dim = 0;
  std::int64_t original_max_position_embeddings = 0;
  double base = 0;
  double logit_scale = 1;            ///< YaRN's mscale_all_dim squared, for Scale::mla
  std::optional<ConfigObject> keys;  ///< the object with the rule's keys, where there is one
};

/// Throws Error (invalid_file) or (unsupported).
RopeAnswer read_rope_parameters(const Part& part, const RopeQuestion& question, Provenance& provenance);

}  // namespace rotary::huggingface
