// Decode: one query against a cache of 8 KV heads of 128, one thread: decode/DTYPE/gGROUP/LENGTH, GROUP query heads to a KV
// head; gGROUP-lanes where keys are lanes (KeyLayout). Queries are of the dtype of the cache, or float32 where that is int8.
//
// Bytes: keys and values once, whatever the group. The limit is the rate at which the same memory is read by a loop that does
// nothing else.
#include <cstddef>
#include <cstdint>
#include <string>

#include "filled.h"
#include "gauge.h"
#include "half_rotation.h"
#include "memory_rate.h"
#include "rotary/kv_cache.hpp"

namespace rotary {
namespace {

constexpr std::int64_t num_kv_heads = 8, width = 128, block_size = 32;

KvCache filled_cache(DType dtype, KeyLayout layout, std::int64_t length) {
  const Rotation rotation = bench::half_rotation(width);
  KvCache cache({.num_kv_heads = num_kv_heads,
                 .head_dim = width,
                 .dtype = dtype,
                 .key_layout = layout,
                 .rotation = &rotation,
                 .block_size = block_size,
                 .num_blocks = length / block_size});
  const bench::Filled tokens(DType::f32, "SHD", {1024, num_kv_heads, width}, 1);
  for (std::int64_t i = 0; i < length; i += 1024) cache.append(0, tokens, tokens);
  return cache;
}

void decode(benchmark::State& state, DType dtype, KeyLayout layout, std::int64_t group, std::int64_t length) {
  const KvCache cache = filled_cache(dtype, layout, length);
  const std::int64_t num_q_heads = num_kv_heads * group;
  const DType queries = dtype == DType::i8 ? DType::f32 : dtype;
  const bench::Filled q(queries, "SHD", {1, num_q_heads, width}, 2), out(queries, "SHD", {1, num_q_heads, width}, 3);
  const auto half = static_cast<std::size_t>(length * num_kv_heads * width * bit_size(dtype) / 8);
  const double scales = dtype == DType::i8 ? 8.0 * static_cast<double>(length * num_kv_heads) : 0;
  // blocks follow each other, as they were taken
  const bench::MemoryRate limit(bench::Traffic::read, {{const_cast<void*>(cache.keys(0).data()), half},
                                                       {const_cast<void*>(cache.values(0).data()), half}});
  bench::measure_moving(state,
                        {.call = [&] { attention(q, cache, {0}, out); },
                         .operations = 4 * static_cast<double>(num_q_heads * width * length),
                         .bytes = 2 * static_cast<double>(half) + scales,
                         .target = dtype == DType::i8                  ? 0.0
                                   : group == 8 && dtype != DType::f32 ? 75
                                                                       : 85},
                        [&] { return limit.measure(); });
}

void add(DType dtype, KeyLayout layout, std::int64_t group, std::int64_t length) {
  const std::string heads =
      std::string("g").append(std::to_string(group)).append(layout == KeyLayout::lanes ? "-lanes" : "");
  bench::add_case(bench::title("decode", name(dtype), heads, length),
                  [=](benchmark::State& state) { decode(state, dtype, layout, group, length); });
}

const bool added = [] {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::i8}) {
    for (const std::int64_t length : {1024, 4096, 16384, 32768, 131072}) {
      for (const std::int64_t group : {1, 4, 8}) add(dtype, KeyLayout::rows, group, length);
      for (const std::int64_t group : {4, 8}) add(dtype, KeyLayout::lanes, group, length);
    }
  }
  return true;
}();

}  // namespace
}  // namespace rotary
