#include "attention/query_block.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "attention/aligned_array.h"
#include "attention/tensor_rows.h"
#include "attention/turned_rows.h"
#include "base/element.h"
#include "kernels/attention.h"

namespace rotary {
namespace {

constexpr std::int64_t tiles_per_block = 8;

std::int64_t round_up(std::int64_t n, std::int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

/// A finite number stays finite when it is narrowed: only an infinity hides a key.
template <class T>
T mask_value(double value) noexcept {
  constexpr double largest = std::numeric_limits<T>::max();
  return static_cast<T>(std::isfinite(value) ? std::clamp(value, -largest, largest) : value);
}

template <class T>
bool all_finite(const T* numbers, std::int64_t length) noexcept {
  bool finite = true;
  for (std::int64_t i = 0; i < length; ++i) finite &= std::abs(numbers[i]) <= std::numeric_limits<T>::max();
  return finite;
}

template <class T>
class QueryBlock {
 public:
  QueryBlock(const AttentionProblem& problem, std::int64_t batch, std::int64_t kv_head, std::int64_t first_row)
      : p_(problem),
        kernels_(attention_kernels<T>()),
        batch_(batch),
        kv_head_(kv_head),
        padded_value_dim_(round_up(problem.value_dim, kernels_.panel)),
        query_rows_(problem.q, problem.q_angles, batch),
        key_rows_(problem.k, problem.k_angles, batch),
        value_rows_(problem.v),
        out_rows_(problem.out),
        keys_(aligned_array<T>(tile_keys * problem.head_dim)),
        values_(aligned_array<T>(tile_keys * padded_value_dim_)),
        scores_(aligned_array<T>(tile_keys * kernels_.rows)),
        num_visible_(aligned_array<T>(kernels_.rows)),
        mask_(aligned_array<T>(problem.attn_mask ? tile_keys * kernels_.rows : 0)),
        row_(aligned_array<T>(std::max(problem.head_dim, padded_value_dim_))) {
    const std::int64_t end = std::min(first_row + rows_per_block<T>(), problem.num_queries * problem.heads_per_kv_head());
    for (std::int64_t row = first_row; row < end; row += kernels_.rows) {
      tiles_.push_back(row_tile(row, std::min(kernels_.rows, end - row)));
    }
  }

  void attend() {
    const std::int64_t end = most_visible(tiles_.back());
    for (std::int64_t first_key = 0; first_key < end; first_key += tile_keys) {
      const std::int64_t num_keys = std::min(tile_keys, end - first_key);
      load_keys(first_key, num_keys);
      load_values(first_key, num_keys);
      for (RowTile& tile : tiles_) {
        const std::int64_t seen = std::min(num_keys, most_visible(tile) - first_key);
        if (seen > 0) attend(tile, first_key, seen);
      }
    }
    for (RowTile& tile : tiles_) write(tile);
  }

 private:
  struct RowTile {
    std::int64_t first_row, num_rows;
    AlignedArray<T> queries, out, max, sum;  // laid out as kernels/attention.h draws them
  };

  std::int64_t token(std::int64_t row) const noexcept { return row / p_.heads_per_kv_head(); }
  std::int64_t head(std::int64_t row) const noexcept {
    return kv_head_ * p_.heads_per_kv_head() + row % p_.heads_per_kv_head();
  }
  std::int64_t fewest_visible(const RowTile& tile) const noexcept { return p_.num_visible(token(tile.first_row)); }
  std::int64_t most_visible(const RowTile& tile) const noexcept {
    return p_.num_visible(token(tile.first_row + tile.num_rows - 1));
  }

  RowTile row_tile(std::int64_t first_row, std::int64_t num_rows) {
    const std::int64_t rows = kernels_.rows;
    RowTile tile{first_row, num_rows, {}, {}, {}, {}};
    tile.queries = aligned_array<T>(p_.head_dim * rows);
    tile.out = aligned_array<T>(padded_value_dim_ * rows);
    tile.max = aligned_array<T>(rows);
    tile.sum = aligned_array<T>(rows);
    std::fill_n(tile.max.get(), rows, -std::numeric_limits<T>::infinity());
    for (std::int64_t r = 0; r < num_rows; ++r) {
      query_rows_.load(token(first_row + r), head(first_row + r), row_.get());
      for (std::int64_t d = 0; d < p_.head_dim; ++d) tile.queries[d * rows + r] = row_[d] * static_cast<T>(p_.scale);
    }
    return tile;
  }

  void load_keys(std::int64_t first_key, std::int64_t num_keys) {
    const std::int64_t panel = kernels_.panel;
    for (std::int64_t i = 0; i < round_up(num_keys, panel); ++i) {
      if (i < num_keys) key_rows_.load(first_key + i, kv_head_, row_.get());
      else std::fill_n(row_.get(), p_.head_dim, T{0});
      T* const column = keys_.get() + i / panel * panel * p_.head_dim + i % panel;
      for (std::int64_t d = 0; d < p_.head_dim; ++d) column[d * panel] = row_[d];
    }
  }

  void load_values(std::int64_t first_key, std::int64_t num_keys) {
    const std::int64_t panel = kernels_.panel;
    std::fill(row_.get() + p_.value_dim, row_.get() + padded_value_dim_, T{0});
    not_finite_.clear();
    for (std::int64_t i = 0; i < num_keys; ++i) {
      value_rows_.load(batch_, first_key + i, kv_head_, row_.get());
      if (!all_finite(row_.get(), p_.value_dim)) {
        not_finite_.push_back(i);
        std::fill_n(row_.get(), p_.value_dim, T{0});
      }
      T* to = values_.get() + i * panel;
      for (std::int64_t d = 0; d < padded_value_dim_; d += panel, to += tile_keys * panel) std::copy_n(&row_[d], panel, to);
    }
  }

  void attend(RowTile& tile, std::int64_t first_key, std::int64_t num_keys) {
    kernels_.score(keys_.get(), num_keys, tile.queries.get(), p_.head_dim, scores_.get());
    if (p_.attn_mask) {
      load_mask(tile, first_key, num_keys);
      kernels_.add_mask(scores_.get(), num_keys, mask_.get());
    }
    if (fewest_visible(tile) < first_key + num_keys) {
      for (std::int64_t r = 0; r < tile.num_rows; ++r) {
        num_visible_[r] =
            static_cast<T>(std::clamp<std::int64_t>(p_.num_visible(token(tile.first_row + r)) - first_key, 0, num_keys));
      }
      kernels_.hide(scores_.get(), num_keys, num_visible_.get());
    }
    const std::vector<bool> seen = which_see_not_finite(num_keys);
    kernels_.weigh(scores_.get(), num_keys, tile.max.get(), tile.sum.get(), tile.out.get(), padded_value_dim_);
    kernels_.accumulate(values_.get(), num_keys, scores_.get(), tile.out.get(), padded_value_dim_);
    add_not_finite(tile, first_key, num_keys, seen);
  }

  void load_mask(const RowTile& tile, std::int64_t first_key, std::int64_t num_keys) {
    const ConstTensorView& mask = p_.attn_mask;
    const auto step = [&](char axis) { return mask.size(axis) > 1 ? mask.stride(axis) : 0; };
    double line[tile_keys] = {};
    for (std::int64_t r = 0; r < tile.num_rows; ++r) {
      const std::int64_t row = tile.first_row + r;
      const std::int64_t first =
          batch_ * step('B') + head(row) * step('H') + token(row) * step('Q') + first_key * step('K');
      load_row(mask.dtype(), mask.data(), first, step('K'), num_keys, line);
      for (std::int64_t i = 0; i < num_keys; ++i) mask_[i * kernels_.rows + r] = mask_value<T>(line[i]);
    }
  }

  // Values that are infinite or NaN. A hidden key has weight 0, and 0 * NaN would leak into a row that does not see it:
  // such values are packed as zeros, and added to the rows that do see them here.

  /// For every such key below num_keys and every row: whether the row sees it. Empty as a rule.
  std::vector<bool> which_see_not_finite(std::int64_t num_keys) const {
    std::vector<bool> seen;
    for (const std::int64_t i : not_finite_) {
      if (i >= num_keys) break;
      for (std::int64_t r = 0; r < kernels_.rows; ++r) {
        seen.push_back(scores_[i * kernels_.rows + r] != -std::numeric_limits<T>::infinity());
      }
    }
    return seen;
  }

  void add_not_finite(RowTile& tile, std::int64_t first_key, std::int64_t num_keys, const std::vector<bool>& seen) {
    auto sees = seen.begin();
    for (const std::int64_t i : not_finite_) {
      if (i >= num_keys) break;
      value_rows_.load(batch_, first_key + i, kv_head_, row_.get());
      for (std::int64_t r = 0; r < kernels_.rows; ++r) {
        if (!*sees++) continue;
        const T weight = scores_[i * kernels_.rows + r];  // may have become 0: times infinity that is NaN
        for (std::int64_t d = 0; d < p_.value_dim; ++d) tile.out[d * kernels_.rows + r] += weight * row_[d];
      }
    }
  }

  void write(RowTile& tile) {
    kernels_.normalize(tile.out.get(), p_.value_dim, tile.sum.get());
    for (std::int64_t r = 0; r < tile.num_rows; ++r) {
      const std::int64_t t = token(tile.first_row + r), h = head(tile.first_row + r);
      for (std::int64_t d = 0; d < p_.value_dim; ++d) row_[d] = tile.out[d * kernels_.rows + r];
      out_rows_.store(row_.get(), batch_, t, h);
      if (!p_.lse) continue;
      const double lse = static_cast<double>(tile.max[r]) + std::log(static_cast<double>(tile.sum[r]));
      store_element(p_.lse.dtype(), p_.lse.data(),
                    batch_ * p_.lse.stride('B') + t * p_.lse.stride('S') + h * p_.lse.stride('H'), lse);
    }
  }

  const AttentionProblem& p_;
  const AttentionKernels<T>& kernels_;
  std::int64_t batch_, kv_head_, padded_value_dim_;
  TurnedRows<T> query_rows_, key_rows_;
  TensorRows<ConstTensorView> value_rows_;
  TensorRows<TensorView> out_rows_;
  AlignedArray<T> keys_, values_, scores_, num_visible_, mask_;
  AlignedArray<T> row_;                   // one row of q, k, v or out, on its way
  std::vector<std::int64_t> not_finite_;  // of the key tile
  std::vector<RowTile> tiles_;
};

}  // namespace

template <class T>
std::int64_t rows_per_block() noexcept {
  return tiles_per_block * attention_kernels<T>().rows;
}
template std::int64_t rows_per_block<float>() noexcept;
template std::int64_t rows_per_block<double>() noexcept;

template <class T>
void attend_block(const AttentionProblem& problem, std::int64_t batch, std::int64_t kv_head, std::int64_t first_row) {
  QueryBlock<T>(problem, batch, kv_head, first_row).attend();
}
template void attend_block<float>(const AttentionProblem&, std::int64_t, std::int64_t, std::int64_t);
template void attend_block<double>(const AttentionProblem&, std::int64_t, std::int64_t, std::int64_t);

}  // namespace rotary
