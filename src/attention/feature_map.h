// Feature maps, rows at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/linear_attention.h"
#include "rotary/feature_map.hpp"

namespace rotary {

/// Throws Error (invalid_argument), in the name of `operation`, for a map that does not suit rows of `head_dim` channels.
void check_feature_map(const char* operation, const FeatureMap& map, std::int64_t head_dim);

/// Computes in T. Shared by all tasks of a call.
template <class T>
class FeatureRows {
 public:
  FeatureRows(const FeatureMap& map, std::int64_t head_dim);

  std::int64_t num_features() const noexcept { return num_features_; }
  /// Whether features come as exponents: their logarithms, of which the caller takes the largest off before exp.
  bool in_exponents() const noexcept { return features_ == Features::favor_plus; }

  /// Whether map() takes x' = x times the root of the scale: scale() it first.
  bool takes_scaled() const noexcept {
    return features_ == Features::taylor2 || features_ == Features::favor_plus || features_ == Features::favor_relu;
  }
  void scale(T* x, std::int64_t count) const noexcept;
  /// `num_rows` rows of head_dim numbers, x_step apart, to rows of features side by side.
  void map(const T* x, std::int64_t x_step, std::int64_t num_rows, T* features) const noexcept;
  /// Whether every feature is a function of one channel.
  bool is_of_channels() const noexcept { return channel_map() != nullptr; }
  /// map(), and the rows turned, where is_of_channels().
  void map_and_turn(const RowsToMapAndTurn<T>& rows) const noexcept { channel_map()->map_and_turn(rows); }
  /// From gradients with respect to features to those with respect to x. `x` and `features` are those of map(), features
  /// that are exponents meanwhile exp of them, times any factor that does not count as depending on x. `df` is used up.
  void backward(const T* x, const T* features, T* df, T* dx) const noexcept;

 private:
  const ChannelMap<T>* channel_map() const noexcept;
  void map_cosine(const T* x, T* features) const noexcept;
  void map_taylor(const T* x, T* features) const noexcept;
  void project(const T* x, std::int64_t x_step, std::int64_t num_rows, T* features) const noexcept;
  void subtract_half_square(const T* x, T* features) const noexcept;
  void cosine_backward(const T* x, const T* features, const T* df, T* dx) const noexcept;
  void taylor_backward(const T* x, const T* df, T* dx) const noexcept;
  void project_backward(const T* df, T* dx) const noexcept;

  Features features_;
  std::int64_t head_dim_, num_features_;
  T root_scale_, epsilon_;
  std::vector<T> projection_;  // a column per feature, so that loops run along features
};

}  // namespace rotary
