// Linear attention, one thread, float32, 64 channels, 64 values: linear/METHOD/LENGTH/CHUNK/HEADS, a whole prompt; and
// linear-step/HEADS, one token of a stream.
//
// Operations of a prompt, per token and head: 4 * features * values for the sums, (chunk + 1) * (features + values) for the
// pairs within a chunk; maps, rotation and denominators are not counted. The limit of a prompt is the rate of independent FMAs,
// that of a step a loop that only reads and writes the state in place.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gauge.h"
#include "memory_rate.h"
#include "prepared_methods.h"

namespace rotary {
namespace {

using bench::PreparedMethod;
using bench::width;

/// 220 ns per token and head of RoFormer, where a core multiplies and adds at 179 GFLOP/s.
constexpr double prefill_target = 100 * (4.0 * width * width + 17 * 2 * width) / (220 * 179.0);

void prefill(benchmark::State& state, const char* name, std::int64_t length, std::int64_t chunk_size, std::int64_t heads) {
  PreparedMethod method(name);
  const bench::Inputs inputs(heads, length);
  method.options.chunk_size = chunk_size;
  const std::int64_t features = method.num_features(), tokens = heads * length;
  const auto operations = static_cast<double>(4 * features * width + (chunk_size + 1) * (features + width));
  bench::measure_computing(state, {.call = [&] { inputs.attend(method.options); },
                                   .operations = static_cast<double>(tokens) * operations,
                                   .bytes = static_cast<double>(tokens * 4 * width) * sizeof(float),
                                   .target = prefill_target});
}

void step(benchmark::State& state, std::int64_t heads) {
  PreparedMethod method("roformer");
  LinearAttentionOptions& options = method.options;
  const bench::Filled token(DType::f32, "SHD", {1, heads, width}, 1), out(DType::f32, "SHD", {1, heads, width}, 2);
  LinearState sums;
  options.state = &sums;
  const auto call = [&] {
    linear_attention(token, token, token, out, options);
    ++options.q_positions.offset;
    ++options.k_positions.offset;
  };
  call();  // makes the sums
  const auto num_bytes = static_cast<std::size_t>(sums.numerator().num_elements()) * sizeof(float);
  const bench::MemoryRate limit(bench::Traffic::in_place, {{sums.numerator().data(), num_bytes}});
  bench::measure_moving(state,
                        {.call = call,
                         .operations = static_cast<double>(heads * 4 * width * width),
                         .bytes = 2 * static_cast<double>(num_bytes),
                         .target = 100 / 1.2},
                        [&] { return limit.measure(); });
}

void add_prefill(const char* method, std::int64_t length, std::int64_t chunk_size, std::int64_t heads) {
  bench::add_case(bench::title("linear", method, length, chunk_size, heads),
                  [=](benchmark::State& state) { prefill(state, method, length, chunk_size, heads); });
}

const bool added = [] {
  for (const std::int64_t length : {256, 1024, 8192, 65536}) add_prefill("roformer", length, 16, 8);
  add_prefill("roformer", 1 << 20, 16, 1);
  for (const std::int64_t chunk_size : {32, 64}) add_prefill("roformer", 8192, chunk_size, 8);
  for (const char* method : {"elu", "cosformer", "performer"}) add_prefill(method, 8192, 16, 8);
  add_prefill("taylor2", 8192, 16, 1);
  for (const std::int64_t heads : {1, 8, 64})
    bench::add_case(bench::title("linear-step", heads), [=](benchmark::State& state) { step(state, heads); });
  return true;
}();

}  // namespace
}  // namespace rotary
