// Whether the weights that lie beside a config are shaped as it says. Only headers are read, however large the weights.
#pragma once

#include <string>

#include "models/description.h"

namespace rotary {

/// Compares the rows of the projections to q and k with the heads of each layer that has softmax attention, as far as the
/// names are known; RP027 where none is. Throws Error (invalid_file) naming the tensor, its rows and the keys. Does nothing
/// where the folder has no safetensors.
void check_weights(const std::string& folder, ModelDescription& model);

}  // namespace rotary
