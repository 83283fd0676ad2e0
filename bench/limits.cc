// What this machine can do at its best, on one core, by loops that do nothing else, with the active instruction set
// (ROTARY_ISA=avx2 limits for another): fma, bf16-dot and bf16-tiles compute; read and in-place move so many KiB of memory.
#include <algorithm>
#include <cstdint>
#include <string>

#include "filled.h"
#include "fma_peak.h"
#include "gauge.h"
#include "memory_rate.h"
#include "rotary/isa.hpp"

namespace rotary {
namespace {

constexpr int samples = 15;

/// The best of some samples: a limit is what can be reached.
template <class Rate>
void report(benchmark::State& state, const char* unit, double amount, const Rate& rate) {
  while (state.KeepRunning()) {
    double best = 0;
    for (int i = 0; i < samples; ++i) best = std::max(best, rate());
    state.counters["median_ns"] = 1e9 * amount / best;
    state.counters["figure"] = 1e-9 * best;
    state.counters["threads"] = 1;
    state.counters["samples"] = samples;
    state.SetIterationTime(amount / best);
  }
  state.SetLabel(std::string(name(active_isa())) + " " + unit);
}

void fma(benchmark::State& state) { report(state, "GFLOP/s", 1e6, bench::fma_rate); }

/// Where the machine has the instruction.
void bf16(benchmark::State& state, double (*rate)() noexcept) {
  if (rate() > 0) report(state, "GFLOP/s", 1e6, rate);
  else state.SkipWithError("this machine has no such instruction");
}

void memory(benchmark::State& state, bench::Traffic traffic, std::int64_t kib) {
  const bench::Filled numbers(DType::f32, "S", {kib * 256}, 1);
  const bench::MemoryRate rate(traffic, {{numbers.data(), numbers.num_bytes()}});
  report(state, "GB/s", (traffic == bench::Traffic::in_place ? 2 : 1) * static_cast<double>(numbers.num_bytes()),
         [&] { return rate.measure(); });
}

void add(bench::Traffic traffic, std::int64_t kib) {
  bench::add_case(bench::title("limit", traffic == bench::Traffic::read ? "read" : "in-place", kib),
                  [=](benchmark::State& state) { memory(state, traffic, kib); });
}

const bool added = [] {
  std::string sets;
  for (const Isa isa : available_isas()) sets.append(name(isa)).append(" ");
  benchmark::AddCustomContext("instruction_sets", sets);
  bench::add_case("limit/fma", fma);
  if (active_isa() == Isa::avx512 || active_isa() == Isa::avx512_bf16) {
    bench::add_case("limit/bf16-dot", [](benchmark::State& state) { bf16(state, bench::bf16_dot_rate); });
  }
  if (active_isa() == Isa::amx) {
    bench::add_case("limit/bf16-tiles", [](benchmark::State& state) { bf16(state, bench::bf16_tile_rate); });
  }
  for (const std::int64_t kib : {32, 1024, 8192, 262144}) {
    add(bench::Traffic::read, kib);
    add(bench::Traffic::in_place, kib);
  }
  return true;
}();

}  // namespace
}  // namespace rotary
