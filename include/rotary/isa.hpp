// Which instruction set the kernels use. The best one of the machine, unless the environment variable ROTARY_ISA names
// another. Where that is `amx`, Linux is asked to let this process use the matrix unit; from then on it refuses signal stacks
// (sigaltstack) of less than about 12 KiB. Where one is in use already, it refuses the unit, and `avx512` is the best.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/export.hpp"

namespace rotary {

/// By feature, weakest first.
enum class Isa : std::uint8_t {
  scalar,       ///< plain C++
  sse4,         ///< x86 SSE4.2 with AES and CLMUL
  avx2,         ///< x86 AVX2 with FMA and F16C
  avx512,       ///< x86 AVX-512 F, BW, CD, DQ and VL
  avx512_bf16,  ///< the same, and products of bfloat16 pairs (AVX512_BF16)
  amx,          ///< the same, and the matrix unit (AMX) for bfloat16
  neon,         ///< Arm
};

ROTARY_API const char* name(Isa isa) noexcept;
/// What this build has and this machine can run, weakest first.
ROTARY_API std::vector<Isa> available_isas();
/// What the kernels use. Read from ROTARY_ISA once; throws Error (unsupported) when it names nothing available.
ROTARY_API Isa active_isa();

}  // namespace rotary
