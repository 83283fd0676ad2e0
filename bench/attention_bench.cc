// Prefill: causal attention of a whole prompt with the rotation inside, one thread.
//
// Operations: 4 * width per query and visible key, nothing else counts. `GFLOPS` is the best run; `of_peak` the best share
// of the rate of independent FMAs, measured before and after every run on the same core: shared machines change from moment
// to moment.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "fma_peak.h"
#include "rotary/attention.hpp"
#include "rotary/frequencies.hpp"
#include "rotary/isa.hpp"

namespace rotary {
namespace {

constexpr std::int64_t num_q_heads = 4, num_kv_heads = 1;  // one KV head of a model with groups of four

std::vector<std::uint16_t> sixteen_bits(const std::vector<float>& numbers) {
  std::vector<std::uint16_t> narrow;
  for (const float x : numbers) narrow.push_back(to_bfloat16(x).bits);
  return narrow;
}

std::vector<float> numbers(std::int64_t count, unsigned seed) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values.push_back(static_cast<float>(seed >> 8) * 0x1p-23f - 1);
  }
  return values;
}

void prefill(benchmark::State& state, DType dtype) {
  const std::int64_t width = state.range(0), length = state.range(1);
  const std::vector<float> q32 = numbers(length * num_q_heads * width, 1), k32 = numbers(length * num_kv_heads * width, 2),
                           v32 = numbers(length * num_kv_heads * width, 3);
  const std::vector<std::uint16_t> q16 = sixteen_bits(q32), k16 = sixteen_bits(k32), v16 = sixteen_bits(v32);
  std::vector<float> out(q32.size());
  const auto view = [&](const std::vector<float>& wide, const std::vector<std::uint16_t>& narrow, std::int64_t heads) {
    const void* const data = dtype == DType::f32 ? static_cast<const void*>(wide.data()) : narrow.data();
    return ConstTensorView(data, dtype, "SHD", {length, heads, width});
  };
  const Rotation rotation(
      {.head_dim = width, .pairing_in = Pairing::half, .inv_freq = default_frequencies(10000, width).inv_freq});
  const AttentionOptions options{.rotation = &rotation, .causal = Causal::top_left};

  const double pairs = static_cast<double>(length) * static_cast<double>(length + 1) / 2;
  const double operations = 4.0 * static_cast<double>(num_q_heads * width) * pairs;
  double best_rate = 0, best_share = 0;
  for (auto _ : state) {
    const double peak = bench::fma_rate();
    const double begin = bench::thread_seconds();
    attention(view(q32, q16, num_q_heads), view(k32, k16, num_kv_heads), view(v32, v16, num_kv_heads),
              TensorView(out.data(), dtype, "SHD", {length, num_q_heads, width}), options);
    const double seconds = bench::thread_seconds() - begin;
    state.SetIterationTime(seconds);
    best_rate = std::max(best_rate, operations / seconds);
    best_share = std::max(best_share, operations / seconds / std::max(peak, bench::fma_rate()));
  }
  state.counters["GFLOPS"] = best_rate * 1e-9;
  state.counters["of_peak"] = best_share;
  state.SetLabel(name(active_isa()));
}

void f32(benchmark::State& state) { prefill(state, DType::f32); }
void bf16(benchmark::State& state) { prefill(state, DType::bf16); }
BENCHMARK(f32)
    ->ArgNames({"width", "length"})
    ->ArgsProduct({{64, 128}, {512, 1024, 2048, 4096}})
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();
BENCHMARK(bf16)
    ->ArgNames({"width", "length"})
    ->ArgsProduct({{64, 128}, {512, 1024, 2048, 4096}})
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

}  // namespace
}  // namespace rotary
