// The rotation of most benchmarks: all channels, pairs (j, j + head_dim / 2), base 10,000.
#pragma once

#include <cstdint>

#include "rotary/frequencies.hpp"
#include "rotary/rotation.hpp"

namespace rotary::bench {

inline Rotation half_rotation(std::int64_t head_dim) {
  return Rotation(
      {.head_dim = head_dim, .pairing_in = Pairing::half, .inv_freq = default_frequencies(10000, head_dim).inv_freq});
}

}  // namespace rotary::bench
