#include "reference/sinusoidal.h"

#include "base/element.h"
#include "reference/angles.h"

namespace rotary::reference {
namespace {

/// A channel is the sine or the cosine of the pair that holds it, or 0.
double channel(const Rotation& rotation, std::int64_t d, const PositionOf& position, std::int64_t b, std::int64_t s) {
  for (std::size_t j = 0; j < rotation.inv_freq().size(); ++j) {
    const Pair& pair = rotation.pairs_out()[j];
    if (d != pair.first && d != pair.second) continue;
    double cos = 0, sin = 0;
    angle(rotation, j, position(b, s, rotation.axis()[j]), &cos, &sin);
    return d == pair.first ? rotation.direction() * sin : cos;
  }
  return 0;
}

}  // namespace

void sinusoidal(const TensorView& out, const Rotation& rotation, const PositionOf& position) {
  const char token_axis = out.has('T') ? 'T' : 'S';
  for (std::int64_t b = 0; b < out.size('B'); ++b) {
    for (std::int64_t s = 0; s < out.size(token_axis); ++s) {
      for (std::int64_t d = 0; d < out.size('D'); ++d) {
        const std::int64_t at = b * out.stride('B') + s * out.stride(token_axis) + d * out.stride('D');
        store_element(out.dtype(), out.data(), at, channel(rotation, d, position, b, s));
      }
    }
  }
}

}  // namespace rotary::reference
