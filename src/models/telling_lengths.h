// The lengths of calls that tell two rules apart which depend on the length.
#pragma once

#include <cstdint>
#include <set>

namespace rotary {

/// On both sides of every length at which a rule may change, and beyond: of a model with this original length and this
/// longest one. Never empty, also where a file says neither (0).
inline std::set<std::int64_t> telling_lengths(std::int64_t original, std::int64_t longest) {
  std::set<std::int64_t> lengths{1};
  for (const std::int64_t edge : {original, longest, 4 * longest}) {
    if (edge > 0) lengths.insert({edge, edge + 1});
  }
  return lengths;
}

}  // namespace rotary
