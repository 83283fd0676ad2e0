// Rotating q and k in place: 32 + 8 heads of 128, against a pass over the same memory that only reads and writes it.
//
// Every measurement takes both in turn, so that a busy machine slows both. Bytes are counted once read and once written.
//   GB/s      of rotate
//   limit     GB/s of the pass
//   share     time of the pass / time of rotate, medians
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/element.h"
#include "rotary/frequencies.hpp"
#include "rotary/isa.hpp"
#include "rotary/rotate.hpp"

namespace {

using namespace rotary;

constexpr std::int64_t num_q_heads = 32, num_kv_heads = 8, head_dim = 128;

#if defined(__x86_64__)
__attribute__((target_clones("avx512f", "avx2", "default")))
#endif
void read_and_write(std::uint64_t* words, std::int64_t count, std::uint64_t mask) {
  for (std::int64_t i = 0; i < count; ++i) words[i] ^= mask;
}

double seconds(const std::chrono::steady_clock::time_point& since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

double median(std::vector<double>& times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

enum class Order { tokens_outside, heads_outside };
enum class Angles { computed, table };

void rotate_in_place(benchmark::State& state, DType dtype, Pairing pairing, Order order, Angles angles) {
  const std::int64_t num_tokens = state.range(0);
  const std::int64_t num_elements = num_tokens * (num_q_heads + num_kv_heads) * head_dim;
  const std::int64_t num_bytes = num_elements * bit_size(dtype) / 8;
  std::vector<std::uint64_t> memory(static_cast<std::size_t>(num_bytes / 8));
  for (std::int64_t i = 0; i < num_elements; ++i)
    store_element(dtype, memory.data(), i, static_cast<double>(i % 1001) / 500 - 1);

  const std::int64_t q_elements = num_tokens * num_q_heads * head_dim;
  const auto view = [&](std::int64_t begin, std::int64_t heads) {
    void* const data = reinterpret_cast<char*>(memory.data()) + begin * bit_size(dtype) / 8;
    if (order == Order::tokens_outside) return TensorView(data, dtype, "SHD", {num_tokens, heads, head_dim});
    return TensorView(data, dtype, "HSD", {heads, num_tokens, head_dim});
  };
  const TensorView q = view(0, num_q_heads), k = view(q_elements, num_kv_heads);
  const Rotation rotation(
      {.head_dim = head_dim, .pairing_in = pairing, .inv_freq = default_frequencies(5e5, head_dim).inv_freq});
  const AngleTable table = AngleTable::build(rotation, 1000, num_tokens);
  const RotateOptions options{.table = angles == Angles::table ? &table : nullptr};

  // A single token is over before the clock has moved: count several calls as one.
  const int calls = num_tokens == 1 ? 64 : 1;
  std::vector<double> pass_times, rotate_times;
  volatile std::uint64_t no_mask = 0;
  for (auto _ : state) {
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) read_and_write(memory.data(), num_bytes / 8, no_mask);
    pass_times.push_back(seconds(start));
    start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) rotate(q, k, rotation, {.offset = 1000}, options);
    rotate_times.push_back(seconds(start));
    state.SetIterationTime(rotate_times.back() / calls);
  }
  const double pass = median(pass_times) / calls, rotated = median(rotate_times) / calls;
  state.counters["median_ns"] = 1e9 * rotated;
  state.counters["GB/s"] = 2e-9 * static_cast<double>(num_bytes) / rotated;
  state.counters["limit"] = 2e-9 * static_cast<double>(num_bytes) / pass;
  state.counters["share"] = pass / rotated;
  state.SetLabel(name(active_isa()));
}

void register_all() {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
      for (const Order order : {Order::tokens_outside, Order::heads_outside}) {
        for (const Angles angles : {Angles::computed, Angles::table}) {
          const std::string title = std::string("rotate/") + name(dtype) + "/" + name(pairing) + "/" +
                                    (order == Order::tokens_outside ? "SHD" : "HSD") + "/" +
                                    (angles == Angles::computed ? "computed" : "table");
          benchmark::RegisterBenchmark(title.c_str(), rotate_in_place, dtype, pairing, order, angles)
              ->Arg(1)
              ->Arg(512)
              ->Arg(4096)
              ->UseManualTime()
              ->MinTime(0.1);
        }
      }
    }
  }
}

const bool registered = (register_all(), true);

}  // namespace
