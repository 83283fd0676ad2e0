// Sinusoidal encodings in plain double loops: the oracle.
#pragma once

#include "reference/rotate.h"
#include "rotary/rotation.hpp"
#include "rotary/tensor.hpp"

namespace rotary::reference {

/// As rotary::sinusoidal(), for a view without H. Every number is computed in double from exact angles and rounded once.
void sinusoidal(const TensorView& out, const Rotation& rotation, const PositionOf& position);

}  // namespace rotary::reference
