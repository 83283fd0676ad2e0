// Linear attention as its definition says: whole tables of weights, in double, no state and no chunks. The oracle.
#pragma once

#include "rotary/linear_attention.hpp"

namespace rotary::reference {

/// As rotary::linear_attention(), for arguments that it accepts and without a state. A row whose denominator is 0 is 0; no
/// condition is looked at.
void linear_attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v, const TensorView& out,
                      const LinearAttentionOptions& options = {});

}  // namespace rotary::reference
