// One task of attention_backward(): some queries of the heads that share a KV head, against all keys.
//
//     keys, a block at a time →                    for each block of keys
//     ┌──┬──┬──┬──┬─ ─ ─                             for each row tile that sees some of them
//     │g │g │g │g │   row tiles                        for each group: weights and dscore; dkeys, dvalues += …
//     ├──┼──┼──┼──┼─ ─ ─                               dqueries += dscore of all groups
//     │g │g │g │g │                                  dkeys and dvalues of the block are done
//
// (The order of FlashAttention-2, Dao 2023, algorithm 2.)
#pragma once

#include <cstdint>

#include "attention/added_scores.h"
#include "attention/arena.h"
#include "attention/backward_keys.h"
#include "attention/backward_problem.h"
#include "attention/backward_rows.h"
#include "attention/key_sums.h"
#include "attention/sequences.h"
#include "kernels/attention_backward.h"
#include "kernels/rows_ahead.h"

namespace rotary {

/// The workspace of one thread, and what is done in it. T is float or double.
template <class T>
class BackwardPart {
 public:
  /// Memory from `arena`, whose size depends on the widths of the heads. Refers to the problem.
  BackwardPart(const BackwardProblem& problem, Arena& arena);

  /// Queries of all heads that make a part; the last one of a sequence may have fewer. Depends on the widths alone.
  static std::int64_t num_rows(const AttentionProblem& problem) noexcept { return BackwardRows<T>::most_rows(problem); }

  /// Of keys; each takes its turn in the sums.
  std::int64_t num_blocks(const AttentionSequence& sequence) const noexcept {
    return (sequence.num_keys + keys_.most_keys() - 1) / keys_.most_keys();
  }

  /// Gradients of sinks are added to `dsinks`, one per head that shares the KV head, unless that is nullptr.
  void run(const AttentionSequence& sequence, std::int64_t kv_head, const KeySums<T>& sums, double* dsinks);

 private:
  /// Some rows, and what they see.
  struct RowTile {
    std::int64_t first_row, num_rows;
    KeyRange some, all;  // what at least one row sees lies in `some`; `all` is seen by every row
  };

  RowTile row_tile_from(std::int64_t first_row) const noexcept;
  void find_tiles() noexcept;
  bool is_last_block(const RowTile& tile, std::int64_t first_key) const noexcept;
  void load_rows(const RowTile& tile, double* dsinks);
  KeyRange seen_by_all_rows() const noexcept;

  // Keys first_key … first_key + num_keys - 1 are the block's.
  KeyRange block_from(std::int64_t first_key) const noexcept { return {first_key, first_key + keys_.most_keys()}; }
  void add_block(std::int64_t first_key, double* dsinks);
  std::int64_t fetches_per_group() const noexcept;
  LinesAhead needed_next(const RowTile& tile, std::int64_t first_key) const noexcept;
  void add_tile(const RowTile& tile, std::int64_t first_key);
  void add_group(const RowTile& tile, std::int64_t first_key, std::int64_t group);
  KeyRange rows_that_see(const RowTile& tile, const KeyRange& keys) const noexcept;
  void find_ends(const RowTile& tile, const KeyRange& rows, const KeyRange& keys) noexcept;
  void weigh(const RowTile& tile, const KeyRange& rows, const KeyRange& keys, std::int64_t group);
  void load_added(const RowTile& tile, const KeyRange& rows, const KeyRange& keys);
  static T* join(const KeySums<T>& sums, bool seen, const T* gradient, T* sum, std::int64_t width) noexcept;
  void finish_block(std::int64_t first_key, bool seen, const KeySums<T>& sums);

  const BackwardProblem& p_;
  const AttentionBackwardKernels<T>& kernels_;
  AddedScores added_;
  BackwardRows<T> rows_;
  BackwardKeys<T> keys_;

  AttentionSequence sequence_{};
  RowTile* tiles_;
  std::int64_t num_tiles_ = 0;
  LinesAhead ahead_;
  T *weights_, *dscore_;  // [row_tile][w], [groups][row_tile][w]
  T *added_tile_, *slopes_, *begin_, *end_;
  std::int64_t* end_in_block_;
  double* key_positions_;
};

}  // namespace rotary
