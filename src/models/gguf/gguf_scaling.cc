#include "models/gguf/gguf_scaling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "base/fail.h"

namespace rotary::gguf {
namespace {

/// The factor that ggml's kernel multiplies in by itself where ext is not 0.
double kernel_magnitude(double factor) { return 1 + 0.1 * std::log(factor); }

class Reader {
 public:
  Reader(const Architecture& architecture, GgufKeys& keys, const Found<std::int64_t>& context_length, Findings& findings)
      : architecture_(architecture), keys_(keys), context_length_(context_length), findings_(findings) {}

  GgufScaling read(std::int64_t head_dim) {
    read_type();
    read_base(head_dim);
    read_factor();
    read_original_length();
    read_yarn_keys();
    finish();
    return scaling_;
  }

 private:
  void read_type() {
    scaling_.type_source = "default of llama.cpp: linear";
    const char* key = "rope.scaling.type";
    const auto given = keys_.text(key);
    if (!given) return;
    constexpr std::array<std::string_view, 4> known{"none", "linear", "yarn", "longrope"};
    if (std::find(known.begin(), known.end(), given->value) == known.end()) {
      fail_unsupported(keys_.path(), keys_.architecture(), ".", key, " must be none, linear, yarn or longrope, got \"",
                       given->value, "\"");
    }
    scaling_.type = given->value;
    scaling_.type_source = given->source;
  }

  void read_base(std::int64_t head_dim) {
    scaling_.base = {10000, "default of llama.cpp: 10000"};
    if (const auto given = keys_.positive_number("rope.freq_base")) scaling_.base = *given;
    else findings_.warn("RP009", keys_.source("rope.freq_base") + " is not there; llama.cpp takes 10000");
    if (scaling_.base.value < 100) {
      findings_.warn("RP008", sentence(scaling_.base.source, " is ", scaling_.base.value));
    }
    if (!architecture_.reads_alpha) return;
    const auto alpha = keys_.number("rope.scaling.alpha");
    if (!alpha || alpha->value <= 0) return;
    scaling_.base = {ntk_base(scaling_.base.value, head_dim, alpha->value), scaling_.base.source + ", " + alpha->source};
  }

  /// rope.scaling.factor or the old rope.scale_linear; 0 counts as none.
  void read_factor() {
    scaling_.factor = {1, "default of llama.cpp: 1"};
    auto given = keys_.number("rope.scaling.factor");
    if (!given) given = keys_.number("rope.scale_linear");
    if (!given || given->value == 0) return;
    if (given->value < 0) fail_file(keys_.path(), given->source, " must be positive, got ", given->value);
    if (scaling_.type == "none") {
      if (given->value != 1) {
        findings_.warn("RP020",
                       sentence(given->source, " is ", given->value, ", without effect: rope.scaling.type is none"));
      }
      return;
    }
    scaling_.factor = *given;
    if (given->value < 1) findings_.warn("RP001", sentence(given->source, " is ", given->value));
  }

  void read_original_length() {
    const auto given = keys_.whole("rope.scaling.original_context_length");
    const bool is_given = given && given->value != 0;
    scaling_.original_length = is_given ? *given : context_length_;
    if (scaling_.type != "yarn" && scaling_.type != "longrope") return;
    if (!is_given) {
      findings_.warn("RP019", sentence(keys_.source("rope.scaling.original_context_length"),
                                       " is not there; llama.cpp takes context_length, ", context_length_.value));
    } else if (scaling_.type == "yarn") {
      const double ratio = static_cast<double>(context_length_.value) / static_cast<double>(given->value);
      if (std::abs(ratio - scaling_.factor.value) > 1e-6 * ratio) {
        findings_.warn("RP002", sentence(scaling_.factor.source, " is ", scaling_.factor.value, ", but ",
                                         context_length_.source, " / ", given->source, " is ", ratio));
      }
    }
  }

  void read_yarn_keys() {
    const auto beta = [&](const char* key, double& value) {
      if (const auto given = keys_.positive_number(key)) value = given->value;
    };
    switch (architecture_.yarn) {
      case YarnKeys::none: break;
      case YarnKeys::grok:
        scaling_.beta_fast = 8;
        beta("rope.scaling.yarn_beta_fast", scaling_.beta_fast);
        beta("rope.scaling.yarn_beta_slow", scaling_.beta_slow);
        if (const auto given = keys_.number("rope.scaling.yarn_ext_factor")) ext_ = given->value;
        if (const auto given = keys_.positive_number("rope.scaling.yarn_attn_factor")) yarn_attn_factor_ = given->value;
        break;
      case YarnKeys::mistral3:
        beta("rope.scaling.yarn_beta_fast", scaling_.beta_fast);
        beta("rope.scaling.yarn_beta_slow", scaling_.beta_slow);
        if (const auto given = keys_.number("rope.scaling.yarn_log_multiplier")) scaling_.log_multiplier = given->value;
        break;
      case YarnKeys::tenfold:
      case YarnKeys::tenfold_both_factors:
        // In float, as llama.cpp divides: 0.1f becomes 1 and no other number.
        if (const auto given = keys_.number("rope.scaling.yarn_log_multiplier")) {
          scaling_.log_multiplier = static_cast<double>(static_cast<float>(given->value) / 0.1f);
        }
        break;
    }
    if (scaling_.beta_fast < scaling_.beta_slow) {
      fail_file(keys_.path(), keys_.architecture(), ".rope.scaling.yarn_beta_fast must not be below yarn_beta_slow, got ",
                scaling_.beta_fast, " and ", scaling_.beta_slow);
    }
    if (scaling_.log_multiplier < 0) {
      keys_.refuse("rope.scaling.yarn_log_multiplier", "at least 0", scaling_.log_multiplier);
    }
    if (const auto given = keys_.positive_number("rope.scaling.attn_factor")) {
      scaling_.attn_factor = given->value;
      scaling_.attn_factor_source = given->source;
    }
  }

  void finish() {
    scaling_.ext = ext_ >= 0 ? ext_ : scaling_.type == "yarn" ? 1 : 0;
    if (scaling_.ext == 0) {
      scaling_.magnitude = yarn_attn_factor_;
      return;
    }
    const double factor = scaling_.factor.value, all_dim = scaling_.log_multiplier;
    scaling_.magnitude = yarn_mscale(factor);
    if (all_dim != 0) {
      const double mscale = architecture_.yarn == YarnKeys::tenfold_both_factors ? all_dim : 1;
      scaling_.magnitude = yarn_mscale(factor, mscale) / yarn_mscale(factor, all_dim);
    }
  }

  const Architecture& architecture_;
  GgufKeys& keys_;
  const Found<std::int64_t>& context_length_;
  Findings& findings_;
  double ext_ = -1;
  double yarn_attn_factor_ = 1;
  GgufScaling scaling_;
};

}  // namespace

double GgufScaling::host_amplitude() const {
  return magnitude * attn_factor / (ext == 0 ? 1 : kernel_magnitude(factor.value));
}

double GgufScaling::amplitude(double layer_factor) const {
  // As one quotient, so that it is exactly 1 where the layer has the model's factor.
  const double taken_back = ext == 0 ? 1 : kernel_magnitude(layer_factor) / kernel_magnitude(factor.value);
  return magnitude * attn_factor * taken_back;
}

Frequencies GgufScaling::frequencies(double layer_base, double layer_factor, std::int64_t rotary_dim) const {
  Frequencies result;
  if (ext == 0 || layer_factor == 1) {
    result = linear_frequencies(layer_base, rotary_dim, layer_factor);
  } else {
    result = yarn_frequencies(layer_base, rotary_dim,
                              {.factor = layer_factor,
                               .original_max_position_embeddings = original_length.value,
                               .beta_fast = beta_fast,
                               .beta_slow = beta_slow,
                               .attention_factor = 1,
                               .extrapolation_factor = ext});
  }
  result.amplitude = amplitude(layer_factor);
  return result;
}

GgufScaling read_gguf_scaling(const Architecture& architecture, GgufKeys& keys, std::int64_t head_dim,
                              const Found<std::int64_t>& context_length, Findings& findings) {
  return Reader(architecture, keys, context_length, findings).read(head_dim);
}

}  // namespace rotary::gguf
