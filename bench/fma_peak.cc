#include "fma_peak.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fma_peak.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstdint>

#include "kernels/unroll-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rotary {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Enough chains to hide the latency of an FMA (12 on the machines of today; scalar code has few registers to spare, and more
/// chains do no harm).
double multiply_and_add(std::int64_t rounds, float* sink) noexcept {
  constexpr int chains = 12;
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const V factor = hn::Set(d, sink[0]), term = hn::Set(d, sink[1]);
  V x[chains];
  unroll<chains>([&](auto i) ROTARY_LAMBDA { x[i] = hn::Set(d, static_cast<float>(i)); });
  for (std::int64_t round = 0; round < rounds; ++round) {
    unroll<chains>([&](auto i) ROTARY_LAMBDA { x[i] = hn::MulAdd(x[i], factor, term); });
  }
  V sum = x[0];
  unroll<chains - 1>([&](auto i) ROTARY_LAMBDA { sum = hn::Add(sum, x[i + 1]); });
  sink[2] = hn::GetLane(sum);
  return 2.0 * chains * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}

}  // namespace HWY_NAMESPACE
}  // namespace rotary
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#if defined(__x86_64__)
#include <immintrin.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "clock.h"
#include "kernels/dispatch.h"

namespace rotary::bench {
namespace {

#if defined(__x86_64__)
/// By the letter: compilers spill the accumulators of a loop in intrinsics.
__attribute__((target("avx512f,avx512bf16"))) double dot_products(std::int64_t rounds) noexcept {
  constexpr double operations = 4.0 * 12 * 16;  // of 12 chains: two multiply-adds per lane
  std::int64_t left = rounds;
  __asm__ volatile(
      "vpxord %%zmm30, %%zmm30, %%zmm30\n\t"
      "vpxord %%zmm31, %%zmm31, %%zmm31\n"
      "1:\n\t"
      "vdpbf16ps %%zmm30, %%zmm31, %%zmm16\n\t"
      "vdpbf16ps %%zmm30, %%zmm31, %%zmm17\n\t"
      "vdpbf16ps %%zmm30, %%zmm31, %%zmm18\n\t"
      "vdpbf16ps %%zmm30, %%zmm31, %%zmm19\n\t"
      "vdpbf16ps %%zmm30, %%zmm31, %%zmm20\n\t"
      "vdpbf16ps %%zmm30, %%zmm31, %%zmm21\n\t"
      "vdpbf16ps %%zmm30, %%zmm31, %%zmm22\n\t"
      "vdpbf16ps %%zmm30, %%zmm31, %%zmm23\n\t"
      "vdpbf16ps %%zmm30, %%zmm31, %%zmm24\n\t"
      "vdpbf16ps %%zmm30, %%zmm31, %%zmm25\n\t"
      "vdpbf16ps %%zmm30, %%zmm31, %%zmm26\n\t"
      "vdpbf16ps %%zmm30, %%zmm31, %%zmm27\n\t"
      "dec %0\n\t"
      "jnz 1b"
      : "+r"(left)
      :
      : "cc", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27",
        "xmm30", "xmm31");
  return operations * static_cast<double>(rounds);
}

/// Of 16 x 32 and 32 x 16 numbers, into four sums.
__attribute__((target("amx-tile,amx-bf16"))) double tile_products(std::int64_t rounds) noexcept {
  struct alignas(64) Shapes {
    std::uint8_t palette, start_row, reserved[14];
    std::uint16_t row_bytes[16];
    std::uint8_t num_rows[16];
  };
  static constexpr Shapes whole = {1, 0, {}, {64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16}};
  constexpr double operations = 4.0 * 2 * 16 * 32 * 16;
  _tile_loadconfig(&whole);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  for (std::int64_t round = 0; round < rounds; ++round) {
    _tile_dpbf16ps(0, 4, 5);
    _tile_dpbf16ps(1, 4, 5);
    _tile_dpbf16ps(2, 4, 5);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_release();
  return operations * static_cast<double>(rounds);
}

/// Some hypervisors hide an instruction that the core executes: a child process tries it, and may die of it.
bool has_dot_products() noexcept {
  if (!__builtin_cpu_supports("avx512f")) return false;
  const pid_t child = fork();
  if (child == 0) {
    dot_products(1);
    _exit(0);
  }
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
#else
double dot_products(std::int64_t) noexcept { return 0; }
double tile_products(std::int64_t) noexcept { return 0; }
bool has_dot_products() noexcept { return false; }
#endif

template <class Run>
double rate(const Run& run) noexcept {
  const double begin = thread_seconds();
  const double operations = run(200000);
  return operations / (thread_seconds() - begin);
}

}  // namespace

double multiply_and_add(std::int64_t rounds) noexcept {
  volatile float numbers[] = {0.999f, 0.001f};
  float sink[] = {numbers[0], numbers[1], 0};
  const double operations = ROTARY_KERNEL(multiply_and_add)(rounds, sink);
  numbers[0] = sink[2];
  return operations;
}

double fma_rate() noexcept {
  return rate([](std::int64_t rounds) { return multiply_and_add(rounds); });
}

double issue_rate() noexcept {
  constexpr std::int64_t rounds = 100000;
  constexpr int registers = 8;
  std::uint64_t x[registers] = {};
  const double begin = thread_seconds();
  for (std::int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 8
    for (std::uint64_t& sum : x) {
      ++sum;
      __asm__ volatile("" : "+r"(sum));  // each addition stays one
    }
  }
  return registers * static_cast<double>(rounds) / (thread_seconds() - begin);
}

double bf16_dot_rate() noexcept {
  static const bool there = has_dot_products();
  return there ? rate(dot_products) : 0;
}

double bf16_tile_rate() noexcept {
  constexpr std::int64_t rounds = 20000;
  if (active_isa() != Isa::amx) return 0;
  const double begin = thread_seconds(), operations = tile_products(rounds);
  return operations / (thread_seconds() - begin);
}

}  // namespace rotary::bench
#endif
