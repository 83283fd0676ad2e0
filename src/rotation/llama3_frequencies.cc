// Llama 3.1's rule: keep short wavelengths, divide long ones, blend between.
#include <cmath>
#include <numbers>
#include <utility>

#include "rotary/frequencies.hpp"
#include "rotation/frequency_checks.h"

namespace rotary {

Frequencies llama3_frequencies(double base, std::int64_t rotary_dim, const Llama3& rule) {
  constexpr const char* operation = "llama3_frequencies";
  check_positive(operation, "factor", rule.factor);
  check_positive(operation, "low_freq_factor", rule.low_freq_factor);
  check_positive(operation, "high_freq_factor", rule.high_freq_factor);
  if (rule.high_freq_factor < rule.low_freq_factor) {
    fail_argument(operation, "high_freq_factor must not be below low_freq_factor, got ", rule.high_freq_factor, " and ",
                  rule.low_freq_factor);
  }
  check_length(operation, "original_max_position_embeddings", rule.original_max_position_embeddings);

  Frequencies result = default_frequencies(base, rotary_dim);
  const auto original = static_cast<double>(rule.original_max_position_embeddings);
  for (double& frequency : result.inv_freq) {
    const double turns = original * frequency / (2 * std::numbers::pi);  // within the original length
    const double divided = frequency / rule.factor;
    if (turns < rule.low_freq_factor) {
      frequency = divided;
    } else if (turns < rule.high_freq_factor) {
      const double kept = (turns - rule.low_freq_factor) / (rule.high_freq_factor - rule.low_freq_factor);
      frequency = (1 - kept) * divided + kept * frequency;
    }
  }
  return checked_result(operation, std::move(result));
}

}  // namespace rotary
