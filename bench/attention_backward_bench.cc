// Gradients of causal attention of a whole prompt, with the rotation inside, one thread.
//
// Operations: 10 * width per query and visible key (five products), nothing else counts. `GFLOPS` is the best run; `of_peak`
// the best share of the rate of independent FMAs, measured before and after every run on the same core.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "fma_peak.h"
#include "rotary/attention_backward.hpp"
#include "rotary/frequencies.hpp"
#include "rotary/isa.hpp"

namespace rotary {
namespace {

constexpr std::int64_t num_q_heads = 4, num_kv_heads = 1;  // one KV head of a model with groups of four

/// Numbers from -1 to 1, as `dtype`.
class Numbers {
 public:
  Numbers(DType dtype, std::int64_t length, std::int64_t heads, std::int64_t width, unsigned seed)
      : wide_(static_cast<std::size_t>(length * heads * width)), narrow_(wide_.size()) {
    for (std::size_t i = 0; i < wide_.size(); ++i) {
      seed = seed * 1664525u + 1013904223u;
      wide_[i] = static_cast<float>(seed >> 8) * 0x1p-23f - 1;
      narrow_[i] = to_bfloat16(wide_[i]).bits;
    }
    void* const data = dtype == DType::f32 ? static_cast<void*>(wide_.data()) : narrow_.data();
    view_ = TensorView(data, dtype, "SHD", {length, heads, width});
  }
  operator const TensorView&() const { return view_; }

 private:
  std::vector<float> wide_;
  std::vector<std::uint16_t> narrow_;
  TensorView view_;
};

void backward(benchmark::State& state, DType dtype) {
  const std::int64_t width = state.range(0), length = state.range(1);
  const Numbers q(dtype, length, num_q_heads, width, 1), k(dtype, length, num_kv_heads, width, 2),
      v(dtype, length, num_kv_heads, width, 3), dout(dtype, length, num_q_heads, width, 4);
  const Numbers out(dtype, length, num_q_heads, width, 5), dq(dtype, length, num_q_heads, width, 6),
      dk(dtype, length, num_kv_heads, width, 7), dv(dtype, length, num_kv_heads, width, 8);
  std::vector<float> lse(static_cast<std::size_t>(length * num_q_heads));
  const Rotation rotation(
      {.head_dim = width, .pairing_in = Pairing::half, .inv_freq = default_frequencies(10000, width).inv_freq});
  const AttentionOptions options{.rotation = &rotation,
                                 .causal = Causal::top_left,
                                 .lse = TensorView(lse.data(), DType::f32, "SH", {length, num_q_heads})};
  attention(q, k, v, out, options);

  const double pairs = static_cast<double>(length) * static_cast<double>(length + 1) / 2;
  const double operations = 10.0 * static_cast<double>(num_q_heads * width) * pairs;
  double best_rate = 0, best_share = 0;
  for (auto _ : state) {
    const double peak = bench::fma_rate();
    const double begin = bench::thread_seconds();
    attention_backward(q, k, v, out, dout, {.q = dq, .k = dk, .v = dv}, options);
    const double seconds = bench::thread_seconds() - begin;
    state.SetIterationTime(seconds);
    best_rate = std::max(best_rate, operations / seconds);
    best_share = std::max(best_share, operations / seconds / std::max(peak, bench::fma_rate()));
  }
  state.counters["GFLOPS"] = best_rate * 1e-9;
  state.counters["of_peak"] = best_share;
  state.SetLabel(name(active_isa()));
}

void f32(benchmark::State& state) { backward(state, DType::f32); }
void bf16(benchmark::State& state) { backward(state, DType::bf16); }
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
