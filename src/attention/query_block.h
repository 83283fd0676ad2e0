// One task of attention(): some rows (queries of the heads that share one KV head) against every key that they see.
//
//            keys, a tile at a time ->
//          + - - - +------+------+------+- - - +
//   row      never | edge | full | edge | never loaded
//   tiles  + - - - +------+------+------+- - - +
//            never | edge | full | edge |
//          + - - - +------+------+------+
//
// Keys and values of a tile are turned, widened and packed once for all rows of the block; the row tiles of the block then
// take turns with it, and fetch meanwhile what comes after. Where all keys of a sequence fit into the workspace, they stay
// there for the next block of the same KV head. Rows run over tokens first: row r is token r / heads_per_kv_head and, of the
// heads that share the KV head, number r % heads_per_kv_head.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "attention/added_scores.h"
#include "attention/arena.h"
#include "attention/kept_angles.h"
#include "attention/problem.h"
#include "attention/sequences.h"
#include "attention/tensor_rows.h"
#include "attention/turned_rows.h"
#include "attention/visible_keys.h"
#include "kernels/attention.h"

namespace rotary {

/// How many row tiles a block has, and what the workspace keeps: so many key tiles, and the angles of all tokens or not.
struct BlockTiles {
  std::int64_t rows, keys;
  bool angles = false;
};

/// The workspace of one thread, and what is done in it. T is float or double.
template <class T>
class QueryBlock {
 public:
  /// Memory from `arena`: for so many tiles, or for all rows, if those are fewer. Refers to the problem.
  QueryBlock(const AttentionProblem& problem, const BlockTiles& tiles, Arena& arena);

  static std::int64_t num_bytes(const AttentionProblem& problem, const BlockTiles& tiles) noexcept;

  /// Row tiles of a block that keeps one key tile: the more, the less it costs to pack keys and values; as many as there is
  /// room for in so many bytes, but not fewer.
  static constexpr std::int64_t most_bytes = 1 << 20, fewest_tiles = 8;
  static std::int64_t most_tiles(const AttentionProblem& problem) noexcept;

  /// Rows of a tile.
  static std::int64_t tile_rows() noexcept { return attention_kernels<T>().rows; }

  /// Computes the rows of one KV head from first_row on: out and, where asked for, lse. A row's result does not depend on
  /// which rows share its block.
  void attend(const AttentionSequence& sequence, std::int64_t kv_head, std::int64_t first_row);

 private:
  /// Pointers into the workspace, laid out as kernels/attention.h draws them.
  struct RowTile {
    std::int64_t first_row, num_rows;
    KeyRange some, all;                  // what at least one row sees lies in `some`; `all` is seen by every row
    T *queries, *out, *reference, *sum;  // see SoftmaxOfRows
    KeyRange* ranges;                    // of each row
    bool has_queries, has_out;           // whether these are there yet
  };

  /// What is packed of a tile of keys and values.
  struct KeyTile {
    bool has(std::int64_t first, const KeyRange& part) const noexcept {
      return first == first_key && part.begin >= loaded.begin && part.end <= loaded.end;
    }

    std::int64_t first_key;
    KeyRange loaded;
    T *keys, *values;
    std::int64_t num_not_finite;  // values that are infinite or NaN
    std::int64_t* not_finite;     // which
  };

  static constexpr std::int64_t room_for_tiles = 64;
  static RowTile take_tile(const AttentionProblem& problem, Arena& arena) noexcept;
  static KeyTile take_key_tile(const AttentionProblem& problem, Arena& arena) noexcept;

  KeptAngles<T>* kept() noexcept { return kept_angles_ ? &*kept_angles_ : nullptr; }
  std::int64_t query(std::int64_t row) const noexcept { return row / heads_per_kv_head_; }
  std::int64_t head(std::int64_t row) const noexcept { return kv_head_ * heads_per_kv_head_ + row % heads_per_kv_head_; }

  template <class Body>
  void for_queries(const RowTile& tile, const Body& body) const;
  void begin(RowTile& tile, std::int64_t first_row, std::int64_t num_rows);
  void load_queries(RowTile& tile);
  void start_sums(RowTile& tile) noexcept;
  void start_out(RowTile& tile) noexcept;
  void find_ranges(RowTile& tile) noexcept;

  // Below, `part` is what is needed of the key tile.
  void attend_tile(std::int64_t first_key);
  KeyTile& key_tile(std::int64_t first_key) const noexcept { return key_tiles_[first_key / tile_keys % num_key_tiles_]; }
  const KeyTile& loaded(std::int64_t first_key, const KeyRange& part);
  void load_key_rows(std::int64_t key, std::int64_t count);
  const T* value(std::int64_t key, T* row);  // where it lies, or in `row`
  void load_keys(const KeyTile& keys, const KeyRange& part);
  void load_values(KeyTile& keys, const KeyRange& part);
  void attend(RowTile& tile, const KeyTile& keys, const KeyRange& part);
  void weigh(const RowTile& tile, const KeyTile& keys, const KeyRange& part, T* weights, LinesAhead& ahead);
  LinesAhead needed_next(const RowTile& tile, std::int64_t first_key) const noexcept;
  void load_added(const RowTile& tile, std::int64_t first_key, const KeyRange& part);
  void find_seen(const RowTile& tile, std::int64_t first_key, const KeyRange& part) noexcept;
  void note_who_sees_not_finite(const KeyTile& keys, const KeyRange& part);
  void add_not_finite(RowTile& tile, const KeyTile& keys);
  void write(RowTile& tile);
  void write_lse(const RowTile& tile, std::int64_t r) noexcept;

  const AttentionProblem& p_;
  const AttentionKernels<T>& kernels_;
  std::int64_t heads_per_kv_head_, padded_value_dim_;
  VisibleKeys visible_;
  AddedScores added_;
  std::optional<KeptAngles<T>> kept_angles_;
  TurnedRows<T> query_rows_, key_rows_;
  TensorRows<ConstTensorView> value_rows_;
  TensorRows<TensorView> out_rows_;

  AttentionSequence sequence_{};
  std::int64_t kv_head_ = 0, most_tiles_, num_tiles_ = 0, num_key_tiles_;
  KeyRange seen_{0, 0};  // by some row
  std::array<RowTile, room_for_tiles> tiles_{};
  KeyTile* key_tiles_;
  T *scores_, *added_tile_, *scales_, *begin_, *end_;
  double* key_positions_;
  T* some_rows_;           // of q, k, v or out on their way: as many as a row tile or a panel has
  T** written_;            // where each row of a tile goes: out, or some_rows_ on its way there
  bool* sees_not_finite_;  // for each value of a key tile that is infinite or NaN, of each row
};

}  // namespace rotary
