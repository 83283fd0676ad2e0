#include "attention/linear_state.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>

#include "attention/aligned_array.h"
#include "base/element.h"
#include "base/fail.h"
#include "rotary/rotate.hpp"

namespace rotary {
namespace {

enum Part { numerator_part, denominator_part, magnitude_part, log_scale_part, num_parts };

/// x = factor x + other_factor other
template <class T>
void blend(T factor, T* x, T other_factor, const T* other, std::int64_t size) noexcept {
  for (std::int64_t i = 0; i < size; ++i) x[i] = factor * x[i] + other_factor * other[i];
}

/// What sums that are divided by exp(from) must be multiplied by to be divided by exp(to).
template <class T>
T rescaling(T from, T to) noexcept {
  return from == to ? T{1} : std::exp(from - to);
}

/// What is left of earlier keys after the later part, per batch row and KV head.
class Passed {
 public:
  explicit Passed(const ConstTensorView& view) : view_(view) {}

  void check(std::int64_t num_rows, std::int64_t num_kv_heads) const {
    if (!view_) return;
    if ((view_.dtype() != DType::f32 && view_.dtype() != DType::f64) || view_.rank() > 2 ||
        view_.has('B') + view_.has('H') != view_.rank()) {
      fail_argument("LinearState::combine", "passed must be float32 or float64 with axes among B and H, got ",
                    name(view_.dtype()), " and \"", view_.axes().c_str(), "\"");
    }
    if ((view_.has('B') && view_.size('B') != num_rows) || (view_.has('H') && view_.size('H') != num_kv_heads)) {
      fail_argument("LinearState::combine", "passed must be as long as the state along B and H, got ", view_.size('B'),
                    " and ", view_.size('H'), " for ", num_rows, " and ", num_kv_heads);
    }
    for (std::int64_t b = 0; b < view_.size('B'); ++b) {
      for (std::int64_t h = 0; h < view_.size('H'); ++h) {
        if (!(at(b, h) > 0 && at(b, h) <= 1)) {
          fail_argument("LinearState::combine", "passed must be above 0 and at most 1, got ", at(b, h));
        }
      }
    }
  }

  double at(std::int64_t row, std::int64_t kv_head) const noexcept {
    if (!view_) return 1;
    return load_element(view_.dtype(), view_.data(), row * view_.stride('B') + kv_head * view_.stride('H'));
  }

 private:
  const ConstTensorView& view_;
};

}  // namespace

namespace detail {

void* allocate_for_vectors(std::size_t num_bytes) { return allocate_aligned(num_bytes); }
void free_for_vectors(void* memory) noexcept { free_aligned(memory); }

}  // namespace detail

LinearState::LinearState(DType dtype) : dtype_(dtype), any_dtype_(false) {
  if (dtype != DType::f32 && dtype != DType::f64) {
    fail_argument("LinearState", "a state must be float32 or float64, got ", name(dtype),
                  ": sums in 16 bits stop growing after a few hundred tokens");
  }
}

std::int64_t LinearState::num_bytes() const noexcept {
  std::int64_t per_head = 0;
  for (const std::int64_t size : sizes_) per_head += size;
  return num_rows_ * num_kv_heads_ * per_head * bit_size(dtype_) / 8;
}

void* LinearState::part(int part) noexcept {
  std::int64_t begin = 0;
  for (int i = 0; i < part; ++i) begin += num_rows_ * num_kv_heads_ * sizes_[i];
  if (dtype_ == DType::f64) return doubles_.data() + begin;
  return floats_.data() + begin;
}

TensorView LinearState::numerator() noexcept {
  const std::int64_t features = value_dim_ == 0 ? 0 : sizes_[numerator_part] / value_dim_;
  return {part(numerator_part), dtype_, "BHND", {num_rows_, num_kv_heads_, features, value_dim_}};
}

TensorView LinearState::denominator() noexcept {
  return {part(denominator_part), dtype_, "BHN", {num_rows_, num_kv_heads_, sizes_[denominator_part]}};
}

TensorView LinearState::magnitude() noexcept {
  return {part(magnitude_part), dtype_, "BHN", {num_rows_, num_kv_heads_, sizes_[magnitude_part]}};
}

TensorView LinearState::log_scale() noexcept { return {part(log_scale_part), dtype_, "BH", {num_rows_, num_kv_heads_}}; }

template <class T>
void LinearStateAccess::add(LinearState& state, LinearState& later, std::int64_t row, std::int64_t kv_head,
                            T passed) noexcept {
  const LinearSums<T> to = sums<T>(state, row, kv_head), from = sums<T>(later, row, kv_head);
  const T log_scale = *to.log_scale <= *from.log_scale ? *from.log_scale : *to.log_scale;
  const T factor = passed * rescaling(*to.log_scale, log_scale), later_factor = rescaling(*from.log_scale, log_scale);
  blend(factor, to.numerator, later_factor, from.numerator, state.sizes_[numerator_part]);
  blend(factor, to.denominator, later_factor, from.denominator, state.sizes_[denominator_part]);
  blend(factor, to.magnitude, later_factor, from.magnitude, state.sizes_[magnitude_part]);
  *to.log_scale = log_scale;
}

void LinearState::combine(const LinearState& later, const ConstTensorView& passed) {
  const Passed left(passed);
  if (later.empty()) return left.check(num_rows_, num_kv_heads_);
  left.check(later.num_rows_, later.num_kv_heads_);
  const bool takes_any = any_dtype_;
  if (LinearStateAccess::fixed_dtype(*this) && later.dtype_ != dtype_) {
    fail_argument("LinearState::combine", "both states must have one dtype, got ", name(dtype_), " and ",
                  name(later.dtype_));
  }
  LinearState copy = later;  // whose views are not const; and `later` may be this state itself
  if (empty()) {
    *this = std::move(copy);
    any_dtype_ = takes_any;
    return;
  }
  if (num_rows_ != later.num_rows_ || num_kv_heads_ != later.num_kv_heads_ || value_dim_ != later.value_dim_ ||
      !std::equal(sizes_, sizes_ + num_parts, later.sizes_)) {
    fail_argument("LinearState::combine",
                  "both states must have one shape: batch rows, KV heads, features, value width "
                  "and normalizer");
  }
  for (std::int64_t b = 0; b < num_rows_; ++b) {
    for (std::int64_t h = 0; h < num_kv_heads_; ++h) {
      if (dtype_ == DType::f64) LinearStateAccess::add<double>(*this, copy, b, h, left.at(b, h));
      else LinearStateAccess::add<float>(*this, copy, b, h, static_cast<float>(left.at(b, h)));
    }
  }
}

void LinearState::rebase(double distance, const LinearAttentionOptions& options) {
  constexpr const char* operation = "LinearState::rebase";
  if (options.rotation == nullptr) fail_argument(operation, "needs the rotation of the calls");
  if (options.rotate == Rotate::before_map) {
    fail_unsupported(operation, "features that are mapped from turned rows cannot be turned: only after_map and lifted");
  }
  if (!std::isfinite(distance)) fail_argument(operation, "distance must be finite, got ", distance);
  if (empty()) return;
  const Rotation& rotation = *options.rotation;
  const TensorView sums = numerator();
  if (rotation.head_dim() != sums.size('N')) {
    fail_argument(operation, "the rotation's head_dim must be the number of features in the state, got ",
                  rotation.head_dim(), " and ", sums.size('N'));
  }
  // A column of the sums is a row of features, turned: channels along N.
  shift(TensorView(sums.data(), dtype_, "BHDS", sums.shape()), rotation, -distance);
  if (options.normalizer != Normalizer::rotated) return;
  const TensorView keys = denominator();
  shift(TensorView(keys.data(), dtype_, "BSD", keys.shape()), rotation, -distance);
}

void LinearStateAccess::check(const char* operation, const LinearState& state, const LinearProblem& problem, DType dtype) {
  if (fixed_dtype(state) && state.dtype_ != dtype) {
    fail_argument(operation, "float64 tensors need a float64 state, got ", name(state.dtype_));
  }
  if (state.empty()) return;
  const auto must_be = [&](const char* what, std::int64_t kept, std::int64_t expected) {
    if (kept == expected) return;
    fail_argument(operation, "a state must have the ", what, " of the call, got ", kept, " and ", expected);
  };
  must_be("number of batch rows or sequences", state.num_rows_, problem.num_sequences);
  must_be("number of KV heads", state.num_kv_heads_, problem.num_kv_heads);
  must_be("value width", state.value_dim_, problem.value_dim);
  const std::int64_t num_features = state.value_dim_ == 0 ? 0 : state.sizes_[numerator_part] / state.value_dim_;
  must_be("number of features", num_features, problem.value_dim == 0 ? 0 : problem.a_width);
  must_be("normalizer", state.sizes_[denominator_part], problem.c_width);
  must_be("normalizer", state.sizes_[magnitude_part], problem.m_width);
}

void LinearStateAccess::begin(LinearState& state, const LinearProblem& problem, DType dtype) {
  LinearState fresh;
  fresh.dtype_ = dtype;
  fresh.any_dtype_ = state.any_dtype_;
  fresh.num_rows_ = problem.num_sequences;
  fresh.num_kv_heads_ = problem.num_kv_heads;
  fresh.value_dim_ = problem.value_dim;
  const std::int64_t sizes[num_parts] = {problem.a_width * problem.value_dim, problem.c_width, problem.m_width, 1};
  std::copy_n(sizes, num_parts, fresh.sizes_);
  const std::int64_t heads = fresh.num_rows_ * fresh.num_kv_heads_;
  const std::int64_t count = heads * (sizes[0] + sizes[1] + sizes[2] + sizes[3]);
  const auto fill = [&](auto& numbers) {
    using T = typename std::remove_reference_t<decltype(numbers)>::value_type;
    numbers.assign(static_cast<std::size_t>(count), T{0});
    std::fill(numbers.end() - heads, numbers.end(), -std::numeric_limits<T>::infinity());
  };
  if (dtype == DType::f64) fill(fresh.doubles_);
  else fill(fresh.floats_);
  state = std::move(fresh);
}

template <class T>
LinearSums<T> LinearStateAccess::sums(LinearState& state, std::int64_t row, std::int64_t kv_head) noexcept {
  const std::int64_t head = row * state.num_kv_heads_ + kv_head;
  const auto at = [&](Part part) { return static_cast<T*>(state.part(part)) + head * state.sizes_[part]; };
  return {at(numerator_part), at(denominator_part), at(magnitude_part), at(log_scale_part)};
}

template LinearSums<float> LinearStateAccess::sums<float>(LinearState&, std::int64_t, std::int64_t) noexcept;
template LinearSums<double> LinearStateAccess::sums<double>(LinearState&, std::int64_t, std::int64_t) noexcept;

}  // namespace rotary
