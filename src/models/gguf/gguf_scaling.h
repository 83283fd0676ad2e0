// How fast the pairs of a GGUF turn, and how large: the keys rope.*, as llama.cpp's loader and context resolve them and
// ggml's kernel applies them (src/llama-model.cpp, load_hparams; src/llama-context.cpp, the constructor;
// ggml-cpu/ops.cpp, rope_yarn).
#pragma once

#include <cstdint>
#include <string>

#include "models/findings.h"
#include "models/gguf/architecture.h"
#include "models/gguf/gguf_keys.h"
#include "rotary/frequencies.hpp"

namespace rotary::gguf {

struct GgufScaling {
  std::string type = "linear";  // none, linear, yarn, longrope
  std::string type_source;
  Found<double> base{10000, ""};
  Found<double> factor{1, ""};  // 1 / freq_scale
  Found<std::int64_t> original_length{0, ""};

  double ext = 0;  // how far YaRN's ramp counts
  double beta_fast = 32;
  double beta_slow = 1;
  double log_multiplier = 0;
  double magnitude = 1;  // what the host multiplies in for YaRN, before it takes the kernel's own factor back
  double attn_factor = 1;
  std::string attn_factor_source;

  /// What llama.cpp's context hands to the kernel as attn_factor.
  double host_amplitude() const;
  /// cos and sin of a layer with this factor are multiplied by this.
  double amplitude(double layer_factor) const;
  /// Of a layer that is scaled, without divisors.
  Frequencies frequencies(double layer_base, double layer_factor, std::int64_t rotary_dim) const;
};

GgufScaling read_gguf_scaling(const Architecture& architecture, GgufKeys& keys, std::int64_t head_dim,
                              const Found<std::int64_t>& context_length, Findings& findings);

}  // namespace rotary::gguf
