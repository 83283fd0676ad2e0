// The tensors of a GGUF that divide the angles of each pair.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/findings.h"
#include "models/gguf/architecture.h"
#include "rotary/gguf.hpp"

namespace rotary::gguf {

struct GgufDivisors {
  std::vector<double> fixed;        // rope_freqs.weight
  std::vector<double> short_lists;  // rope_factors_short.weight, up to the original context length
  std::vector<double> long_lists;   // rope_factors_long.weight, beyond it

  bool by_length() const { return !short_lists.empty(); }
  /// Of pairs that turn by the same base or stand still, and nothing else: Gemma 4's proportional rule.
  bool silence_some() const;
};

/// A divisor from here on says that the pair does not turn; converters write 1e30.
inline constexpr double never_turns = 1e29;

/// Those that llama.cpp uses for full layers of this architecture: one per pair that turns, of the tensor's one per pair that
/// turns or that the head has.
GgufDivisors read_gguf_divisors(const Architecture& architecture, const GgufFile& file, const std::string& path,
                                bool is_longrope, std::int64_t rotary_dim, std::int64_t head_dim, Findings& findings);

}  // namespace rotary::gguf
