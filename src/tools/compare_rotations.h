// Two rotations of one layer, at all lengths that matter: what differs, in numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "rotary/model.hpp"

namespace rotary {

/// Some of the pairs that were compared.
struct PairsApart {
  std::int64_t count = 0;
  std::int64_t first = -1, last = -1;
  std::int64_t worst = -1;  ///< with the largest relative difference
  double a = 0, b = 0;      ///< of that pair
};

struct RotationsApart {
  bool comparable = true;     ///< else no pair of one is any pair of the other, and what follows says nothing
  bool by_channels = true;    ///< see MatchedPairs
  bool same_channels = true;  ///< and no pair turns in one only
  bool mirrored = false;      ///< all turn as fast, the other way round
  std::int64_t num_pairs = 0;
  PairsApart inv_freq;  ///< by speed, radians per position
  PairsApart axis;
  double amplitude_a = 1, amplitude_b = 1;
  bool amplitude = false;
  /// The largest relative difference of two numbers that count as the same.
  double largest_tolerated = 0;
  std::int64_t length = 0;  ///< of the call in which inv_freq, axis and amplitude were seen to differ; 0: in all

  std::int64_t first_position = -1;
  std::int64_t first_pair = -1;
  std::int64_t first_length = 0;

  /// The numbers; not the channels.
  bool turns_differ() const { return inv_freq.count > 0 || axis.count > 0 || amplitude || mirrored; }
};

/// `lengths`: in rising order; {0} where they have no say. A layer that does not rotate counts as one at rest.
RotationsApart compare_rotations(const LayerRotation& a, const LayerRotation& b, const std::vector<std::int64_t>& lengths,
                                 double tolerance);

}  // namespace rotary
