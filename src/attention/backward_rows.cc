#include "attention/backward_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/row_sums.h"
#include "base/element.h"

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
      kernels_(attention_backward_kernels<T>()),
      heads_per_kv_head_(problem.forward.heads_per_kv_head),
      query_step_(round_up_to_odd(problem.forward.head_dim, kernels_.panel)),
      dout_step_(round_up_to_odd(problem.forward.value_dim, kernels_.panel)),
      dquery_step_(round_up(problem.forward.head_dim, kernels_.lanes)),
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
void BackwardRows<T>::begin(const AttentionSequence& sequence, std::int64_t kv_head, std::int64_t first,
                            std::int64_t num_rows) {
  sequence_ = sequence;
  kv_head_ = kv_head;
  first_ = first;
  num_rows_ = num_rows;
  for (std::int64_t row = 0, count; row < num_rows; row += count) {
    count = rows_of_token(row, num_rows);
    const KeyRange seen = visible_.range(sequence, query(row));
    for (std::int64_t r = row; r < row + count; ++r) {
      lse_[r] = static_cast<T>(
          number_of_row(p_.forward.options.lse, p_.forward, sequence.row, sequence.first_query + query(r), head(r)));
      ranges_[r] = lse_[r] == -std::numeric_limits<T>::infinity() ? KeyRange{0, 0} : seen;
    }
  }
}

template <class T>
void BackwardRows<T>::load(std::int64_t row, std::int64_t count) {
  const std::int64_t end = row + count;
  std::fill_n(dqueries(row), count * dquery_step_, T{0});
  for (std::int64_t of_token; row < end; row += of_token) {
    of_token = rows_of_token(row, end);
    query_rows_.load_heads(sequence_.row, sequence_.first_query + query(row), head(row), of_token,
                           queries_ + row * query_step_, query_step_);
    for (std::int64_t r = row; r < row + of_token; ++r) load_row(r);
  }
  for (; row % kernels_.panel != 0; ++row) clear_row(row);
}

/// All but the query, which is there. A weight of 0 must not meet a NaN in the sums over rows: where a row holds one, its
/// weights become NaN instead.
template <class T>
void BackwardRows<T>::load_row(std::int64_t row) {
  if (lse_[row] == -std::numeric_limits<T>::infinity()) return clear_row(row);
  const AttentionProblem& p = p_.forward;
  const std::int64_t token = sequence_.first_query + query(row), h = head(row);
  T* const q = queries_ + row * query_step_;
  T* const dout = dout_ + row * dout_step_;
  multiply(scale(row), q, p.head_dim);
  std::fill(q + p.head_dim, q + query_step_, T{0});
  dout_rows_.load(sequence_.row, token, h, dout);
  std::fill(dout + p.value_dim, dout + dout_step_, T{0});
  const T* out = out_;
  if (out_rows_.template are_in_place<T>()) out = out_rows_.template in_place<T>(sequence_.row, token, h);
  else out_rows_.load(sequence_.row, token, h, out_);
  // From where they lie: what has just been copied in short pieces cannot be read in long ones yet.
  const bool in_place = dout_rows_.template are_in_place<T>();
  const T* const given = in_place ? dout_rows_.template in_place<T>(sequence_.row, token, h) : dout;
  delta_[row] = kernels_.dot(given, out, p.value_dim);
  if (p_.dlse) delta_[row] -= static_cast<T>(number_of_row(p_.dlse, p, sequence_.row, token, h));
  if (kernels_.all_finite(q, p.head_dim) && kernels_.all_finite(given, p.value_dim)) return;
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
void BackwardRows<T>::add_to_sinks(std::int64_t first, std::int64_t count, double* dsinks) const noexcept {
  for (std::int64_t row = first; row < first + count; ++row) {
    const double sink = p_.forward.sink(head(row));
    if (sink == -std::numeric_limits<double>::infinity()) continue;
    const double weight = std::exp(sink - static_cast<double>(lse_[row]));
    const std::int64_t member = head(row) - kv_head_ * heads_per_kv_head_;
    dsinks[member] -= weight * static_cast<double>(delta_[row]);
  }
}

template <class T>
void BackwardRows<T>::store_gradients(std::int64_t row, std::int64_t count) {
  if (!p_.gradients.q) return;
  for (std::int64_t of_token, end = row + count; row < end; row += of_token) {
    of_token = rows_of_token(row, end);
    const std::int64_t token = sequence_.first_query + query(row);
    T* const gradients = dqueries(row);
    multiply(scale(row), gradients, of_token * dquery_step_);
    query_rows_.turn_back(sequence_.row, token, of_token, gradients, dquery_step_);
    for (std::int64_t i = 0; i < of_token; ++i) {
      dq_rows_.store(gradients + i * dquery_step_, sequence_.row, token, head(row + i));
    }
  }
}

template <class T>
template <class Rows>
void BackwardRows<T>::list(const Rows& rows, std::int64_t row, std::int64_t count, LinesAhead& ahead) const noexcept {
  const std::int64_t first = query(row), num_tokens = query(row + count - 1) + 1 - first;
  ahead.add(rows.ahead(sequence_.row, sequence_.first_query + first, kv_head_ * heads_per_kv_head_, num_tokens,
                       heads_per_kv_head_));
}

template <class T>
void BackwardRows<T>::list_unloaded(std::int64_t row, std::int64_t count, LinesAhead& ahead) const noexcept {
  list(query_rows_.rows(), row, count, ahead);
  list(dout_rows_, row, count, ahead);
  list(out_rows_, row, count, ahead);
}

template <class T>
void BackwardRows<T>::list_loaded(std::int64_t row, std::int64_t count, LinesAhead& ahead) const noexcept {
  const auto add = [&](const T* first, std::int64_t step) {
    const std::int64_t bytes = count * step * static_cast<std::int64_t>(sizeof(T));
    ahead.add({.first = reinterpret_cast<std::uintptr_t>(first), .rows = 1, .row_bytes = bytes});
  };
  add(queries(row), query_step_);
  add(dout(row), dout_step_);
  add(dqueries(row), dquery_step_);
}

template <class T>
void BackwardRows<T>::list_stored(std::int64_t row, std::int64_t count, LinesAhead& ahead) const noexcept {
  if (p_.gradients.q) list(dq_rows_, row, count, ahead);
}

template class BackwardRows<float>;
template class BackwardRows<double>;

}  // namespace rotary
