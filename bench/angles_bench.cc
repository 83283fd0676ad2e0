// Angles of one token of 64 pairs, by recipe: ns per token. ROTARY_ISA=avx2 angles_bench for another instruction set.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "rotary/angles.hpp"
#include "rotary/frequencies.hpp"
#include "rotary/isa.hpp"
#include "rotation/angles.h"

namespace rotary {
namespace {

Rotation llama3() {
  return Rotation({.head_dim = 128, .pairing_in = Pairing::half, .inv_freq = default_frequencies(5e5, 128).inv_freq});
}

template <class T>
void angle_rows(benchmark::State& state, Precision precision, double first) {
  const Rotation rotation = llama3();
  const AngleRows rows("bench", rotation, precision);
  std::vector<T> cos(64), sin(64);
  double position = first;
  for (auto _ : state) {
    rows.row(&position, cos.data(), sin.data());
    benchmark::DoNotOptimize(cos.data());
    benchmark::DoNotOptimize(sin.data());
    benchmark::ClobberMemory();
    position += 1;
  }
  state.SetLabel(name(active_isa()));
}

/// What a plain loop over libm costs; its angle is rounded before it is reduced.
void libm(benchmark::State& state) {
  const Rotation rotation = llama3();
  std::vector<float> cos(64), sin(64);
  double position = 0;
  for (auto _ : state) {
    for (std::size_t j = 0; j < 64; ++j) {
      const double angle = position * rotation.inv_freq()[j];
      cos[j] = static_cast<float>(std::cos(angle));
      sin[j] = static_cast<float>(std::sin(angle));
    }
    benchmark::DoNotOptimize(cos.data());
    benchmark::DoNotOptimize(sin.data());
    benchmark::ClobberMemory();
    position += 1;
  }
}

void exact(benchmark::State& state) { angle_rows<float>(state, Precision::exact, 0); }
void exact_past_2_to_32_turns(benchmark::State& state) { angle_rows<float>(state, Precision::exact, 1e15); }
void exact_in_double(benchmark::State& state) { angle_rows<double>(state, Precision::exact, 0); }
void transformers(benchmark::State& state) { angle_rows<float>(state, Precision::transformers, 0); }
void ggml(benchmark::State& state) { angle_rows<float>(state, Precision::ggml, 0); }

/// What one row costs in a table, where runs of 16 are made together.
void exact_in_a_table(benchmark::State& state) {
  constexpr std::int64_t num_rows = 4096;
  const Rotation rotation = llama3();
  for (auto _ : state) benchmark::DoNotOptimize(AngleTable::build(rotation, 0, num_rows).cos(0));
  state.counters["row"] =
      benchmark::Counter(num_rows, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.SetLabel(name(active_isa()));
}

BENCHMARK(exact);
BENCHMARK(exact_in_a_table);
BENCHMARK(exact_past_2_to_32_turns);
BENCHMARK(exact_in_double);
BENCHMARK(transformers);
BENCHMARK(ggml);
BENCHMARK(libm);

}  // namespace
}  // namespace rotary
