#include "attention/turned_rows.h"

#include <algorithm>

namespace rotary {
namespace {

/// First members of the pairs, second members, then what does not turn.
std::vector<std::int64_t> pairs_first(const Rotation& rotation) {
  std::vector<std::int64_t> order;
  for (const Pair& pair : rotation.pairs_in()) order.push_back(pair.first);
  for (const Pair& pair : rotation.pairs_in()) order.push_back(pair.second);
  std::vector<bool> turns(static_cast<std::size_t>(rotation.head_dim()));
  for (const std::int64_t channel : order) turns[static_cast<std::size_t>(channel)] = true;
  for (std::int64_t channel = 0; channel < rotation.head_dim(); ++channel) {
    if (!turns[static_cast<std::size_t>(channel)]) order.push_back(channel);
  }
  return order;
}

}  // namespace

template <class T>
TurnedRows<T>::TurnedRows(const ConstTensorView& x, const std::optional<TokenAngles>& angles, std::int64_t batch)
    : rows_(x), angles_(angles ? &*angles : nullptr), batch_(batch) {
  if (angles_ == nullptr) return;
  const Rotation& rotation = angles_->rotation();
  cos_.resize(static_cast<std::size_t>(rotation.num_pairs()));
  sin_.resize(cos_.size());
  kernel_.format = {.dtype = dtype_of<T>,
                    .interleaved = rotation.pairing_in() == Pairing::interleaved,
                    .num_pairs = rotation.num_pairs()};
  arranged_.resize(static_cast<std::size_t>(arranged_size(kernel_.format)));
  kernel_.num_rows = 1;
  kernel_.arranged = arranged_.data();
  if (rotation.pairing_in() == Pairing::listed) {
    pairs_first_ = pairs_first(rotation);
    in_order_.resize(pairs_first_.size());
  } else {
    slice_ = rotation.rotary_offset();
  }
}

template <class T>
void TurnedRows<T>::load(std::int64_t token, std::int64_t head, T* row) {
  rows_.load(batch_, token, head, row);
  if (angles_ == nullptr) return;
  if (token != token_) read_angles(token);
  if (!pairs_first_.empty()) bring_pairs_forward(row);
  kernel_.x = kernel_.out = row + slice_;
  rotate_rows(kernel_);
}

template <class T>
void TurnedRows<T>::read_angles(std::int64_t token) {
  angles_->read(batch_, token, cos_.data(), sin_.data());
  arrange(kernel_.format, cos_.data(), sin_.data(), arranged_.data());
  token_ = token;
}

template <class T>
void TurnedRows<T>::bring_pairs_forward(T* row) {
  std::copy_n(row, in_order_.size(), in_order_.begin());
  for (std::size_t i = 0; i < in_order_.size(); ++i) row[i] = in_order_[static_cast<std::size_t>(pairs_first_[i])];
}

template class TurnedRows<float>;
template class TurnedRows<double>;

}  // namespace rotary
