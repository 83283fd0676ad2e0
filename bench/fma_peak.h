// How fast this core computes right now.
#pragma once

#include <cstdint>

namespace rotary::bench {

/// Independent chains of multiply and add on float32 vectors of the active instruction set, `rounds` links each (a
/// microsecond is about 500). Returns the number of operations; an FMA counts as two.
double multiply_and_add(std::int64_t rounds) noexcept;

/// float32 operations per second, from a run of about half a millisecond.
double fma_rate() noexcept;

/// Additions of whole numbers per second: as many as the core can begin, which is half of it where somebody else runs on the
/// other half. From a run of about a quarter of a millisecond.
double issue_rate() noexcept;

/// Like fma_rate(), of products of bfloat16 pairs, added in float32 (AVX512_BF16); 0 where this machine has no such instruction.
double bf16_dot_rate() noexcept;

/// The same of the matrix unit (AMX); 0 unless the active instruction set has it.
double bf16_tile_rate() noexcept;

}  // namespace rotary::bench
