#include "attention/query_block.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "attention/cached_sequences.h"
#include "attention/finite.h"
#include "base/element.h"
#include "kernels/bf16_attention.h"

namespace rotary {
namespace {

/// The keys of a tile of `tile_keys` that lie in a range, counted from the tile's first.
KeyRange within_tile(const KeyRange& range, std::int64_t first_key) noexcept {
  return {std::clamp<std::int64_t>(range.begin - first_key, 0, tile_keys),
          std::clamp<std::int64_t>(range.end - first_key, 0, tile_keys)};
}

bool is_all_bf16(const AttentionProblem& p) noexcept {
  const auto is_bf16 = [](DType dtype) { return dtype == DType::bf16; };
  if (p.cached != nullptr) return is_bf16(p.q.dtype()) && is_bf16(p.cached->cache().options.dtype);
  return is_bf16(p.q.dtype()) && is_bf16(p.k.dtype()) && is_bf16(p.v.dtype());
}

/// Pairs of bfloat16 where they are faster; not where lse is asked for: gradients, and parts to be merged, count on the weights
/// that it belongs to.
template <class T>
const AttentionKernels<T>& kernels_for(const AttentionProblem& p) noexcept {
  if constexpr (std::is_same_v<T, float>) {
    const AttentionKernels<float>* const of_pairs = bf16_attention_kernels();
    if (of_pairs != nullptr && is_all_bf16(p) && !p.options.lse) return *of_pairs;
  }
  return attention_kernels<T>();
}

template <class T>
std::optional<KeptAngles<T>> keep_angles(const AttentionProblem& p, const BlockTiles& tiles, Arena& arena) {
  if (!tiles.angles) return std::nullopt;
  return KeptAngles<T>(*p.k_angles, p.num_keys, arena);
}

}  // namespace

template <class T>
std::int64_t QueryBlock<T>::most_tiles(const AttentionProblem& p) noexcept {
  Arena with_one, tile;
  const QueryBlock block(p, {1, 1}, with_one);
  take_tile(p, tile);
  return std::clamp(1 + (most_bytes - with_one.num_bytes()) / tile.num_bytes(), fewest_tiles, room_for_tiles);
}

template <class T>
std::int64_t QueryBlock<T>::num_bytes(const AttentionProblem& p, const BlockTiles& tiles) noexcept {
  Arena count;
  const QueryBlock block(p, tiles, count);
  return count.num_bytes();
}

template <class T>
typename QueryBlock<T>::RowTile QueryBlock<T>::take_tile(const AttentionProblem& p, Arena& arena) noexcept {
  const AttentionKernels<T>& kernels = kernels_for<T>(p);
  RowTile tile{};
  tile.queries = arena.take<T>(kernels.packed_width(p.head_dim) * kernels.rows);
  tile.out = arena.take<T>(round_up(p.value_dim, kernels.value_panel) * kernels.rows);
  tile.reference = arena.take<T>(kernels.rows);
  tile.sum = arena.take<T>(kernels.rows);
  tile.ranges = arena.take<KeyRange>(kernels.rows);
  return tile;
}

template <class T>
typename QueryBlock<T>::KeyTile QueryBlock<T>::take_key_tile(const AttentionProblem& p, Arena& arena) noexcept {
  const AttentionKernels<T>& kernels = kernels_for<T>(p);
  KeyTile tile{};
  tile.keys = arena.take<T>(tile_keys * kernels.packed_width(p.head_dim));
  tile.values = arena.take<T>(kernels.packed_values(p.value_dim));
  tile.not_finite = arena.take<std::int64_t>(tile_keys);
  return tile;
}

template <class T>
QueryBlock<T>::QueryBlock(const AttentionProblem& problem, const BlockTiles& tiles, Arena& arena)
    : p_(problem),
      kernels_(kernels_for<T>(problem)),
      heads_per_kv_head_(problem.heads_per_kv_head),
      padded_value_dim_(round_up(problem.value_dim, kernels_.value_panel)),
      visible_(problem),
      added_(problem),
      kept_angles_(keep_angles<T>(problem, tiles, arena)),
      query_rows_(problem.q, problem.q_angles, arena, {.as_written = problem.cached != nullptr}, kept()),
      key_rows_(problem.k, problem.k_angles, arena, {}, kept()),
      value_rows_(problem.v),
      out_rows_(problem.out),
      most_tiles_(tiles.rows),
      num_key_tiles_(tiles.keys) {
  const std::int64_t rows = kernels_.rows;
  for (std::int64_t i = 0; i < most_tiles_ && i * rows < problem.num_queries * heads_per_kv_head_; ++i) {
    tiles_[static_cast<std::size_t>(i)] = take_tile(problem, arena);
  }
  key_tiles_ = arena.take<KeyTile>(num_key_tiles_);
  for (std::int64_t i = 0; i < num_key_tiles_; ++i) {
    const KeyTile tile = take_key_tile(problem, arena);
    if (!arena.only_counts()) key_tiles_[i] = tile;
  }
  scores_ = arena.take<T>(tile_keys * rows);
  added_tile_ = arena.take<T>(added_.may_add() ? tile_keys * rows : 0);
  key_positions_ = arena.take<double>(added_.may_add() ? tile_keys : 0);
  scales_ = arena.take<T>(rows);
  begin_ = arena.take<T>(rows);
  end_ = arena.take<T>(rows);
  some_rows_ = arena.take<T>(std::max(rows, kernels_.key_panel) * std::max(problem.head_dim, padded_value_dim_));
  written_ = arena.take<T*>(rows);
  sees_not_finite_ = arena.take<bool>(tile_keys * rows);
}

template <class T>
void QueryBlock<T>::attend(const AttentionSequence& sequence, std::int64_t kv_head, std::int64_t first_row) {
  if (sequence.number != sequence_.number || kv_head != kv_head_) {
    for (std::int64_t i = 0; i < num_key_tiles_; ++i) key_tiles_[i].loaded = {0, 0};
  }
  sequence_ = sequence;
  kv_head_ = kv_head;
  num_tiles_ = 0;
  seen_ = {0, 0};
  const std::int64_t end = std::min(first_row + most_tiles_ * kernels_.rows, sequence.num_queries * heads_per_kv_head_);
  for (std::int64_t row = first_row; row < end; row += kernels_.rows) {
    RowTile& tile = tiles_[static_cast<std::size_t>(num_tiles_++)];
    begin(tile, row, std::min(kernels_.rows, end - row));
    seen_ = hull(seen_, tile.some);
  }
  for (std::int64_t key = seen_.begin / tile_keys * tile_keys; key < seen_.end; key += tile_keys) attend_tile(key);
  for (std::int64_t i = 0; i < num_tiles_; ++i) {
    if (RowTile& tile = tiles_[static_cast<std::size_t>(i)]; is_empty(tile.some)) write(tile);
  }
}

template <class T>
void QueryBlock<T>::begin(RowTile& tile, std::int64_t first_row, std::int64_t num_rows) {
  tile.first_row = first_row;
  tile.num_rows = num_rows;
  tile.has_queries = false;
  find_ranges(tile);
  start_sums(tile);
}

/// body(query, head, row, count): `count` heads of a query, from `row` of the tile on.
template <class T>
template <class Body>
void QueryBlock<T>::for_queries(const RowTile& tile, const Body& body) const {
  std::int64_t first_head = head(tile.first_row), at = query(tile.first_row);
  const std::int64_t end_head = (kv_head_ + 1) * heads_per_kv_head_;
  for (std::int64_t r = 0, count = 0; r < tile.num_rows; r += count, ++at) {
    count = std::min(end_head - first_head, tile.num_rows - r);
    body(at, first_head, r, count);
    first_head = end_head - heads_per_kv_head_;
  }
}

template <class T>
void QueryBlock<T>::load_queries(RowTile& tile) {
  const std::int64_t rows = kernels_.rows, width = p_.head_dim;
  for_queries(tile, [&](std::int64_t query, std::int64_t first_head, std::int64_t r, std::int64_t count) {
    const std::int64_t token = sequence_.first_query + query;
    query_rows_.load_heads(sequence_.row, token, first_head, count, some_rows_ + r * width, width);
    std::fill_n(scales_ + r, count, static_cast<T>(p_.scale_of(sequence_.row, token)));
  });
  std::fill(some_rows_ + tile.num_rows * width, some_rows_ + rows * width, T{0});
  std::fill(scales_ + tile.num_rows, scales_ + rows, T{0});
  kernels_.pack_queries(some_rows_, scales_, width, tile.queries);
  tile.has_queries = true;
}

/// Of no key; or of the sink, which is a key without a value.
template <class T>
void QueryBlock<T>::start_sums(RowTile& tile) noexcept {
  const std::int64_t rows = kernels_.rows;
  tile.has_out = false;
  std::fill_n(tile.reference, rows, -std::numeric_limits<T>::infinity());
  std::fill_n(tile.sum, rows, T{0});
  if (!p_.options.sinks) return;
  for (std::int64_t r = 0; r < tile.num_rows; ++r) {
    tile.reference[r] = added_number<T>(p_.sink(head(tile.first_row + r)));
    tile.sum[r] = tile.reference[r] == -std::numeric_limits<T>::infinity() ? T{0} : T{weight_of_reference};
  }
}

template <class T>
void QueryBlock<T>::start_out(RowTile& tile) noexcept {
  if (!tile.has_out) std::fill_n(tile.out, padded_value_dim_ * kernels_.rows, T{0});
  tile.has_out = true;
}

template <class T>
void QueryBlock<T>::find_ranges(RowTile& tile) noexcept {
  for_queries(tile, [&](std::int64_t query, std::int64_t /*head*/, std::int64_t r, std::int64_t count) {
    const KeyRange range = visible_.range(sequence_, query);
    tile.some = r == 0 ? range : hull(tile.some, range);
    tile.all = r == 0 ? range : common(tile.all, range);
    std::fill_n(tile.ranges + r, count, range);
  });
  // Rows that fill up the tile are like others: none is without a key for their sake.
  std::fill(tile.ranges + tile.num_rows, tile.ranges + kernels_.rows, tile.ranges[tile.num_rows - 1]);
}

/// The keys first_key … first_key + tile_keys - 1, against all rows that see one of them.
template <class T>
void QueryBlock<T>::attend_tile(std::int64_t first_key) {
  // Keys before the first that is seen are left out by whole panels, so that each stays where it is in the tile.
  const auto part_for = [&](const RowTile& tile) {
    const KeyRange part = within_tile(tile.some, first_key);
    return KeyRange{part.begin / kernels_.key_panel * kernels_.key_panel, is_empty(part) ? 0 : part.end};
  };
  KeyRange needed{0, 0};
  for (std::int64_t i = 0; i < num_tiles_; ++i) needed = hull(needed, part_for(tiles_[static_cast<std::size_t>(i)]));
  if (is_empty(needed)) return;
  const KeyTile& keys = loaded(first_key, needed);
  if (added_.may_add()) {
    added_.load_positions(sequence_, first_key + needed.begin, needed.end - needed.begin, key_positions_ + needed.begin);
  }
  for (std::int64_t i = 0; i < num_tiles_; ++i) {
    RowTile& tile = tiles_[static_cast<std::size_t>(i)];
    const KeyRange part = part_for(tile);
    if (is_empty(part)) continue;
    attend(tile, keys, part);
    if (tile.some.end <= first_key + tile_keys) write(tile);
  }
}

/// The tile, packed now unless it is there already.
template <class T>
const typename QueryBlock<T>::KeyTile& QueryBlock<T>::loaded(std::int64_t first_key, const KeyRange& part) {
  KeyTile& keys = key_tile(first_key);
  if (keys.has(first_key, part)) return keys;
  keys.first_key = first_key;
  keys.loaded = part;
  load_keys(keys, part);
  load_values(keys, part);
  return keys;
}

template <class T>
void QueryBlock<T>::load_key_rows(std::int64_t key, std::int64_t count) {
  const std::int64_t width = p_.head_dim;
  if (p_.cached == nullptr) {
    return key_rows_.load_run(sequence_.row, sequence_.first_key + key, count, kv_head_, some_rows_, width);
  }
  for (std::int64_t n = 0; n < count; ++n) {
    p_.cached->load_key(sequence_.number, key + n, kv_head_, some_rows_ + n * width);
  }
}

template <class T>
const T* QueryBlock<T>::value(std::int64_t key, T* row) {
  const std::int64_t token = sequence_.first_key + key;
  if (p_.cached != nullptr) {
    p_.cached->load_value(sequence_.number, key, kv_head_, row);
  } else if (value_rows_.template are_in_place<T>()) {
    return value_rows_.template in_place<T>(sequence_.row, token, kv_head_);
  } else {
    value_rows_.load(sequence_.row, token, kv_head_, row);
  }
  return row;
}

template <class T>
void QueryBlock<T>::load_keys(const KeyTile& keys, const KeyRange& part) {
  const std::int64_t panel = kernels_.key_panel, width = p_.head_dim;
  for (std::int64_t i = part.begin; i < part.end; i += panel) {
    const std::int64_t count = std::min(panel, part.end - i);
    load_key_rows(keys.first_key + i, count);
    std::fill(some_rows_ + count * width, some_rows_ + panel * width, T{0});
    kernels_.pack_keys(some_rows_, width, i, keys.keys);
  }
}

template <class T>
void QueryBlock<T>::load_values(KeyTile& keys, const KeyRange& part) {
  const std::int64_t panel = kernels_.key_panel, width = p_.value_dim;
  keys.num_not_finite = 0;
  for (std::int64_t i = part.begin; i < part.end; i += panel) {
    const std::int64_t count = std::min(panel, part.end - i);
    const T* rows = value(keys.first_key + i, some_rows_);
    const bool in_place = rows != some_rows_;
    for (std::int64_t n = 1; n < count && !in_place; ++n) value(keys.first_key + i + n, some_rows_ + n * width);
    const std::int64_t step = in_place ? value_rows_.token_step() : width;
    if (kernels_.pack_values(rows, step, count, width, i, keys.values)) continue;

    for (std::int64_t n = 0; n < count; ++n) {
      const T* const row = rows + n * step;
      T* const finite = some_rows_ + n * width;
      if (all_finite(row, width)) {
        if (in_place) std::copy_n(row, width, finite);
      } else {
        keys.not_finite[keys.num_not_finite++] = i + n;
        std::fill_n(finite, width, T{0});
      }
    }
    kernels_.pack_values(some_rows_, width, count, width, i, keys.values);
  }
}

/// A share of the next key tile; for a row tile at its first keys the queries of the next one, and at its last keys the rows
/// that it is going to write.
template <class T>
LinesAhead QueryBlock<T>::needed_next(const RowTile& tile, std::int64_t first_key) const noexcept {
  const std::int64_t i = &tile - tiles_.data(), next_keys = first_key + tile_keys;
  LinesAhead ahead;
  const std::int64_t count = std::min(tile_keys, seen_.end - next_keys);
  if (p_.cached == nullptr && count > 0 && !key_tile(next_keys).has(next_keys, {0, count})) {
    const std::int64_t begin = count * i / num_tiles_, share = count * (i + 1) / num_tiles_ - begin;
    const std::int64_t token = sequence_.first_key + next_keys + begin;
    ahead.add(key_rows_.rows().ahead(sequence_.row, token, kv_head_, share));
    ahead.add(value_rows_.ahead(sequence_.row, token, kv_head_, share));
  }
  const auto add = [&](const auto& rows, const RowTile& of) {
    const std::int64_t first = query(of.first_row), count = query(of.first_row + of.num_rows - 1) + 1 - first;
    ahead.add(
        rows.ahead(sequence_.row, sequence_.first_query + first, kv_head_ * heads_per_kv_head_, count, heads_per_kv_head_));
  };
  if (i + 1 < num_tiles_ && !tiles_[static_cast<std::size_t>(i + 1)].has_queries) {
    add(query_rows_.rows(), tiles_[static_cast<std::size_t>(i + 1)]);
  }
  if (tile.some.end <= next_keys) add(out_rows_, tile);
  return ahead;
}

template <class T>
void QueryBlock<T>::attend(RowTile& tile, const KeyTile& keys, const KeyRange& part) {
  if (!tile.has_queries) load_queries(tile);
  const std::int64_t num_keys = part.end - part.begin;
  LinesAhead ahead = needed_next(tile, keys.first_key);
  ahead.spread_over((num_keys + padded_value_dim_) / kernels_.step);
  T* const weights = scores_ + part.begin * kernels_.rows;
  weigh(tile, keys, part, weights, ahead);
  if (keys.num_not_finite > 0) add_not_finite(tile, keys);
  kernels_.accumulate({keys.values, part.begin, num_keys, weights, tile.out, padded_value_dim_, tile.has_out}, ahead);
  tile.has_out = true;
}

template <class T>
void QueryBlock<T>::weigh(const RowTile& tile, const KeyTile& keys, const KeyRange& part, T* weights, LinesAhead& ahead) {
  const std::int64_t first_key = keys.first_key, num_keys = part.end - part.begin;
  const KeysAndQueries<T> product{keys.keys, part.begin, num_keys, tile.queries, p_.head_dim};
  const SoftmaxOfRows<T> softmax{tile.reference, tile.sum, tile.out, tile.has_out ? padded_value_dim_ : 0};
  const bool adds = added_.any(sequence_), caps = p_.options.softcap != 0;
  const bool at_once = kernels_.score_and_weigh != nullptr && !adds && !caps && keys.num_not_finite == 0;
  const KeyRange all = within_tile(tile.all, first_key);
  SeenKeys<T> seen{begin_, end_, all.begin - part.begin, all.end - part.begin};
  const bool all_see_all =
      seen.all_begin <= 0 && seen.all_end >= (at_once ? round_up(num_keys, kernels_.key_panel) : num_keys);
  if (!all_see_all) find_seen(tile, first_key, part);
  if (at_once) return kernels_.score_and_weigh(product, seen, weights, softmax, ahead);

  kernels_.score(product, weights, ahead);
  if (caps) kernels_.softcap(weights, num_keys, static_cast<T>(p_.options.softcap));
  if (adds) {
    load_added(tile, first_key, part);
    kernels_.add_mask(weights, num_keys, added_tile_ + part.begin * kernels_.rows);
  }
  if (!all_see_all) kernels_.hide(weights, num_keys, seen);
  if (keys.num_not_finite > 0) note_who_sees_not_finite(keys, part);
  kernels_.weigh(weights, num_keys, softmax);
}

template <class T>
void QueryBlock<T>::load_added(const RowTile& tile, std::int64_t first_key, const KeyRange& part) {
  const std::int64_t rows = kernels_.rows, num_keys = part.end - part.begin;
  double line[tile_keys];
  for (std::int64_t r = 0; r < tile.num_rows; ++r) {
    const std::int64_t row = tile.first_row + r;
    added_.row(sequence_, query(row), head(row), first_key + part.begin, num_keys, key_positions_ + part.begin, line);
    for (std::int64_t i = 0; i < num_keys; ++i) added_tile_[(part.begin + i) * rows + r] = added_number<T>(line[i]);
  }
  for (std::int64_t i = part.begin; i < part.end; ++i) {
    std::fill(added_tile_ + i * rows + tile.num_rows, added_tile_ + (i + 1) * rows, T{0});
  }
}

template <class T>
void QueryBlock<T>::find_seen(const RowTile& tile, std::int64_t first_key, const KeyRange& part) noexcept {
  for (std::int64_t r = 0; r < kernels_.rows; ++r) {
    const KeyRange seen = within_tile(tile.ranges[r], first_key);
    begin_[r] = static_cast<T>(seen.begin - part.begin);
    end_[r] = static_cast<T>(seen.end - part.begin);
  }
}

// Values that are infinite or NaN. A hidden key has weight 0, and 0 * NaN would leak into a row that does not see it: such
// values are packed as zeros, and added to the rows that do see them here.

/// For every such key and every row: whether the row sees it.
template <class T>
void QueryBlock<T>::note_who_sees_not_finite(const KeyTile& keys, const KeyRange& part) {
  bool* sees = sees_not_finite_;
  for (std::int64_t n = 0; n < keys.num_not_finite; ++n) {
    const std::int64_t i = keys.not_finite[n];
    for (std::int64_t r = 0; r < kernels_.rows; ++r) {
      *sees++ = i >= part.begin && i < part.end && scores_[i * kernels_.rows + r] != -std::numeric_limits<T>::infinity();
    }
  }
}

template <class T>
void QueryBlock<T>::add_not_finite(RowTile& tile, const KeyTile& keys) {
  start_out(tile);
  const bool* sees = sees_not_finite_;
  for (std::int64_t n = 0; n < keys.num_not_finite; ++n) {
    const std::int64_t i = keys.not_finite[n];
    const T* const row = value(keys.first_key + i, some_rows_);
    for (std::int64_t r = 0; r < kernels_.rows; ++r) {
      if (!*sees++) continue;
      const T weight = scores_[i * kernels_.rows + r];  // may have become 0: times infinity that is NaN
      for (std::int64_t d = 0; d < p_.value_dim; ++d) tile.out[d * kernels_.rows + r] += weight * row[d];
    }
  }
}

template <class T>
void QueryBlock<T>::write(RowTile& tile) {
  start_out(tile);
  for (std::int64_t r = 0; r < kernels_.rows; ++r) written_[r] = some_rows_ + r * p_.value_dim;
  const auto for_rows = [&](const auto& body) {
    for_queries(tile, [&](std::int64_t query, std::int64_t head, std::int64_t r, std::int64_t count) {
      const std::int64_t token = sequence_.first_query + query;
      for (std::int64_t i = 0; i < count; ++i) body(r + i, token, head + i);
    });
  };
  const bool in_place = out_rows_.template are_in_place<T>();
  if (in_place) {
    for_rows([&](std::int64_t r, std::int64_t token, std::int64_t head) {
      written_[r] = out_rows_.template in_place<T>(sequence_.row, token, head);
    });
  }
  kernels_.write_rows(tile.out, p_.value_dim, tile.sum, written_);
  if (!in_place) {
    for_rows([&](std::int64_t r, std::int64_t token, std::int64_t head) {
      out_rows_.store(written_[r], sequence_.row, token, head);
    });
  }
  for (std::int64_t r = 0; p_.options.lse && r < tile.num_rows; ++r) write_lse(tile, r);
}

template <class T>
void QueryBlock<T>::write_lse(const RowTile& tile, std::int64_t r) noexcept {
  const std::int64_t row = tile.first_row + r, token = sequence_.first_query + query(row);
  const double sum = static_cast<double>(tile.sum[r]) / weight_of_reference;
  const TensorView& lse = p_.options.lse;
  store_element(lse.dtype(), lse.data(),
                sequence_.row * lse.stride('B') + token * lse.stride(p_.token_axis) + head(row) * lse.stride('H'),
                static_cast<double>(tile.reference[r]) + std::log(sum));
}

template class QueryBlock<float>;
template class QueryBlock<double>;

}  // namespace rotary
