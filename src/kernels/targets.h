// Which instruction sets the kernels are not compiled for. Include before anything of Highway's.
//
// SSSE3: no machine that matters stops there. AVX3_DL: needs the AVX-512 sets after Skylake and is a step for later. SVE: its
// vectors have no size and cannot be kept in arrays or structs.
//
// Where a machine has no vectors that we know, it is one number at a time (HWY_SCALAR). Some compilers would get Highway's
// emulation of vectors in place of that (HWY_EMU128): slower, and rounding to float16 towards zero.
#pragma once

#define HWY_BROKEN_EMU128 1
#include <hwy/detect_targets.h>

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
