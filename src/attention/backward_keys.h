// Keys and values of one KV head on the way through attention_backward(), a block at a time, and their gradients.
#pragma once

#include <cstdint>

#include "attention/arena.h"
#include "attention/backward_problem.h"
#include "attention/sequences.h"
#include "attention/tensor_rows.h"
#include "attention/turned_rows.h"
#include "kernels/attention_backward.h"
#include "kernels/products.h"

namespace rotary {

/// Some groups of keys that follow each other, as kernels/attention_backward.h draws them. T is float or double.
template <class T>
class BackwardKeys {
 public:
  BackwardKeys(const BackwardProblem& problem, Arena& arena);

  std::int64_t keys_per_group() const noexcept { return group_; }
  std::int64_t most_groups() const noexcept { return most_groups_; }
  std::int64_t most_keys() const noexcept { return most_groups_ * group_; }

  /// From here on key 0 is key `first` of the sequence. Gradients start at 0; without `seen` that is all there is.
  void load(const AttentionSequence& sequence, std::int64_t kv_head, std::int64_t first, bool seen);
  std::int64_t num_keys() const noexcept { return num_keys_; }

  // Of a group; those of keys after the last are 0. More channels than there are, up to a whole panel, are 0, too.
  const T* keys(std::int64_t group) const noexcept { return keys_ + group * group_ * key_step_; }
  const T* values(std::int64_t group) const noexcept { return values_ + group * group_ * dvalue_width_; }
  T* dkeys(std::int64_t group) const noexcept { return dkeys_ + group * group_ * dkey_width_; }
  T* dvalues(std::int64_t group) const noexcept { return dvalues_ + group * group_ * dvalue_width_; }
  std::int64_t dkey_width() const noexcept { return dkey_width_; }
  std::int64_t dvalue_width() const noexcept { return dvalue_width_; }
  /// Rows of keys, zeros where one is not finite.
  const T* key_rows(std::int64_t group) const noexcept { return key_rows_ + group * group_ * key_step_; }

  /// Brings the gradients of a group into rows: those of its key `i`, turned.
  void finish_group(std::int64_t group) noexcept;
  T* dkey_row(std::int64_t i) const noexcept { return dkey_rows_ + i * dkey_width_; }
  T* dvalue_row(std::int64_t i) const noexcept { return value_rows_of_group_ + i * dvalue_width_; }
  /// Turns the sums back, in place, and writes them.
  void store_dkey(std::int64_t key, T* sums);
  void store_dvalue(std::int64_t key, const T* sums);

 private:
  void load_group(std::int64_t group);

  const BackwardProblem& p_;
  const AttentionBackwardKernels<T>& kernels_;
  const ProductKernels<T>& products_;
  std::int64_t group_, most_groups_, key_step_, dkey_width_, dvalue_width_;
  TurnedRows<T> turned_rows_;
  TensorRows<ConstTensorView> value_rows_;
  TensorRows<TensorView> dk_rows_, dv_rows_;

  AttentionSequence sequence_{};
  std::int64_t kv_head_ = 0, first_ = 0, num_keys_ = 0;
  T *key_rows_, *keys_, *values_, *dkeys_, *dvalues_;
  T *dkey_rows_, *value_rows_of_group_;  // of a group; the second for values, and for their gradients
};

}  // namespace rotary
