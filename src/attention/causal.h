// The causal rule.
#pragma once

#include <algorithm>
#include <cstdint>

#include "rotary/attention.hpp"

namespace rotary {

/// How many keys, from the first, a query may see.
inline std::int64_t num_visible_keys(Causal causal, std::int64_t query, std::int64_t num_queries,
                                     std::int64_t num_keys) noexcept {
  switch (causal) {
    case Causal::none: return num_keys;
    case Causal::top_left: return std::min(query + 1, num_keys);
    case Causal::bottom_right: return std::clamp<std::int64_t>(query + 1 + (num_keys - num_queries), 0, num_keys);
  }
  return 0;
}

}  // namespace rotary
