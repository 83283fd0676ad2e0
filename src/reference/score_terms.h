// One term of a score, by the matrix between both sides: the oracle.
#pragma once

#include <cstdint>

#include "rotary/tensor.hpp"

namespace rotary::reference {

/// a_i (W_q W_k^T) b_j, in double. `a` and `b` are "SD", `w_q` and `w_k` "ND".
double score_term(const ConstTensorView& a, const ConstTensorView& b, const ConstTensorView& w_q,
                  const ConstTensorView& w_k, std::int64_t i, std::int64_t j);

}  // namespace rotary::reference
