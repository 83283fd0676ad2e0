// Taking tokens away, moving them, and sharing them.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "attention/kv_rows.h"
#include "attention/kv_state.h"
#include "base/fail.h"
#include "rotation/token_angles.h"

namespace rotary {
namespace {

using Table = std::vector<std::int32_t>;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Puts the table in place of the sequence's, whose blocks first … end - 1 it exchanges for others.
void replace_blocks(KvState& c, KvSequence& s, Table& table, std::int64_t first, std::int64_t end) noexcept {
  for (std::int64_t i = first; i < end; ++i) {
    if (table[at(i)] != s.blocks[at(i)]) c.blocks.release(s.blocks[at(i)]);
  }
  s.blocks.swap(table);
}

/// Lets go of the blocks first … end - 1.
void erase_blocks(KvState& c, KvSequence& s, std::int64_t first, std::int64_t end) noexcept {
  std::for_each(s.blocks.begin() + first, s.blocks.begin() + end, [&](std::int32_t block) { c.blocks.release(block); });
  s.blocks.erase(s.blocks.begin() + first, s.blocks.begin() + end);
}

void keep_first(KvState& c, KvSequence& s, std::int64_t num_tokens) noexcept {
  erase_blocks(c, s, c.num_blocks_for(num_tokens), static_cast<std::int64_t>(s.blocks.size()));
  s.num_tokens = num_tokens;
}

// ---- shift ----

/// That tokens may move, and that keys may turn so far.
void check_distance(const char* operation, const KvState& c, const KvSequence& s, std::int64_t begin, std::int64_t end,
                    double distance) {
  if (distance == 0) return;
  constexpr double largest = 0x1p53;
  const int num_axes = c.blocks.num_axes();
  for_runs(s.blocks, c.options.block_size, begin, end, c.options.block_size, [&](const KvRun& run) {
    const double* const first = c.blocks.position(run.block, run.slot);
    for (std::int64_t i = 0; i < run.count * num_axes; ++i) {
      const double moved = first[i] + distance;
      if (moved >= 0 && moved <= largest) continue;
      fail_argument(operation, "positions must stay 0 to 2^53, got ", first[i], " and a distance of ", distance);
    }
  });
  if (!c.rotation) return;
  const ConstTensorView one(&distance, DType::f64, "", {});
  const Tokens token{.batch = 1, .length = 1};
  const auto listed = TokenPositions::listed(operation, "distance", one, token, num_axes);
  const TokenAngles can_turn(operation, *c.rotation, listed, token, c.options.precision);
}

/// What has been checked.
void shift_tokens(KvState& c, KvSequence& s, std::int64_t begin, std::int64_t end, double distance) {
  if (begin == end || distance == 0) return;
  const std::int64_t block_size = c.options.block_size, first = begin / block_size, last = (end - 1) / block_size;
  NewBlocks copies(c.blocks, c.num_shared(s, first, last + 1));
  Table table = s.blocks;
  for (std::int64_t i = first; i <= last; ++i) {
    if (!c.blocks.is_shared(table[at(i)])) continue;
    table[at(i)] = copies.take();
    c.blocks.copy_tokens(s.blocks[at(i)], 0, table[at(i)], 0, std::min(block_size, s.num_tokens - i * block_size));
  }
  if (c.rotation) shift_keys(c, table, begin, end, distance);
  for_runs(table, block_size, begin, end, block_size, [&](const KvRun& run) {
    double* const position = c.blocks.position(run.block, run.slot);
    for (std::int64_t i = 0; i < run.count * c.blocks.num_axes(); ++i) position[i] += distance;
  });
  copies.keep();
  replace_blocks(c, s, table, first, last + 1);
  c.find_next_position(s);
}

// ---- drop ----

/// How many shared blocks are written, when tokens behind `end` are turned on or not.
std::int64_t num_copied_by_drop(const KvState& c, const KvSequence& s, std::int64_t begin, std::int64_t end, bool turned) {
  const std::int64_t block_size = c.options.block_size;
  if ((end - begin) % block_size != 0) {
    return c.num_shared(s, begin / block_size, c.num_blocks_for(s.num_tokens - (end - begin)));
  }
  const std::int64_t first = end / block_size, joint = begin % block_size != 0 ? 1 : 0;
  return c.num_shared(s, first, turned ? c.num_blocks_for(s.num_tokens) : first + joint);
}

/// Whole blocks go; the tokens before `begin` that share its block move into the block of `end`.
///
///     begin = 2, end = 10, block_size = 4     [ 0 1 . . ] [ . . . . ] [ . . 10 11 ]  ->  [ 0 1 10 11 ]
void drop_blocks(KvState& c, KvSequence& s, std::int64_t begin, std::int64_t end) {
  const std::int64_t block_size = c.options.block_size, first = begin / block_size, rest = begin % block_size;
  if (rest != 0) {
    std::int32_t& joint = s.blocks[at(end / block_size)];
    if (c.blocks.is_shared(joint)) {
      const std::int32_t copy = c.blocks.take();
      const std::int64_t used = std::min(block_size, s.num_tokens - end / block_size * block_size);
      c.blocks.copy_tokens(joint, rest, copy, rest, used - rest);
      c.blocks.release(joint);
      joint = copy;
    }
    c.blocks.copy_tokens(s.blocks[at(first)], 0, joint, 0, rest);
  }
  erase_blocks(c, s, first, end / block_size);
  s.num_tokens -= end - begin;
}

/// Every token from `end` on moves.
void move_down(KvState& c, KvSequence& s, std::int64_t begin, std::int64_t end) {
  const std::int64_t block_size = c.options.block_size, after = s.num_tokens - (end - begin);
  const std::int64_t first = begin / block_size, num_blocks = c.num_blocks_for(after);
  NewBlocks copies(c.blocks, num_blocks - first);
  Table table = s.blocks;
  for (std::int64_t i = first; i < num_blocks; ++i) {
    if (c.blocks.is_shared(table[at(i)])) table[at(i)] = copies.take();
  }
  if (begin % block_size != 0 && table[at(first)] != s.blocks[at(first)]) {
    c.blocks.copy_tokens(s.blocks[at(first)], 0, table[at(first)], 0, begin % block_size);
  }
  for_runs(table, block_size, begin, after, block_size, [&](const KvRun& to) {
    const std::int64_t source = to.first + (end - begin);
    for_runs(s.blocks, block_size, source, source + to.count, block_size, [&](const KvRun& from) {
      c.blocks.copy_tokens(from.block, from.slot, to.block, to.slot + from.first - source, from.count);
    });
  });
  copies.keep();
  replace_blocks(c, s, table, first, num_blocks);
  keep_first(c, s, after);
}

}  // namespace

void KvCache::truncate(std::int64_t sequence, std::int64_t num_tokens) {
  KvSequence& s = state_->sequence("KvCache::truncate", sequence);
  state_->check_tokens("KvCache::truncate", s, 0, num_tokens);
  keep_first(*state_, s, num_tokens);
  state_->find_next_position(s);
}

void KvCache::clear(std::int64_t sequence) {
  KvSequence& s = state_->sequence("KvCache::clear", sequence);
  keep_first(*state_, s, 0);
  state_->find_next_position(s);
}

void KvCache::shift(std::int64_t sequence, std::int64_t begin, std::int64_t end, std::int64_t distance) {
  constexpr const char* operation = "KvCache::shift";
  KvState& c = *state_;
  KvSequence& s = c.sequence(operation, sequence);
  c.check_tokens(operation, s, begin, end);
  if (begin == end) return;
  const auto by = static_cast<double>(distance);
  check_distance(operation, c, s, begin, end, by);
  const std::int64_t first = begin / c.options.block_size, last = (end - 1) / c.options.block_size;
  c.check_free(operation, c.num_shared(s, first, last + 1), c.blocks.num_free());
  shift_tokens(c, s, begin, end, by);
}

void KvCache::drop(std::int64_t sequence, std::int64_t begin, std::int64_t end, Gap gap) {
  constexpr const char* operation = "KvCache::drop";
  KvState& c = *state_;
  KvSequence& s = c.sequence(operation, sequence);
  c.check_tokens(operation, s, begin, end);
  if (begin == end) return;
  if (end == s.num_tokens) {
    keep_first(c, s, begin);
    return c.find_next_position(s);
  }
  const std::int64_t block_size = c.options.block_size;
  const auto position = [&](std::int64_t token) {
    return *c.blocks.position(s.blocks[at(token / block_size)], token % block_size);
  };
  const double distance = gap == Gap::close ? position(begin) - position(end) : 0;
  check_distance(operation, c, s, end, s.num_tokens, distance);
  const bool by_blocks = (end - begin) % block_size == 0;
  c.check_free(operation, num_copied_by_drop(c, s, begin, end, distance != 0), c.blocks.num_free());
  if (by_blocks) drop_blocks(c, s, begin, end);
  else move_down(c, s, begin, end);
  shift_tokens(c, s, begin, s.num_tokens, distance);
  c.find_next_position(s);
}

void KvCache::copy(std::int64_t from, std::int64_t to, std::int64_t begin, std::int64_t end) {
  constexpr const char* operation = "KvCache::copy";
  KvState& c = *state_;
  const KvSequence& source = c.sequence(operation, from);
  KvSequence& target = c.sequence(operation, to);
  if (from == to) fail_argument(operation, "from and to must be two sequences, got ", from, " twice");
  c.check_tokens(operation, source, begin, end);
  if (begin == end) return;

  const std::int64_t block_size = c.options.block_size, before = target.num_tokens, after = before + (end - begin);
  Table table = target.blocks;
  table.reserve(at(c.num_blocks_for(after)));
  if (begin % block_size == 0 && before % block_size == 0) {
    for (std::int64_t i = begin / block_size; i < c.num_blocks_for(end); ++i) {
      table.push_back(source.blocks[at(i)]);
      c.blocks.hold(table.back());
    }
    target.blocks.swap(table);
  } else {
    const std::int64_t last = before / block_size;  // the block that has room, where there is one
    const bool copies_last = before % block_size != 0 && c.blocks.is_shared(table.back());
    const std::int64_t needed = c.num_blocks_for(after) - c.num_blocks_for(before) + (copies_last ? 1 : 0);
    c.check_free(operation, needed, c.blocks.num_free());
    NewBlocks added(c.blocks, needed);
    if (copies_last) {
      table.back() = added.take();
      c.blocks.copy_tokens(target.blocks.back(), 0, table.back(), 0, before % block_size);
    }
    while (table.size() < at(c.num_blocks_for(after))) table.push_back(added.take());
    for_runs(table, block_size, before, after, block_size, [&](const KvRun& in) {
      const std::int64_t first = in.first - before + begin;
      for_runs(source.blocks, block_size, first, first + in.count, block_size, [&](const KvRun& out) {
        c.blocks.copy_tokens(out.block, out.slot, in.block, in.slot + out.first - first, out.count);
      });
    });
    added.keep();
    replace_blocks(c, target, table, last, last + (copies_last ? 1 : 0));
  }
  target.num_tokens = after;
  c.find_next_position(target);
}

}  // namespace rotary
