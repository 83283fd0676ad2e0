// Linear attention of one head, RoFormer's, one thread: prefill, and a step of a stream.
//
// Operations of prefill: 4 * features * values per token for the sums, (chunk + 1) * (features + values) for the pairs within
// a chunk; maps, rotation and denominators are not counted. `of_peak` as in attention_bench.cc.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "fma_peak.h"
#include "rotary/frequencies.hpp"
#include "rotary/isa.hpp"
#include "rotary/linear_attention.hpp"

namespace rotary {
namespace {

constexpr std::int64_t width = 64;

std::vector<float> numbers(std::int64_t count, unsigned seed) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    values.push_back(static_cast<float>(seed >> 8) * 0x1p-23f - 1);
  }
  return values;
}

Rotation rotation() {
  return Rotation({.head_dim = width, .pairing_in = Pairing::half, .inv_freq = default_frequencies(10000, width).inv_freq});
}

void prefill(benchmark::State& state) {
  const std::int64_t length = state.range(0), chunk_size = state.range(1);
  const std::vector<float> q = numbers(length * width, 1), k = numbers(length * width, 2), v = numbers(length * width, 3);
  std::vector<float> out(q.size());
  const auto view = [&](const std::vector<float>& x) { return ConstTensorView(x.data(), "SD", {length, width}); };
  const Rotation turn = rotation();
  const LinearAttentionOptions options{.rotation = &turn, .is_causal = true, .chunk_size = chunk_size};
  const auto tokens = static_cast<double>(length);
  const double operations = tokens * static_cast<double>(4 * width * width + (chunk_size + 1) * 2 * width);
  double best = 1e30, best_share = 0;
  for (auto _ : state) {
    const double peak = bench::fma_rate();
    const double begin = bench::thread_seconds();
    linear_attention(view(q), view(k), view(v), TensorView(out.data(), "SD", {length, width}), options);
    const double seconds = bench::thread_seconds() - begin;
    state.SetIterationTime(seconds);
    best = std::min(best, seconds);
    best_share = std::max(best_share, operations / seconds / std::max(peak, bench::fma_rate()));
  }
  state.counters["ns_per_token"] = best / tokens * 1e9;
  state.counters["of_peak"] = best_share;
  state.SetLabel(name(active_isa()));
}
BENCHMARK(prefill)
    ->ArgNames({"length", "chunk"})
    ->ArgsProduct({{1024, 8192, 65536, 1048576}, {32}})
    ->ArgsProduct({{8192}, {16, 64}})
    ->Unit(benchmark::kMillisecond)
    ->UseManualTime();

void step(benchmark::State& state) {
  const std::int64_t heads = state.range(0);
  const std::vector<float> x = numbers(heads * width, 1);
  std::vector<float> out(x.size());
  const ConstTensorView token(x.data(), "SHD", {1, heads, width});
  const Rotation turn = rotation();
  LinearState sums;
  LinearAttentionOptions options{.rotation = &turn, .is_causal = true, .state = &sums};
  double best = 1e30;
  for (auto _ : state) {
    const double begin = bench::thread_seconds();
    linear_attention(token, token, token, TensorView(out.data(), "SHD", {1, heads, width}), options);
    const double seconds = bench::thread_seconds() - begin;
    state.SetIterationTime(seconds);
    best = std::min(best, seconds);
    ++options.q_positions.offset;
    ++options.k_positions.offset;
  }
  state.counters["ns_per_head"] = best / static_cast<double>(heads) * 1e9;
  state.SetLabel(name(active_isa()));
}
BENCHMARK(step)->ArgNames({"heads"})->Arg(1)->Arg(32)->UseManualTime();

}  // namespace
}  // namespace rotary
