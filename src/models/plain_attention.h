// Layers whose attention is more than rotation, scale and causality.
#pragma once

#include <cstdint>

#include "rotary/model.hpp"

namespace rotary {

/// Throws Error (unsupported) where the layer does something that attention() leaves out, and that changes the result for so
/// many keys or for positions below `length`: a window or chunk that hides keys, a factor on queries by position or on keys,
/// norms after the rotation, values that turn.
void require_plain_attention(const char* operation, const LayerRotation& layer, std::int64_t num_keys, std::int64_t length);

}  // namespace rotary
