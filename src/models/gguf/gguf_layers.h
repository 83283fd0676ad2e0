// Which layers of a GGUF attend, turn and slide: what its architecture says, and its keys where it asks for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/findings.h"
#include "models/gguf/architecture.h"
#include "models/gguf/gguf_keys.h"

namespace rotary::gguf {

struct GgufLayer {
  bool attends = true;
  bool turns = true;
  bool slides = false;
  bool compressed = false;  // DeepSeek-V4's layers with compressed keys
  bool sinks = false;       // a number per query head in the sum of the softmax
  std::int64_t num_q_heads = 0;
  std::int64_t num_kv_heads = 0;
  bool operator==(const GgufLayer&) const = default;
};

struct GgufLayers {
  std::vector<GgufLayer> layers;
  std::string heads_source;
  std::string kv_heads_source;
  std::string turns_source;  // why layers turn, or do not
  Mask mask = Mask::none;    // of the layers that slide
  Found<std::int64_t> window{0, ""};
  std::string slides_source;  // which layers
};

GgufLayers read_gguf_layers(const Architecture& architecture, GgufKeys& keys, const GgufFile& file, Findings& findings);

}  // namespace rotary::gguf
