// A GGUF's rotation: what llama.cpp makes of its header. The row of architectures.cc says what the file does not.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/fail.h"
#include "base/text.h"
#include "models/blame.h"
#include "models/config_object.h"
#include "models/gguf/architecture.h"
#include "models/gguf/gguf_divisors.h"
#include "models/gguf/gguf_keys.h"
#include "models/gguf/gguf_layers.h"
#include "models/gguf/gguf_scaling.h"
#include "models/readers.h"
#include "rotary/position_axes.hpp"

namespace rotary::gguf {
namespace {

const Architecture& architecture_of(const GgufKeys& keys, const ReadOptions& options, Findings& findings) {
  const std::string family = options.family;
  const std::string& named = family.empty() ? keys.architecture() : family;
  const Architecture* architecture = find_architecture(named);
  if (architecture == nullptr) {
    fail_unsupported(keys.path(), "general.architecture ", in_quotes(named),
                     " is not in the table of llama.cpp's architectures; name one that turns alike as ReadOptions::family "
                     "(--family)");
  }
  if (!family.empty() && family != keys.architecture()) {
    findings.warn("RP022",
                  sentence("general.architecture is ", in_quotes(keys.architecture()), "; read as ", in_quotes(family)));
  }
  return *architecture;
}

class Reader {
 public:
  Reader(const GgufFile& file, const std::string& path, const ReadOptions& options)
      : file_(file),
        keys_(file, path),
        findings_(options.lenient),
        architecture_(architecture_of(keys_, options, findings_)) {}

  ModelDescription read() {
    ModelDescription model;
    model.model_type = keys_.architecture();
    model.source = keys_.path();
    model.format = "gguf";
    context_length_ = keys_.required_count("context_length");
    model.max_position_embeddings = context_length_.value;
    layers_ = read_gguf_layers(architecture_, keys_, file_, findings_);
    read_common();
    describe_kinds(model);
    warn();
    model.warnings = findings_.entries();
    return model;
  }

 private:
  std::string code(const char* what) const { return sentence("code of ", architecture_.name, " in llama.cpp: ", what); }

  bool any(bool GgufLayer::*property) const {
    return std::any_of(layers_.layers.begin(), layers_.layers.end(),
                       [&](const GgufLayer& layer) { return layer.*property; });
  }

  // ---- what all layers share ---------------------------------------------------------------------------------------------

  void read_common() {
    common_.add("num_layers", static_cast<std::int64_t>(layers_.layers.size()), keys_.source("block_count"));
    common_.add("max_position_embeddings", context_length_);
    if (!any(&GgufLayer::attends)) return;
    refuse_other_model();
    read_widths();
    if (!any(&GgufLayer::turns)) return;
    read_rotary_dims();
    read_sections();
    if (architecture_.ignores_rope_keys) ignore_rope_keys();
    else scaling_ = read_gguf_scaling(architecture_, keys_, head_dim_.value, context_length_, findings_);
    read_sliding_base();
    divisors_ = read_gguf_divisors(architecture_, file_, keys_.path(), scaling_.type == "longrope", rotary_dim_.value,
                                   head_dim_.value, findings_);
  }

  void refuse_other_model() {
    if (architecture_.refused_key.empty()) return;
    const std::string key(architecture_.refused_key);
    const auto count = keys_.whole(key);
    if (count && count->value > 0) {
      fail_unsupported(keys_.path(), architecture_.name, " with ", keys_.architecture(), ".", key, " ", count->value,
                       " is another model, which is not described here");
    }
  }

  /// embedding_length / head_count, which llama.cpp cuts to a whole number.
  Found<std::int64_t> quotient() {
    const auto embedding = keys_.required_count("embedding_length");
    const auto first = std::find_if(layers_.layers.begin(), layers_.layers.end(),
                                    [](const GgufLayer& layer) { return layer.num_q_heads > 0; });
    const std::int64_t heads = first->num_q_heads;
    if (embedding.value % heads != 0) {
      findings_.tolerate("RP025", keys_.path(),
                         sentence("embedding_length must be a multiple of head_count where there is no key_length, got ",
                                  embedding.value, " and ", heads),
                         "llama.cpp cuts the quotient to a whole number");
    }
    return {embedding.value / heads, keys_.source("embedding_length") + " / attention.head_count"};
  }

  Found<std::int64_t> width(const char* key) {
    const auto given = keys_.count(key);
    return given ? *given : quotient();
  }

  void read_widths() {
    const bool needs_latent = architecture_.slice == Slice::latent || architecture_.slice == Slice::latent_or_sliding;
    if (needs_latent) {
      head_dim_ = keys_.required_count("attention.key_length_mla");
      is_latent_ = true;
    } else if (const auto latent =
                   architecture_.slice == Slice::latent_if_given ? keys_.whole("attention.key_length_mla") : std::nullopt;
               latent && latent->value > 0) {
      head_dim_ = *latent;
      is_latent_ = true;
    } else {
      head_dim_ = width("attention.key_length");
    }
    sliding_head_dim_ = head_dim_;
    if (architecture_.slice == Slice::latent_or_sliding) {
      sliding_head_dim_ = keys_.required_count("attention.key_length_mla_swa");
    } else if (architecture_.rotary_dim == RotaryDim::of_each_layer && layers_.mask != Mask::none) {
      if (const auto given = keys_.count("attention.key_length_swa")) sliding_head_dim_ = *given;
    }
    for (const auto& head_dim : {head_dim_, sliding_head_dim_}) {
      if (head_dim.value > max_rotary_dim) {
        fail_file(keys_.path(), "a head must be at most ", max_rotary_dim, " wide, got ", head_dim.value, " (",
                  head_dim.source, ")");
      }
    }
  }

  void read_rotary_dims() {
    if (architecture_.rotary_dim == RotaryDim::whole_head) {
      keys_.pass_over("rope.dimension_count");
      rotary_dim_ = sliding_rotary_dim_ = {head_dim_.value, code("the whole head")};
      return;
    }
    // With latents, the width of a row in the cache stands in for a missing dimension_count: never what was meant.
    const auto given = is_latent_ ? keys_.required_count("rope.dimension_count") : keys_.count("rope.dimension_count");
    rotary_dim_ = given ? *given : Found<std::int64_t>{head_dim_.value, "default of llama.cpp: the whole head"};
    sliding_rotary_dim_ = rotary_dim_;
    if (architecture_.rotary_dim == RotaryDim::half_on_full) {
      rotary_dim_ = {rotary_dim_.value / 2, rotary_dim_.source + ", halved for full layers"};
    }
    const bool first_slides = layers_.layers.front().slides;
    const bool is_per_layer = architecture_.rotary_dim != RotaryDim::of_first_layer;
    if ((is_per_layer && layers_.mask != Mask::none) || first_slides) {
      if (const auto own = keys_.count("rope.dimension_count_swa")) sliding_rotary_dim_ = *own;
    }
    if (!is_per_layer) rotary_dim_ = sliding_rotary_dim_ = first_slides ? sliding_rotary_dim_ : rotary_dim_;
    check_rotary_dim(rotary_dim_, head_dim_);
    check_rotary_dim(sliding_rotary_dim_, sliding_head_dim_);
  }

  void check_rotary_dim(const Found<std::int64_t>& rotary_dim, const Found<std::int64_t>& head_dim) const {
    if (rotary_dim.value < 2 || rotary_dim.value % 2 != 0 || rotary_dim.value > head_dim.value) {
      fail_file(keys_.path(), "the rotary width must be even, at least 2 and at most head_dim, got ", rotary_dim.value,
                " (", rotary_dim.source, ") and ", head_dim.value, " (", head_dim.source, ")");
    }
    if (architecture_.whole_head_only && rotary_dim.value != head_dim.value) {
      fail_file(keys_.path(), "the whole head must turn in ", architecture_.name, ", got ", rotary_dim.value, " (",
                rotary_dim.source, ") of ", head_dim.value, " (", head_dim.source, ")");
    }
  }

  void read_sections() {
    type_ = architecture_.type;
    const bool is_optional = type_ == RopeType::norm_or_mrope || type_ == RopeType::neox_or_mrope;
    const bool is_required = type_ == RopeType::mrope || type_ == RopeType::imrope;
    if (!is_optional && !is_required) return;
    const char* key = "rope.dimension_sections";
    constexpr std::int64_t num_axes = 4;
    const auto given = keys_.wholes(key, num_axes);
    if (is_required && !given) fail_file(keys_.path(), "must have the key ", keys_.architecture(), ".", key);
    if (is_optional) {
      const bool has_axes = given && given->value[0] > 0 && (architecture_.one_axis_is_enough || given->value[1] > 0);
      if (has_axes) type_ = RopeType::mrope;
      else type_ = type_ == RopeType::norm_or_mrope ? RopeType::norm : RopeType::neox;
      if (!has_axes) return;
    }
    sections_ = *given;
    std::int64_t sum = 0;
    for (const std::int64_t section : sections_.value) sum += section;
    if (sum != rotary_dim_.value / 2) {
      fail_file(keys_.path(), keys_.architecture(), ".", key, " must add up to the ", rotary_dim_.value / 2,
                " pairs that turn, got ", sum);
    }
  }

  /// CogVLM and DeepSeek-OCR turn as plainly as can be.
  void ignore_rope_keys() {
    const auto given = keys_.positive_number("rope.freq_base");
    if (given && given->value != 10000)
      keys_.refuse("rope.freq_base", "10000, the only base of this architecture", given->value);
    scaling_.base = {10000, code("base 10000")};
    scaling_.factor = {1, code("no scaling")};
    scaling_.original_length = context_length_;
  }

  void read_sliding_base() {
    sliding_base_ = scaling_.base;
    if (layers_.mask == Mask::none) return;
    const char* key = "rope.freq_base_swa";
    switch (architecture_.sliding) {
      case Sliding::as_full:
      case Sliding::full_base_only: return;
      case Sliding::own_or_full_base:
      case Sliding::own_or_full_base_plain:
      case Sliding::own_or_full_base_only:
        if (const auto given = keys_.positive_number(key)) sliding_base_ = *given;
        return;
      case Sliding::own_or_10000_plain: {
        const auto given = keys_.positive_number(key);
        sliding_base_ = given ? *given : Found<double>{10000, "default of llama.cpp: 10000 on sliding layers"};
        return;
      }
      case Sliding::own_base: {
        const auto given = keys_.positive_number(key);
        if (!given) fail_file(keys_.path(), "must have the key ", keys_.architecture(), ".", key);
        sliding_base_ = *given;
        return;
      }
    }
  }

  // ---- one sort of layer -------------------------------------------------------------------------------------------------

  void describe_kinds(ModelDescription& model) {
    std::vector<GgufLayer> kinds;
    for (const GgufLayer& layer : layers_.layers) {
      const auto known = std::find(kinds.begin(), kinds.end(), layer);
      model.kind_of_layer.push_back(static_cast<std::size_t>(known - kinds.begin()));
      if (known != kinds.end()) continue;
      kinds.push_back(layer);
      add_kind(model, describe(layer), keys_.path());
    }
  }

  const Found<std::int64_t>& head_dim(const GgufLayer& layer) const {
    const bool differs =
        architecture_.rotary_dim == RotaryDim::of_each_layer || architecture_.slice == Slice::latent_or_sliding;
    return differs && layer.slides ? sliding_head_dim_ : head_dim_;
  }

  LayerDescription describe(const GgufLayer& layer) {
    LayerDescription kind;
    kind.provenance = common_;
    if (!layer.attends) {
      kind.turning = Turning::no_attention;
      kind.reason = architecture_.attends == Attends::never ? architecture_.reason : "no softmax attention in this layer";
      kind.provenance.add("turning", name(kind.turning),
                          layers_.kv_heads_source.empty() ? code(kind.reason.c_str()) : layers_.kv_heads_source);
      return kind;
    }
    add_heads(layer, kind);
    add_mask(layer, kind);
    if (layer.turns) {
      add_layout(layer, kind);
      add_rule(layer, kind);
    } else {
      kind.turning = Turning::no_rotation;
      kind.reason = architecture_.reason;
      kind.provenance.add("turning", name(kind.turning),
                          layers_.turns_source.empty() ? code(architecture_.reason) : layers_.turns_source);
    }
    add_softmax_scale(layer, kind);
    add_temperature(layer, kind);
    add_softcap(kind);
    kind.has_sinks = layer.sinks;
    if (kind.has_sinks) {
      kind.provenance.add("has_sinks", true,
                          architecture_.sinks ? code("attn_sinks.weight is required") : "blk.*.attn_sinks.weight");
    }
    kind.norm_order = norm_order(layer);
    return kind;
  }

  void add_heads(const GgufLayer& layer, LayerDescription& kind) const {
    kind.head_dim = head_dim(layer).value;
    kind.num_q_heads = layer.num_q_heads;
    kind.num_kv_heads = layer.num_kv_heads;
    kind.provenance.add("head_dim", head_dim(layer));
    kind.provenance.add("num_q_heads", kind.num_q_heads, layers_.heads_source);
    if (is_latent_) {
      // The file counts the one row of latents; unpacked, each query head has keys of its own.
      kind.num_kv_heads = layer.num_q_heads;
      kind.provenance.add("num_kv_heads", kind.num_kv_heads, code("as many as query heads, unpacked from one latent row"));
    } else {
      kind.provenance.add("num_kv_heads", kind.num_kv_heads, layers_.kv_heads_source);
    }
  }

  void add_mask(const GgufLayer& layer, LayerDescription& kind) const {
    if (layers_.mask == Mask::none) return;
    const bool has_window = layer.slides && !layer.compressed;
    kind.label = !has_window ? "full_attention" : layers_.mask == Mask::chunks ? "chunked_attention" : "sliding_attention";
    if (layer.compressed) kind.label = "compressed_attention";
    kind.provenance.add("layer_type", kind.label, layers_.slides_source);
    if (!has_window) return;
    const std::int64_t size = layers_.window.value;
    switch (layers_.mask) {
      case Mask::none: return;
      case Mask::window: kind.sliding_window = size; break;
      case Mask::symmetric: kind.sliding_window = 2 * (size / 2) + 1; break;  // half on each side, and itself
      case Mask::chunks: kind.attention_chunk_size = size; break;
    }
    kind.provenance.add(layers_.mask == Mask::chunks ? "attention_chunk_size" : "sliding_window", layers_.window);
  }

  void add_layout(const GgufLayer& layer, LayerDescription& kind) const {
    const Found<std::int64_t>& rotary_dim = layer.slides ? sliding_rotary_dim_ : rotary_dim_;
    RotationSpec& layout = kind.layout;
    layout.rotary_dim = rotary_dim.value;
    kind.provenance.add("rotary_dim", rotary_dim);
    if (architecture_.slice != Slice::leading) {
      layout.rotary_offset = kind.head_dim - rotary_dim.value;
      kind.provenance.add("rotary_offset", layout.rotary_offset, code("the last channels of the head turn"));
    }
    layout.pairing_in = type_ == RopeType::norm ? Pairing::interleaved : Pairing::half;
    kind.provenance.add("pairing", name(layout.pairing_in), code(rope_type_name()));
    if (type_ == RopeType::mrope) layout.axis = chunked_axes(sections_.value);
    if (type_ == RopeType::imrope) layout.axis = ggml_interleaved_axes(sections_.value);
    if (!layout.axis.empty()) kind.provenance.add("mrope_section", sections_);
    kind.rotates_values = kind.unrotates_output = architecture_.slice == Slice::shared_key_value;
  }

  const char* rope_type_name() const {
    switch (type_) {
      case RopeType::norm: return "rope type NORM, neighbours";
      case RopeType::mrope: return "rope type MROPE, halves";
      case RopeType::imrope: return "rope type IMROPE, halves";
      default: return "rope type NEOX, halves";
    }
  }

  /// How a layer scales: its base and factor, and whether YaRN and the amplitude are those of the model.
  struct Speed {
    Found<double> base;
    Found<double> factor;
    bool is_plain = false;  // neither YaRN nor an amplitude
  };

  Speed speed_of(const GgufLayer& layer) {
    Speed speed{scaling_.base, scaling_.factor};
    if (architecture_.slice == Slice::shared_key_value) {
      if (!layer.compressed) return {scaling_.base, {1, code("unscaled where keys are not compressed")}, true};
      const char* key = "attention.compress_rope_freq_base";
      const auto base = keys_.positive_number(key);
      if (!base) fail_file(keys_.path(), "must have the key ", keys_.architecture(), ".", key);
      speed.base = *base;
      return speed;
    }
    if (!layer.slides) return speed;
    const Found<double> unscaled{1, code("unscaled on sliding layers")};
    switch (architecture_.sliding) {
      case Sliding::as_full: return speed;
      case Sliding::own_or_full_base:
      case Sliding::own_base: speed.base = sliding_base_; return speed;
      case Sliding::own_or_full_base_plain:
      case Sliding::own_or_10000_plain: return {sliding_base_, unscaled, false};
      case Sliding::full_base_only: return {scaling_.base, unscaled, true};
      case Sliding::own_or_full_base_only: return {sliding_base_, unscaled, true};
    }
    return speed;
  }

  void add_rule(const GgufLayer& layer, LayerDescription& kind) {
    const Speed speed = speed_of(layer);
    kind.provenance.add("base", speed.base);
    const std::int64_t rotary_dim = kind.layout.rotary_dim;
    Frequencies frequencies = speed.is_plain ? default_frequencies(speed.base.value, rotary_dim)
                                             : scaling_.frequencies(speed.base.value, speed.factor.value, rotary_dim);
    const bool is_scaled = speed.factor.value != 1;
    const bool is_yarn = is_scaled && scaling_.ext != 0;
    // DeepSeek-V4 takes the amplitude back on all layers.
    if (architecture_.slice == Slice::shared_key_value) frequencies.amplitude = 1;

    kind.rule_name = is_yarn ? "yarn" : is_scaled ? "linear" : "default";
    if (is_scaled) kind.provenance.add("factor", speed.factor);
    if (is_yarn) set_original_length(kind);
    add_divisors(layer, std::move(frequencies), kind);
    kind.provenance.add("rule", kind.rule_name, rule_source(kind.rule_name));
    const double amplitude = kind.rule.at(0).amplitude;
    if (amplitude != 1) kind.provenance.add("amplitude", amplitude, amplitude_source(is_yarn));
  }

  void set_original_length(LayerDescription& kind) const {
    kind.original_max_position_embeddings = scaling_.original_length.value;
    kind.provenance.add("original_max_position_embeddings", scaling_.original_length);
  }

  std::string rule_source(const std::string& rule) const {
    if (rule == "longrope")
      return file_name(keys_.path()) + ": tensors rope_factors_short.weight, rope_factors_long.weight";
    if (rule == "proportional" || rule == "divisors") return file_name(keys_.path()) + ": tensor rope_freqs.weight";
    return scaling_.type_source.empty() ? code("no scaling") : scaling_.type_source;
  }

  std::string amplitude_source(bool is_yarn) const {
    if (!is_yarn) return scaling_.attn_factor_source.empty() ? code("amplitude") : scaling_.attn_factor_source;
    std::string source = code("YaRN's magnitude of the factor");
    if (!scaling_.attn_factor_source.empty()) source += ", times " + scaling_.attn_factor_source;
    return source;
  }

  void add_divisors(const GgufLayer& layer, Frequencies frequencies, LayerDescription& kind) {
    const bool on_full_only =
        architecture_.divisors == Divisors::freqs_on_full || architecture_.divisors == Divisors::freqs_or_lists_on_full;
    const bool has_none = divisors_.fixed.empty() && !divisors_.by_length();
    if (has_none || (on_full_only && layer.slides)) {
      kind.rule = std::move(frequencies);
    } else if (divisors_.by_length()) {
      add_lists(frequencies, kind);
    } else {
      const double amplitude = frequencies.amplitude;
      frequencies = with_divisors(std::move(frequencies), divisors_.fixed);
      frequencies.amplitude = amplitude;
      for (std::size_t j = 0; j < divisors_.fixed.size(); ++j) {
        if (divisors_.fixed[j] >= never_turns) frequencies.inv_freq[j] = 0;
      }
      kind.rule = std::move(frequencies);
      kind.layout.ggml_divisors = divisors_.fixed;
      if (kind.rule_name == "default") kind.rule_name = divisors_.silence_some() ? "proportional" : "divisors";
    }
  }

  /// One list up to the original length, another beyond. What the scaling does besides goes into the divisors.
  void add_lists(const Frequencies& frequencies, LayerDescription& kind) {
    LongRope rule;
    rule.base = scaling_.base.value;
    rule.rotary_dim = kind.layout.rotary_dim;
    rule.original_max_position_embeddings = scaling_.original_length.value;
    rule.max_position_embeddings = context_length_.value;
    rule.attention_factor = frequencies.amplitude;
    const std::vector<double> plain = default_frequencies(rule.base, rule.rotary_dim).inv_freq;
    for (std::size_t j = 0; j < plain.size(); ++j) {
      const double slowed = plain[j] / frequencies.inv_freq[j];
      rule.short_factor.push_back(divisors_.short_lists[j] * slowed);
      rule.long_factor.push_back(divisors_.long_lists[j] * slowed);
    }
    kind.layout.ggml_divisors = divisors_.short_lists;
    kind.long_ggml_divisors = divisors_.long_lists;
    kind.rule = std::move(rule);
    kind.rule_name = "longrope";
    set_original_length(kind);
    findings_.warn("RP015",
                   sentence("up to ", scaling_.original_length.value, " tokens (", scaling_.original_length.source,
                            ") rope_factors_short.weight, beyond them rope_factors_long.weight; llama.cpp takes the "
                            "length of a sequence's context, by default ",
                            context_length_.value));
  }

  // ---- scores ------------------------------------------------------------------------------------------------------------

  void add_softmax_scale(const GgufLayer& layer, LayerDescription& kind) {
    const auto head_width = static_cast<double>(kind.head_dim);
    const auto set = [&](double scale, const std::string& source) {
      kind.softmax_scale = scale;
      kind.provenance.add("softmax_scale", scale, source);
    };
    const auto set_by_head = [&] { set(1 / std::sqrt(head_width), code("1 / sqrt(head_dim)")); };
    switch (architecture_.scale) {
      case SoftmaxScale::head_dim: return set_by_head();
      case SoftmaxScale::rotary_dim: {
        const auto& rotary_dim = layer.slides ? sliding_rotary_dim_ : rotary_dim_;
        return set(1 / std::sqrt(static_cast<double>(rotary_dim.value)), code("1 / sqrt(rotary_dim)"));
      }
      case SoftmaxScale::value_dim:
        return set(1 / std::sqrt(static_cast<double>(width("attention.value_length").value)),
                   code("1 / sqrt(value_length)"));
      case SoftmaxScale::one: return set(1, code("scores are not scaled"));
      case SoftmaxScale::key: {
        const auto given = keys_.number("attention.scale");
        if (given && given->value < 0) keys_.refuse("attention.scale", "positive", given->value);
        return given && given->value != 0 ? set(given->value, given->source) : set_by_head();
      }
      case SoftmaxScale::gemma2:
      case SoftmaxScale::gemma3: {
        const std::size_t layers_of_27b = architecture_.scale == SoftmaxScale::gemma2 ? 46 : 62;
        if (layers_.layers.size() != layers_of_27b) return set_by_head();
        const auto by = quotient();
        return set(1 / std::sqrt(static_cast<double>(by.value)), code("27B: 1 / sqrt(embedding_length / head_count)"));
      }
      case SoftmaxScale::grok: {
        const auto given = keys_.positive_number("attention.output_scale");
        return given ? set(given->value, given->source) : set(0.08838834764831845, code("0.08838834764831845"));
      }
      case SoftmaxScale::deepseek: {
        // As its code has it: not only with YaRN.
        const double slowed = std::log(scaling_.factor.value);
        const double magnitude =
            scaling_.host_amplitude() * (1 + 0.1 * slowed) * (1 + 0.1 * scaling_.log_multiplier * slowed);
        return set(magnitude * magnitude / std::sqrt(head_width), code("YaRN's magnitude squared / sqrt(head_dim)"));
      }
    }
  }

  void add_temperature(const GgufLayer& layer, LayerDescription& kind) {
    QueryTemperature& temperature = kind.query_temperature;
    Found<double> beta{0, ""};
    switch (architecture_.temperature) {
      case Temperature::none: return;
      case Temperature::llama4:
        if (layer.turns || layers_.mask == Mask::none) return;
        beta = {0.1, code("0.1 and 8192, on layers that do not turn")};
        temperature.length = 8192;
        temperature.shift = 1;
        break;
      case Temperature::original_length:
      case Temperature::keys: {
        const auto given = keys_.number("attention.temperature_scale");
        const bool has_length = architecture_.temperature == Temperature::keys;
        const auto length = has_length ? keys_.whole("attention.temperature_length") : std::nullopt;
        if (!given || given->value == 0) return;
        beta = *given;
        if (has_length && (!length || length->value == 0)) {
          fail_file(keys_.path(), "must have the key ", keys_.architecture(),
                    ".attention.temperature_length, as there is a temperature_scale");
        }
        temperature.length = has_length ? length->value : scaling_.original_length.value;
        break;
      }
    }
    temperature.kind = QueryTemperature::Kind::steps;
    temperature.beta = beta.value;
    kind.provenance.add("query_temperature", beta);
  }

  void add_softcap(LayerDescription& kind) {
    if (architecture_.softcap == 0) return;
    const auto given = keys_.positive_number("attn_logit_softcapping");
    kind.softcap = given ? given->value : architecture_.softcap;
    kind.provenance.add("softcap", kind.softcap, given ? given->source : code(sentence(kind.softcap).c_str()));
  }

  NormOrder norm_order(const GgufLayer& layer) {
    switch (architecture_.norm) {
      case QkNorm::none: return NormOrder::none;
      case QkNorm::before: return NormOrder::before_rotation;
      case QkNorm::after: return NormOrder::after_rotation;
      case QkNorm::before_if_given:
        return file_.find_tensor("blk.0.attn_q_norm.weight") == nullptr ? NormOrder::none : NormOrder::before_rotation;
      case QkNorm::llama4: {
        const auto experts = keys_.whole("expert_count");
        const bool is_maverick = experts && experts->value == 128;
        return layer.turns && !is_maverick ? NormOrder::after_rotation : NormOrder::none;
      }
    }
    return NormOrder::none;
  }

  // ---- what is odd -------------------------------------------------------------------------------------------------------

  void warn() {
    for (const char* warning : file_.warnings()) findings_.warn("RP024", warning);
    if (!any(&GgufLayer::turns)) return;
    if (architecture_.permuted) {
      findings_.warn(
          "RP021", sentence(architecture_.name, " pairs neighbours in llama.cpp; checkpoints of Hugging Face pair halves"));
    } else if (architecture_.permuted_with_axes && type_ == RopeType::mrope) {
      findings_.warn("RP021", sentence(architecture_.name,
                                       " with several axes pairs halves in llama.cpp; its checkpoints pair neighbours"));
    }
    warn_of_disagreement();
    keys_.pass_over("rope.scaling.finetuned");  // only said
    std::vector<std::string> unread;
    for (const char* beginning :
         {"rope.", "attention.scale", "attention.sliding_window", "attention.temperature_", "attention.key_length_mla",
          "attention.key_length_swa", "attention.rope_pattern", "attention.compress_rope_freq_base"}) {
      for (std::string& key : keys_.unread(beginning)) unread.push_back(std::move(key));
    }
    if (unread.empty()) return;
    findings_.warn("RP020",
                   sentence(in_words(unread), unread.size() == 1 ? " has" : " have", " no effect: llama.cpp does not use ",
                            unread.size() == 1 ? "it" : "them", " for ", architecture_.name, ", as this file is"));
  }

  void warn_of_disagreement() {
    const bool is_due = architecture_.note_without_yarn || scaling_.ext != 0;
    if (*architecture_.note != '\0' && is_due) findings_.warn("RP024", architecture_.note);
    if (type_ != RopeType::imrope) return;
    const auto axes = ggml_interleaved_axes(sections_.value);
    const auto stand_still = std::count(axes.begin(), axes.end(), std::uint8_t{3});
    if (stand_still > 0) {
      findings_.warn("RP024", sentence(stand_still, " of ", axes.size(),
                                       " pairs follow ggml's fourth axis, which is 0 for text, so that they stand still; "
                                       "transformers turns them by the first axis. The axes here are ggml's"));
    }
  }

  const GgufFile& file_;
  GgufKeys keys_;
  Findings findings_;
  const Architecture& architecture_;
  Provenance common_;
  Found<std::int64_t> context_length_{0, ""};
  GgufLayers layers_;
  bool is_latent_ = false;
  Found<std::int64_t> head_dim_{0, ""}, sliding_head_dim_{0, ""};
  Found<std::int64_t> rotary_dim_{0, ""}, sliding_rotary_dim_{0, ""};
  RopeType type_ = RopeType::none;
  Found<std::vector<std::int64_t>> sections_;
  GgufScaling scaling_;
  Found<double> sliding_base_{0, ""};
  GgufDivisors divisors_;
};

}  // namespace

}  // namespace rotary::gguf

namespace rotary {

ModelDescription read_gguf(const std::string& path, const ReadOptions& options) {
  const GgufFile file(path.c_str());
  return blaming_file(path, "", [&] { return gguf::Reader(file, path, options).read(); });
}

}  // namespace rotary
