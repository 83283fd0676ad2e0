// xPos, a pair of one token at a time: the oracle.
#pragma once

#include <cstdint>

namespace rotary::reference {

/// zeta_j^(distance / scale_base), from its definition.
double xpos_factor(std::int64_t pair, std::int64_t num_pairs, double distance, double scale_base);

}  // namespace rotary::reference
