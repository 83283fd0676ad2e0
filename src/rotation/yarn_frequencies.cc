// YaRN: keep the pairs that turn often within the original length, divide those that hardly turn, blend between.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "rotary/frequencies.hpp"
#include "rotation/frequency_checks.h"

namespace rotary {
namespace {

constexpr const char* operation = "yarn_frequencies";

void check(double base, std::int64_t rotary_dim, const Yarn& rule) {
  check_positive(operation, "base", base);
  if (base <= 1) fail_argument(operation, "base must be above 1 (its logarithm divides), got ", base);
  check_rotary_dim(operation, rotary_dim);
  check_positive(operation, "factor", rule.factor);
  check_length(operation, "original_max_position_embeddings", rule.original_max_position_embeddings);
  check_positive(operation, "beta_fast", rule.beta_fast);
  check_positive(operation, "beta_slow", rule.beta_slow);
  check_not_negative(operation, "attention_factor", rule.attention_factor);
  check_not_negative(operation, "mscale", rule.mscale);
  check_not_negative(operation, "mscale_all_dim", rule.mscale_all_dim);
  check_positive(operation, "attn_factor", rule.attn_factor);
  if (!(rule.extrapolation_factor >= 0 && rule.extrapolation_factor <= 1)) {
    fail_argument(operation, "extrapolation_factor must be from 0 to 1, got ", rule.extrapolation_factor);
  }
}

/// The (fractional) index of the pair that turns `turns` times within the original length.
double pair_that_turns(double turns, double base, std::int64_t rotary_dim, const Yarn& rule) {
  const auto length = static_cast<double>(rule.original_max_position_embeddings);
  return static_cast<double>(rotary_dim) * std::log(length / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
}

double amplitude_of(const Yarn& rule) {
  if (rule.attention_factor != 0) return rule.attention_factor;
  if (rule.mscale != 0 && rule.mscale_all_dim != 0) {
    return rule.attn_factor * (yarn_mscale(rule.factor, rule.mscale) / yarn_mscale(rule.factor, rule.mscale_all_dim));
  }
  return rule.attn_factor * yarn_mscale(rule.factor);
}

}  // namespace

double yarn_mscale(double factor, double mscale) {
  check_positive("yarn_mscale", "factor", factor);
  check_not_negative("yarn_mscale", "mscale", mscale);
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

YarnRange yarn_range(double base, std::int64_t rotary_dim, const Yarn& rule) {
  check(base, rotary_dim, rule);
  double low = pair_that_turns(rule.beta_fast, base, rotary_dim, rule);
  double high = pair_that_turns(rule.beta_slow, base, rotary_dim, rule);
  if (rule.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  // d - 1, although there are only d / 2 pairs: as in the original code, and it decides how steep the ramp is
  high = std::min(high, static_cast<double>(rotary_dim - 1));
  if (low == high) high += 0.001;
  return {low, high};
}

Frequencies yarn_frequencies(double base, std::int64_t rotary_dim, const Yarn& rule) {
  const auto [low, high] = yarn_range(base, rotary_dim, rule);
  Frequencies result = default_frequencies(base, rotary_dim);
  for (std::size_t j = 0; j < result.inv_freq.size(); ++j) {
    const double ramp = std::clamp((static_cast<double>(j) - low) / (high - low), 0.0, 1.0);
    const double kept = (1 - ramp) * rule.extrapolation_factor;
    const double frequency = result.inv_freq[j];
    result.inv_freq[j] = frequency / rule.factor * (1 - kept) + frequency * kept;
  }
  result.amplitude = amplitude_of(rule);
  if (rule.mscale_all_dim != 0) {
    const double m = yarn_mscale(rule.factor, rule.mscale_all_dim);
    result.logit_scale = m * m;
  }
  return checked_result(operation, std::move(result));
}

Frequencies DynamicYarn::at(std::int64_t length) const {
  check_running_length("DynamicYarn", length);
  check_length("DynamicYarn", "original_max_position_embeddings", rule.original_max_position_embeddings);
  Yarn now = rule;
  now.factor = std::max(1.0, static_cast<double>(length) / static_cast<double>(rule.original_max_position_embeddings));
  return yarn_frequencies(base, rotary_dim, now);
}

}  // namespace rotary
