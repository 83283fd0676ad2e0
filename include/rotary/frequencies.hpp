// Frequency rules: how fast each pair turns. To be completed.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/export.hpp"

namespace rotary {

/// What a rule yields.
struct Frequencies {
  std::vector<double> inv_freq;  ///< radians per position, one per pair
  double amplitude = 1;          ///< multiplied into cos and sin of q and of k
  double logit_scale = 1;        ///< multiplied into the softmax scale, never into the table (DeepSeek's mscale squared)
};

/// inv_freq[j] = base^(-2j / rotary_dim)   (Su et al. 2021, section 3.2.2)
ROTARY_API Frequencies default_frequencies(double base, std::int64_t rotary_dim);

}  // namespace rotary
