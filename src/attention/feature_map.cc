#include "attention/feature_map.h"

#include <algorithm>
#include <cmath>

#include "attention/row_sums.h"
#include "attention/tensor_rows.h"
#include "base/fail.h"
#include "kernels/linear_attention.h"
#include "kernels/products.h"

namespace rotary {
namespace {

constexpr std::int64_t max_features = 1 << 20;

bool has_projection(const FeatureMap& map) noexcept {
  return map.features == Features::favor_plus || map.features == Features::favor_relu;
}

/// The channels of one feature.
template <class T>
void load_feature(const ConstTensorView& projection, std::int64_t feature, T* channels) noexcept {
  load_row(projection.dtype(), projection.data(), feature * projection.stride('N'), projection.stride('D'),
           projection.size('D'), channels);
}

void check_projection(const char* operation, const FeatureMap& map, std::int64_t head_dim) {
  const ConstTensorView& p = map.projection;
  const char* const features = name(map.features);
  if (!p) fail_argument(operation, features, " needs a projection: give one, or draw it with favor_projection");
  if (p.dtype() != DType::f32 && p.dtype() != DType::f64) {
    fail_argument(operation, "the projection of ", features, " must be float32 or float64, got ", name(p.dtype()));
  }
  if (p.rank() != 2 || !p.has('N') || !p.has('D')) {
    fail_argument(operation, "the projection of ", features, " must have the axes N and D, got \"", p.axes().c_str(), "\"");
  }
  if (p.size('D') != head_dim) {
    fail_argument(operation, "the projection of ", features, " must be as wide as q and k, got ", p.size('D'), " and ",
                  head_dim);
  }
  std::vector<double> channels(static_cast<std::size_t>(head_dim));
  for (std::int64_t f = 0; f < p.size('N'); ++f) {
    load_feature(p, f, channels.data());
    if (std::all_of(channels.begin(), channels.end(), [](double x) { return std::isfinite(x); })) continue;
    fail_argument(operation, "the projection of ", features, " must be finite");
  }
}

std::int64_t count_features(const FeatureMap& map, std::int64_t head_dim) noexcept {
  switch (map.features) {
    case Features::one_plus_cos: return 1 + head_dim;
    case Features::taylor2: return 1 + head_dim + head_dim * (head_dim + 1) / 2;
    case Features::favor_plus:
    case Features::favor_relu: return map.projection.size('N');
    default: return head_dim;
  }
}

double square_root_of_scale(const FeatureMap& map, std::int64_t head_dim) noexcept {
  return map.scale != 0 ? std::sqrt(map.scale) : std::pow(static_cast<double>(head_dim), -0.25);
}

}  // namespace

const char* name(Features features) noexcept {
  switch (features) {
    case Features::identity: return "identity";
    case Features::relu: return "relu";
    case Features::elu_plus_1: return "elu_plus_1";
    case Features::one_plus_cos: return "one_plus_cos";
    case Features::taylor2: return "taylor2";
    case Features::favor_plus: return "favor_plus";
    case Features::favor_relu: return "favor_relu";
  }
  return "unknown";
}

void check_feature_map(const char* operation, const FeatureMap& map, std::int64_t head_dim) {
  if (has_projection(map)) check_projection(operation, map, head_dim);
  else if (map.projection) fail_argument(operation, name(map.features), " takes no projection");
  if (!std::isfinite(map.scale) || map.scale < 0) {
    fail_argument(operation, "the scale of a feature map must be finite and not negative, got ", map.scale);
  }
  if (!std::isfinite(map.epsilon) || map.epsilon < 0) {
    fail_argument(operation, "the epsilon of a feature map must be finite and not negative, got ", map.epsilon);
  }
  const std::int64_t features = count_features(map, head_dim);
  if (features < 1 || features > max_features) {
    fail_argument(operation, name(map.features), " must give 1 to ", max_features, " features, got ", features, " for ",
                  head_dim, " channels");
  }
}

std::int64_t num_features(const FeatureMap& map, std::int64_t head_dim) {
  if (head_dim < 1 || head_dim > 1 << 16) {
    fail_argument("num_features", "head_dim must be 1 to ", 1 << 16, ", got ", head_dim);
  }
  check_feature_map("num_features", map, head_dim);
  return count_features(map, head_dim);
}

template <class T>
FeatureRows<T>::FeatureRows(const FeatureMap& map, std::int64_t head_dim)
    : features_(map.features),
      head_dim_(head_dim),
      num_features_(count_features(map, head_dim)),
      root_scale_(takes_scaled() ? static_cast<T>(square_root_of_scale(map, head_dim)) : T{1}),
      epsilon_(static_cast<T>(map.epsilon)) {
  if (!has_projection(map)) return;
  std::vector<T> features(static_cast<std::size_t>(num_features_ * head_dim));
  for (std::int64_t f = 0; f < num_features_; ++f) load_feature(map.projection, f, features.data() + f * head_dim);
  projection_.resize(features.size());
  product_kernels<T>().transpose(features.data(), num_features_, head_dim, projection_.data(), num_features_);
}

template <class T>
void FeatureRows<T>::scale(T* x, std::int64_t count) const noexcept {
  for (std::int64_t i = 0; i < count; ++i) x[i] *= root_scale_;
}

template <class T>
void FeatureRows<T>::map(const T* x, std::int64_t x_step, std::int64_t num_rows, T* features) const noexcept {
  const auto each_row = [&](const auto& map_row) {
    for (std::int64_t i = 0; i < num_rows; ++i) map_row(x + i * x_step, features + i * num_features_);
  };
  const auto each_element = [&](const auto& map_run) {
    if (x_step == head_dim_) return map_run(x, num_rows * head_dim_, features);
    each_row([&](const T* from, T* to) { map_run(from, head_dim_, to); });
  };
  switch (features_) {
    case Features::identity:
    case Features::relu:
    case Features::elu_plus_1: return each_element(channel_map()->map);
    case Features::one_plus_cos: return each_row([&](const T* from, T* to) { map_cosine(from, to); });
    case Features::taylor2: return each_row([&](const T* from, T* to) { map_taylor(from, to); });
    case Features::favor_plus:
      project(x, x_step, num_rows, features);
      return each_row([&](const T* from, T* to) { subtract_half_square(from, to); });
    case Features::favor_relu:
      project(x, x_step, num_rows, features);
      linear_kernels<T>().relu.map(features, num_rows * num_features_, features);
      for (std::int64_t f = 0; f < num_rows * num_features_; ++f) features[f] += epsilon_;
      return;
  }
}

template <class T>
const ChannelMap<T>* FeatureRows<T>::channel_map() const noexcept {
  const LinearKernels<T>& kernels = linear_kernels<T>();
  switch (features_) {
    case Features::identity: return &kernels.identity;
    case Features::relu: return &kernels.relu;
    case Features::elu_plus_1: return &kernels.elu_plus_1;
    default: return nullptr;
  }
}

template <class T>
void FeatureRows<T>::map_cosine(const T* x, T* features) const noexcept {
  T largest = 0, sum = 0;  // divided by its largest number first, so that no square overflows or vanishes
  for (std::int64_t d = 0; d < head_dim_; ++d) largest = std::abs(x[d]) <= largest ? largest : std::abs(x[d]);
  const T unit = largest == 0 ? T{1} : largest;
  for (std::int64_t d = 0; d < head_dim_; ++d) sum += (x[d] / unit) * (x[d] / unit);
  const T length = largest == 0 ? T{1} : std::sqrt(sum);
  features[0] = 1;
  for (std::int64_t d = 0; d < head_dim_; ++d) features[1 + d] = x[d] / unit / length;
}

template <class T>
void FeatureRows<T>::map_taylor(const T* x, T* features) const noexcept {
  const T half_root = std::sqrt(T{0.5});
  *features++ = 1;
  features = std::copy_n(x, head_dim_, features);
  for (std::int64_t i = 0; i < head_dim_; ++i) {
    *features++ = x[i] * x[i] * half_root;
    for (std::int64_t j = i + 1; j < head_dim_; ++j) *features++ = x[i] * x[j];
  }
}

template <class T>
void FeatureRows<T>::project(const T* x, std::int64_t x_step, std::int64_t num_rows, T* features) const noexcept {
  product_kernels<T>().multiply({.rows = num_rows,
                                 .inner = head_dim_,
                                 .columns = num_features_,
                                 .x = x,
                                 .x_step = x_step,
                                 .y = projection_.data(),
                                 .y_step = num_features_,
                                 .out = features,
                                 .out_step = num_features_,
                                 .adds = false});
}

/// |x|^2 / 2, from every exponent.
template <class T>
void FeatureRows<T>::subtract_half_square(const T* x, T* features) const noexcept {
  const T half_square = dot(x, x, head_dim_) / 2;
  for (std::int64_t f = 0; f < num_features_; ++f) features[f] -= half_square;
}

template <class T>
void FeatureRows<T>::backward(const T* x, const T* features, T* df, T* dx) const noexcept {
  switch (features_) {
    case Features::identity: std::copy_n(df, head_dim_, dx); return;
    case Features::relu:
      for (std::int64_t d = 0; d < head_dim_; ++d) dx[d] = x[d] > 0 ? df[d] : T{0};
      return;
    case Features::elu_plus_1:
      for (std::int64_t d = 0; d < head_dim_; ++d) dx[d] = x[d] > 0 ? df[d] : df[d] * features[d];
      return;
    case Features::one_plus_cos: return cosine_backward(x, features, df, dx);
    case Features::taylor2: taylor_backward(x, df, dx); break;
    case Features::favor_plus: {
      T sum = 0;
      for (std::int64_t f = 0; f < num_features_; ++f) sum += df[f] *= features[f];
      project_backward(df, dx);
      for (std::int64_t d = 0; d < head_dim_; ++d) dx[d] -= sum * x[d];
      break;
    }
    case Features::favor_relu:
      for (std::int64_t f = 0; f < num_features_; ++f) df[f] = features[f] > epsilon_ ? df[f] : T{0};
      project_backward(df, dx);
      break;
  }
  for (std::int64_t d = 0; d < head_dim_; ++d) dx[d] *= root_scale_;
}

/// (I - u u^T) du / |x|, u = x / |x|.
template <class T>
void FeatureRows<T>::cosine_backward(const T* x, const T* features, const T* df, T* dx) const noexcept {
  const T *const u = features + 1, *const du = df + 1;
  const T length = dot(x, u, head_dim_), along = dot(u, du, head_dim_);
  for (std::int64_t d = 0; d < head_dim_; ++d) dx[d] = length == 0 ? T{0} : (du[d] - along * u[d]) / length;
}

template <class T>
void FeatureRows<T>::taylor_backward(const T* x, const T* df, T* dx) const noexcept {
  const T root = std::sqrt(T{2});
  std::copy_n(++df, head_dim_, dx);
  df += head_dim_;
  for (std::int64_t i = 0; i < head_dim_; ++i) {
    dx[i] += root * x[i] * *df++;
    for (std::int64_t j = i + 1; j < head_dim_; ++j, ++df) {
      dx[i] += x[j] * *df;
      dx[j] += x[i] * *df;
    }
  }
}

template <class T>
void FeatureRows<T>::project_backward(const T* df, T* dx) const noexcept {
  for (std::int64_t d = 0; d < head_dim_; ++d)
    dx[d] = dot(&projection_[static_cast<std::size_t>(d * num_features_)], df, num_features_);
}

template class FeatureRows<float>;
template class FeatureRows<double>;

}  // namespace rotary
