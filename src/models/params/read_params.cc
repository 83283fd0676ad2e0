// params.json, as Meta (Llama) and Mistral ship it beside their own weights. Both view neighbouring channels as complex
// numbers: interleaved pairs.
//
// Sources: Meta's llama-models (ModelArgs, precompute_freqs_cis, apply_scaling), Mistral's mistral-inference
// (TransformerArgs, precompute_freqs_cis) and vLLM's adapter for its yarn keys. Read 2026-11.
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "models/config_object.h"
#include "models/llama4_temperature.h"
#include "models/readers.h"

namespace rotary {
namespace {

using Whole = Found<std::int64_t>;

class ParamsReader {
 public:
  ParamsReader(const nlohmann::json& json, const std::string& path, const ReadOptions& options)
      : config_(json, path), findings_(options.lenient) {
    config_.add_aliases(
        "sliding_window=_sliding_window");  // Mistral's code reads both, so as to hide it from other systems
  }

  ModelDescription read() {
    const std::int64_t num_layers = required("num_layers", "n_layers", max_layers);
    if (is_mamba()) return without_attention(num_layers);
    read_heads();
    read_lengths();
    layer_.layout.pairing_in = Pairing::interleaved;
    layer_.provenance.add("pairing", "interleaved", "code of Meta and of Mistral: neighbours are one complex number");
    layer_.provenance.add("rotary_dim", layer_.layout.rotary_dim,
                          layer_.layout.rotary_offset == 0 ? "turns the whole head" : config_.source("qk_rope_head_dim"));
    read_rule();
    read_scores();

    ModelDescription model;
    model.model_type = config_.has("multiple_of") ? "llama" : "mistral";
    model.source = config_.path();
    model.format = "params.json";
    model.max_position_embeddings = length_.value;
    add_layers(model, num_layers);
    note_other_parts();
    model.warnings = findings_.entries();
    return model;
  }

 private:
  bool is_mamba() const {
    const auto model_type = config_.text("model_type");
    return model_type && model_type->value == "mamba";
  }

  /// Codestral Mamba.
  ModelDescription without_attention(std::int64_t num_layers) {
    layer_.turning = Turning::no_attention;
    layer_.reason = "a state space: no softmax attention";
    layer_.provenance.add("turning", name(layer_.turning), config_.source("model_type"));
    ModelDescription model;
    model.model_type = "mamba";
    model.source = config_.path();
    model.format = "params.json";
    model.kinds.push_back(std::move(layer_));
    model.kind_of_layer.assign(static_cast<std::size_t>(num_layers), 0);
    return model;
  }

  /// Nothing that the file describes goes unmentioned.
  void note_other_parts() {
    struct OtherPart {
      const char* key;
      const char* what;
    };
    for (const OtherPart& part :
         {OtherPart{"vision_encoder", "the tower that sees pictures (Pixtral) turns by rows and columns"},
          OtherPart{"multimodal", "the tower that hears (Voxtral) is another model"},
          OtherPart{
              "vision_num_cross_attention_layers",
              "the layers that look at pictures (Llama 3.2 Vision) stand between those of n_layers and do not turn"}}) {
      if (config_.has(part.key)) {
        findings_.warn("RP026", sentence(config_.key(part.key), " is left out: ", part.what));
      }
    }
  }

  std::int64_t required(const char* name, const char* key, std::int64_t limit) {
    const auto found = config_.count(key);
    if (!found) config_.refuse(key, "must be given");
    if (found->value > limit) config_.refuse(key, sentence("must be at most ", limit));
    layer_.provenance.add(name, *found);
    return found->value;
  }

  void read_heads() {
    layer_.num_q_heads = required("num_q_heads", "n_heads", max_heads);
    const auto kv_heads = config_.count("n_kv_heads");
    layer_.num_kv_heads = kv_heads ? kv_heads->value : layer_.num_q_heads;
    layer_.provenance.add("num_kv_heads", layer_.num_kv_heads, kv_heads ? kv_heads->source : "as many as query heads");
    if (layer_.num_q_heads % layer_.num_kv_heads != 0) {
      fail_file(config_.path(), "n_kv_heads must divide n_heads, got ", layer_.num_kv_heads, " and ", layer_.num_q_heads);
    }
    read_width();
  }

  void read_width() {
    const auto rope = config_.count("qk_rope_head_dim"), nope = config_.count("qk_nope_head_dim");
    if (rope && nope && rope->value <= max_rotary_dim && nope->value <= max_rotary_dim) {
      layer_.head_dim = rope->value + nope->value;
      layer_.layout.rotary_dim = rope->value;
      layer_.layout.rotary_offset = nope->value;
      layer_.provenance.add("head_dim", layer_.head_dim, "qk_nope_head_dim + qk_rope_head_dim");
    } else if (const auto given = config_.count("head_dim")) {
      take_width(*given);
    } else {
      const std::int64_t dim = required("hidden_size", "dim", std::int64_t{1} << 31);
      if (dim % layer_.num_q_heads != 0) {
        fail_file(config_.path(), "dim must be a multiple of n_heads where there is no head_dim, got ", dim, " and ",
                  layer_.num_q_heads);
      }
      take_width({dim / layer_.num_q_heads, config_.source("dim") + " / n_heads"});
    }
    if (layer_.layout.rotary_dim % 2 != 0) {
      fail_file(config_.path(), "head_dim must be even, got ", layer_.layout.rotary_dim);
    }
  }

  void take_width(const Whole& width) {
    if (width.value > max_rotary_dim) config_.refuse("head_dim", sentence("must be at most ", max_rotary_dim));
    layer_.head_dim = layer_.layout.rotary_dim = width.value;
    layer_.provenance.add("head_dim", width);
  }

  void read_lengths() {
    for (const char* key : {"max_position_embeddings", "model_max_length", "max_seq_len"}) {
      if (const auto given = config_.count(key)) {
        length_ = *given;
        layer_.provenance.add("max_position_embeddings", length_);
        return;
      }
    }
  }

  // ---- the rule ---------------------------------------------------------------------------------------------------

  double read_base() {
    if (const auto given = config_.positive_number("rope_theta")) {
      layer_.provenance.add("base", *given);
      return given->value;
    }
    // Llama 2's code has a fixed base and its files no key; Mistral's code chooses by the window.
    Found<double> base{1e4, "code of Meta's Llama 2: 10000"};
    if (!config_.has("multiple_of")) {
      const bool window = config_.has("sliding_window");
      base = {window ? 1e4 : 1e6,
              sentence("code of Mistral: ", window ? 1e4 : 1e6, " with", window ? "" : "out", " sliding_window")};
    }
    findings_.warn("RP009", sentence("rope_theta is not in the file: ", base.value, " is taken (", base.source, ")"));
    layer_.provenance.add("base", base);
    return base.value;
  }

  void read_rule() {
    const double base = read_base();
    const std::int64_t width = layer_.layout.rotary_dim;
    const auto scaled = config_.boolean("use_scaled_rope");
    const auto yarn = config_.object("yarn");
    try {
      if (yarn) read_yarn(*yarn, base);
      else if (scaled && scaled->value) read_llama3(base);
      else take_rule("default", default_frequencies(base, width), "the file has neither use_scaled_rope nor yarn");
    } catch (const Error& error) {
      // What the rule itself refuses is the file's fault here.
      if (error.code() != ErrorCode::invalid_argument) throw;
      fail_file(config_.path(), error.what());
    }
  }

  void take_rule(const char* name, FrequencyRule rule, const std::string& source) {
    layer_.rule_name = name;
    layer_.rule = std::move(rule);
    layer_.provenance.add("rule", name, source);
  }

  void read_llama3(double base) {
    const bool llama4 = config_.has("nope_layer_interval");
    Llama3 rule{.factor = llama4 ? 16.0 : 8.0,
                .low_freq_factor = 1,
                .high_freq_factor = llama4 ? 1.0 : 4.0,
                .original_max_position_embeddings = 8192};
    const auto factor = config_.positive_number("rope_scaling_factor");
    if (factor) rule.factor = factor->value;
    else if (!llama4) {
      findings_.warn("RP024",
                     "rope_scaling_factor is not in the file: Meta's code takes 8, while the config.json of Llama 3.2 "
                     "(1B, 3B) has factor 32");
    }
    const auto high = config_.positive_number("rope_high_freq_factor");
    if (high) rule.high_freq_factor = high->value;
    layer_.provenance.add("factor", rule.factor, factor ? factor->source : "code of Meta");
    layer_.provenance.add("low_freq_factor", rule.low_freq_factor, "code of Meta");
    layer_.provenance.add("high_freq_factor", rule.high_freq_factor, high ? high->source : "code of Meta");
    take_original_length({8192, "code of Meta"});
    take_rule("llama3", llama3_frequencies(base, layer_.layout.rotary_dim, rule), config_.source("use_scaled_rope"));
  }

  void take_original_length(const Whole& length) {
    layer_.original_max_position_embeddings = length.value;
    layer_.provenance.add("original_max_position_embeddings", length);
  }

  /// Mistral's names: beta is beta_fast, alpha is beta_slow.
  void read_yarn(const ConfigObject& yarn, double base) {
    Yarn rule;
    const auto factor = yarn.positive_number("factor");
    const auto original = yarn.count("original_max_position_embeddings");
    if (!factor) yarn.refuse("factor", "must be given");
    if (!original) yarn.refuse("original_max_position_embeddings", "must be given");
    rule.factor = factor->value;
    rule.original_max_position_embeddings = original->value;
    layer_.provenance.add("factor", *factor);
    take_original_length(*original);
    if (const auto beta = yarn.positive_number("beta")) {
      rule.beta_fast = beta->value;
      layer_.provenance.add("beta_fast", *beta);
    }
    if (const auto alpha = yarn.positive_number("alpha")) {
      rule.beta_slow = alpha->value;
      layer_.provenance.add("beta_slow", *alpha);
    }
    if (rule.factor < 1) findings_.warn("RP001", sentence("yarn.factor ", rule.factor, " is below 1"));
    if (rule.beta_fast < rule.beta_slow) {
      findings_.warn("RP004", sentence("yarn.beta ", rule.beta_fast, " (beta_fast) is smaller than yarn.alpha ",
                                       rule.beta_slow, " (beta_slow)"));
    }
    const auto scaled = yarn.boolean("apply_scale");
    if (scaled && !scaled->value) rule.attention_factor = 1;
    FrequencyRule frequencies = yarn_frequencies(base, layer_.layout.rotary_dim, rule);
    layer_.provenance.add("amplitude", frequencies.at(0).amplitude,
                          scaled ? scaled->source : "code of vLLM: apply_scale is true where it is missing");
    take_rule("yarn", std::move(frequencies), config_.source("yarn"));
  }

  // ---- scores and layers -----------------------------------------------------------------------------------------------

  void read_scores() {
    layer_.softmax_scale = 1 / std::sqrt(static_cast<double>(layer_.head_dim));
    layer_.provenance.add("softmax_scale", layer_.softmax_scale, "1 / sqrt(head_dim)");
    if (layer_.layout.rotary_offset != 0 && layer_.rule_name == "yarn") {
      findings_.warn("RP024",
                     "heads of two parts with yarn: systems differ in whether the softmax scale carries YaRN's "
                     "magnitude squared; it is left out here");
    }
    if (const auto scaling = config_.object("llama_4_scaling")) {
      const auto beta = scaling->positive_number("beta");
      const auto length = scaling->count("original_max_position_embeddings");
      if (!beta) scaling->refuse("beta", "must be given");
      if (!length) scaling->refuse("original_max_position_embeddings", "must be given");
      layer_.query_temperature = {QueryTemperature::Kind::steps, beta->value, length->value, 0};
      layer_.provenance.add("temperature_beta", *beta);
      layer_.provenance.add("temperature_length", *length);
    }
    const auto norm = config_.boolean("use_qk_norm");
    if (norm && norm->value) {
      layer_.norm_order = config_.has("nope_layer_interval") ? NormOrder::after_rotation : NormOrder::before_rotation;
      layer_.provenance.add("norm_order", name(layer_.norm_order), norm->source);
    }
  }

  /// Per layer, 0: none. A list repeats over the layers.
  std::vector<std::int64_t> windows(std::int64_t num_layers) {
    const auto count = static_cast<std::size_t>(num_layers);
    const std::string key = "sliding_window";
    if (!config_.has(key)) return std::vector<std::int64_t>(count, 0);
    if (!config_.value(key).is_array()) return std::vector<std::int64_t>(count, config_.count(key)->value);
    std::vector<std::int64_t> list;
    for (const auto& entry : config_.value(key)) {
      const bool whole = entry.is_number_integer() && entry.get<std::int64_t>() > 0;
      if (!whole && !entry.is_null()) config_.refuse(key, "must hold whole numbers or null");
      list.push_back(whole ? entry.get<std::int64_t>() : 0);
    }
    if (list.empty() || count % list.size() != 0) {
      config_.refuse(key, sentence("must have a length that divides n_layers ", num_layers));
    }
    std::vector<std::int64_t> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(list[i % list.size()]);
    return all;
  }

  void add_layers(ModelDescription& model, std::int64_t num_layers) {
    const std::vector<std::int64_t> window_of_layer = windows(num_layers);
    const auto interval = config_.count("nope_layer_interval");
    const auto chunk = config_.count("attention_chunk_size");
    for (std::int64_t i = 0; i < num_layers; ++i) {
      const bool turns = !interval || (i + 1) % interval->value != 0;
      const std::int64_t window = window_of_layer[static_cast<std::size_t>(i)];
      std::size_t kind = 0;
      while (kind < model.kinds.size() &&
             ((model.kinds[kind].turning == Turning::rotates) != turns || model.kinds[kind].sliding_window != window)) {
        ++kind;
      }
      if (kind == model.kinds.size()) add_kind(model, sort_of_layer(turns, window, chunk), config_.path());
      model.kind_of_layer.push_back(kind);
    }
  }

  LayerDescription sort_of_layer(bool turns, std::int64_t window, const std::optional<Whole>& chunk) {
    LayerDescription layer = layer_;
    layer.sliding_window = window;
    if (window != 0) layer.provenance.add("sliding_window", window, config_.source("sliding_window"));
    if (turns) {
      if (chunk) {
        layer.attention_chunk_size = chunk->value;
        layer.provenance.add("attention_chunk_size", *chunk);
      }
      return layer;
    }
    layer.turning = Turning::no_rotation;
    layer.reason = sentence("every ", config_.count("nope_layer_interval")->value, "th layer does not turn");
    layer.norm_order = NormOrder::none;
    layer.provenance.add("nope_layer_interval", *config_.count("nope_layer_interval"));
    read_llama4_temperature(layer);
    return layer;
  }

  void read_llama4_temperature(LayerDescription& layer) {
    if (!config_.has("attn_temperature_tuning")) return;
    const auto& tuned = config_.value("attn_temperature_tuning");
    if (!tuned.is_boolean() && !tuned.is_number()) config_.refuse("attn_temperature_tuning", "must be true or false");
    if (tuned.is_boolean() ? !tuned.get<bool>() : tuned.get<double>() == 0) return;
    add_llama4_temperature(config_, "code of Meta: ", layer);
  }

  ConfigObject config_;
  Findings findings_;
  LayerDescription layer_;
  Whole length_{0, ""};
};

}  // namespace

bool looks_like_params(const nlohmann::json& json) {
  const auto model_type = json.find("model_type");
  const bool is_mamba = model_type != json.end() && *model_type == "mamba";
  const bool is_transformer = model_type == json.end() || *model_type == "transformer";
  if (is_mamba)
    return json.contains("n_layers") && json.contains("dim");  // Hugging Face has num_hidden_layers, hidden_size
  return is_transformer && json.contains("n_layers") && json.contains("n_heads") &&
         (json.contains("dim") || json.contains("head_dim"));
}

ModelDescription read_params(const nlohmann::json& params, const std::string& path, const ReadOptions& options) {
  return ParamsReader(params, path, options).read();
}

}  // namespace rotary
