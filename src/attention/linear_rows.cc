#include "attention/linear_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/row_sums.h"
#include "kernels/linear_attention.h"

namespace rotary {
namespace {

std::vector<std::int64_t> channels_without_pair(const Rotation& rotation) {
  std::vector<bool> turns(static_cast<std::size_t>(rotation.head_dim()));
  for (const auto* pairs : {&rotation.pairs_in(), &rotation.pairs_out()}) {
    for (const Pair& pair : *pairs) {
      turns[static_cast<std::size_t>(pair.first)] = turns[static_cast<std::size_t>(pair.second)] = true;
    }
  }
  std::vector<std::int64_t> still;
  for (std::int64_t i = 0; i < rotation.head_dim(); ++i) {
    if (!turns[static_cast<std::size_t>(i)]) still.push_back(i);
  }
  return still;
}

}  // namespace

template <class T>
LinearRows<T>::LinearRows(const LinearProblem& problem, const FeatureRows<T>& map, const ConstTensorView& x,
                          const std::optional<TokenAngles>& angles)
    : p_(problem),
      map_(map),
      rows_(x),
      angles_(angles ? &*angles : nullptr),
      x_(static_cast<std::size_t>(problem.head_dim)),
      features_(static_cast<std::size_t>(problem.num_features)),
      d_features_(features_.size()) {
  if (angles_ == nullptr) return;
  cos_.resize(static_cast<std::size_t>(problem.rotation->num_pairs()));
  sin_.resize(cos_.size());
  const Rotation& rotation = *problem.rotation;
  in_kernel_ = problem.rotate != Rotate::lifted && rotation.pairing_in() == rotation.pairing_out() &&
               rotation.pairing_in() != Pairing::listed;
  if (in_kernel_) {
    kernel_.format = {.dtype = dtype_of<T>,
                      .interleaved = rotation.pairing_in() == Pairing::interleaved,
                      .num_pairs = rotation.num_pairs()};
    arranged_.resize(static_cast<std::size_t>(arranged_size(kernel_.format)));
    kernel_.num_rows = 1;
    kernel_.arranged = arranged_.data();
  }
  if (problem.rotate == Rotate::before_map) turned_x_.resize(x_.size());
  const bool takes_lengths = problem.m_width > 0 || problem.normalizer == Normalizer::pair_norms;
  if (takes_lengths && problem.rotate == Rotate::after_map) still_ = channels_without_pair(*problem.rotation);
}

template <class T>
void LinearRows<T>::load(std::int64_t row, std::int64_t token, std::int64_t head, T* a, T* c, T* m, T& log_scale) {
  if (angles_ != nullptr && (row != row_ || token != token_)) read_angles(row, token);
  rows_.load(row, token, head, x_.data());
  if (!turned_x_.empty()) {
    turn(x_.data(), turned_x_.data());
    x_.swap(turned_x_);
  }
  map_.map(x_.data(), features_.data());
  if (map_.in_exponents()) leave_exponents(log_scale);
  if (!p_.turns_features()) std::copy(features_.begin(), features_.end(), a);
  else if (p_.rotate == Rotate::lifted) turn_lifted(features_.data(), a);
  else turn(features_.data(), a);
  if (p_.normalizer == Normalizer::pair_norms) lengths(c);
  else if (p_.shares_features()) std::copy_n(a, p_.c_width, c);
  else std::copy_n(features_.data(), p_.c_width, c);
  if (p_.m_width > 0) lengths(m);
}

template <class T>
void LinearRows<T>::read_angles(std::int64_t row, std::int64_t token) {
  angles_->read(row, token, cos_.data(), sin_.data());
  row_ = row;
  token_ = token;
  if (in_kernel_) arrange(kernel_.format, cos_.data(), sin_.data(), arranged_.data());
}

template <class T>
void LinearRows<T>::turn(const T* from, T* to) noexcept {
  const Rotation& rotation = *p_.rotation;
  if (in_kernel_) {
    std::copy_n(from, rotation.head_dim(), to);
    kernel_.x = kernel_.out = to + rotation.rotary_offset();
    return rotate_rows(kernel_);
  }
  std::copy_n(from, rotation.head_dim(), to);
  for (std::size_t j = 0; j < cos_.size(); ++j) {
    const Pair in = rotation.pairs_in()[j], out = rotation.pairs_out()[j];
    const T u = from[in.first], v = from[in.second];
    to[out.first] = u * cos_[j] - v * sin_[j];
    to[out.second] = v * cos_[j] + u * sin_[j];
  }
}

template <class T>
void LinearRows<T>::turn_lifted(const T* from, T* to) const noexcept {
  for (std::size_t j = 0; j < cos_.size(); ++j) {
    const Pair out = p_.rotation->pairs_out()[j];
    to[out.first] = from[j] * cos_[j];
    to[out.second] = from[j] * sin_[j];
  }
}

template <class T>
void LinearRows<T>::leave_exponents(T& log_scale) noexcept {
  for (const T exponent : features_) {
    if (!(exponent <= log_scale)) log_scale = exponent;  // a NaN, too: it has been seen
  }
  if (log_scale == -std::numeric_limits<T>::infinity()) return std::fill(features_.begin(), features_.end(), T{0});
  linear_kernels<T>().exp_below(log_scale, features_.data(), p_.num_features);
}

template <class T>
void LinearRows<T>::lengths(T* to) const noexcept {
  if (!p_.turns_features()) {
    for (const T feature : features_) *to++ = std::abs(feature);
    return;
  }
  const Rotation& rotation = *p_.rotation;
  const T amplitude = static_cast<T>(rotation.amplitude());
  if (p_.rotate == Rotate::lifted) {
    for (const T feature : features_) *to++ = amplitude * std::abs(feature);
    return;
  }
  for (const Pair& pair : rotation.pairs_in()) {
    const T u = features_[static_cast<std::size_t>(pair.first)], v = features_[static_cast<std::size_t>(pair.second)];
    *to++ = amplitude * std::sqrt(u * u + v * v);
  }
  for (const std::int64_t channel : still_) *to++ = std::abs(features_[static_cast<std::size_t>(channel)]);
}

template <class T>
void LinearRows<T>::backward(const T* da, const T* dc, T* dx) {
  T* const df = d_features_.data();
  if (!p_.turns_features()) std::copy_n(da, p_.a_width, df);
  else if (p_.rotate == Rotate::lifted) turn_back_lifted(da, df);
  else turn_back(da, df);
  if (p_.normalizer == Normalizer::pair_norms) add_lengths_backward(dc, df);
  else if (p_.normalizer == Normalizer::features) add_multiple(T{1}, dc, df, p_.c_width);
  if (turned_x_.empty()) return map_.backward(x_.data(), features_.data(), df, dx);
  map_.backward(x_.data(), features_.data(), df, turned_x_.data());
  turn_back(turned_x_.data(), dx);
}

template <class T>
void LinearRows<T>::turn_back(const T* from, T* to) const noexcept {
  const Rotation& rotation = *p_.rotation;
  std::copy_n(from, rotation.head_dim(), to);
  for (std::size_t j = 0; j < cos_.size(); ++j) {
    const Pair in = rotation.pairs_in()[j], out = rotation.pairs_out()[j];
    const T u = from[out.first], v = from[out.second];
    to[in.first] = u * cos_[j] + v * sin_[j];
    to[in.second] = v * cos_[j] - u * sin_[j];
  }
}

template <class T>
void LinearRows<T>::turn_back_lifted(const T* from, T* to) const noexcept {
  for (std::size_t j = 0; j < cos_.size(); ++j) {
    const Pair out = p_.rotation->pairs_out()[j];
    to[j] = from[out.first] * cos_[j] + from[out.second] * sin_[j];
  }
}

/// A length of 0 has no gradient.
template <class T>
void LinearRows<T>::add_lengths_backward(const T* gradient, T* to) const noexcept {
  const auto sign = [](T x) { return static_cast<T>((x > 0) - (x < 0)); };
  if (!p_.turns_features()) {
    for (const T feature : features_) *to++ += sign(feature) * *gradient++;
    return;
  }
  const Rotation& rotation = *p_.rotation;
  const T amplitude = static_cast<T>(rotation.amplitude());
  if (p_.rotate == Rotate::lifted) {
    for (const T feature : features_) *to++ += amplitude * sign(feature) * *gradient++;
    return;
  }
  for (const Pair& pair : rotation.pairs_in()) {
    const T u = features_[static_cast<std::size_t>(pair.first)], v = features_[static_cast<std::size_t>(pair.second)];
    const T length = std::sqrt(u * u + v * v), factor = length == 0 ? T{0} : amplitude * *gradient / length;
    to[pair.first] += factor * u;
    to[pair.second] += factor * v;
    ++gradient;
  }
  for (const std::int64_t channel : still_) to[channel] += sign(features_[static_cast<std::size_t>(channel)]) * *gradient++;
}

template class LinearRows<float>;
template class LinearRows<double>;

}  // namespace rotary
