#include "attention/backward_keys.h"

#include <algorithm>

namespace rotary {
namespace {

/// As many groups as stay in the second-level cache together with the gradients of their scores.
template <class T>
std::int64_t groups_in_cache(const AttentionProblem& p) noexcept {
  constexpr std::int64_t most_bytes = 5 << 18, most_keys = 384;
  const std::int64_t group = attention_backward_kernels<T>().keys;
  const std::int64_t bytes = group * (3 * p.head_dim + 2 * p.value_dim + row_tile) * static_cast<std::int64_t>(sizeof(T));
  return std::clamp<std::int64_t>(most_bytes / bytes, 1, most_keys / group);
}

}  // namespace

template <class T>
BackwardKeys<T>::BackwardKeys(const BackwardProblem& problem, Arena& arena)
    : p_(problem),
      kernels_(attention_backward_kernels<T>()),
      products_(product_kernels<T>()),
      group_(kernels_.keys),
      most_groups_(std::min(groups_in_cache<T>(problem.forward), round_up(problem.forward.num_keys, group_) / group_)),
      key_step_(round_up(problem.forward.head_dim, kernels_.lanes)),
      dkey_width_(round_up(problem.forward.head_dim, kernels_.panel)),
      dvalue_width_(round_up(problem.forward.value_dim, kernels_.panel)),
      turned_rows_(problem.forward.k, problem.forward.k_angles, arena),
      value_rows_(problem.forward.v),
      dk_rows_(problem.gradients.k),
      dv_rows_(problem.gradients.v),
      key_rows_(arena.take<T>(most_keys() * key_step_)),
      keys_(arena.take<T>(most_keys() * key_step_)),
      values_(arena.take<T>(most_keys() * dvalue_width_)),
      dkeys_(arena.take<T>(most_keys() * dkey_width_)),
      dvalues_(arena.take<T>(most_keys() * dvalue_width_)),
      dkey_rows_(arena.take<T>(group_ * dkey_width_)),
      value_rows_of_group_(arena.take<T>(group_ * dvalue_width_)) {}

template <class T>
void BackwardKeys<T>::load(const AttentionSequence& sequence, std::int64_t kv_head, std::int64_t first, bool seen) {
  sequence_ = sequence;
  kv_head_ = kv_head;
  first_ = first;
  num_keys_ = std::min(most_keys(), sequence.num_keys - first);
  std::fill_n(dkeys_, most_keys() * dkey_width_, T{0});
  std::fill_n(dvalues_, most_keys() * dvalue_width_, T{0});
  for (std::int64_t group = 0; seen && group * group_ < num_keys_; ++group) load_group(group);
}

template <class T>
void BackwardKeys<T>::load_group(std::int64_t group) {
  const std::int64_t head_dim = p_.forward.head_dim;
  T* const rows = key_rows_ + group * group_ * key_step_;
  const std::int64_t count = std::min(group_, num_keys_ - group * group_), value_dim = p_.forward.value_dim;
  const std::int64_t token = sequence_.first_key + first_ + group * group_;
  turned_rows_.load_run(sequence_.row, token, count, kv_head_, rows, key_step_);
  for (std::int64_t i = 0; i < count; ++i) {
    T* const value = value_rows_of_group_ + i * dvalue_width_;
    value_rows_.load(sequence_.row, token + i, kv_head_, value);
    std::fill(rows + i * key_step_ + head_dim, rows + (i + 1) * key_step_, T{0});
    std::fill(value + value_dim, value + dvalue_width_, T{0});
  }
  std::fill(rows + count * key_step_, rows + group_ * key_step_, T{0});
  std::fill(value_rows_of_group_ + count * dvalue_width_, value_rows_of_group_ + group_ * dvalue_width_, T{0});
  products_.transpose(rows, group_, key_step_, keys_ + group * group_ * key_step_, group_);
  products_.transpose(value_rows_of_group_, group_, dvalue_width_, values_ + group * group_ * dvalue_width_, group_);
  // In sums over keys a gradient of 0 must not meet a NaN. A query that sees it has NaN for a gradient anyway.
  if (kernels_.all_finite(rows, count * key_step_)) return;
  for (T* row = rows; row != rows + count * key_step_; row += key_step_) {
    if (!kernels_.all_finite(row, head_dim)) std::fill_n(row, head_dim, T{0});
  }
}

template <class T>
void BackwardKeys<T>::finish_group(std::int64_t group) noexcept {
  products_.transpose(dkeys(group), dkey_width_, group_, dkey_rows_, dkey_width_);
  products_.transpose(dvalues(group), dvalue_width_, group_, value_rows_of_group_, dvalue_width_);
}

template <class T>
void BackwardKeys<T>::store_dkey(std::int64_t key, T* sums) {
  if (!p_.gradients.k) return;
  const std::int64_t token = sequence_.first_key + first_ + key;
  turned_rows_.turn_back(sequence_.row, token, 1, sums, 0);
  dk_rows_.store(sums, sequence_.row, token, kv_head_);
}

template <class T>
void BackwardKeys<T>::store_dvalue(std::int64_t key, const T* sums) {
  if (!p_.gradients.v) return;
  dv_rows_.store(sums, sequence_.row, sequence_.first_key + first_ + key, kv_head_);
}

template class BackwardKeys<float>;
template class BackwardKeys<double>;

}  // namespace rotary
