#include "attention/turned_rows.h"

#include <algorithm>
#include <type_traits>

#include "kernels/angle_runs.h"

namespace rotary {

template <class T>
TurnedRows<T>::TurnedRows(const ConstTensorView& x, const std::optional<TokenAngles>& angles,
                          const TurnedRowsOptions& options)
    : rows_(x), angles_(angles ? &*angles : nullptr), width_(x.size('D')), num_tokens_(x.size(x.has('T') ? 'T' : 'S')) {
  if (angles_ == nullptr) return;
  const Rotation& rotation = angles_->rotation();
  kernel_.format = pair_format<T>(rotation);
  arranged_step_ = arranged_size(kernel_.format);
  in_runs_ = std::is_same_v<T, float> && options.in_runs && num_tokens_ >= fewest_tokens_for_runs;
  if (in_runs_) most_at_hand_ = angle_run;
  is_listed_ = rotation.pairing_in() == Pairing::listed;
  moves_ = options.as_written && (is_listed_ || rotation.pairing_in() != rotation.pairing_out());
  if (!is_listed_) slice_ = rotation.rotary_offset();
  const bool can_read = x.dtype() == dtype_of<T> || (std::is_same_v<T, float> && bit_size(x.dtype()) == 16);
  turns_whole_rows_ = can_read && !is_listed_ && !moves_ && 2 * rotation.num_pairs() == width_;
}

template <class T>
void TurnedRows<T>::lay_out(Arena& arena) {
  if (angles_ == nullptr) return;
  num_at_hand_ = 0;
  const Rotation& rotation = angles_->rotation();
  if (in_runs_ && kept_ == nullptr) steps_.numbers = arena.take<double>(angle_steps_size(rotation.num_pairs()));
  if (kept_ == nullptr) arranged_ = arena.take<T>(most_at_hand_ * arranged_step_);
  if (is_listed_ || moves_) in_order_ = arena.take<T>(width_);
  if (is_listed_) {
    pairs_first_ = arena.take<std::int64_t>(width_);
    if (!arena.only_counts()) list_pairs_first(rotation);
  }
  if (moves_) {
    written_ = arena.take<std::int64_t>(width_);
    if (!arena.only_counts()) list_written(rotation);
  }
}

/// First members of the pairs, second members, then what does not turn.
template <class T>
void TurnedRows<T>::list_pairs_first(const Rotation& rotation) noexcept {
  std::int64_t* next = pairs_first_;
  for (const Pair& pair : rotation.pairs_in()) *next++ = pair.first;
  for (const Pair& pair : rotation.pairs_in()) *next++ = pair.second;
  std::fill_n(in_order_, width_, T{0});  // 1: turns
  for (const std::int64_t* channel = pairs_first_; channel != next; ++channel) in_order_[*channel] = 1;
  for (std::int64_t channel = 0; channel < width_; ++channel) {
    if (in_order_[channel] == 0) *next++ = channel;
  }
}

template <class T>
void TurnedRows<T>::list_written(const Rotation& rotation) noexcept {
  const std::int64_t num_pairs = rotation.num_pairs();
  for (std::int64_t i = 0; i < width_; ++i) written_[i] = pairs_first_ != nullptr ? pairs_first_[i] : i;
  for (std::int64_t j = 0; j < num_pairs; ++j) {
    const Pair& in = rotation.pairs_in()[static_cast<std::size_t>(j)];
    const Pair& out = rotation.pairs_out()[static_cast<std::size_t>(j)];
    written_[pairs_first_ != nullptr ? j : in.first] = out.first;
    written_[pairs_first_ != nullptr ? num_pairs + j : in.second] = out.second;
  }
}

template <class T>
void TurnedRows<T>::load_run(std::int64_t batch, std::int64_t token, std::int64_t count, std::int64_t head, T* rows,
                             std::int64_t step) {
  while (count > 0) {
    const std::int64_t some = std::min(count, hold(batch, token, false));
    load_rows(Along::tokens, batch, token, head, some, rows, step);
    token += some;
    count -= some;
    rows += some * step;
  }
}

template <class T>
void TurnedRows<T>::load_heads(std::int64_t batch, std::int64_t token, std::int64_t head, std::int64_t count, T* rows,
                               std::int64_t step) {
  hold(batch, token, false);
  load_rows(Along::heads, batch, token, head, count, rows, step);
}

template <class T>
void TurnedRows<T>::load_rows(Along along, std::int64_t batch, std::int64_t token, std::int64_t head, std::int64_t count,
                              T* rows, std::int64_t step) {
  if (angles_ != nullptr && turns_whole_rows_) {
    if (const void* const from = rows_.side_by_side(batch, token, head); from != nullptr) {
      const std::int64_t from_step = along == Along::tokens ? rows_.token_step() : rows_.head_step();
      return turn(along, token, count, {rows_.dtype(), from, from_step}, rows, step);
    }
  }
  for (std::int64_t i = 0; i < count; ++i) {
    rows_.load(batch, along == Along::tokens ? token + i : token, along == Along::heads ? head + i : head, rows + i * step);
    if (pairs_first_ != nullptr) bring_pairs_forward(rows + i * step);
  }
  if (angles_ == nullptr) return;
  turn(along, token, count, {dtype_of<T>, rows + slice_, step}, rows + slice_, step);
  for (std::int64_t i = 0; written_ != nullptr && i < count; ++i) bring_as_written(rows + i * step);
}

/// The transpose: the angle is negated and the amplitude kept.
template <class T>
void TurnedRows<T>::turn_back(std::int64_t batch, std::int64_t token, std::int64_t count, T* gradients, std::int64_t step) {
  if (angles_ == nullptr) return;
  hold(batch, token, true);
  turn(Along::heads, token, count, {dtype_of<T>, gradients + slice_, step}, gradients + slice_, step);
  for (std::int64_t i = 0; pairs_first_ != nullptr && i < count; ++i) bring_pairs_back(gradients + i * step);
}

template <class T>
std::int64_t TurnedRows<T>::hold(std::int64_t batch, std::int64_t token, bool back) {
  if (angles_ == nullptr) return num_tokens_;
  if (kept_ != nullptr) return hold_kept(token);
  const std::int64_t half = arranged_step_ / 2;
  if (batch != batch_ || token < first_token_ || token >= first_token_ + num_at_hand_) {
    num_at_hand_ = 1;
    if constexpr (std::is_same_v<T, float>) {
      num_at_hand_ = angles_->read_run(batch, token, std::min(most_at_hand_, num_tokens_ - token), steps_, arranged_,
                                       arranged_ + half, arranged_step_);
    } else {
      angles_->read(batch, token, arranged_, arranged_ + half);
    }
    arrange(kernel_.format, {arranged_, arranged_ + half, num_at_hand_, arranged_step_}, arranged_);
    batch_ = batch;
    first_token_ = token;
    are_back_ = false;
  }
  if (back != are_back_) reverse(kernel_.format, num_at_hand_, arranged_);
  are_back_ = back;
  return first_token_ + num_at_hand_ - token;
}

template <class T>
std::int64_t TurnedRows<T>::hold_kept(std::int64_t token) noexcept {
  if (token < first_token_ || token >= first_token_ + num_at_hand_) {
    first_token_ = token / angle_run * angle_run;
    num_at_hand_ = std::min(angle_run, num_tokens_ - first_token_);
    arranged_ = kept_->run(token / angle_run);
  }
  return first_token_ + num_at_hand_ - token;
}

template <class T>
void TurnedRows<T>::turn(Along along, std::int64_t token, std::int64_t count, const Rows& from, T* to,
                         std::int64_t to_step) noexcept {
  kernel_.widened_from = from.dtype;
  kernel_.num_rows = count;
  kernel_.x = from.first;
  kernel_.out = to;
  kernel_.arranged = arranged_ + (token - first_token_) * arranged_step_;
  kernel_.row_step = {from.step, to_step, along == Along::tokens ? arranged_step_ : 0};
  rotate_rows(kernel_);
}

template <class T>
void TurnedRows<T>::bring_pairs_forward(T* row) noexcept {
  std::copy_n(row, width_, in_order_);
  for (std::int64_t i = 0; i < width_; ++i) row[i] = in_order_[pairs_first_[i]];
}

template <class T>
void TurnedRows<T>::bring_pairs_back(T* row) noexcept {
  std::copy_n(row, width_, in_order_);
  for (std::int64_t i = 0; i < width_; ++i) row[pairs_first_[i]] = in_order_[i];
}

template <class T>
void TurnedRows<T>::bring_as_written(T* row) noexcept {
  std::copy_n(row, width_, in_order_);
  for (std::int64_t i = 0; i < width_; ++i) row[written_[i]] = in_order_[i];
}

template class TurnedRows<float>;
template class TurnedRows<double>;

}  // namespace rotary
