// Linear attention, one thread: prefill by every method, and a step of a stream. float32, 64 channels, 64 values.
//
// Operations of prefill, per token and head: 4 * features * values for the sums, (chunk + 1) * (features + values) for the
// pairs within a chunk; maps, rotation and denominators are not counted. `of_peak` as in attention_bench.cc. `of_in_place`:
// the time to read and write the state once, in place, over the time of a step; the middle one of all samples.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "fma_peak.h"
#include "linear_methods.h"
#include "rotary/isa.hpp"

namespace rotary {
namespace {

using bench::LinearMethod;
using bench::width;

void prefill(benchmark::State& state, const std::string& name) {
  const std::int64_t length = state.range(0), chunk_size = state.range(1), heads = state.range(2);
  LinearMethod method(name);
  const bench::Inputs inputs(heads, length);
  method.options.chunk_size = chunk_size;
  const std::int64_t features = method.num_features();
  const auto tokens = static_cast<double>(heads * length);
  const double operations = tokens * static_cast<double>(4 * features * width + (chunk_size + 1) * (features + width));
  double best = 1e30, best_share = 0;
  for (auto _ : state) {
    const double peak = bench::fma_rate();
    const double begin = bench::thread_seconds();
    inputs.attend(method.options);
    const double seconds = bench::thread_seconds() - begin;
    state.SetIterationTime(seconds);
    best = std::min(best, seconds);
    best_share = std::max(best_share, operations / seconds / std::max(peak, bench::fma_rate()));
  }
  state.counters["ns_per_token"] = best / tokens * 1e9;
  state.counters["of_peak"] = best_share;
  state.SetLabel(rotary::name(active_isa()));
}

#define PREFILL(name)                          \
  BENCHMARK_CAPTURE(prefill, name, #name)      \
      ->ArgNames({"length", "chunk", "heads"}) \
      ->Unit(benchmark::kMillisecond)          \
      ->UseManualTime()
PREFILL(roformer)
    ->ArgsProduct({{256, 1024, 8192, 65536}, {32}, {8}})
    ->ArgsProduct({{1 << 20}, {32}, {1}})
    ->ArgsProduct({{8192}, {16, 64}, {8}});
PREFILL(elu)->Args({8192, 32, 8});
PREFILL(cosformer)->Args({8192, 32, 8});
PREFILL(performer)->Args({8192, 32, 8});
PREFILL(taylor2)->Args({8192, 32, 1});

void step(benchmark::State& state) {
  const std::int64_t heads = state.range(0), steps = std::max<std::int64_t>(1, 64 / heads);  // tens of microseconds
  LinearMethod method("roformer");
  LinearAttentionOptions& options = method.options;
  const std::vector<float> x = bench::numbers(heads * width, 1);
  std::vector<float> out(x.size());
  const ConstTensorView token(x.data(), "SHD", {1, heads, width});
  LinearState sums;
  options.state = &sums;
  std::vector<float> in_place(static_cast<std::size_t>(heads * width * width));
  double best = 1e30;
  std::vector<double> shares;
  for (auto _ : state) {
    const double limit = bench::in_place_seconds(in_place.data(), heads * width * width);
    const double begin = bench::thread_seconds();
    for (std::int64_t i = 0; i < steps; ++i) {
      linear_attention(token, token, token, TensorView(out.data(), "SHD", {1, heads, width}), options);
      ++options.q_positions.offset;
      ++options.k_positions.offset;
    }
    const double seconds = (bench::thread_seconds() - begin) / static_cast<double>(steps);
    state.SetIterationTime(seconds);
    best = std::min(best, seconds);
    shares.push_back(limit / seconds);
  }
  state.counters["ns_per_head"] = best / static_cast<double>(heads) * 1e9;
  std::nth_element(shares.begin(), shares.begin() + static_cast<std::ptrdiff_t>(shares.size() / 2), shares.end());
  state.counters["of_in_place"] = shares[shares.size() / 2];
  state.SetLabel(rotary::name(active_isa()));
}
BENCHMARK(step)->ArgNames({"heads"})->Arg(1)->Arg(8)->Arg(64)->UseManualTime();

}  // namespace
}  // namespace rotary
