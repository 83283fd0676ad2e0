// Gradients of causal attention of a whole prompt, with the rotation inside: backward/DTYPE/dWIDTH/LENGTH/THREADS, with groups
// of four query heads.
//
// Operations: 10 * width per query and visible key (five products), nothing else counts. The limit is the rate of independent
// FMAs on as many cores.
#include <cstdint>
#include <string>
#include <thread>

#include "filled.h"
#include "gauge.h"
#include "half_rotation.h"
#include "rotary/attention_backward.hpp"

namespace rotary {
namespace {

constexpr std::int64_t group = 4;

void backward(benchmark::State& state, DType dtype, std::int64_t width, std::int64_t length, int threads) {
  const std::int64_t num_q_heads = group * threads, num_kv_heads = threads;
  const auto queries = [&](unsigned seed) { return bench::Filled(dtype, "SHD", {length, num_q_heads, width}, seed); };
  const auto keys = [&](unsigned seed) { return bench::Filled(dtype, "SHD", {length, num_kv_heads, width}, seed); };
  const bench::Filled q = queries(1), k = keys(2), v = keys(3), dout = queries(4), out = queries(5), dq = queries(6),
                      dk = keys(7), dv = keys(8);
  const bench::Filled lse(DType::f32, "SH", {length, num_q_heads}, 9);
  const Rotation rotation = bench::half_rotation(width);
  ThreadPool pool(threads);
  const AttentionOptions options{
      .rotation = &rotation, .causal = Causal::top_left, .lse = lse, .executor = threads > 1 ? &pool : nullptr};
  attention(q, k, v, out, options);

  const double pairs = static_cast<double>(length) * static_cast<double>(length + 1) / 2;
  const double elements = static_cast<double>(4 * (group + 1) * threads * length * width);
  bench::measure_computing(state,
                           {.call = [&] { attention_backward(q, k, v, out, dout, {.q = dq, .k = dk, .v = dv}, options); },
                            .operations = 10 * static_cast<double>(num_q_heads * width) * pairs,
                            .bytes = elements * static_cast<double>(bit_size(dtype)) / 8,
                            .target = length < 2048 ? 0.0 : 82,
                            .executor = options.executor});
}

void add(DType dtype, std::int64_t width, std::int64_t length, int threads) {
  bench::add_case(bench::title("backward", name(dtype), std::string("d").append(std::to_string(width)), length, threads),
                  [=](benchmark::State& state) { backward(state, dtype, width, length, threads); });
}

const bool added = [] {
  const int most_threads = std::thread::hardware_concurrency() > 1 ? 2 : 1;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t width : {64, 128}) {
      for (const std::int64_t length : {512, 2048, 4096}) {
        for (int threads = 1; threads <= most_threads; ++threads) add(dtype, width, length, threads);
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace rotary
