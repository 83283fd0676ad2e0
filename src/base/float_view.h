// What an operation asks of a tensor of real numbers before it looks at lengths.
#pragma once

#include <string_view>

#include "base/fail.h"
#include "rotary/tensor.hpp"

namespace rotary {

/// Throws Error (invalid_argument), in the name of `operation`, unless the view is given and f64, f32, f16 or bf16.
inline void check_real_floats(const char* operation, const char* what, const ConstTensorView& view) {
  if (!view) fail_argument(operation, what, " must be given");
  if (!is_real_float(view.dtype())) {
    fail_argument(operation, what, " must be float64, float32, float16 or bfloat16, got ", name(view.dtype()));
  }
}

/// The same, and unless it has all the axes of `needed`, and none but those of `allowed`.
inline void check_float_view(const char* operation, const char* what, const ConstTensorView& view, std::string_view needed,
                             std::string_view allowed) {
  check_real_floats(operation, what, view);
  bool fits = true;
  for (const char axis : needed) fits = fits && view.has(axis);
  for (int i = 0; i < view.rank(); ++i) fits = fits && allowed.find(view.axes()[i]) != std::string_view::npos;
  if (fits) return;
  if (needed.empty())
    fail_argument(operation, what, " must have axes among ", allowed, ", got \"", view.axes().c_str(), "\"");
  fail_argument(operation, what, " must have the axes ", needed, " and no others",
                needed == allowed ? std::string() : sentence(" than ", allowed), ", got \"", view.axes().c_str(), "\"");
}

}  // namespace rotary
