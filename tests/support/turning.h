// A rotation that is nothing but its frequencies.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "rotary/rotation.hpp"

namespace rotary {

inline Rotation turning(std::vector<double> inv_freq, double amplitude = 1) {
  return Rotation({.head_dim = 2 * static_cast<std::int64_t>(inv_freq.size()),
                   .pairing_in = Pairing::half,
                   .inv_freq = std::move(inv_freq),
                   .amplitude = amplitude});
}

}  // namespace rotary
