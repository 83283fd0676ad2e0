// What is inside a LinearState.
#pragma once

#include <cstdint>

#include "attention/linear_problem.h"

namespace rotary {

/// The sums of one sequence and KV head.
template <class T>
struct LinearSums {
  T* numerator;    ///< a_width rows of value_dim numbers
  T* denominator;  ///< c_width
  T* magnitude;    ///< m_width
  T* log_scale;    ///< 1
};

struct LinearStateAccess {
  /// Throws Error (invalid_argument) unless the state is empty or of this problem's shape.
  static void check(const char* operation, const LinearState& state, const LinearProblem& problem, DType dtype);
  /// Gives an empty state its shape, with nothing summed yet.
  static void begin(LinearState& state, const LinearProblem& problem, DType dtype);
  /// All numbers, whatever they are: where they lie, and as one row.
  static MemoryRange memory(LinearState& state) {
    const auto begin = reinterpret_cast<std::uintptr_t>(state.part(0));
    return {begin, begin + static_cast<std::uintptr_t>(state.num_bytes())};
  }
  static ConstTensorView numbers(LinearState& state) {
    return {state.part(0), state.dtype_, "N", {state.num_bytes() * 8 / bit_size(state.dtype_)}};
  }
  static bool fixed_dtype(const LinearState& state) noexcept { return !state.any_dtype_ || !state.empty(); }
  template <class T>
  static LinearSums<T> sums(LinearState& state, std::int64_t row, std::int64_t kv_head) noexcept;
  /// Adds the sums of a later part to those of one row and head, of which `passed` is left.
  template <class T>
  static void add(LinearState& state, LinearState& later, std::int64_t row, std::int64_t kv_head, T passed) noexcept;
};

}  // namespace rotary
