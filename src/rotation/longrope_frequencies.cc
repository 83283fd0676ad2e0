// LongRoPE: a searched divisor per pair, one list for short calls and one for long ones.
#include <cmath>
#include <utility>

#include "rotary/frequencies.hpp"
#include "rotation/frequency_checks.h"

namespace rotary {
namespace {

constexpr const char* operation = "LongRope";

void check_list(const char* which, const std::vector<double>& list, std::int64_t rotary_dim) {
  if (static_cast<std::int64_t>(list.size()) != rotary_dim / 2) {
    fail_argument(operation, which, " must have rotary_dim / 2 entries, got ", list.size(), " for rotary_dim ", rotary_dim);
  }
  for (std::size_t j = 0; j < list.size(); ++j) {
    if (!(std::isfinite(list[j]) && list[j] > 0)) {
      fail_argument(operation, which, " must hold finite positive divisors, got ", list[j], " for pair ", j);
    }
  }
}

void check(const LongRope& rule) {
  check_positive(operation, "base", rule.base);
  check_rotary_dim(operation, rule.rotary_dim);
  check_list("short_factor", rule.short_factor, rule.rotary_dim);
  check_list("long_factor", rule.long_factor, rule.rotary_dim);
  check_length(operation, "original_max_position_embeddings", rule.original_max_position_embeddings);
  check_not_negative(operation, "factor", rule.factor);
  check_not_negative(operation, "attention_factor", rule.attention_factor);
  check_not_negative(operation, "short_mscale", rule.short_mscale);
  check_not_negative(operation, "long_mscale", rule.long_mscale);
}

double derived_amplitude(const LongRope& rule) {
  double factor = rule.factor;
  const auto original = static_cast<double>(rule.original_max_position_embeddings);
  if (factor == 0) {
    check_length(operation, "max_position_embeddings (or factor, or attention_factor)", rule.max_position_embeddings);
    factor = static_cast<double>(rule.max_position_embeddings) / original;
  }
  if (factor <= 1) return 1;
  if (original < 2) {
    fail_argument(operation, "original_max_position_embeddings must be at least 2 (its logarithm divides), got ",
                  rule.original_max_position_embeddings);
  }
  return std::sqrt(1 + std::log(factor) / std::log(original));
}

double amplitude_of(const LongRope& rule, bool is_long) {
  const double mscale = is_long ? rule.long_mscale : rule.short_mscale;
  if (mscale != 0) return mscale;
  if (rule.attention_factor != 0) return rule.attention_factor;
  return derived_amplitude(rule);
}

}  // namespace

Frequencies LongRope::at(std::int64_t length) const {
  check_running_length(operation, length);
  check(*this);
  const bool is_long = length > original_max_position_embeddings;
  Frequencies result = with_divisors(default_frequencies(base, rotary_dim), is_long ? long_factor : short_factor);
  result.amplitude = amplitude_of(*this, is_long);
  return checked_result(operation, std::move(result));
}

}  // namespace rotary
