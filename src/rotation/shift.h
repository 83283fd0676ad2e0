// For callers inside the library that turn keys which are turned already.
#pragma once

#include "rotary/angles.hpp"
#include "rotary/rotation.hpp"
#include "rotation/positions.h"
#include "rotation/token_angles.h"

namespace rotary {

/// Angles for such keys, which have the amplitude already. Throws as TokenAngles does.
TokenAngles shift_angles(const char* operation, const Rotation& rotation, const TokenPositions& distances,
                         const Tokens& tokens, Precision precision);

}  // namespace rotary
