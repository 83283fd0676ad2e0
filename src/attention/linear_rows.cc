#include "attention/linear_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

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

template <class T>
bool reads_in_place(const ConstTensorView& x, const FeatureRows<T>& map) noexcept {
  return !map.takes_scaled() && lie_as<T>(x);
}

/// Of the lengths of pairs that a row needs.
std::int64_t length_width(const LinearProblem& problem) noexcept {
  return problem.normalizer == Normalizer::pair_norms ? problem.c_width : problem.m_width;
}

/// How the kernel of rotate turns rows of T, if it can.
template <class T>
std::optional<PairFormat> kernel_format(const LinearProblem& problem) {
  if (problem.rotation == nullptr) return {};
  const Rotation& rotation = *problem.rotation;
  const Pairing pairing = rotation.pairing_out();
  if (pairing == Pairing::listed || (problem.rotate != Rotate::lifted && rotation.pairing_in() != pairing)) return {};
  return PairFormat{
      .dtype = dtype_of<T>, .interleaved = pairing == Pairing::interleaved, .num_pairs = rotation.num_pairs()};
}

}  // namespace

template <class T>
std::optional<AngleBlock<T>> angle_block(const LinearProblem& problem, const std::optional<TokenAngles>& angles,
                                         std::int64_t most_tokens, Scratch* scratch) {
  if (!angles) return {};
  return std::optional<AngleBlock<T>>(std::in_place, *angles, kernel_format<T>(problem), most_tokens, scratch);
}

template <class T>
LinearBufferWidths<T>::LinearBufferWidths(const LinearProblem& problem, const FeatureRows<T>& map) noexcept
    : x(reads_in_place(problem.q, map) && reads_in_place(problem.k, map) ? 0 : problem.head_dim),
      turned_x(problem.rotation != nullptr && !problem.turns_features() ? problem.head_dim : 0),
      features(problem.num_features),
      turned(problem.turns_features() ? problem.a_width : 0),
      lengths(length_width(problem)) {}

template <class T>
OwnLinearBuffers<T>::OwnLinearBuffers(const LinearProblem& problem, const FeatureRows<T>& map, std::int64_t most_rows)
    : memory(laid_out([&](Arena arena) {
        buffers = LinearBufferWidths<T>(problem, map).take(most_rows, arena);
        return arena.num_bytes();
      })) {}

template <class T>
LinearRows<T>::LinearRows(const LinearProblem& problem, const FeatureRows<T>& map, const ConstTensorView& x,
                          AngleBlock<T>* angles, LinearBuffers<T>& buffers)
    : p_(problem),
      map_(map),
      rows_(x),
      angles_(angles),
      buffers_(buffers),
      format_(kernel_format<T>(problem)),
      reads_in_place_(reads_in_place(x, map)),
      maps_and_turns_(problem.turns_features() && problem.rotate == Rotate::after_map && format_ && map.is_of_channels() &&
                      2 * format_->num_pairs == problem.num_features) {
  if (length_width(problem) > 0 && problem.turns_features() && problem.rotate == Rotate::after_map) {
    still_ = channels_without_pair(*problem.rotation);
  }
}

template <class T>
LinearRows<T>::LinearRows(const LinearProblem& problem, const FeatureRows<T>& map, const ConstTensorView& x,
                          const std::optional<TokenAngles>& angles)
    : LinearRows(problem, map, x, std::make_unique<OwnLinearBuffers<T>>(problem, map, 1)) {
  if (!angles) return;
  own_angles_.emplace(*angles, format_, 1);
  angles_ = &*own_angles_;
}

template <class T>
LinearRows<T>::LinearRows(const LinearProblem& problem, const FeatureRows<T>& map, const ConstTensorView& x,
                          std::unique_ptr<OwnLinearBuffers<T>> own_buffers)
    : LinearRows(problem, map, x, nullptr, own_buffers->buffers) {
  own_buffers_ = std::move(own_buffers);
}

template <class T>
LinearFeatures<T> LinearRows<T>::load(const RowRange& rows, const bool* present, T* log_scale, T* log_scales) {
  hold_angles(rows.row, rows.token, rows.tokens);
  std::int64_t x_step = 0;
  last_x_ = read(rows, x_step);
  T* const features = buffers_.features;
  const bool at_once = maps_and_turns_ && present == nullptr;
  if (at_once) map_and_turn(rows, last_x_, x_step);
  else map_.map(last_x_, x_step, rows.count(), features);
  if (map_.in_exponents() || present != nullptr) settle(rows.count(), present, log_scale, log_scales);
  LinearFeatures<T> made{features, features, buffers_.lengths};
  if (p_.turns_features()) made.a = buffers_.turned;
  if (p_.turns_features() && !at_once) {
    if (p_.rotate == Rotate::lifted) lift(rows, features, buffers_.turned);
    else turn(rows, features, p_.num_features, buffers_.turned);
  }
  const std::int64_t width = length_width(p_);
  for (std::int64_t i = 0; width > 0 && i < rows.count(); ++i) {
    lengths(features + i * p_.num_features, buffers_.lengths + i * width);
  }
  if (p_.normalizer == Normalizer::pair_norms) made.c = buffers_.lengths;
  else if (p_.shares_features()) made.c = made.a;
  return made;
}

/// Padding becomes zeros, exponents become features.
template <class T>
void LinearRows<T>::settle(std::int64_t count, const bool* present, T* log_scale, T* log_scales) noexcept {
  for (std::int64_t i = 0; i < count; ++i) {
    T* const features = buffers_.features + i * p_.num_features;
    T own = -std::numeric_limits<T>::infinity();
    T& scale = log_scale != nullptr ? *log_scale : own;
    const bool is_present = present == nullptr || present[i];
    if (!is_present) std::fill_n(features, p_.num_features, T{0});
    else if (map_.in_exponents()) leave_exponents(features, scale);
    if (log_scales != nullptr) log_scales[i] = scale;
  }
}

template <class T>
void LinearRows<T>::load(std::int64_t row, std::int64_t token, std::int64_t head, T* a, T* c, T* m, T& log_scale) {
  const LinearFeatures<T> made = load({row, token, head}, nullptr, &log_scale);
  std::copy_n(made.a, p_.a_width, a);
  std::copy_n(made.c, p_.c_width, c);
  std::copy_n(made.m, p_.m_width, m);
}

/// Rows as the map takes them.
template <class T>
const T* LinearRows<T>::read(const RowRange& rows, std::int64_t& x_step) {
  const T* x = nullptr;
  if (reads_in_place_) {
    x = rows_.template in_place<T>(rows.row, rows.token, rows.head);
    x_step = rows.heads > 1 ? rows_.head_step() : rows_.token_step();
  } else {
    T* to = buffers_.x;
    for (std::int64_t t = 0; t < rows.tokens; ++t) {
      for (std::int64_t h = 0; h < rows.heads; ++h, to += p_.head_dim) {
        rows_.load(rows.row, rows.token + t, rows.head + h, to);
      }
    }
    x = buffers_.x;
    x_step = p_.head_dim;
  }
  if (turns_x()) {
    turn(rows, x, x_step, buffers_.turned_x);
    x = buffers_.turned_x;
    x_step = p_.head_dim;
  }
  if (map_.takes_scaled()) map_.scale(turns_x() ? buffers_.turned_x : buffers_.x, rows.count() * p_.head_dim);
  return x;
}

template <class T>
void LinearRows<T>::map_and_turn(const RowRange& rows, const T* x, std::int64_t x_step) noexcept {
  map_.map_and_turn({.rows = rows.count(),
                     .num_pairs = format_->num_pairs,
                     .interleaved = format_->interleaved,
                     .x = x,
                     .x_step = x_step,
                     .arranged = angles_->row(rows.token),
                     .arranged_step = rows.heads > 1 ? 0 : angles_->step(),
                     .features = buffers_.features,
                     .turned = buffers_.turned});
}

template <class T>
void LinearRows<T>::turn(const RowRange& rows, const T* from, std::int64_t from_step, T* to) noexcept {
  const std::int64_t width = p_.rotation->head_dim();
  if (2 * p_.rotation->num_pairs() < width || !format_) {
    for (std::int64_t i = 0; i < rows.count(); ++i) std::copy_n(from + i * from_step, width, to + i * width);
  }
  if (format_) return turn_in_kernel(rows, from, from_step, to);
  for (std::int64_t i = 0; i < rows.count(); ++i) {
    turn_one(angles_->row(rows.token + i / rows.heads), from + i * from_step, to + i * width);
  }
}

template <class T>
void LinearRows<T>::turn_in_kernel(const RowRange& rows, const T* from, std::int64_t from_step, T* to) noexcept {
  const std::int64_t first = p_.rotation->rotary_offset(), width = p_.rotation->head_dim();
  rotate_rows({.format = *format_,
               .num_rows = rows.count(),
               .x = from + first,
               .out = to + first,
               .arranged = angles_->row(rows.token),
               .row_step = {from_step, width, rows.heads > 1 ? 0 : angles_->step()}});
}

template <class T>
void LinearRows<T>::turn_one(const T* angles, const T* from, T* to) const noexcept {
  const Rotation& rotation = *p_.rotation;
  const T *const cos = angles, *const sin = angles + rotation.num_pairs();
  for (std::int64_t j = 0; j < rotation.num_pairs(); ++j) {
    const Pair in = rotation.pairs_in()[static_cast<std::size_t>(j)],
               out = rotation.pairs_out()[static_cast<std::size_t>(j)];
    const T u = from[in.first], v = from[in.second];
    to[out.first] = u * cos[j] - v * sin[j];
    to[out.second] = v * cos[j] + u * sin[j];
  }
}

/// Features are first members of pairs, and second ones are 0.
template <class T>
void LinearRows<T>::lift(const RowRange& rows, const T* from, T* to) noexcept {
  const std::int64_t features = p_.num_features, width = p_.a_width;
  for (std::int64_t i = 0; i < rows.count(); ++i) {
    if (!format_) {
      lift_one(angles_->row(rows.token + i / rows.heads), from + i * features, to + i * width);
    } else if (format_->interleaved) {
      for (std::int64_t f = 0; f < features; ++f) {
        to[i * width + 2 * f] = from[i * features + f];
        to[i * width + 2 * f + 1] = 0;
      }
    } else {
      std::copy_n(from + i * features, features, to + i * width);
      std::fill_n(to + i * width + features, features, T{0});
    }
  }
  if (format_) turn_in_kernel(rows, to, width, to);
}

template <class T>
void LinearRows<T>::lift_one(const T* angles, const T* from, T* to) const noexcept {
  const T *const cos = angles, *const sin = angles + p_.num_features;
  for (std::int64_t f = 0; f < p_.num_features; ++f) {
    const Pair out = p_.rotation->pairs_out()[static_cast<std::size_t>(f)];
    to[out.first] = from[f] * cos[f];
    to[out.second] = from[f] * sin[f];
  }
}

template <class T>
void LinearRows<T>::leave_exponents(T* features, T& log_scale) const noexcept {
  log_scale = linear_kernels<T>().largest(features, p_.num_features, log_scale);
  if (log_scale == -std::numeric_limits<T>::infinity()) {
    std::fill_n(features, p_.num_features, T{0});
    return;
  }
  linear_kernels<T>().exp_below(log_scale, features, p_.num_features);
}

template <class T>
void LinearRows<T>::lengths(const T* features, T* to) const noexcept {
  const std::int64_t count = p_.num_features;
  if (p_.bounds_by_norm()) return taylor_norms(features, to);
  if (!p_.turns_features()) {
    for (std::int64_t f = 0; f < count; ++f) to[f] = std::abs(features[f]);
    return;
  }
  const Rotation& rotation = *p_.rotation;
  const T amplitude = static_cast<T>(rotation.amplitude());
  if (p_.rotate == Rotate::lifted) {
    for (std::int64_t f = 0; f < count; ++f) to[f] = amplitude * std::abs(features[f]);
    return;
  }
  for (const Pair& pair : rotation.pairs_in()) {
    const T u = features[pair.first], v = features[pair.second];
    *to++ = amplitude * std::sqrt(u * u + v * v);
  }
  for (const std::int64_t channel : still_) *to++ = std::abs(features[channel]);
}

/// By Cauchy and Schwarz the sizes of the products of two rows of taylor2 sum to at most 1 + |q'| |k'| + (|q'| |k'|)^2 / 2.
template <class T>
void LinearRows<T>::taylor_norms(const T* features, T* to) const noexcept {
  const T square = dot(features + 1, features + 1, p_.head_dim);
  to[0] = features[0];
  to[1] = std::sqrt(square);
  to[2] = square * std::sqrt(T{0.5});
}

template <class T>
void LinearRows<T>::backward(const T* da, const T* dc, T* dx) {
  d_features_.resize(static_cast<std::size_t>(p_.num_features));
  T* const df = d_features_.data();
  if (!p_.turns_features()) std::copy_n(da, p_.a_width, df);
  else if (p_.rotate == Rotate::lifted) turn_back_lifted(da, df);
  else turn_back(da, df);
  if (p_.normalizer == Normalizer::pair_norms) add_lengths_backward(dc, df);
  else if (p_.normalizer == Normalizer::features) add_multiple(T{1}, dc, df, p_.c_width);
  if (!turns_x()) return map_.backward(last_x_, buffers_.features, df, dx);
  turned_dx_.resize(static_cast<std::size_t>(p_.head_dim));
  map_.backward(last_x_, buffers_.features, df, turned_dx_.data());
  turn_back(turned_dx_.data(), dx);
}

template <class T>
void LinearRows<T>::turn_back(const T* from, T* to) const noexcept {
  const Rotation& rotation = *p_.rotation;
  const T *const cos = angles_->last_pairs(), *const sin = cos + rotation.num_pairs();
  std::copy_n(from, rotation.head_dim(), to);
  for (std::size_t j = 0; j < rotation.pairs_in().size(); ++j) {
    const Pair in = rotation.pairs_in()[j], out = rotation.pairs_out()[j];
    const T u = from[out.first], v = from[out.second];
    to[in.first] = u * cos[j] + v * sin[j];
    to[in.second] = v * cos[j] - u * sin[j];
  }
}

template <class T>
void LinearRows<T>::turn_back_lifted(const T* from, T* to) const noexcept {
  const T *const cos = angles_->last_pairs(), *const sin = cos + p_.num_features;
  for (std::int64_t j = 0; j < p_.num_features; ++j) {
    const Pair out = p_.rotation->pairs_out()[static_cast<std::size_t>(j)];
    to[j] = from[out.first] * cos[j] + from[out.second] * sin[j];
  }
}

/// A length of 0 has no gradient.
template <class T>
void LinearRows<T>::add_lengths_backward(const T* gradient, T* to) const noexcept {
  const auto sign = [](T x) { return static_cast<T>((x > 0) - (x < 0)); };
  if (!p_.turns_features()) {
    for (std::int64_t f = 0; f < p_.num_features; ++f) to[f] += sign(buffers_.features[f]) * gradient[f];
    return;
  }
  const Rotation& rotation = *p_.rotation;
  const T amplitude = static_cast<T>(rotation.amplitude());
  if (p_.rotate == Rotate::lifted) {
    for (std::int64_t f = 0; f < p_.num_features; ++f) to[f] += amplitude * sign(buffers_.features[f]) * gradient[f];
    return;
  }
  for (const Pair& pair : rotation.pairs_in()) {
    const T u = buffers_.features[pair.first], v = buffers_.features[pair.second];
    const T length = std::sqrt(u * u + v * v), factor = length == 0 ? T{0} : amplitude * *gradient / length;
    to[pair.first] += factor * u;
    to[pair.second] += factor * v;
    ++gradient;
  }
  for (const std::int64_t channel : still_) to[channel] += sign(buffers_.features[channel]) * *gradient++;
}

template std::optional<AngleBlock<float>> angle_block(const LinearProblem&, const std::optional<TokenAngles>&, std::int64_t,
                                                      Scratch*);
template std::optional<AngleBlock<double>> angle_block(const LinearProblem&, const std::optional<TokenAngles>&,
                                                       std::int64_t, Scratch*);
template struct LinearBufferWidths<float>;
template struct LinearBufferWidths<double>;
template struct OwnLinearBuffers<float>;
template struct OwnLinearBuffers<double>;
template class LinearRows<float>;
template class LinearRows<double>;

}  // namespace rotary
