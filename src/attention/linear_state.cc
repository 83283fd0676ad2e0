#include "attention/linear_state.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/fail.h"

namespace rotary {
namespace {

enum Part { numerator_part, denominator_part, magnitude_part, log_scale_part, num_parts };

}  // namespace

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

void LinearStateAccess::check(const char* operation, const LinearState& state, const LinearProblem& problem, DType dtype) {
  if (fixed_dtype(state) && state.dtype_ != dtype) {
    fail_argument(operation, "float64 tensors need a float64 state, got ", name(state.dtype_));
  }
  if (state.empty()) return;
  const auto must_be = [&](const char* what, std::int64_t kept, std::int64_t expected) {
    if (kept == expected) return;
    fail_argument(operation, "a state must have the ", what, " of the call, got ", kept, " and ", expected);
  };
  must_be("number of batch rows or sequences", state.num_rows_, static_cast<std::int64_t>(problem.sequences.size()));
  must_be("number of KV heads", state.num_kv_heads_, problem.num_kv_heads);
  must_be("value width", state.value_dim_, problem.value_dim);
  must_be("number of features", state.sizes_[numerator_part], problem.a_width * problem.value_dim);
  must_be("normalizer", state.sizes_[denominator_part], problem.c_width);
  must_be("normalizer", state.sizes_[magnitude_part], problem.m_width);
}

void LinearStateAccess::begin(LinearState& state, const LinearProblem& problem, DType dtype) {
  LinearState fresh;
  fresh.dtype_ = dtype;
  fresh.any_dtype_ = state.any_dtype_;
  fresh.num_rows_ = static_cast<std::int64_t>(problem.sequences.size());
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
