// Which sort each layer of a part is ("full_attention", "sliding_attention", "mamba", …), and which layers turn.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/huggingface/part.h"
#include "models/provenance.h"

namespace rotary::huggingface {

/// What a sort of layer does, by the names that files use.
struct SortMeaning {
  bool attends;  ///< has softmax attention
  bool window;   ///< of sliding_window keys
  bool chunks;   ///< of attention_chunk_size positions
};
/// Throws Error (unsupported) for a name that no family uses.
SortMeaning meaning_of_sort(const Part& part, const std::string& sort);

/// One per layer.
std::vector<std::string> read_layer_sorts(const Part& part, std::int64_t num_layers, Provenance& provenance);

/// One per layer: whether it turns, as far as its sort and the family's own keys say.
std::vector<bool> read_turning_layers(const Part& part, const std::vector<std::string>& sorts, Provenance& provenance);

}  // namespace rotary::huggingface
