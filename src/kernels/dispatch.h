// Choosing the compiled variant of a kernel. In the HWY_ONCE part of a kernel's file:
//
//     void rotate_rows(Rows rows) noexcept { return ROTARY_KERNEL(rotate_rows_kernel)(rows); }
//
// Doors call active_isa() before the first kernel: it throws where ROTARY_ISA is wrong, and kernels may not.
// Highway's own dispatcher keeps its choice in a global that anyone may change; this one follows active_isa() alone.
#pragma once

#include <hwy/highway.h>

#include "rotary/isa.hpp"

#if HWY_TARGETS & HWY_SSE4
#define ROTARY_KERNEL_SSE4(function) \
  case ::rotary::Isa::sse4:          \
    return &N_SSE4::function;
#else
#define ROTARY_KERNEL_SSE4(function)
#endif
#if HWY_TARGETS & HWY_AVX2
#define ROTARY_KERNEL_AVX2(function) \
  case ::rotary::Isa::avx2:          \
    return &N_AVX2::function;
#else
#define ROTARY_KERNEL_AVX2(function)
#endif
#if HWY_TARGETS & HWY_AVX3
#define ROTARY_KERNEL_AVX512(function) \
  case ::rotary::Isa::avx512:          \
  case ::rotary::Isa::avx512_bf16:     \
  case ::rotary::Isa::amx:             \
    return &N_AVX3::function;
#else
#define ROTARY_KERNEL_AVX512(function)
#endif
#if HWY_TARGETS & HWY_NEON
#define ROTARY_KERNEL_NEON(function) \
  case ::rotary::Isa::neon:          \
    return &N_NEON::function;
#else
#define ROTARY_KERNEL_NEON(function)
#endif
// The weakest set is compiled as scalar on x86-64 and is NEON itself on Arm.
#if HWY_TARGETS & HWY_SCALAR
#define ROTARY_KERNEL_BASE(function) N_SCALAR::function
#else
#define ROTARY_KERNEL_BASE(function) HWY_STATIC_DISPATCH(function)
#endif

/// A pointer to `function`, declared in the namespace HWY_NAMESPACE of the current one, for the active instruction set.
#define ROTARY_KERNEL(function)                                                   \
  ([]() noexcept {                                                                \
    static const auto chosen = []() -> decltype(&HWY_STATIC_DISPATCH(function)) { \
      switch (::rotary::active_isa()) {                                           \
        ROTARY_KERNEL_SSE4(function)                                              \
        ROTARY_KERNEL_AVX2(function)                                              \
        ROTARY_KERNEL_AVX512(function)                                            \
        ROTARY_KERNEL_NEON(function)                                              \
        default: return &ROTARY_KERNEL_BASE(function);                            \
      }                                                                           \
    }();                                                                          \
    return chosen;                                                                \
  }())
