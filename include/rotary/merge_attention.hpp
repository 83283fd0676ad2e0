// Attention over parts of the keys, brought together: for keys on several machines or in several caches, for a prefix that
// many sequences share, for one query over a long cache on several threads.
//
//     lse = log sum over parts of exp(lse_n)            out = sum over parts of exp(lse_n - lse) out_n
//
// (the two equations of an online softmax; Dao et al. 2022, section 3.1). Exact: the result is that of one call over all keys,
// but for rounding. A sink belongs to one of the parts.
#pragma once

#include <vector>

#include "rotary/export.hpp"
#include "rotary/parallel.hpp"
#include "rotary/tensor.hpp"

namespace rotary {

/// What attention() wrote about some of the keys. A row whose lse is -infinity takes no part, whatever it holds.
struct AttentionPart {
  ConstTensorView out;  ///< f64, f32, f16 or bf16, axes B, S, H, D, B and H may be missing; or T, H, D
  ConstTensorView lse;  ///< f32 or f64, axes as of `out` without D
};

/// Writes the whole to `out` and, where given, `lse`: dtypes and axes as those of parts, lengths as every part. Computed in
/// double, rounded once. Either may be that of a part, whose place it takes; otherwise they must not overlap the parts, each
/// other or themselves. Rows that see no key: 0 and -infinity.
/// Errors: Error (invalid_argument) with the rule that is broken; nothing is written in that case.
ROTARY_API void merge_attention(const std::vector<AttentionPart>& parts, const TensorView& out, const TensorView& lse = {},
                                Executor* executor = nullptr);

}  // namespace rotary
