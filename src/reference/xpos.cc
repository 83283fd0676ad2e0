#include "reference/xpos.h"

#include <cmath>

namespace rotary::reference {

double xpos_factor(std::int64_t pair, std::int64_t num_pairs, double distance, double scale_base) {
  const double d = 2 * static_cast<double>(num_pairs);
  const double zeta = (2 * static_cast<double>(pair) + 0.4 * d) / (1.4 * d);
  return std::pow(zeta, distance / scale_base);
}

}  // namespace rotary::reference
