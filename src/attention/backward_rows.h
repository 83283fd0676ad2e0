// Queries of one KV head on the way through attention_backward(): what the kernels read of them, and their gradients.
//
// Rows run over tokens first: row r is token r / heads_per_kv_head and, of the heads that share the KV head, number
// r % heads_per_kv_head.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/arena.h"
#include "attention/backward_problem.h"
#include "attention/sequences.h"
#include "attention/tensor_rows.h"
#include "attention/turned_rows.h"
#include "attention/visible_keys.h"
#include "kernels/attention_backward.h"
#include "kernels/rows_ahead.h"

namespace rotary {

/// T is float or double.
template <class T>
class BackwardRows {
 public:
  /// Room for `capacity` rows, a multiple of row_tile.
  BackwardRows(const BackwardProblem& problem, std::int64_t capacity, Arena& arena);

  /// Rows of which a thread keeps the numbers at a time: of whole tiles, and a few MiB. Depends on the widths alone.
  static std::int64_t most_rows(const AttentionProblem& problem) noexcept;
  /// Rows of a sequence.
  static std::int64_t count(const AttentionProblem& problem, const AttentionSequence& sequence) noexcept {
    return sequence.num_queries * problem.heads_per_kv_head;
  }

  /// From here on row 0 is row `first` of the sequence. Of the rows nothing is known yet but lse and what they see.
  void begin(const AttentionSequence& sequence, std::int64_t kv_head, std::int64_t first, std::int64_t num_rows);
  /// `count` rows from a whole panel on; their gradients start at 0.
  void load(std::int64_t row, std::int64_t count);
  /// Adds what rows that are loaded make of the gradients of the sinks, one per head that shares the KV head.
  void add_to_sinks(std::int64_t first, std::int64_t count, double* dsinks) const noexcept;
  /// Turns the gradients back and writes them.
  void store_gradients(std::int64_t row, std::int64_t count);

  /// What load() reads; what is read of rows that are loaded; where gradients are written.
  void list_unloaded(std::int64_t row, std::int64_t count, LinesAhead& ahead) const noexcept;
  void list_loaded(std::int64_t row, std::int64_t count, LinesAhead& ahead) const noexcept;
  void list_stored(std::int64_t row, std::int64_t count, LinesAhead& ahead) const noexcept;

  std::int64_t num_rows() const noexcept { return num_rows_; }
  std::int64_t query(std::int64_t row) const noexcept { return (first_ + row) / heads_per_kv_head_; }
  std::int64_t head(std::int64_t row) const noexcept {
    return kv_head_ * heads_per_kv_head_ + (first_ + row) % heads_per_kv_head_;
  }

  // After the last row come some that see nothing, up to a whole panel.
  std::int64_t query_step() const noexcept { return query_step_; }
  std::int64_t dout_step() const noexcept { return dout_step_; }
  std::int64_t dquery_step() const noexcept { return dquery_step_; }
  const T* queries(std::int64_t row) const noexcept { return queries_ + row * query_step_; }  ///< turned and scaled
  const T* dout(std::int64_t row) const noexcept { return dout_ + row * dout_step_; }
  const T* lse(std::int64_t row) const noexcept { return lse_ + row; }  ///< infinity where nothing is seen
  const T* delta(std::int64_t row) const noexcept { return delta_ + row; }
  const KeyRange& range(std::int64_t row) const noexcept { return ranges_[row]; }
  T* dqueries(std::int64_t row) const noexcept { return dqueries_ + row * dquery_step_; }

 private:
  /// How many rows from `row` on, and before `end`, are of one token.
  std::int64_t rows_of_token(std::int64_t row, std::int64_t end) const noexcept {
    return std::min(heads_per_kv_head_ - (first_ + row) % heads_per_kv_head_, end - row);
  }
  template <class Rows>
  void list(const Rows& rows, std::int64_t row, std::int64_t count, LinesAhead& ahead) const noexcept;
  void load_row(std::int64_t row);
  void clear_row(std::int64_t row);
  T scale(std::int64_t row) const noexcept;

  const BackwardProblem& p_;
  const AttentionBackwardKernels<T>& kernels_;
  std::int64_t heads_per_kv_head_, query_step_, dout_step_, dquery_step_;
  VisibleKeys visible_;
  TurnedRows<T> query_rows_;
  TensorRows<ConstTensorView> out_rows_, dout_rows_;
  TensorRows<TensorView> dq_rows_;

  AttentionSequence sequence_{};
  std::int64_t kv_head_ = 0, first_ = 0, num_rows_ = 0;
  T *queries_, *dout_, *dqueries_, *lse_, *delta_;
  KeyRange* ranges_;
  T* out_;  // of one row
};

}  // namespace rotary
