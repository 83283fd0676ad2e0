// Two rotations, pair by pair: which pairs belong together, and from which position on they part.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "rotary/rotation.hpp"

namespace rotary {

/// What happens to one pair of channels; with `turn` 0 and `amplitude` 1, nothing.
struct PairTurn {
  double turn = 0;  ///< radians per position, counter-clockwise: direction included
  double amplitude = 1;
  int axis = 0;
};

struct MatchedPair {
  PairTurn a, b;
  std::int64_t index;  ///< in the rotation that has it; in a where both do
  bool only_in_one = false;
};

struct MatchedPairs {
  std::vector<MatchedPair> pairs;
  /// By channels; else by index, because the channels are paired in another way.
  bool by_channels;
};

/// Pairs that only one of them has are matched with one at rest. `b` (or `a`) may be nullptr: no rotation at all. Nothing
/// where pairs overlap in part and their numbers differ: no pair of one is any pair of the other.
std::optional<MatchedPairs> match_pairs(const Rotation* a, const Rotation* b);

/// What rounding to the 8 significant bits of bfloat16 may change, relative.
inline constexpr double bfloat16_step = 0x1p-8;

/// The smallest whole position p >= 0 at which |A e^(i p s) - B e^(i p t)| > bfloat16_step max(A, B); -1 where that lies
/// beyond 2^53. With two axes: at (p, 0) or (0, p), whichever comes first.
std::int64_t first_position_apart(const PairTurn& a, const PairTurn& b);

}  // namespace rotary
