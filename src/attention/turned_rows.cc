#include "attention/turned_rows.h"

#include <algorithm>
#include <functional>

namespace rotary {

template <class T>
TurnedRows<T>::TurnedRows(const ConstTensorView& x, const std::optional<TokenAngles>& angles, Arena& arena, bool as_written)
    : rows_(x), angles_(angles ? &*angles : nullptr), width_(x.size('D')) {
  if (angles_ == nullptr) return;
  const Rotation& rotation = angles_->rotation();
  kernel_.format = {.dtype = dtype_of<T>,
                    .interleaved = rotation.pairing_in() == Pairing::interleaved,
                    .num_pairs = rotation.num_pairs()};
  kernel_.num_rows = 1;
  cos_ = arena.take<T>(rotation.num_pairs());
  sin_ = arena.take<T>(rotation.num_pairs());
  const std::int64_t size = arranged_size(kernel_.format);
  forward_.arranged = arena.take<T>(size);
  back_.arranged = arena.take<T>(size);
  const bool is_listed = rotation.pairing_in() == Pairing::listed;
  const bool moves = as_written && (is_listed || rotation.pairs_in() != rotation.pairs_out());
  if (!is_listed) slice_ = rotation.rotary_offset();
  turns_whole_rows_ = !is_listed && !moves && 2 * rotation.num_pairs() == width_;
  if (is_listed || moves) in_order_ = arena.take<T>(width_);
  if (is_listed) {
    pairs_first_ = arena.take<std::int64_t>(width_);
    if (!arena.only_counts()) list_pairs_first(rotation);
  }
  if (moves) {
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
void TurnedRows<T>::load(std::int64_t batch, std::int64_t token, std::int64_t head, T* row) {
  if (angles_ != nullptr && turns_whole_rows_) {
    if (const T* const from = rows_.template in_place<T>(batch, token, head); from != nullptr) {
      return turn(forward_, false, batch, token, from, row);
    }
  }
  rows_.load(batch, token, head, row);
  if (angles_ == nullptr) return;
  if (pairs_first_ != nullptr) bring_pairs_forward(row);
  turn(forward_, false, batch, token, row, row);
  if (written_ != nullptr) bring_as_written(row);
}

/// The transpose: the angle is negated and the amplitude kept.
template <class T>
void TurnedRows<T>::turn_back(std::int64_t batch, std::int64_t token, T* gradient) {
  if (angles_ == nullptr) return;
  turn(back_, true, batch, token, gradient, gradient);
  if (pairs_first_ != nullptr) bring_pairs_back(gradient);
}

template <class T>
void TurnedRows<T>::turn(Angles& angles, bool back, std::int64_t batch, std::int64_t token, const T* from, T* to) {
  if (token != angles.token || batch != angles.batch) {
    angles_->read(batch, token, cos_, sin_);
    if (back) std::transform(sin_, sin_ + kernel_.format.num_pairs, sin_, std::negate<T>());
    arrange(kernel_.format, cos_, sin_, angles.arranged);
    angles.batch = batch;
    angles.token = token;
  }
  kernel_.arranged = angles.arranged;
  kernel_.x = from + slice_;
  kernel_.out = to + slice_;
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
