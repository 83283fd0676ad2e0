// The rotation keys of a config.json of transformers, in either spelling:
//
//     old   "rope_theta": 5e5, "rope_scaling": {"type" or "rope_type": "yarn", "factor": 4, …}
//     new   "rope_parameters": {"rope_theta": 5e5, "rope_type": "yarn", "factor": 4, …}
//
// Order of precedence as in transformers 5.24 (modeling_rope_utils.py, convert_rope_params_to_dict), but where it would
// pick one of two values that differ, this refuses.
#pragma once

#include <cstdint>

#include "models/config_object.h"
#include "models/findings.h"
#include "models/provenance.h"
#include "rotary/frequencies.hpp"

namespace rotary {

/// What the rules need to know about the model.
struct HeadFacts {
  const char* model_type;
  std::int64_t head_dim;
  double default_base;  ///< of the model's class, where the file has no rope_theta
  Found<std::int64_t> max_position_embeddings;
};

/// The rule of a model all of whose layers turn alike. Throws Error (invalid_file) or (unsupported).
FrequencyRule read_rope_parameters(const ConfigObject& config, const HeadFacts& head, Provenance& provenance, Findings& findings);

}  // namespace rotary
