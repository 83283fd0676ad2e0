// Sliding windows of a model's layers.
#pragma once

#include <cstdint>

#include "base/fail.h"

namespace rotary {

/// Throws Error (unsupported) where a window (0: none) hides some of the keys: attention has no windows yet.
inline void refuse_hidden_keys(const char* operation, std::int64_t window, std::int64_t num_keys) {
  if (window == 0 || num_keys <= window) return;
  fail_unsupported(operation, "the layer's sliding window of ", window, " keys hides some of the ", num_keys,
                   ", which attention does not support yet");
}

}  // namespace rotary
