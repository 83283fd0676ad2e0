// A call of attention_backward() whose arguments have been checked.
#pragma once

#include "attention/problem.h"
#include "rotary/attention_backward.hpp"

namespace rotary {

/// Refers to the arguments of the call, which must outlive it.
struct BackwardProblem {
  const AttentionProblem& forward;
  const ConstTensorView &out, &dout, &dlse;
  const AttentionGradients& gradients;

  bool needs_weights() const noexcept { return gradients.q || gradients.k || gradients.v; }
  bool needs_dscore() const noexcept { return gradients.q || gradients.k; }
};

}  // namespace rotary
