// The gradients of attention as calculus says: whole matrices of weights, in double. The oracle.
#pragma once

#include "rotary/attention_backward.hpp"

namespace rotary::reference {

/// As rotary::attention_backward(), for arguments that it accepts; `out` and options.lse are not looked at. The executor is
/// not used; with a rotation, angles are exact.
void attention_backward(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                        const ConstTensorView& dout, const AttentionGradients& gradients, const AttentionOptions& options,
                        const ConstTensorView& dlse = {});

}  // namespace rotary::reference
