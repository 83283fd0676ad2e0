// Other ways than a rotation to depend on distances alone.
#pragma once

#include "tools/claims/operations.h"
#include "tools/claims/statement.h"

namespace rotary::claims {

/// How far the nearest of them is from any rotation.
Measured rotation_is_unique(const Operations& operations);

}  // namespace rotary::claims
