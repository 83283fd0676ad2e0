// NTK-aware rules: stretch the slow pairs by a larger base and leave the fast ones alone.
#include <algorithm>
#include <cmath>
#include <utility>

#include "rotary/frequencies.hpp"
#include "rotation/frequency_checks.h"

namespace rotary {

double ntk_base(double base, std::int64_t rotary_dim, double factor) {
  constexpr const char* operation = "ntk_base";
  check_positive(operation, "base", base);
  check_rotary_dim(operation, rotary_dim);
  check_positive(operation, "factor", factor);
  if (rotary_dim == 2) fail_argument(operation, "rotary_dim must be at least 4 (the exponent is d / (d - 2)), got 2");
  const auto d = static_cast<double>(rotary_dim);
  const double result = base * std::pow(factor, d / (d - 2));
  check_positive(operation, "the new base", result);
  return result;
}

Frequencies ntk_frequencies(double base, std::int64_t rotary_dim, double factor) {
  return default_frequencies(ntk_base(base, rotary_dim, factor), rotary_dim);
}

Frequencies vllm_ntk_frequencies(double base, std::int64_t rotary_dim, const VllmNtk& rule) {
  constexpr const char* operation = "vllm_ntk_frequencies";
  check_positive(operation, "factor", rule.factor);
  check_not_negative(operation, "mixed_b", rule.mixed_b);
  Frequencies result = default_frequencies(base, rotary_dim);
  const auto num_pairs = static_cast<double>(result.inv_freq.size());
  const double exponent = rule.mixed_b == 0 ? 1 : rule.mixed_b;
  for (std::size_t j = 0; j < result.inv_freq.size(); ++j) {
    result.inv_freq[j] *= std::pow(rule.factor, -std::pow(static_cast<double>(j + 1) / num_pairs, exponent));
  }
  return checked_result(operation, std::move(result));
}

Frequencies diffusers_frequencies(double base, std::int64_t rotary_dim, const DiffusersScaling& rule) {
  constexpr const char* operation = "diffusers_frequencies";
  check_positive(operation, "linear_factor", rule.linear_factor);
  check_positive(operation, "ntk_factor", rule.ntk_factor);
  return linear_frequencies(base * rule.ntk_factor, rotary_dim, rule.linear_factor);
}

Frequencies DynamicNtk::at(std::int64_t length) const {
  constexpr const char* operation = "DynamicNtk";
  check_running_length(operation, length);
  check_length(operation, "max_position_embeddings", max_position_embeddings);
  check_positive(operation, "factor", factor);
  const double excess = static_cast<double>(std::max(length, max_position_embeddings) - max_position_embeddings) /
                        static_cast<double>(max_position_embeddings);
  // factor * N / L - (factor - 1) = 1 + factor * (N - L) / L, which is exactly 1 at N = L
  return ntk_frequencies(base, rotary_dim, 1 + factor * excess);
}

Frequencies QwenDynamicNtk::at(std::int64_t prompt_length) const {
  constexpr const char* operation = "QwenDynamicNtk";
  check_running_length(operation, prompt_length);
  check_length(operation, "seq_length", seq_length);
  double doublings = 1;  // 2^ceil(log2(prompt_length / seq_length)), and 1 for shorter prompts
  while (static_cast<double>(seq_length) * doublings < static_cast<double>(prompt_length)) doublings *= 2;
  return ntk_frequencies(base, rotary_dim, 2 * doublings - 1);
}

}  // namespace rotary
