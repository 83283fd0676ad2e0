// One part of a config becomes a ModelDescription: shape, sorts of layers, and what each sort does.
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>

#include "models/huggingface/axes.h"
#include "models/huggingface/layer_sorts.h"
#include "models/huggingface/read_part.h"
#include "models/huggingface/rope_parameters.h"
#include "models/huggingface/shape.h"
#include "models/llama4_temperature.h"

namespace rotary::huggingface {
namespace {

class PartReader {
 public:
  explicit PartReader(const Part& part) : part_(part), config_(part.config), family_(part.family) {}

  ModelDescription read() {
    refuse_other_layouts();
    refuse_keys_of_other_code();
    refuse_other_positions();
    ModelDescription model;
    shape_ = read_shape(part_, shared_);
    model.max_position_embeddings = shape_.max_position_embeddings.value;
    const std::vector<std::string> sorts = read_layer_sorts(part_, shape_.num_layers, shared_);
    const std::vector<bool> turns = read_turning_layers(part_, sorts, shared_);
    const std::vector<Found<double>> bases = numbers_per_layer(family_.base_per_layer, sorts.size());
    const std::vector<Found<double>> shares = numbers_per_layer(family_.partial_per_layer, sorts.size());
    const std::vector<Found<double>> q_heads = numbers_per_layer(family_.q_heads_per_layer, sorts.size());
    const std::vector<bool> scaled = scaled_layers(sorts.size());
    alike_ = std::all_of(sorts.begin(), sorts.end(), [&](const std::string& sort) { return sort == sorts.front(); });

    const auto entry = [](const std::vector<Found<double>>& list, std::size_t i) {
      return list.empty() ? std::nullopt : std::optional(list[i]);
    };
    std::map<std::tuple<std::string, bool, double, double, double, bool>, std::size_t> known;
    for (std::size_t i = 0; i < sorts.size(); ++i) {
      const OneLayer layer{sorts[i], turns[i], entry(bases, i), entry(shares, i), entry(q_heads, i), scaled[i]};
      const auto value = [](const std::optional<Found<double>>& number) { return number ? number->value : 0; };
      const auto [kind, is_new] = known.try_emplace(
          {layer.sort, layer.turns, value(layer.base), value(layer.share), value(layer.q_heads), layer.scaled},
          model.kinds.size());
      if (is_new) add_kind(model, describe(layer), config_.path());
      model.kind_of_layer.push_back(kind->second);
    }
    warn();
    return model;
  }

 private:
  /// What the file and the family say about one layer.
  struct OneLayer {
    std::string sort;
    bool turns;
    std::optional<Found<double>> base, share, q_heads;  ///< from lists with an entry per layer
    bool scaled;
  };

  LayerDescription describe(const OneLayer& one) {
    const std::string& sort = one.sort;
    LayerDescription layer;
    layer.label = alike_ ? "" : sort;
    layer.provenance = shared_;
    const SortMeaning meaning = meaning_of_sort(part_, sort);
    if (!meaning.attends) {
      layer.turning = Turning::no_attention;
      layer.reason = sort;
      return layer;
    }
    const std::int64_t mla_rotary = heads(one, layer);
    layer.norm_order = norm_order();
    layer.rotates_values = family_.rotates_values || flag(family_.values_key);
    layer.unrotates_output = family_.unrotates_output;
    key_scale(layer);
    windows(meaning, layer);
    double logit_scale = 1;
    if (one.turns && family_.positions == PositionKind::rotary) logit_scale = rotation(one, mla_rotary, layer);
    else no_rotation(one.turns, layer);
    // Llama 4 normalises what has turned, and nothing on its other layers.
    if (layer.turning != Turning::rotates && layer.norm_order == NormOrder::after_rotation) {
      layer.norm_order = NormOrder::none;
    }
    scale(logit_scale, layer);
    softcap(layer);
    sinks(one.sort, layer);
    return layer;
  }

  /// Fills in the heads; how many of their channels turn, where the slice is mla.
  std::int64_t heads(const OneLayer& one, LayerDescription& layer) {
    layer.head_dim = shape_.head_dim;
    layer.num_q_heads = shape_.num_q_heads;
    layer.num_kv_heads = shape_.num_kv_heads;
    std::int64_t mla_rotary = shape_.mla_rotary;
    if (one.q_heads) {
      const double heads = one.q_heads->value;
      if (heads != std::floor(heads) || heads > static_cast<double>(max_heads)) {
        config_.refuse(std::string(family_.q_heads_per_layer), sentence("must hold whole numbers of at most ", max_heads));
      }
      layer.num_q_heads = static_cast<std::int64_t>(heads);
      layer.provenance.add("num_q_heads", layer.num_q_heads, one.q_heads->source);
    }
    if (const SortRope* rope = family_.rope_of(one.sort)) heads_of_sort(*rope, layer, mla_rotary);
    if (layer.num_q_heads == 0 && family_.positions != PositionKind::rotary) return mla_rotary;  // the file does not say
    if (layer.num_q_heads < 1 || layer.num_q_heads > max_heads || layer.num_kv_heads < 1 ||
        layer.num_kv_heads > max_heads || layer.num_q_heads % layer.num_kv_heads != 0) {
      fail_file(config_.path(), "the key/value heads of a layer must divide its query heads, got ", layer.num_kv_heads,
                " and ", layer.num_q_heads, " for ", one.sort);
    }
    return mla_rotary;
  }

  void heads_of_sort(const SortRope& rope, LayerDescription& layer, std::int64_t& mla_rotary) {
    own_number(rope.head_dim_key, rope.head_dim, "head_dim", layer.head_dim, layer.provenance);
    own_number(rope.q_heads_key, 0, "num_q_heads", layer.num_q_heads, layer.provenance);
    if (family_.slice.kind == Slice::Kind::mla) layer.num_kv_heads = layer.num_q_heads;
    own_number(rope.kv_heads_key, rope.kv_heads, "num_kv_heads", layer.num_kv_heads, layer.provenance);
    if (rope.kv_heads_factor != 1 && !config_.has(std::string(rope.kv_heads_key))) {
      layer.num_kv_heads *= rope.kv_heads_factor;
      layer.provenance.add("num_kv_heads", layer.num_kv_heads,
                           part_.code(sentence(rope.kv_heads_factor, " * num_key_value_heads on layers of this sort")));
    }
    if (!rope.nope_key.empty()) {
      std::int64_t nope = rope.nope;
      own_number(rope.nope_key, rope.nope, "qk_nope_head_dim", nope, layer.provenance);
      mla_rotary = layer.head_dim - nope;
      if (mla_rotary < 2 || mla_rotary % 2 != 0) {
        config_.refuse(std::string(rope.nope_key),
                       sentence("must leave an even number of channels of head_dim ", layer.head_dim));
      }
    }
    if (layer.head_dim % 2 != 0 || layer.head_dim > max_rotary_dim) {
      fail_file(config_.path(), rope.head_dim_key, " must be even and at most ", max_rotary_dim, ", got ", layer.head_dim);
    }
  }

  /// A number of this sort of layer, where it has one of its own.
  void own_number(std::string_view key, std::int64_t otherwise, const char* name, std::int64_t& value,
                  Provenance& provenance) {
    if (key.empty()) return;
    if (const auto given = config_.count(std::string(key))) {
      value = given->value;
      provenance.add(name, *given);
    } else if (otherwise != 0 && !config_.is_null(std::string(key))) {
      value = otherwise;
      provenance.add(name, value, part_.class_default(sentence(key, " ", otherwise)));
    }
  }

  NormOrder norm_order() const {
    if (family_.norm_key.empty()) return family_.norm;
    const auto flag = config_.boolean(std::string(family_.norm_key));
    return (flag ? flag->value : family_.norm_where_missing) ? family_.norm : NormOrder::none;
  }

  bool flag(std::string_view key) const {
    if (key.empty()) return false;
    const auto found = config_.boolean(std::string(key));
    return found && found->value;
  }

  void key_scale(LayerDescription& layer) const {
    if (family_.key_scale_key.empty()) return;
    const std::string key(family_.key_scale_key);
    const auto given = config_.number(key);
    if (given && given->value == 0) config_.refuse(key, "must not be 0");
    layer.key_scale = given ? given->value : 1;
    layer.provenance.add("key_scale", layer.key_scale, given ? given->source : part_.class_default("1"));
  }

  void windows(const SortMeaning& meaning, LayerDescription& layer) {
    if (meaning.chunks) {
      const std::string key = "attention_chunk_size";
      if (const auto chunk = config_.count(key)) {
        layer.attention_chunk_size = chunk->value;
        layer.provenance.add(key, *chunk);
      } else if (family_.defaults.chunk != 0 && !config_.is_null(key)) {
        layer.attention_chunk_size = family_.defaults.chunk;
        layer.provenance.add(key, layer.attention_chunk_size, part_.class_default(sentence(layer.attention_chunk_size)));
      }
    }
    if (!meaning.window && !family_.windows) return;
    if (!family_.window_flag.empty() && !flag(family_.window_flag)) return;
    const std::string key(family_.window_key);
    // ModernBERT's other spelling, which wins.
    const bool beside = family_.window == Window::halves || family_.window == Window::half_of_keys;
    const auto own = beside ? config_.whole_number("sliding_window") : std::nullopt;
    if (own && own->value != 0) {
      layer.sliding_window = family_.window == Window::halves ? 2 * own->value + 1 : own->value;
      layer.provenance.add("sliding_window", layer.sliding_window, own->source);
    } else if (const auto given = config_.whole_number(key)) {
      layer.sliding_window = keys_seen(given->value);
      layer.provenance.add("sliding_window", layer.sliding_window, given->source);
    } else if (family_.defaults.window != 0 && !config_.is_null(key)) {
      layer.sliding_window = keys_seen(family_.defaults.window);
      layer.provenance.add("sliding_window", layer.sliding_window,
                           part_.class_default(sentence(key, " ", family_.defaults.window)));
    }
    layer.window_is_symmetric = layer.sliding_window != 0 && (window() == Window::each_side || window() == Window::halves);
  }

  Window window() const { return flag(family_.both_sides_flag) ? Window::halves : family_.window; }

  /// 0 in a file means no window.
  std::int64_t keys_seen(std::int64_t number) const {
    if (number == 0) return 0;
    switch (window()) {
      case Window::keys: return number;
      case Window::each_side: return 2 * number + 1;
      case Window::halves: return 2 * (number / 2) + 1;
      case Window::half_of_keys: return number / 2;
    }
    return number;
  }

  std::string_view why() const {
    const OtherReason& other = family_.other_why;
    const std::string key(other.key);
    if (key.empty() || !config_.has(key)) return family_.why;
    const auto& value = config_.value(key);
    const std::string word = value.is_string() ? value.get<std::string>()
                             : value == true   ? "true"
                             : value == false  ? "false"
                                               : "";
    return word == other.word ? other.why : family_.why;
  }

  std::string reason(bool turns, bool acts) const {
    const Turns& rule = family_.turns;
    if (acts || family_.positions == PositionKind::none || rule.kind == Turns::Kind::if_equal) {
      return std::string(why());
    }
    if (turns) return "rope_parameters is null for this sort of layer";
    switch (rule.kind) {
      case Turns::Kind::if_named: return sentence(rule.key, " is not ", rule.word);
      case Turns::Kind::if_true: return sentence(rule.key, " is not true");
      case Turns::Kind::unless_true: return sentence(rule.key, " is true");
      case Turns::Kind::if_positive: return sentence(rule.key, " is 0");
      case Turns::Kind::unless_null: return sentence(rule.key, " is null");
      default: return "layers of this sort do not turn";
    }
  }

  void no_rotation(bool turns, LayerDescription& layer) {
    const bool acts = turns && family_.positions == PositionKind::not_a_rotation;
    layer.turning = acts ? Turning::not_a_rotation : Turning::no_rotation;
    layer.reason = reason(turns, acts);
    if (family_.temperature == Temperature::llama4 && is_temperature_tuned()) {
      add_llama4_temperature(config_, part_.class_default(""), layer);
    }
    if (family_.temperature == Temperature::beam) {
      layer.query_temperature = {QueryTemperature::Kind::power, 0.1, 2048, 1};
      layer.provenance.add("temperature", "(1 + (position + 1) / 2048)^0.1", part_.code("constants"));
    }
  }

  /// Fills in the rotation; the factor on the scores that the rule yields beside it.
  double rotation(const OneLayer& one, std::int64_t mla_rotary, LayerDescription& layer) {
    RopeAnswer answer = read_rope_parameters(
        part_, {one.sort, layer.head_dim, mla_rotary, shape_.max_position_embeddings, one.base, one.share, one.scaled},
        layer.provenance);
    if (!answer.rotates) {
      no_rotation(true, layer);
      return 1;
    }
    RotationSpec& layout = layer.layout;
    layout.rotary_dim = answer.rotary_dim;
    layout.direction = family_.direction;
    const bool at_end = family_.slice.kind == Slice::Kind::mla || family_.slice.at_end;
    layout.rotary_offset = at_end ? layer.head_dim - answer.rotary_dim : 0;
    pairing(layer);
    read_axes(part_, one.sort, layer.head_dim, answer, layout, layer.provenance);
    if (family_.first_position != 0) {
      layer.provenance.add("first_position", family_.first_position, part_.code("counts from there on every axis"));
    }

    layer.rule_name = answer.rule_name;
    layer.rule = answer.rule;
    layer.original_max_position_embeddings = answer.original_max_position_embeddings;
    if (family_.temperature == Temperature::ministral) ministral_temperature(answer, layer);
    if (family_.temperature == Temperature::logn) logn_temperature(layer);
    return answer.logit_scale;
  }

  void pairing(LayerDescription& layer) {
    Pairing in = family_.pairing;
    std::string source =
        part_.code(in == Pairing::half ? "rotate_half pairs channel j with j + half the rotary width" : "pairs neighbours");
    if (!family_.pairing_key.empty()) {
      const std::string key(family_.pairing_key);
      if (const auto interleaved = config_.boolean(key)) {
        in = interleaved->value ? Pairing::interleaved : Pairing::half;
        source = interleaved->source;
      }
    }
    layer.layout.pairing_in = in;
    layer.layout.pairing_out = family_.pairing_out == Pairing::unspecified ? in : family_.pairing_out;
    layer.provenance.add("pairing", name(in), source);
    if (layer.layout.pairing_out != in) {
      layer.provenance.add("pairing_out", name(layer.layout.pairing_out), part_.code("writes the turned pairs in halves"));
    }
  }

  // ---- scores -----------------------------------------------------------------------------------------------------------

  void scale(double logit_scale, LayerDescription& layer) {
    const auto by_width = [&] { return layer.head_dim > 0 ? 1 / std::sqrt(static_cast<double>(layer.head_dim)) : 0; };
    const std::string key(family_.scale_key);
    switch (family_.scale) {
      case Scale::head_dim: return take_scale(layer, by_width(), "1 / sqrt(head_dim)");
      case Scale::half_head_dim:
        layer.softmax_scale = by_width() * std::sqrt(2.0);
        return layer.provenance.add("softmax_scale", layer.softmax_scale, part_.code("1 / sqrt(head_dim / 2)"));
      case Scale::mla:
        return take_scale(
            layer, by_width() * logit_scale,
            logit_scale == 1 ? "1 / sqrt(head_dim)" : "1 / sqrt(head_dim), times mscale_all_dim's factor squared");
      case Scale::query_pre_attn_scalar: {
        const std::string name = key.empty() ? "query_pre_attn_scalar" : key;
        const auto given = config_.positive_number(name);
        const double scalar = given ? given->value : family_.scale_value;
        if (!given && config_.is_null(name)) return take_scale(layer, by_width(), "1 / sqrt(head_dim)");
        const std::string source = given ? given->source : part_.class_default(sentence(name, " ", scalar));
        layer.softmax_scale = 1 / std::sqrt(scalar);
        return layer.provenance.add("softmax_scale", layer.softmax_scale, "1 / sqrt(" + source + ")");
      }
      case Scale::number: {
        const auto given = key.empty() ? std::nullopt : config_.positive_number(key);
        if (!given && !key.empty() && config_.is_null(key)) return take_scale(layer, by_width(), "1 / sqrt(head_dim)");
        layer.softmax_scale = given ? given->value : family_.scale_value;
        return layer.provenance.add("softmax_scale", layer.softmax_scale,
                                    given ? given->source : part_.class_default(sentence(layer.softmax_scale)));
      }
      case Scale::over_head_dim: {
        const auto given = config_.positive_number(key);
        const double value = given ? given->value : family_.scale_value;
        layer.softmax_scale = value / static_cast<double>(layer.head_dim);
        return layer.provenance.add(
            "softmax_scale", layer.softmax_scale,
            (given ? given->source : part_.class_default(sentence(key, " ", value))) + " / head_dim");
      }
      case Scale::unknown: return;
    }
  }

  void take_scale(LayerDescription& layer, double value, const char* what) {
    layer.softmax_scale = value;
    if (value != 0) layer.provenance.add("softmax_scale", value, part_.code(what));
  }

  void softcap(LayerDescription& layer) const {
    const std::string key(family_.softcap_key);
    if (const auto given = key.empty() ? std::nullopt : config_.positive_number(key)) {
      layer.softcap = given->value;
      layer.provenance.add("softcap", *given);
    } else if (family_.softcap != 0 && (key.empty() || !config_.is_null(key))) {
      layer.softcap = family_.softcap;
      layer.provenance.add("softcap", layer.softcap,
                           key.empty() ? part_.code("a constant") : part_.class_default(sentence(key, " ", layer.softcap)));
    }
  }

  void sinks(const std::string& sort, LayerDescription& layer) const {
    layer.has_sinks = family_.sinks;
    std::string source = part_.code("a weight per query head");
    if (const SortRope* rope = family_.rope_of(sort); rope != nullptr && !rope->sinks_key.empty()) {
      const auto given = config_.boolean(std::string(rope->sinks_key));
      layer.has_sinks = given ? given->value : rope->sinks;
      source = given ? given->source : part_.class_default(sentence(rope->sinks_key, " true"));
    }
    if (layer.has_sinks) layer.provenance.add("has_sinks", true, source);
  }

  bool is_temperature_tuned() const {
    const std::string key = "attn_temperature_tuning";
    if (config_.has(key) && config_.value(key).is_number()) {
      part_.findings.tolerate("RP023", config_.path(), config_.key(key) + " must be true or false, got a number",
                              "transformers 4.51 wrote 4, and took any number but 0 for true");
      return config_.value(key) != 0;
    }
    const auto tuned = config_.boolean(key);
    return !tuned || tuned->value;
  }

  void ministral_temperature(const RopeAnswer& answer, LayerDescription& layer) {
    const auto beta = answer.keys ? answer.keys->positive_number("llama_4_scaling_beta") : std::nullopt;
    if (!beta) return;
    const std::int64_t length = answer.original_max_position_embeddings != 0 ? answer.original_max_position_embeddings
                                                                             : shape_.max_position_embeddings.value;
    layer.query_temperature = {QueryTemperature::Kind::steps, beta->value, length, 0};
    layer.provenance.add("temperature_beta", *beta);
    layer.provenance.add("temperature_length", length, "original_max_position_embeddings");
  }

  void logn_temperature(LayerDescription& layer) {
    const auto used = config_.boolean("use_logn_attn");
    const auto length = config_.count("seq_length");
    if (!used || !used->value || !length) return;
    layer.query_temperature = {QueryTemperature::Kind::logn, 0, length->value, 0};
    layer.provenance.add("temperature_length", *length);
  }

  // ---- the rest ---------------------------------------------------------------------------------------------------------

  /// A list with one number per layer; nothing where the key is missing or holds no list. Entries that are null count as 0.
  std::vector<Found<double>> numbers_per_layer(std::string_view name, std::size_t num_layers) {
    std::vector<Found<double>> numbers;
    const std::string key(name);
    if (key.empty() || !config_.has(key) || !config_.value(key).is_array()) return numbers;
    const auto& list = config_.value(key);
    const auto extra = config_.whole_number("num_nextn_predict_layers");  // some lists go on over these
    if (list.size() < num_layers || list.size() > num_layers + static_cast<std::size_t>(extra ? extra->value : 0)) {
      config_.refuse(key, sentence("must be a list with one entry for each of the ", num_layers, " layers"));
    }
    for (std::size_t i = 0; i < num_layers; ++i) {
      const double number = list[i].is_number() ? list[i].get<double>() : 0;
      if (!std::isfinite(number) || number < 0) config_.refuse(key, "must hold numbers of at least 0");
      numbers.push_back({number, config_.source(key)});
    }
    return numbers;
  }

  /// For which layers the rule of the file is; all, but where the family has a list of them.
  std::vector<bool> scaled_layers(std::size_t num_layers) {
    const auto given =
        family_.scaled_layers.empty() ? std::nullopt : config_.whole_numbers(std::string(family_.scaled_layers));
    std::vector<bool> scaled(num_layers, !given);
    if (!given) return scaled;
    for (const std::int64_t index : given->value) {
      if (index >= static_cast<std::int64_t>(num_layers)) {
        config_.refuse(std::string(family_.scaled_layers), sentence("must hold layers below ", num_layers));
      }
      scaled[static_cast<std::size_t>(index)] = true;
    }
    shared_.add(std::string(family_.scaled_layers), given->value, given->source);
    return scaled;
  }

  void refuse_other_layouts() const {
    for (const char* key : {"rope_interleaved", "rope_interleave"}) {
      const auto interleaved = config_.boolean(key);
      if (interleaved && interleaved->value && family_.pairing == Pairing::half && family_.pairing_key != key &&
          family_.positions == PositionKind::rotary) {
        const std::string rule = sentence(config_.key(key), " is true, but the code of ", family_.model_type,
                                          " pairs halves and does not read it");
        if (!part_.findings.lenient()) fail_unsupported(config_.path(), rule);
        part_.findings.warn("RP025", rule);
      }
    }
  }

  void refuse_keys_of_other_code() const {
    for (const Refusal& refusal : family_.refusals) {
      const std::string key(refusal.key);
      if (key.empty() || !config_.has(key)) continue;
      const auto& value = config_.value(key);
      if (value.is_boolean() ? !value.get<bool>() : value == 0 || value == refusal.harmless) continue;
      fail_unsupported(config_.path(), config_.key(key), " is given: ", refusal.why, ", which is not read here");
    }
  }

  /// Forks of BERT and its kin keep its model_type and put their own positions under position_embedding_type.
  void refuse_other_positions() const {
    const std::string key = "position_embedding_type";
    if (family_.positions != PositionKind::none || !config_.has(key) || !config_.value(key).is_string()) return;
    const std::string given = config_.value(key).get<std::string>();
    const bool turns = given == "rotary" || given == "rope";
    if (!turns && given != "alibi") return;
    if (given == "alibi" && why() == "ALiBi") return;
    std::string advice;
    if (config_.has("auto_map")) {
      advice = "; auto_map names the code that comes with the model";
      if (turns && config_.has("rotary_emb_base")) {
        advice +=
            ": where that turns whole heads in halves by rotary_emb_base, read it as nomic_bert (--family nomic_bert)";
      } else if (turns) {
        advice += ": name a family whose code is known to turn alike (--family)";
      }
    }
    fail_unsupported(config_.path(), config_.key(key), " is \"", given, "\", which the code of ", family_.model_type,
                     " here does not have (", why(), ")", advice);
  }

  void warn() {
    if (family_.positions == PositionKind::rotary) warn_about_keys_of_others();
    if (config_.has("auto_map") && family_.source.starts_with("transformers")) {
      part_.findings.warn("RP007",
                          sentence("auto_map names code that comes with the model: read here as transformers' own ",
                                   family_.model_type, ", which may turn otherwise"));
    }
    if (config_.has("dual_chunk_attention_config")) {
      part_.findings.warn("RP024", sentence(config_.key("dual_chunk_attention_config"),
                                            " is not read here, nor by transformers: vLLM counts positions within chunks "
                                            "where it is given"));
    }
    if (!family_.note.empty()) part_.findings.warn("RP024", sentence(family_.model_type, ": ", family_.note));
  }

  void warn_about_keys_of_others() {
    for (const char* key : keys_of_other_families) {
      if (config_.has(key) && !family_reads(key)) {
        part_.findings.warn("RP006", sentence(key, " belongs to other families: the code of ", family_.model_type,
                                              " does not read it, nor does rotary"));
      }
    }
  }

  /// Keys by which some families change the rotation or the scores.
  static constexpr std::array keys_of_other_families{
      "rope_ratio",
      "rope_local_base_freq",
      "rotary_emb_base",
      "rotary_pct",
      "rotary_dim",
      "no_rope_layers",
      "layer_rope_theta",
      "no_rope_layer_interval",
      "query_pre_attn_scalar",
      "attention_multiplier",
      "use_dynamic_ntk",
  };

  bool family_reads(std::string_view key) const {
    const auto in_ropes = [&] {
      return std::any_of(family_.ropes.begin(), family_.ropes.end(),
                         [&](const SortRope& rope) { return rope.base_key == key; });
    };
    return family_.base_key == key || family_.prompt_ntk_flag == key || family_.slice.key == key ||
           family_.turns.key == key || family_.scale_key == key || family_.base_per_layer == key ||
           family_.aliases.find(key) != std::string_view::npos || in_ropes() ||
           (key == "query_pre_attn_scalar" && family_.scale == Scale::query_pre_attn_scalar) ||
           (key == "no_rope_layer_interval" && family_.turns.kind == Turns::Kind::by_flags);
  }

  const Part& part_;
  const ConfigObject& config_;
  const Family& family_;
  Provenance shared_;
  Shape shape_;
  bool alike_ = true;
};

}  // namespace

ModelDescription read_part(const Part& part) { return PartReader(part).read(); }

}  // namespace rotary::huggingface
