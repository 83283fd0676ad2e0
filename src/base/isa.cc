#include "rotary/isa.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/fail.h"

namespace rotary {
namespace {

constexpr Isa all[] = {Isa::scalar, Isa::sse4, Isa::avx2, Isa::avx512, Isa::avx512_bf16, Isa::amx, Isa::neon};

#if defined(__x86_64__)
// What __builtin_cpu_supports of clang 14 does not know.

struct CpuidWords {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

CpuidWords cpuid(unsigned leaf, unsigned subleaf) noexcept {
  CpuidWords words;
  __get_cpuid_count(leaf, subleaf, &words.eax, &words.ebx, &words.ecx, &words.edx);
  return words;
}

bool is_amd() noexcept { return cpuid(0, 0).ecx == signature_AMD_ecx; }
bool has_f16c() noexcept { return (cpuid(1, 0).ecx & bit_F16C) != 0; }
bool has_avx512_bf16() noexcept { return (cpuid(7, 1).eax & 1u << 5) != 0; }
bool has_amx_bf16() noexcept {
  constexpr unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24;
  return (cpuid(7, 0).edx & (amx_bf16 | amx_tile)) == (amx_bf16 | amx_tile);
}

// Linux gives the matrix unit to processes that ask (since 5.16; Documentation/arch/x86/xstate.rst).
#if defined(__linux__)
constexpr long supported_features = 0x1021, request_permission = 0x1023, tile_data = 18;

bool system_has_amx() noexcept {
  std::uint64_t features = 0;
  return ::syscall(SYS_arch_prctl, supported_features, &features) == 0 && (features >> tile_data & 1) != 0;
}
/// Granted again where it was; refused where a thread has a signal stack too small for what there is to save.
bool ask_for_amx() noexcept { return ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0; }
#else
bool system_has_amx() noexcept { return false; }
bool ask_for_amx() noexcept { return false; }
#endif
#else
bool is_amd() noexcept { return false; }
bool ask_for_amx() noexcept { return false; }
#endif

// The same features that Highway compiles each target for.
bool machine_has([[maybe_unused]] Isa isa) noexcept {
  switch (isa) {
    case Isa::scalar: return true;
#if defined(__x86_64__)
    case Isa::sse4:
      return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("aes");
    case Isa::avx2:
      return machine_has(Isa::sse4) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && has_f16c();
    case Isa::avx512:
      return machine_has(Isa::avx2) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    case Isa::avx512_bf16: return machine_has(Isa::avx512) && has_avx512_bf16();
    case Isa::amx: return machine_has(Isa::avx512_bf16) && has_amx_bf16() && system_has_amx();
#elif defined(__aarch64__)
    case Isa::neon: return true;
#endif
    default: return false;
  }
}

/// Not by feature alone: Intel's cores begin a product of bfloat16 pairs every other cycle, which makes half the rate of their
/// multiply-adds; AMD's make twice that rate.
Isa best(const std::vector<Isa>& available) noexcept {
  const Isa last = available.back();
  if (last == Isa::amx && ask_for_amx()) return last;
  if (last != Isa::amx && (last != Isa::avx512_bf16 || is_amd())) return last;
  return Isa::avx512;
}

Isa choose() {
  const std::vector<Isa> available = available_isas();
  const char* wanted = std::getenv("ROTARY_ISA");
  if (wanted == nullptr || *wanted == '\0') return best(available);
  std::string names;
  for (const Isa isa : available) {
    names += (names.empty() ? "" : ", ") + std::string(name(isa));
    if (std::string(wanted) != name(isa)) continue;
    if (isa == Isa::amx && !ask_for_amx()) {
      fail_unsupported("ROTARY_ISA", "the system refuses amx to this process: a thread's signal stack may be too small");
    }
    return isa;
  }
  fail_unsupported("ROTARY_ISA", "must name an instruction set of this machine (", names, "), got ", wanted);
}

}  // namespace

const char* name(Isa isa) noexcept {
  switch (isa) {
    case Isa::scalar: return "scalar";
    case Isa::sse4: return "sse4";
    case Isa::avx2: return "avx2";
    case Isa::avx512: return "avx512";
    case Isa::avx512_bf16: return "avx512_bf16";
    case Isa::amx: return "amx";
    case Isa::neon: return "neon";
  }
  return "unknown";
}

std::vector<Isa> available_isas() {
  std::vector<Isa> available;
  for (const Isa isa : all) {
    if (machine_has(isa)) available.push_back(isa);
  }
  return available;
}

Isa active_isa() {
  static const Isa chosen = choose();
  return chosen;
}

}  // namespace rotary
