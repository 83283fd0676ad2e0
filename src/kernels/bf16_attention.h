// The products of tiled attention on pairs of bfloat16, where the machine multiplies those faster than float32.
//
// Queries, keys, values and weights are rounded to bfloat16 where they are packed; products are exact, sums are float32.
// Numbers below 2^-126 count as 0. Everything else is as in kernels/attention.h.
//
//     b   queries [channels / 2][rows], weights [keys / 2][rows]: words of two neighbours
//     a   keys, and values transposed, in tiles of 16 x 32: [keys / 16][channels / 32] and [channels / 16][keys / 32]
#pragma once

#include "kernels/attention.h"

namespace rotary {

/// Those of the active instruction set; nullptr where it has none.
const AttentionKernels<float>* bf16_attention_kernels() noexcept;

}  // namespace rotary
