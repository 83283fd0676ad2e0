// Decode: one query of 32 heads against a cache of 8 KV heads of 128, one thread.
//
// `GB_per_s` counts keys and values once, and is the best run; `of_read` the best share of the rate at which the same memory is
// read by plain loads, measured before and after every run on the same core.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "bandwidth.h"
#include "fma_peak.h"
#include "rotary/frequencies.hpp"
#include "rotary/isa.hpp"
#include "rotary/kv_cache.hpp"

namespace rotary {
namespace {

constexpr std::int64_t num_kv_heads = 8, width = 128;

void decode(benchmark::State& state, DType dtype) {
  const std::int64_t length = state.range(0), num_q_heads = num_kv_heads * state.range(1), block_size = 32;
  const Rotation rotation(
      {.head_dim = width, .pairing_in = Pairing::half, .inv_freq = default_frequencies(10000, width).inv_freq});
  KvCache cache({.num_kv_heads = num_kv_heads,
                 .head_dim = width,
                 .dtype = dtype,
                 .rotation = &rotation,
                 .block_size = block_size,
                 .num_blocks = length / block_size});
  std::vector<float> tokens(static_cast<std::size_t>(1024 * num_kv_heads * width));
  unsigned seed = 1;
  for (float& x : tokens) x = static_cast<float>((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1;
  const ConstTensorView view(tokens.data(), "SHD", {1024, num_kv_heads, width});
  for (std::int64_t i = 0; i < length; i += 1024) cache.append(0, view, view);

  std::vector<float> q(static_cast<std::size_t>(num_q_heads * width), 0.1f), out(q.size());
  const ConstTensorView q_view(q.data(), "SHD", {1, num_q_heads, width});
  const TensorView out_view(out.data(), "SHD", {1, num_q_heads, width});
  const auto half = static_cast<std::size_t>(length * num_kv_heads * width * bit_size(dtype) / 8);
  const double scales = dtype == DType::i8 ? 8.0 * static_cast<double>(length * num_kv_heads) : 0;
  const double bytes = 2 * static_cast<double>(half) + scales;
  const auto read_rate = [&] {  // blocks follow each other, as they were taken
    const double keys = bench::read_rate(cache.keys(0).data(), half),
                 values = bench::read_rate(cache.values(0).data(), half);
    return 2 / (1 / keys + 1 / values);
  };
  double best_rate = 0, best_share = 0;
  double before = read_rate();
  for (auto _ : state) {
    const double begin = bench::thread_seconds();
    attention(q_view, cache, {0}, out_view);
    const double seconds = bench::thread_seconds() - begin;
    state.SetIterationTime(seconds);
    const double after = read_rate();
    best_rate = std::max(best_rate, bytes / seconds);
    best_share = std::max(best_share, bytes / seconds / std::max(before, after));
    before = after;
  }
  state.counters["GB_per_s"] = best_rate * 1e-9;
  state.counters["of_read"] = best_share;
  state.SetLabel(name(active_isa()));
}

void f32(benchmark::State& state) { decode(state, DType::f32); }
void f16(benchmark::State& state) { decode(state, DType::f16); }
void bf16(benchmark::State& state) { decode(state, DType::bf16); }
void i8(benchmark::State& state) { decode(state, DType::i8); }

#define ROTARY_DECODE(dtype)                                         \
  BENCHMARK(dtype)                                                   \
      ->ArgNames({"length", "group"})                                \
      ->ArgsProduct({{1024, 4096, 16384, 32768, 131072}, {1, 4, 8}}) \
      ->Unit(benchmark::kMicrosecond)                                \
      ->UseManualTime()
ROTARY_DECODE(f32);
ROTARY_DECODE(bf16);
ROTARY_DECODE(f16);
ROTARY_DECODE(i8);

}  // namespace
}  // namespace rotary
