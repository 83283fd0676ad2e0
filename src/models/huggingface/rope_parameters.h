// The rotation keys of a config.json of transformers, in each of their spellings:
//
//     old    "rope_theta": 5e5, "rope_scaling": {"type" or "rope_type": "yarn", "factor": 4, …}
//     new    "rope_parameters": {"rope_theta": 5e5, "rope_type": "yarn", "factor": 4, …}
//     by sort of layer    "rope_parameters": {"full_attention": {…}, "sliding_attention": {…} or null}
//
// Order of precedence as in transformers 5.24 (modeling_rope_utils.py), but where it would pick one of two values that
// differ, strict reading refuses.
#pragma once

#include "models/huggingface/rope_rule.h"
#include "models/huggingface/rope_spellings.h"

namespace rotary::huggingface {

/// Throws Error (invalid_file) or (unsupported).
RopeAnswer read_rope_parameters(const Part& part, const RopeQuestion& question, Provenance& provenance);

}  // namespace rotary::huggingface
