// Which instruction sets the kernels are compiled for. Include before anything of Highway's.
//
// Highway's SSSE3 target is left out: no machine that matters stops there. AVX3_DL needs the AVX-512 sets after Skylake and
// is a later step.
#pragma once

#include <hwy/detect_targets.h>

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
