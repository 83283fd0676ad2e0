#include "attention/backward_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/finite.h"
#include "attention/row_sums.h"
#include "base/element.h"
#include "kernels/attention_backward.h"

namespace rotary {
namespace {

/// lse or dlse of one row.
double number_of_row(const ConstTensorView& view, const AttentionProblem& p, std::int64_t batch_row, std::int64_t token,
                     std::int64_t head) noexcept {
  return load_element(view.dtype(), view.data(),
                      batch_row * view.stride('B') + token * view.stride(p.token_axis) + head * view.stride('H'));
}

}  // namespace

template <class T>
BackwardRows<T>::BackwardRows(const BackwardProblem& problem, std::int64_t capacity, Arena& arena)
    : p_(problem),
      heads_per_kv_head_(problem.forward.heads_per_kv_head()),
      query_step_(round_up(problem.forward.head_dim, attention_backward_kernels<T>().panel)),
      dout_step_(round_up(problem.forward.value_dim, attention_backward_kernels<T>().panel)),
      dquery_step_(round_up(problem.forward.head_dim, attention_backward_kernels<T>().lanes)),
      visible_(problem.forward),
      query_rows_(problem.forward.q, problem.forward.q_angles, arena),
      out_rows_(problem.out),
      dout_rows_(problem.dout),
      dq_rows_(problem.gradients.q),
      queries_(arena.take<T>(capacity * query_step_)),
      dout_(arena.take<T>(capacity * dout_step_)),
      dqueries_(arena.take<T>(capacity * dquery_step_)),
      lse_(arena.take<T>(capacity)),
      delta_(arena.take<T>(capacity)),
      ranges_(arena.take<KeyRange>(capacity)),
      out_(arena.take<T>(problem.forward.value_dim)) {}

template <class T>
std::int64_t BackwardRows<T>::most_rows(const AttentionProblem& problem) noexcept {
  constexpr std::int64_t most_bytes = 6 << 20, most_tiles = 43;
  const std::int64_t tile_bytes =
      row_tile * (2 * problem.head_dim + problem.value_dim) * static_cast<std::int64_t>(sizeof(T));
  return std::clamp<std::int64_t>(most_bytes / tile_bytes, 1, most_tiles) * row_tile;
}

template <class T>
void BackwardRows<T>::load(const AttentionSequence& sequence, std::int64_t kv_head, std::int64_t first,
                           std::int64_t num_rows) {
  sequence_ = sequence;
  kv_head_ = kv_head;
  first_ = first;
  num_rows_ = num_rows;
  std::fill_n(dqueries_, num_rows * dquery_step_, T{0});
  for (std::int64_t row = 0; row < num_rows; ++row) load_row(row);
  for (std::int64_t row = num_rows; row < round_up(num_rows, attention_backward_kernels<T>().panel); ++row) {
    clear_row(row);
  }
}

/// A weight of 0 must not meet a NaN in the sums over rows: where a row holds one, its weights become NaN instead.
template <class T>
void BackwardRows<T>::load_row(std::int64_t row) {
  const AttentionProblem& p = p_.forward;
  const std::int64_t token = sequence_.first_query + query(row), h = head(row);
  const double lse = number_of_row(p.options.lse, p, sequence_.row, token, h);
  if (lse == -std::numeric_limits<double>::infinity()) return clear_row(row);

  T* const q = queries_ + row * query_step_;
  T* const dout = dout_ + row * dout_step_;
  query_rows_.load(sequence_.row, token, h, q);
  dout_rows_.load(sequence_.row, token, h, dout);
  out_rows_.load(sequence_.row, token, h, out_);
  multiply(scale(row), q, p.head_dim);
  std::fill(q + p.head_dim, q + query_step_, T{0});
  std::fill(dout + p.value_dim, dout + dout_step_, T{0});
  lse_[row] = static_cast<T>(lse);
  delta_[row] = dot(dout, out_, p.value_dim);
  if (p_.dlse) delta_[row] -= static_cast<T>(number_of_row(p_.dlse, p, sequence_.row, token, h));
  ranges_[row] = row > 0 && query(row) == query(row - 1) && !is_empty(ranges_[row - 1])
                     ? ranges_[row - 1]
                     : visible_.range(sequence_, query(row));
  if (all_finite(q, p.head_dim) && all_finite(dout, p.value_dim)) return;
  std::fill_n(q, query_step_, T{0});
  std::fill_n(dout, dout_step_, T{0});
  lse_[row] = std::numeric_limits<T>::quiet_NaN();
}

template <class T>
void BackwardRows<T>::clear_row(std::int64_t row) {
  std::fill_n(queries_ + row * query_step_, query_step_, T{0});
  std::fill_n(dout_ + row * dout_step_, dout_step_, T{0});
  lse_[row] = std::numeric_limits<T>::infinity();
  delta_[row] = 0;
  ranges_[row] = {0, 0};
}

template <class T>
T BackwardRows<T>::scale(std::int64_t row) const noexcept {
  return static_cast<T>(p_.forward.scale_of(sequence_.row, sequence_.first_query + query(row)));
}

template <class T>
void BackwardRows<T>::add_to_sinks(double* dsinks) const noexcept {
  for (std::int64_t row = 0; row < num_rows_; ++row) {
    const double sink = p_.forward.sink(head(row));
    if (sink == -std::numeric_limits<double>::infinity()) continue;
    const double weight = std::exp(sink - static_cast<double>(lse_[row]));
    const std::int64_t member = head(row) - kv_head_ * heads_per_kv_head_;
    dsinks[member] -= weight * static_cast<double>(delta_[row]);
  }
}

template <class T>
void BackwardRows<T>::store_gradients() {
  if (!p_.gradients.q) return;
  for (std::int64_t row = 0; row < num_rows_; ++row) {
    T* const gradient = dqueries(row);
    const std::int64_t token = sequence_.first_query + query(row);
    multiply(scale(row), gradient, p_.forward.head_dim);
    query_rows_.turn_back(sequence_.row, token, gradient);
    dq_rows_.store(gradient, sequence_.row, token, head(row));
  }
}

template class BackwardRows<float>;
template class BackwardRows<double>;

}  // namespace rotary
