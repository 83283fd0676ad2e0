// Rotating q and k in place, 32 + 8 heads of 128: rotate/DTYPE/PAIRING/LAYOUT/ANGLES/TOKENS, against a loop that only reads and
// writes the same memory. Moving the keys of a cache to other positions: shift/DTYPE/PAIRING/TOKENS, 8 heads of 128. The
// smallest call: smallest/rotate.
//
// Bytes are counted once read and once written. A single token has a time to keep instead of a rate: 500 ns.
#include <unistd.h>

#include <cstdint>
#include <string>

#include "filled.h"
#include "gauge.h"
#include "half_rotation.h"
#include "memory_rate.h"
#include "rotary/frequencies.hpp"
#include "rotary/kv_cache.hpp"
#include "rotary/rotate.hpp"

namespace rotary {
namespace {

constexpr std::int64_t num_q_heads = 32, num_kv_heads = 8, head_dim = 128;

enum class Layout { tokens_outside, heads_outside };
enum class Angles { computed, table };

Rotation rotation_of(Pairing pairing) {
  return Rotation({.head_dim = head_dim, .pairing_in = pairing, .inv_freq = default_frequencies(5e5, head_dim).inv_freq});
}

/// 16-bit numbers in the second-level cache are bound by the arithmetic of narrowing them, not by memory.
double target(DType dtype, std::size_t num_bytes, double elsewhere) {
  const long second_level = sysconf(_SC_LEVEL2_CACHE_SIZE);
  const bool is_near = second_level > 0 && num_bytes <= static_cast<std::size_t>(second_level);
  return is_near && bit_size(dtype) == 16 ? 55 : elsewhere;
}

void rotate_in_place(benchmark::State& state, DType dtype, Pairing pairing, Layout layout, Angles angles,
                     std::int64_t num_tokens) {
  // one piece of memory, so that one loop can go over all of it
  const bench::Filled memory(dtype, "SHD", {num_tokens, num_q_heads + num_kv_heads, head_dim}, 1);
  const auto view = [&](std::int64_t first_element, std::int64_t heads) {
    void* const data = static_cast<char*>(memory.data()) + first_element * bit_size(dtype) / 8;
    if (layout == Layout::tokens_outside) return TensorView(data, dtype, "SHD", {num_tokens, heads, head_dim});
    return TensorView(data, dtype, "HSD", {heads, num_tokens, head_dim});
  };
  const TensorView q = view(0, num_q_heads), k = view(num_tokens * num_q_heads * head_dim, num_kv_heads);
  const Rotation rotation = rotation_of(pairing);
  const AngleTable table = AngleTable::build(rotation, 1000, num_tokens);
  const RotateOptions options{.table = angles == Angles::table ? &table : nullptr};

  const double elements = static_cast<double>(num_tokens * (num_q_heads + num_kv_heads) * head_dim);
  const bench::Work work{.call = [&] { rotate(q, k, rotation, {.offset = 1000}, options); },
                         .operations = 3 * elements,
                         .bytes = 2 * static_cast<double>(memory.num_bytes()),
                         .target = target(dtype, memory.num_bytes(), angles == Angles::table ? 90 : 80)};
  if (num_tokens == 1) return bench::measure_time(state, work, 500);
  const bench::MemoryRate limit(bench::Traffic::in_place, {{memory.data(), memory.num_bytes()}});
  bench::measure_moving(state, work, [&] { return limit.measure(); });
}

void shift_cached(benchmark::State& state, DType dtype, Pairing pairing, std::int64_t num_tokens) {
  const Rotation rotation = rotation_of(pairing);
  KvCache cache({.num_kv_heads = num_kv_heads,
                 .head_dim = head_dim,
                 .dtype = dtype,
                 .rotation = &rotation,
                 .block_size = 64,
                 .num_blocks = num_tokens / 64});
  const bench::Filled tokens(dtype, "SHD", {num_tokens, num_kv_heads, head_dim}, 1);
  cache.append(0, tokens, tokens);
  std::int64_t distance = 128;
  const bench::Work work{.call =
                             [&] {
                               cache.shift(0, 0, num_tokens, distance);
                               distance = -distance;
                             },
                         .operations = 3 * static_cast<double>(num_tokens * num_kv_heads * head_dim),
                         .bytes = 2 * static_cast<double>(tokens.num_bytes()),
                         .target = target(dtype, tokens.num_bytes(), 85)};
  // blocks follow each other, as they were taken
  const bench::MemoryRate limit(bench::Traffic::in_place, {{const_cast<void*>(cache.keys(0).data()), tokens.num_bytes()}});
  bench::measure_moving(state, work, [&] { return limit.measure(); });
}

void smallest(benchmark::State& state) {
  const bench::Filled x(DType::f32, "SHD", {1, 1, 16}, 1);
  const Rotation rotation = bench::half_rotation(16);
  bench::measure_time(state, {.call = [&] { rotate(x, rotation, {.offset = 1000}); }}, 300);
}

const char* name(Layout layout) { return layout == Layout::tokens_outside ? "SHD" : "HSD"; }
const char* name(Angles angles) { return angles == Angles::table ? "table" : "positions"; }

void add(DType dtype, Pairing pairing) {
  for (const Layout layout : {Layout::tokens_outside, Layout::heads_outside}) {
    for (const Angles angles : {Angles::table, Angles::computed}) {
      for (const std::int64_t num_tokens : {1, 64, 512, 4096}) {
        bench::add_case(
            bench::title("rotate", name(dtype), name(pairing), name(layout), name(angles), num_tokens),
            [=](benchmark::State& state) { rotate_in_place(state, dtype, pairing, layout, angles, num_tokens); });
      }
    }
  }
  for (const std::int64_t num_tokens : {512, 4096, 32768}) {
    bench::add_case(bench::title("shift", name(dtype), name(pairing), num_tokens),
                    [=](benchmark::State& state) { shift_cached(state, dtype, pairing, num_tokens); });
  }
}

const bool added = [] {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) add(dtype, pairing);
  }
  bench::add_case("smallest/rotate", smallest);
  return true;
}();

}  // namespace
}  // namespace rotary
