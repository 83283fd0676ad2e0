// How many layers and heads a part has, and how wide a head is.
#pragma once

#include <cstdint>

#include "models/huggingface/part.h"
#include "models/provenance.h"

namespace rotary::huggingface {

struct Shape {
  std::int64_t num_layers = 0;
  std::int64_t num_q_heads = 0;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;    ///< of a head with its parts together, where the slice is mla
  std::int64_t mla_rotary = 0;  ///< qk_rope_head_dim
  Found<std::int64_t> max_position_embeddings{0, ""};
};

/// Of a family that does not rotate, numbers that the file leaves out stay 0.
Shape read_shape(const Part& part, Provenance& provenance);

}  // namespace rotary::huggingface
