// Attention of a whole prompt with the rotation inside: prefill/DTYPE/dWIDTH/LENGTH/THREADS, causal, with groups of four query
// heads; and with a window of 1024 tokens, window/DTYPE/dWIDTH/8192. The smallest call, smallest/attention, and one
// with four heads and a rotation, smallest/attention/rotated.
//
// Operations: 4 * width per query and visible key, nothing else counts. Prefill is held against the rate of independent FMAs on
// as many cores, or of products of bfloat16 pairs where those are used (one core's, times so many); a window against the rate
// that the whole of the same length reaches, in turns with it.
#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "clock.h"
#include "filled.h"
#include "fma_peak.h"
#include "gauge.h"
#include "half_rotation.h"
#include "rotary/attention.hpp"
#include "rotary/isa.hpp"

namespace rotary {
namespace {

constexpr std::int64_t group = 4;

/// One prompt, so many KV heads.
struct Prompt {
  Prompt(DType dtype, std::int64_t width_of_head, std::int64_t num_tokens, std::int64_t num_kv_heads)
      : width(width_of_head),
        length(num_tokens),
        num_q_heads(group * num_kv_heads),
        q(dtype, "SHD", {length, num_q_heads, width}, 1),
        k(dtype, "SHD", {length, num_kv_heads, width}, 2),
        v(dtype, "SHD", {length, num_kv_heads, width}, 3),
        out(dtype, "SHD", {length, num_q_heads, width}, 4),
        rotation(bench::half_rotation(width)),
        options{.rotation = &rotation, .causal = Causal::top_left} {}

  void attend() const { attention(q, k, v, out, options); }

  double operations() const {
    double pairs = 0;
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t most = options.window_left < 0 ? length : options.window_left + 1;
      pairs += static_cast<double>(std::min(i + 1, most));
    }
    return 4 * static_cast<double>(num_q_heads * width) * pairs;
  }

  std::int64_t width, length, num_q_heads;
  bench::Filled q, k, v, out;
  Rotation rotation;
  AttentionOptions options;
};

void prefill(benchmark::State& state, DType dtype, std::int64_t width, std::int64_t length, int threads) {
  Prompt prompt(dtype, width, length, threads);
  ThreadPool pool(threads);
  if (threads > 1) prompt.options.executor = &pool;
  const double elements = static_cast<double>(2 * (group + 1) * threads * length * width);
  bench::Work work{.call = [&] { prompt.attend(); },
                   .operations = prompt.operations(),
                   .bytes = elements * static_cast<double>(bit_size(dtype)) / 8,
                   .target = dtype != DType::f32 ? 87.0
                             : length < 2048     ? 80
                             : width < 128       ? 85
                                                 : 88,
                   .executor = prompt.options.executor};
  const bool has_pairs = active_isa() == Isa::avx512_bf16 || active_isa() == Isa::amx;
  if (dtype != DType::bf16 || !has_pairs) return bench::measure_computing(state, work);
  const auto bf16_rate = active_isa() == Isa::amx ? bench::bf16_tile_rate : bench::bf16_dot_rate;
  work.target = 80;
  bench::measure_beside(state, work, [=] { return threads * bf16_rate(); });
}

void window(benchmark::State& state, DType dtype, std::int64_t width) {
  constexpr std::int64_t length = 8192;
  const Prompt whole(dtype, width, length, 1);
  Prompt windowed(dtype, width, length, 1);
  windowed.options.window_left = 1023;
  const auto limit = [&] {
    const double begin = bench::thread_seconds();
    whole.attend();
    return whole.operations() / (bench::thread_seconds() - begin);
  };
  bench::measure_beside(
      state, {.call = [&] { windowed.attend(); }, .operations = windowed.operations(), .target = 100 / 1.15}, limit);
}

/// One query, which sees one key. What it costs beyond its arithmetic is nearly all of it.
void measure_small(benchmark::State& state, const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                   const TensorView& out, AttentionOptions options, double most) {
  std::vector<char> workspace(static_cast<std::size_t>(attention_workspace_bytes(q, k, v, out, options)));
  options.workspace = workspace.data();
  options.workspace_bytes = static_cast<std::int64_t>(workspace.size());
  bench::measure_time(state, {.call = [&] { attention(q, k, v, out, options); }}, most);
}

void smallest(benchmark::State& state) {
  const auto row = [](unsigned seed) { return bench::Filled(DType::f32, "SHD", {1, 1, 16}, seed); };
  const bench::Filled q = row(1), k = row(2), v = row(3), out = row(4);
  measure_small(state, q, k, v, out, {}, 300);
}

void smallest_rotated(benchmark::State& state) {
  const Prompt prompt(DType::f32, 16, 1, 1);
  measure_small(state, prompt.q, prompt.k, prompt.v, prompt.out, prompt.options, 0);
}

void add(DType dtype, std::int64_t width) {
  const int most_threads = std::thread::hardware_concurrency() > 1 ? 2 : 1;
  const std::string head = std::string("d").append(std::to_string(width));
  for (const std::int64_t length : {512, 1024, 2048, 4096, 8192}) {
    for (int threads = 1; threads <= most_threads; ++threads) {
      bench::add_case(bench::title("prefill", name(dtype), head, length, threads),
                      [=](benchmark::State& state) { prefill(state, dtype, width, length, threads); });
    }
  }
  bench::add_case(bench::title("window", name(dtype), head, 8192),
                  [=](benchmark::State& state) { window(state, dtype, width); });
}

const bool added = [] {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const std::int64_t width : {64, 128}) add(dtype, width);
  }
  bench::add_case("smallest/attention", smallest);
  bench::add_case("smallest/attention/rotated", smallest_rotated);
  return true;
}();

}  // namespace
}  // namespace rotary
