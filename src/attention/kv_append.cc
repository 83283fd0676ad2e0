#include <algorithm>

#include "attention/kv_rows.h"
#include "attention/kv_state.h"
#include "attention/tensor_checks.h"
#include "base/fail.h"
#include "base/parallel.h"
#include "rotation/token_angles.h"

namespace rotary {
namespace {

constexpr const char* operation = "KvCache::append";
constexpr std::int64_t tokens_per_task = 32;

/// As "HSD", also where there is no axis H.
ConstTensorView heads_of_tokens(const ConstTensorView& x, const char* what, std::int64_t num_heads, std::int64_t width) {
  check_float_view(operation, what, x, "SD", "SHD");
  if (x.size('H') != num_heads || x.size('D') != width) {
    fail_argument(operation, what, " must have ", num_heads, " heads of ", width, ", got ", x.size('H'), " of ",
                  x.size('D'));
  }
  return {x.data(), x.dtype(), "HSD", {num_heads, x.size('S'), width}, {x.stride('H'), x.stride('S'), x.stride('D')}};
}

/// Of `count` new tokens: [token][axis].
std::vector<double> positions_of(const KvState& cache, const KvSequence& sequence, const ConstTensorView& ids,
                                 std::int64_t count) {
  const int num_axes = cache.blocks.num_axes();
  std::vector<double> positions(static_cast<std::size_t>(count * num_axes));
  const Tokens tokens{.batch = 1, .length = count};
  if (ids) {
    const TokenPositions given(operation, {.position_ids = ids}, tokens, num_axes);
    for (std::int64_t i = 0; i < count; ++i) given.read(0, i, positions.data() + i * num_axes);
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      std::fill_n(positions.data() + i * num_axes, num_axes, sequence.next_position + static_cast<double>(i));
    }
  }
  const Positions checked{.position_ids = {positions.data(), DType::f64, "SA", {count, num_axes}}};
  if (cache.rotation) {
    const TokenAngles can_turn(operation, *cache.rotation, checked, tokens, {.precision = cache.options.precision});
  } else {
    const TokenPositions in_range(operation, checked, tokens, num_axes);
  }
  return positions;
}

/// How many blocks the next token cannot see.
std::int64_t blocks_behind_window(const KvState& cache, const KvSequence& sequence) {
  if (cache.options.window_left < 0) return 0;
  return std::max<std::int64_t>(0, sequence.num_tokens - cache.options.window_left) / cache.options.block_size;
}

void drop_blocks(KvBlocks& blocks, KvSequence& sequence, std::int64_t count, std::int64_t block_size) noexcept {
  const auto end = sequence.blocks.begin() + count;
  std::for_each(sequence.blocks.begin(), end, [&](std::int32_t block) { blocks.release(block); });
  sequence.blocks.erase(sequence.blocks.begin(), end);
  sequence.num_tokens -= count * block_size;
}

}  // namespace

void KvCache::append(std::int64_t sequence, const ConstTensorView& k, const ConstTensorView& v,
                     const ConstTensorView& position_ids, Executor* executor) {
  KvState& c = *state_;
  KvSequence& s = c.sequence(operation, sequence);
  const ConstTensorView keys = heads_of_tokens(k, "k", c.options.num_kv_heads, c.options.head_dim);
  const ConstTensorView values = heads_of_tokens(v, "v", c.options.num_kv_heads, c.options.value_dim);
  const std::int64_t count = keys.size('S'), block_size = c.options.block_size;
  if (values.size('S') != count) {
    fail_argument(operation, "k and v must have as many tokens, got ", count, " and ", values.size('S'));
  }
  const std::vector<double> positions = positions_of(c, s, position_ids, count);
  if (count == 0) return;

  const std::int64_t behind = blocks_behind_window(c, s), before = s.num_tokens - behind * block_size;
  const std::int64_t after = before + count, num_blocks = c.num_blocks_for(after);
  const bool copies_last = before % block_size != 0 && c.blocks.is_shared(s.blocks.back());
  const std::int64_t needed = num_blocks - c.num_blocks_for(before) + (copies_last ? 1 : 0);
  c.check_free(operation, needed, c.blocks.num_free() + behind - c.num_shared(s, 0, behind));
  NewBlocks added(c.blocks, needed);
  std::vector<std::int32_t> table(s.blocks.begin() + behind, s.blocks.end());
  table.reserve(static_cast<std::size_t>(num_blocks));
  std::vector<KvRun> runs;
  runs.reserve(static_cast<std::size_t>(count / std::min(block_size, tokens_per_task) + 2 + num_blocks));

  drop_blocks(c.blocks, s, behind, block_size);
  if (copies_last) {
    table.back() = added.take();
    c.blocks.copy_tokens(s.blocks.back(), 0, table.back(), 0, before % block_size);
  }
  while (static_cast<std::int64_t>(table.size()) < num_blocks) table.push_back(added.take());
  for_runs(table, block_size, before, after, tokens_per_task, [&](KvRun run) {
    run.first -= before;
    const std::int64_t axes = c.blocks.num_axes();
    std::copy_n(positions.data() + run.first * axes, run.count * axes, c.blocks.position(run.block, run.slot));
    runs.push_back(run);
  });
  parallel_for(executor, static_cast<std::int64_t>(runs.size()),
               [&](std::int64_t i) { store_tokens(c, keys, values, runs[static_cast<std::size_t>(i)]); });

  added.keep();
  if (copies_last) c.blocks.release(s.blocks.back());
  const double next = *std::max_element(positions.begin(), positions.end()) + 1;
  s.next_position = s.num_tokens + behind == 0 ? next : std::max(s.next_position, next);
  s.blocks.swap(table);
  s.num_tokens = after;
}

}  // namespace rotary
