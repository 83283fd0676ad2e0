// Which instruction sets the kernels are compiled for. Include before anything of Highway's.
//
// A list of what is wanted, so that the targets a newer Highway adds stay out until somebody tests them. Left out on
// purpose: SSSE3, where no machine that matters stops; AVX3_DL and later AVX-512 sets, a step for later; SVE, whose vectors
// have no size and cannot be kept in arrays or structs.
#pragma once

#include <hwy/detect_targets.h>

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (~(HWY_SCALAR | HWY_SSE4 | HWY_AVX2 | HWY_AVX3 | HWY_NEON))
