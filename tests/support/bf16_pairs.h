// Where attention rounds more than its result.
#pragma once

#include "rotary/dtype.hpp"
#include "rotary/isa.hpp"

namespace rotary {

/// Whether queries, keys and weights may be rounded to bfloat16, as they are where all inputs are bfloat16, lse is not asked
/// for, and the machine multiplies pairs of such numbers.
inline bool may_multiply_pairs(DType dtype) {
  return dtype == DType::bf16 && (active_isa() == Isa::avx512_bf16 || active_isa() == Isa::amx);
}

}  // namespace rotary
