#include "attention/bias_view.h"

#include <cmath>

#include "base/apart.h"
#include "base/fail.h"
#include "base/float_view.h"

namespace rotary {

void check_bias_view(const char* operation, const TensorView& out, std::int64_t num_heads, const Positions& q_positions,
                     const Positions& k_positions) {
  check_float_view(operation, "out", out, "", "BHQK");
  if (out.size('H') != num_heads) {
    fail_argument(operation, "out must have ", num_heads, " heads along H, got ", out.size('H'));
  }
  if (overlaps_itself(out)) fail_argument(operation, "the elements of out must not overlap each other");
  check_bias_positions(operation, out, q_positions, k_positions);
}

void check_bias_positions(const char* operation, const TensorView& out, const Positions& q_positions,
                          const Positions& k_positions) {
  for (const Positions& positions : {q_positions, k_positions}) {
    check_apart(operation, "out", out, "the positions", positions.position_ids);
    check_apart(operation, "out", out, "the positions", positions.offsets);
  }
}

SidePositions::SidePositions(const char* operation, const Positions& positions, std::int64_t batch, std::int64_t length,
                             PositionNumbers numbers)
    : positions_(operation, positions, {.batch = batch, .length = length}, 1) {
  if (numbers == PositionNumbers::any) return;
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t s = 0; s < length; ++s) {
      const double position = at(b, s);
      if (position != std::nearbyint(position)) {
        fail_argument(operation, "positions must be whole numbers, to find a distance in a table, got ", position,
                      " for token ", s, " of row ", b);
      }
    }
  }
}

}  // namespace rotary
