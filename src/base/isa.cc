#include "rotary/isa.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdlib>
#include <string>

#include "base/fail.h"

namespace rotary {
namespace {

constexpr Isa all[] = {Isa::scalar, Isa::sse4, Isa::avx2, Isa::avx512, Isa::neon};

#if defined(__x86_64__)
bool has_f16c() noexcept {  // __builtin_cpu_supports of clang 14 does not know it
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
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
#elif defined(__aarch64__)
    case Isa::neon: return true;
#endif
    default: return false;
  }
}

Isa choose() {
  const std::vector<Isa> available = available_isas();
  const char* wanted = std::getenv("ROTARY_ISA");
  if (wanted == nullptr || *wanted == '\0') return available.back();
  std::string names;
  for (const Isa isa : available) {
    if (std::string(wanted) == name(isa)) return isa;
    names += (names.empty() ? "" : ", ") + std::string(name(isa));
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
