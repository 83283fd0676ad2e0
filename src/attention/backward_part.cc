#include "attention/backward_part.h"

#include <algorithm>

#include "attention/finite.h"
#include "attention/row_sums.h"

namespace rotary {

template <class T>
BackwardPart<T>::BackwardPart(const BackwardProblem& problem, Arena& arena)
    : p_(problem),
      kernels_(attention_backward_kernels<T>()),
      added_(problem.forward),
      rows_(problem,
            std::min(num_rows(problem.forward),
                     round_up(problem.forward.num_queries * problem.forward.heads_per_kv_head, row_tile)),
            arena),
      keys_(problem, arena),
      tiles_(arena.take<RowTile>(num_rows(problem.forward) / row_tile)),
      weights_(arena.take<T>(row_tile * kernels_.keys)),
      dscore_(arena.take<T>(keys_.most_groups() * row_tile * kernels_.keys)),
      added_tile_(arena.take<T>(added_.may_add() ? row_tile * kernels_.keys : 0)),
      slopes_(arena.take<T>(problem.forward.options.softcap != 0 ? row_tile * kernels_.keys : 0)),
      begin_(arena.take<T>(row_tile)),
      end_(arena.take<T>(row_tile)),
      end_in_block_(arena.take<std::int64_t>(row_tile)),
      key_positions_(arena.take<double>(added_.may_add() ? kernels_.keys : 0)) {}

template <class T>
void BackwardPart<T>::run(const AttentionSequence& sequence, std::int64_t kv_head, const KeySums<T>& sums, double* dsinks) {
  sequence_ = sequence;
  const std::int64_t first_row = sums.part * num_rows(p_.forward);
  const std::int64_t rows_left = BackwardRows<T>::count(p_.forward, sequence) - first_row;
  rows_.begin(sequence, kv_head, first_row, std::min(num_rows(p_.forward), rows_left));
  find_tiles();
  if (!p_.needs_weights() || sequence.num_keys == 0) {
    for (const RowTile* tile = tiles_; tile != tiles_ + num_tiles_; ++tile) {
      load_rows(*tile, dsinks);
      rows_.store_gradients(tile->first_row, tile->num_rows);
    }
    return;
  }
  const KeyRange seen = seen_by_all_rows();
  for (std::int64_t first_key = 0; first_key < sequence.num_keys; first_key += keys_.most_keys()) {
    const bool sees_block = !is_empty(common(seen, block_from(first_key)));
    keys_.load(sequence, kv_head, first_key, sees_block);
    add_block(first_key, dsinks);
    finish_block(first_key, sees_block, sums);
  }
}

template <class T>
typename BackwardPart<T>::RowTile BackwardPart<T>::row_tile_from(std::int64_t first_row) const noexcept {
  RowTile tile{first_row, std::min(row_tile, rows_.num_rows() - first_row), rows_.range(first_row), rows_.range(first_row)};
  for (std::int64_t row = first_row + 1; row < first_row + tile.num_rows; ++row) {
    tile.some = hull(tile.some, rows_.range(row));
    tile.all = common(tile.all, rows_.range(row));
  }
  if (is_empty(tile.some)) tile.some = {0, 0};
  return tile;
}

template <class T>
void BackwardPart<T>::find_tiles() noexcept {
  num_tiles_ = 0;
  for (std::int64_t row = 0; row < rows_.num_rows(); row += row_tile) tiles_[num_tiles_++] = row_tile_from(row);
}

template <class T>
KeyRange BackwardPart<T>::seen_by_all_rows() const noexcept {
  KeyRange seen{0, 0};
  for (const RowTile* tile = tiles_; tile != tiles_ + num_tiles_; ++tile) seen = hull(seen, tile->some);
  return seen;
}

/// Of those that a tile sees; the first where it sees nothing.
template <class T>
bool BackwardPart<T>::is_last_block(const RowTile& tile, std::int64_t first_key) const noexcept {
  return tile.some.end <= first_key + keys_.most_keys() && (first_key == 0 || tile.some.end > first_key);
}

template <class T>
void BackwardPart<T>::load_rows(const RowTile& tile, double* dsinks) {
  rows_.load(tile.first_row, tile.num_rows);
  if (dsinks != nullptr) rows_.add_to_sinks(tile.first_row, tile.num_rows, dsinks);
}

/// Rows are loaded where they first meet keys and stored where they last do, while they are in the nearest caches.
template <class T>
void BackwardPart<T>::add_block(std::int64_t first_key, double* dsinks) {
  for (const RowTile* tile = tiles_; tile != tiles_ + num_tiles_; ++tile) {
    if (first_key == 0) load_rows(*tile, dsinks);
    if (!is_empty(common(tile->some, block_from(first_key)))) add_tile(*tile, first_key);
    if (is_last_block(*tile, first_key)) rows_.store_gradients(tile->first_row, tile->num_rows);
  }
}

/// Of the next tile what is loaded first or what is read of it next; of this one, where its gradients go.
template <class T>
LinesAhead BackwardPart<T>::needed_next(const RowTile& tile, std::int64_t first_key) const noexcept {
  LinesAhead ahead;
  if (const RowTile* const next = &tile + 1; next != tiles_ + num_tiles_) {
    const bool meets_block = !is_empty(common(next->some, block_from(first_key)));
    if (first_key == 0) rows_.list_unloaded(next->first_row, next->num_rows, ahead);
    else if (meets_block) rows_.list_loaded(next->first_row, next->num_rows, ahead);
  }
  if (is_last_block(tile, first_key)) rows_.list_stored(tile.first_row, tile.num_rows, ahead);
  return ahead;
}

template <class T>
std::int64_t BackwardPart<T>::fetches_per_group() const noexcept {
  const std::int64_t width = (p_.gradients.v ? keys_.dvalue_width() : 0) + (p_.gradients.k ? keys_.dkey_width() : 0);
  return (row_tile * (p_.needs_dscore() ? 2 : 1) + width) / kernels_.panel;
}

template <class T>
void BackwardPart<T>::add_tile(const RowTile& tile, std::int64_t first_key) {
  const KeyRange keys = common(tile.some, {first_key, first_key + keys_.num_keys()});
  const std::int64_t w = kernels_.keys;
  const std::int64_t first_group = (keys.begin - first_key) / w, end_group = (keys.end - first_key + w - 1) / w;
  ahead_ = needed_next(tile, first_key);
  ahead_.spread_over((end_group - first_group) * fetches_per_group());
  for (std::int64_t group = first_group; group < end_group; ++group) add_group(tile, first_key, group);
  if (!p_.gradients.q) return;
  const std::int64_t first = first_key + first_group * w;
  for (std::int64_t row = 0; row < row_tile; ++row) {
    end_in_block_[row] = row < tile.num_rows ? common(rows_.range(tile.first_row + row), keys).end - first : 0;
  }
  kernels_.add_to_queries(dscore_ + first_group * row_tile * w, tile.num_rows, end_in_block_, keys_.key_rows(first_group),
                          rows_.dqueries(tile.first_row), rows_.dquery_step());
}

template <class T>
void BackwardPart<T>::add_group(const RowTile& tile, std::int64_t first_key, std::int64_t group) {
  const std::int64_t w = kernels_.keys;
  const KeyRange keys{first_key + group * w, first_key + (group + 1) * w};
  const KeyRange rows = rows_that_see(tile, keys);
  T* const dscore = dscore_ + group * row_tile * w;
  std::fill_n(dscore, rows.begin * w, T{0});
  std::fill(dscore + rows.end * w, dscore + row_tile * w, T{0});
  if (is_empty(rows)) return;

  const std::int64_t first_row = tile.first_row + rows.begin, num_rows = rows.end - rows.begin;
  weigh(tile, rows, keys, group);
  const T* const end = keys.end <= tile.all.end ? nullptr : end_ + rows.begin;
  if (p_.gradients.v) {
    kernels_.add_to_keys(rows_.dout(first_row), rows_.dout_step(), num_rows, weights_ + rows.begin * w, end,
                         keys_.dvalues(group), keys_.dvalue_width(), ahead_);
  }
  if (!p_.needs_dscore()) return;
  kernels_.differentiate(
      {rows_.dout(first_row), rows_.dout_step(), num_rows, keys_.values(group), p_.forward.value_dim, &ahead_},
      rows_.delta(first_row), weights_ + rows.begin * w,
      p_.forward.options.softcap != 0 ? slopes_ + rows.begin * w : nullptr, end, dscore + rows.begin * w);
  if (!p_.gradients.k) return;
  kernels_.add_to_keys(rows_.queries(first_row), rows_.query_step(), num_rows, dscore + rows.begin * w, end,
                       keys_.dkeys(group), keys_.dkey_width(), ahead_);
}

/// Counted from the tile's first, by whole panels; none: all are before the end of an empty range.
template <class T>
KeyRange BackwardPart<T>::rows_that_see(const RowTile& tile, const KeyRange& keys) const noexcept {
  const auto sees = [&](std::int64_t row) { return !is_empty(common(rows_.range(tile.first_row + row), keys)); };
  std::int64_t begin = 0, end = tile.num_rows;
  while (begin < end && !sees(begin)) ++begin;
  if (begin == end) return {0, 0};
  while (!sees(end - 1)) --end;
  return {begin / kernels_.panel * kernels_.panel, round_up(end, kernels_.panel)};
}

template <class T>
void BackwardPart<T>::weigh(const RowTile& tile, const KeyRange& rows, const KeyRange& keys, std::int64_t group) {
  const std::int64_t first_row = tile.first_row + rows.begin, w = kernels_.keys;
  const RowsByKeys<T> scores{rows_.queries(first_row), rows_.query_step(),  rows.end - rows.begin,
                             keys_.keys(group),        p_.forward.head_dim, &ahead_};
  T* const weights = weights_ + rows.begin * w;
  const bool adds = added_.any(sequence_), caps = p_.forward.options.softcap != 0;
  if (!adds && !caps && tile.all.begin <= keys.begin && keys.end <= tile.all.end) {
    return kernels_.weigh(scores, rows_.lse(first_row), weights);
  }
  find_ends(tile, rows, keys);
  if (adds) load_added(tile, rows, keys);
  kernels_.weigh_by_rules(scores, rows_.lse(first_row),
                          {begin_ + rows.begin, end_ + rows.begin, adds ? added_tile_ + rows.begin * w : nullptr,
                           static_cast<T>(p_.forward.options.softcap), caps ? slopes_ + rows.begin * w : nullptr},
                          weights);
}

template <class T>
void BackwardPart<T>::find_ends(const RowTile& tile, const KeyRange& rows, const KeyRange& keys) noexcept {
  const std::int64_t w = kernels_.keys;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const KeyRange seen = row < tile.num_rows ? rows_.range(tile.first_row + row) : KeyRange{0, 0};
    begin_[row] = static_cast<T>(std::clamp<std::int64_t>(seen.begin - keys.begin, 0, w));
    end_[row] = static_cast<T>(std::clamp<std::int64_t>(seen.end - keys.begin, 0, w));
  }
}

template <class T>
void BackwardPart<T>::load_added(const RowTile& tile, const KeyRange& rows, const KeyRange& keys) {
  constexpr std::int64_t most_keys = 64;
  const std::int64_t w = kernels_.keys, num_keys = std::min(w, sequence_.num_keys - keys.begin);
  double line[most_keys];
  added_.load_positions(sequence_, keys.begin, num_keys, key_positions_);
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    T* const to = added_tile_ + row * w;
    std::fill_n(to, w, T{0});
    if (row >= tile.num_rows) continue;
    added_.row(sequence_, rows_.query(tile.first_row + row), rows_.head(tile.first_row + row), keys.begin, num_keys,
               key_positions_, line);
    std::transform(line, line + num_keys, to, added_number<T>);
  }
}

/// What this part has found joins the sum of those before it, which is returned.
template <class T>
T* BackwardPart<T>::join(const KeySums<T>& sums, bool seen, const T* gradient, T* sum, std::int64_t width) noexcept {
  if (sums.is_first()) std::copy_n(gradient, width, sum);
  else if (seen) add_multiple(T{1}, gradient, sum, width);
  return sum;
}

template <class T>
void BackwardPart<T>::finish_block(std::int64_t first_key, bool seen, const KeySums<T>& sums) {
  if (!p_.gradients.k && !p_.gradients.v) return;
  const std::int64_t block = first_key / keys_.most_keys(), head_dim = p_.forward.head_dim,
                     value_dim = p_.forward.value_dim;
  sums.wait_for_turn(block);
  for (std::int64_t key = 0; key < keys_.num_keys(); ++key) {
    const std::int64_t i = key % kernels_.keys;
    if (i == 0 && (seen || sums.is_first())) keys_.finish_group(key / kernels_.keys);
    T *dkey = keys_.dkey_row(i), *dvalue = keys_.dvalue_row(i);
    if (sums.num_parts > 1) {
      dkey = join(sums, seen, dkey, sums.dkeys + (first_key + key) * head_dim, head_dim);
      dvalue = join(sums, seen, dvalue, sums.dvalues + (first_key + key) * value_dim, value_dim);
    }
    if (sums.is_last()) {
      keys_.store_dkey(key, dkey);
      keys_.store_dvalue(key, dvalue);
    }
  }
  sums.pass_turn(block);
}

template class BackwardPart<float>;
template class BackwardPart<double>;

}  // namespace rotary
