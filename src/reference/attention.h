// Attention as its definition says: whole rows of scores, in double. The oracle.
#pragma once

#include "rotary/attention.hpp"

namespace rotary::reference {

/// As rotary::attention(), for arguments that it accepts. The executor is not used; with a rotation, angles are exact.
void attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v, const TensorView& out,
               const AttentionOptions& options = {});

}  // namespace rotary::reference
