// What every frequency rule refuses, in the same words.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/fail.h"
#include "rotary/frequencies.hpp"

namespace rotary {

inline void check_positive(const char* operation, const char* what, double value) {
  if (!(std::isfinite(value) && value > 0)) fail_argument(operation, what, " must be finite and positive, got ", value);
}

/// For options that count as "not given" when they are 0.
inline void check_not_negative(const char* operation, const char* what, double value) {
  if (!(std::isfinite(value) && value >= 0)) {
    fail_argument(operation, what, " must be finite and positive, or 0 for not given, got ", value);
  }
}

inline void check_length(const char* operation, const char* what, std::int64_t length) {
  if (length < 1) fail_argument(operation, what, " must be at least 1, got ", length);
}

inline void check_rotary_dim(const char* operation, std::int64_t rotary_dim, const char* what = "rotary_dim") {
  if (rotary_dim < 2 || rotary_dim % 2 != 0 || rotary_dim > max_rotary_dim) {
    fail_argument(operation, what, " must be even, at least 2 and at most ", max_rotary_dim, ", got ", rotary_dim);
  }
}

/// For the length of a running sequence: an empty one is fine.
inline void check_running_length(const char* operation, std::int64_t length) {
  if (length < 0) fail_argument(operation, "the length must not be negative, got ", length);
}

/// Legal options can still overflow together (a base of 1e-300, a factor of 1e-300).
inline Frequencies checked_result(const char* operation, Frequencies result) {
  for (std::size_t j = 0; j < result.inv_freq.size(); ++j) {
    if (!std::isfinite(result.inv_freq[j])) {
      fail_argument(operation, "these options make pair ", j, " turn infinitely fast");
    }
  }
  check_positive(operation, "the amplitude", result.amplitude);
  check_positive(operation, "the logit scale", result.logit_scale);
  return result;
}

}  // namespace rotary
