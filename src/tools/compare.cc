#include "rotary/compare.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <deque>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "models/telling_lengths.h"
#include "tools/compare_rotations.h"
#include "tools/decimals.h"

namespace rotary {

const char* name(Effect effect) noexcept {
  switch (effect) {
    case Effect::nothing: return "nothing";
    case Effect::attention: return "attention";
    case Effect::keys: return "keys";
  }
  return "?";
}

namespace {

/// What the last bits of another pow or of another order of operations change.
constexpr double exact_tolerance = 0x1p-40;
/// Two numbers rounded to float32, such as a base and a divisor.
constexpr double float32_tolerance = 0x1p-23;

}  // namespace

struct ComparisonContents {
  double tolerance = 0;
  bool one_is_gguf = false;
  std::deque<std::string> texts;  // they do not move
  std::vector<Difference> differences;
  std::vector<ComparedLayers> layers;

  const char* keep(std::string text) { return texts.emplace_back(std::move(text)).c_str(); }
};

namespace {

// ---- words -------------------------------------------------------------------------------------------------------------

const ValueSource* find_source(const LayerRotation& layer, std::string_view name) {
  const auto& all = layer.provenance();
  const auto found = std::find_if(all.begin(), all.end(), [&](const ValueSource& value) { return name == value.name; });
  return found == all.end() ? nullptr : &*found;
}

/// JSON text as people write it: 500000, llama3; long lists only in part.
std::string plain_value(std::string_view json) {
  double number = 0;
  const auto [end, error] = std::from_chars(json.data(), json.data() + json.size(), number);
  if (error == std::errc() && end == json.data() + json.size()) return shortest(number);
  if (json.size() >= 2 && json.front() == '"') json = json.substr(1, json.size() - 2);
  constexpr std::size_t enough = 40;
  return json.size() <= enough ? std::string(json) : std::string(json.substr(0, enough - 3)) + "...";
}

std::string with_source(const std::string& value, const LayerRotation& layer, std::string_view name) {
  const ValueSource* source = find_source(layer, name);
  return source == nullptr ? value : value + " (" + source->source + ")";
}

std::string known_value(const LayerRotation& layer, std::string_view name) {
  const ValueSource* source = find_source(layer, name);
  return source == nullptr ? "not given" : plain_value(source->value) + " (" + source->source + ")";
}

std::string temperature_words(const QueryTemperature& temperature) {
  const std::string length = std::to_string(temperature.length);
  switch (temperature.kind) {
    case QueryTemperature::Kind::none: return "none";
    case QueryTemperature::Kind::steps:
      return "1 + " + shortest(temperature.beta) + " ln(1 + floor((position + " + std::to_string(temperature.shift) +
             ") / " + length + "))";
    case QueryTemperature::Kind::logn: return "ln(position + 1) / ln(" + length + ") beyond " + length;
    case QueryTemperature::Kind::power:
      return "(1 + (position + " + std::to_string(temperature.shift) + ") / " + length + ")^" + shortest(temperature.beta);
  }
  return "?";
}

std::string keys_words(std::int64_t keys) { return keys == 0 ? "none" : std::to_string(keys); }

std::string cap_words(double softcap) { return softcap == 0 ? "none" : shortest(softcap); }

std::string turning_words(const LayerRotation& layer) {
  std::string words = name(layer.turning());
  if (*layer.reason() != '\0') words += std::string(": ") + layer.reason();
  return words;
}

// ---- one pair of layers ------------------------------------------------------------------------------------------------

/// Names in provenance of the numbers that rules are made of.
bool is_parameter_of_rule(std::string_view name) {
  constexpr std::string_view parameters[] = {"alpha",
                                             "attention_factor",
                                             "base",
                                             "beta_fast",
                                             "beta_slow",
                                             "factor",
                                             "high_freq_factor",
                                             "long_factor",
                                             "long_mscale",
                                             "low_freq_factor",
                                             "max_period",
                                             "min_period",
                                             "mscale",
                                             "mscale_all_dim",
                                             "original_max_position_embeddings",
                                             "partial_rotary_factor",
                                             "patches_per_side",
                                             "position_step",
                                             "short_factor",
                                             "short_mscale",
                                             "trained_length",
                                             "truncate"};
  return std::find(std::begin(parameters), std::end(parameters), name) != std::end(parameters);
}

bool is_gguf(const ModelRotations& model) { return std::string_view(model.format()) == "gguf"; }

std::string pairing_words(const Rotation& rotation) {
  std::string words = name(rotation.pairing_in());
  if (rotation.pairing_out() != rotation.pairing_in()) words += std::string(", written ") + name(rotation.pairing_out());
  return words;
}

std::string of_pairs(const PairsApart& pairs, std::int64_t num_pairs) {
  if (pairs.count == num_pairs) return "all " + std::to_string(num_pairs) + " pairs";
  std::string words = std::to_string(pairs.count) + " of " + std::to_string(num_pairs) + " pairs";
  return words + (pairs.first == pairs.last ? ", pair " + std::to_string(pairs.first)
                                            : ", " + std::to_string(pairs.first) + " to " + std::to_string(pairs.last));
}

/// Two layers, one of each model, and where the findings go.
class LayerComparer {
 public:
  LayerComparer(const LayerRotation& a, const LayerRotation& b, ComparisonContents& contents, ComparedLayers& into)
      : a_(a), b_(b), contents_(contents), into_(into) {}

  void compare(const std::vector<std::int64_t>& lengths) {
    if (a_.turning() != b_.turning()) add(Effect::keys, "turning", turning_words(a_), turning_words(b_));
    if (a_.turning() == Turning::no_attention || b_.turning() == Turning::no_attention) return;
    compare_whole(Effect::keys, "head_dim", a_.head_dim(), b_.head_dim());
    compare_whole(Effect::keys, "num_kv_heads", a_.num_kv_heads(), b_.num_kv_heads());
    compare_whole(Effect::attention, "num_q_heads", a_.num_q_heads(), b_.num_q_heads());
    compare_key_scales();
    if (a_.rotates() || b_.rotates()) compare_turns(lengths);
    compare_scores();
  }

 private:
  void add(Effect effect, const char* name, const std::string& a, const std::string& b, const std::string& detail = "") {
    into_.differences.push_back(
        {effect, contents_.keep(name), contents_.keep(a), contents_.keep(b), contents_.keep(detail)});
  }
  /// With what provenance knows under that name.
  void add_sourced(Effect effect, const char* name, const std::string& a, const std::string& b,
                   const std::string& detail = "") {
    add(effect, name, with_source(a, a_, name), with_source(b, b_, name), detail);
  }
  void compare_whole(Effect effect, const char* name, std::int64_t a, std::int64_t b) {
    if (a != b) add_sourced(effect, name, std::to_string(a), std::to_string(b));
  }

  bool close(double a, double b) const {
    return a == b || std::abs(a - b) <= contents_.tolerance * std::max(std::abs(a), std::abs(b));
  }

  /// Converters to GGUF multiply the weights of k, so that the cached keys are the same.
  void compare_key_scales() {
    if (close(a_.key_scale(), b_.key_scale())) return;
    const bool in_weights = contents_.one_is_gguf;
    add_sourced(in_weights ? Effect::nothing : Effect::keys, "key_scale", shortest(a_.key_scale()),
                shortest(b_.key_scale()), in_weights ? "a GGUF has it in the weights of k" : "");
  }

  // -- the rotation --

  void compare_turns(const std::vector<std::int64_t>& lengths) {
    const RotationsApart apart = compare_rotations(a_, b_, lengths, contents_.tolerance);
    into_.first_position = apart.first_position;
    into_.first_pair = apart.first_pair;
    into_.length = apart.first_length;
    if (!a_.rotates() || !b_.rotates()) return;  // said under "turning"
    compare_channels(a_.rotation(lengths.front()), b_.rotation(lengths.front()), apart);
    compare_rules(!apart.comparable || apart.turns_differ());
    compare_numbers(apart);
  }

  void compare_channels(const Rotation& a, const Rotation& b, const RotationsApart& apart) {
    if (apart.by_channels && apart.same_channels) {
      const std::string in_a = pairing_words(a), in_b = pairing_words(b);
      if (in_a != in_b) add_sourced(Effect::nothing, "pairing", in_a, in_b, "the same channels");
      return;
    }
    const std::size_t before = into_.differences.size();
    compare_whole(Effect::keys, "rotary_dim", a.rotary_dim(), b.rotary_dim());
    compare_whole(Effect::keys, "rotary_offset", a.rotary_offset(), b.rotary_offset());
    const bool said = into_.differences.size() > before || a.head_dim() != b.head_dim();
    const std::string in_a = pairing_words(a), in_b = pairing_words(b);
    if (in_a != in_b || !said) {
      add_sourced(Effect::keys, "pairing", in_a, in_b, in_a == in_b ? "other channels form pairs" : "");
    }
  }

  void compare_rules(bool turns_differ) {
    const Effect effect = turns_differ ? Effect::keys : Effect::nothing;
    const bool same_rule = rule_of(a_) == rule_of(b_);
    if (!same_rule) add_sourced(effect, "rule", rule_of(a_), rule_of(b_), turns_differ ? "" : "the same frequencies");
    if (same_rule && !turns_differ) return;
    std::set<std::string> seen;
    for (const LayerRotation* layer : {&a_, &b_}) {
      for (const ValueSource& value : layer->provenance()) {
        if (is_parameter_of_rule(value.name) && seen.insert(value.name).second) {
          compare_parameter(effect, value.name, same_rule);
        }
      }
    }
  }

  /// One that only one of them has goes without saying where the rules differ.
  void compare_parameter(Effect effect, const char* name, bool same_rule) {
    const ValueSource *in_a = find_source(a_, name), *in_b = find_source(b_, name);
    if (in_a == nullptr || in_b == nullptr ? !same_rule : plain_value(in_a->value) == plain_value(in_b->value)) return;
    add(effect, name, known_value(a_, name), known_value(b_, name));
  }

  void compare_numbers(const RotationsApart& apart) {
    const std::string in_call = apart.length > 0 ? ", in a call of " + std::to_string(apart.length) + " tokens" : "";
    if (apart.mirrored) add(Effect::keys, "direction", direction_of(a_), direction_of(b_));
    if (apart.inv_freq.count > 0) {
      const std::string pair = "pair " + std::to_string(apart.inv_freq.worst) + ": ";
      add(Effect::keys, "inv_freq", pair + shortest(apart.inv_freq.a), pair + shortest(apart.inv_freq.b),
          of_pairs(apart.inv_freq, apart.num_pairs) + in_call + "; most in pair " + std::to_string(apart.inv_freq.worst));
    }
    if (apart.axis.count > 0) {
      const std::string pair = "pair " + std::to_string(apart.axis.worst) + ": axis ";
      add(Effect::keys, "axis", pair + shortest(apart.axis.a), pair + shortest(apart.axis.b),
          of_pairs(apart.axis, apart.num_pairs));
    }
    if (apart.amplitude) {
      add_sourced(Effect::keys, "amplitude", shortest(apart.amplitude_a), shortest(apart.amplitude_b), in_call);
    }
    if (!apart.turns_differ() && apart.largest_tolerated > exact_tolerance) {
      add(Effect::nothing, "inv_freq", "float64", "float64",
          "alike to " + rough(apart.largest_tolerated) + ": a GGUF stores float32");
    }
  }

  std::string rule_of(const LayerRotation& layer) const {
    if (*layer.rule() != '\0') return layer.rule();
    const ValueSource* rule = find_source(layer, "rule");
    return rule == nullptr ? "" : plain_value(rule->value);
  }
  static std::string direction_of(const LayerRotation& layer) {
    return layer.rotation(std::int64_t{0}).direction() > 0 ? "counter-clockwise" : "clockwise";
  }

  // -- what else decides the scores --

  void compare_scores() {
    if (!close(a_.softmax_scale(), b_.softmax_scale())) {
      add_sourced(Effect::attention, "softmax_scale", shortest(a_.softmax_scale()), shortest(b_.softmax_scale()));
    }
    const QueryTemperature &a = a_.query_temperature(), &b = b_.query_temperature();
    if (a.kind != b.kind || !close(a.beta, b.beta) || a.length != b.length || a.shift != b.shift) {
      add_sourced(Effect::attention, "query_temperature", temperature_words(a), temperature_words(b));
    }
    if (!close(a_.softcap(), b_.softcap())) {
      add_sourced(Effect::attention, "softcap", cap_words(a_.softcap()), cap_words(b_.softcap()));
    }
    compare_flag("has_sinks", a_.has_sinks(), b_.has_sinks());
    if (a_.sliding_window() != b_.sliding_window()) {
      add_sourced(Effect::attention, "sliding_window", keys_words(a_.sliding_window()), keys_words(b_.sliding_window()));
    }
    compare_flag("window_is_symmetric", a_.window_is_symmetric(), b_.window_is_symmetric());
    if (a_.attention_chunk_size() != b_.attention_chunk_size()) {
      add_sourced(Effect::attention, "attention_chunk_size", keys_words(a_.attention_chunk_size()),
                  keys_words(b_.attention_chunk_size()));
    }
    if (a_.norm_order() != b_.norm_order()) {
      add_sourced(Effect::attention, "norm_order", name(a_.norm_order()), name(b_.norm_order()));
    }
    compare_flag("rotates_values", a_.rotates_values(), b_.rotates_values());
    compare_flag("unrotates_output", a_.unrotates_output(), b_.unrotates_output());
  }

  void compare_flag(const char* name, bool a, bool b) {
    if (a != b) add_sourced(Effect::attention, name, a ? "yes" : "no", b ? "yes" : "no");
  }

  const LayerRotation& a_;
  const LayerRotation& b_;
  ComparisonContents& contents_;
  ComparedLayers& into_;
};

// ---- whole models ------------------------------------------------------------------------------------------------------

/// {0} where neither depends on the length.
std::vector<std::int64_t> lengths_of_interest(const LayerRotation& a, const LayerRotation& b, const ModelRotations& model_a,
                                              const ModelRotations& model_b) {
  if (!a.depends_on_length() && !b.depends_on_length()) return {0};
  std::set<std::int64_t> lengths;
  for (const ModelRotations* model : {&model_a, &model_b}) {
    lengths.merge(telling_lengths(model->original_max_position_embeddings(), model->max_position_embeddings()));
  }
  return {lengths.begin(), lengths.end()};
}

/// Stretches of layers over which neither model changes, gathered by what both do.
struct LayerPair {
  LayerRotation a, b;
  std::vector<LayerRange> layers;
};

std::vector<LayerPair> layer_pairs(const ModelRotations& a, const ModelRotations& b) {
  std::vector<LayerPair> pairs;
  const std::int64_t num_layers = std::min(a.num_layers(), b.num_layers());
  for (std::int64_t layer = 0; layer < num_layers; ++layer) {
    const LayerRotation &in_a = a.layer(layer), &in_b = b.layer(layer);
    const auto same = [&](const LayerPair& pair) { return pair.a == in_a && pair.b == in_b; };
    auto known = std::find_if(pairs.begin(), pairs.end(), same);
    if (known == pairs.end()) known = pairs.insert(known, {in_a, in_b, {}});
    if (!known->layers.empty() && known->layers.back().last == layer - 1) known->layers.back().last = layer;
    else known->layers.push_back({layer, layer});
  }
  return pairs;
}

class ModelComparer {
 public:
  explicit ModelComparer(ComparisonContents& contents) : contents_(contents) {}

  void compare(const ModelRotations& a, const ModelRotations& b, const std::string& part) {
    compare_text("model_type", a.model_type(), b.model_type(), part);
    compare_number(Effect::keys, "num_layers", a.num_layers(), b.num_layers(), part, "only the first ones are compared");
    compare_number(Effect::nothing, "max_position_embeddings", a.max_position_embeddings(), b.max_position_embeddings(),
                   part);
    for (const LayerPair& pair : layer_pairs(a, b)) {
      ComparedLayers compared{contents_.keep(part), pair.layers, {}, -1, -1, 0};
      LayerComparer(pair.a, pair.b, contents_, compared).compare(lengths_of_interest(pair.a, pair.b, a, b));
      contents_.layers.push_back(std::move(compared));
    }
    compare_parts(a, b, part);
  }

 private:
  void add(Effect effect, const char* name, const std::string& a, const std::string& b, const std::string& part,
           const std::string& detail = "") {
    const std::string where = part.empty() ? detail : detail.empty() ? "of " + part : "of " + part + "; " + detail;
    contents_.differences.push_back({effect, name, contents_.keep(a), contents_.keep(b), contents_.keep(where)});
  }
  void compare_text(const char* name, const std::string& a, const std::string& b, const std::string& part) {
    if (a != b) add(Effect::nothing, name, a, b, part);
  }
  void compare_number(Effect effect, const char* name, std::int64_t a, std::int64_t b, const std::string& part,
                      const std::string& detail = "") {
    if (a != b) add(effect, name, std::to_string(a), std::to_string(b), part, detail);
  }

  void compare_parts(const ModelRotations& a, const ModelRotations& b, const std::string& part) {
    const auto has = [](const ModelRotations& model, const std::string& name) {
      return std::find(model.part_names().begin(), model.part_names().end(), name) != model.part_names().end();
    };
    for (const char* name : a.part_names()) {
      if (has(b, name)) compare(a.part(name), b.part(name), part.empty() ? name : part + "." + name);
      else add(Effect::nothing, "parts", name, "not there", part, "not compared");
    }
    for (const char* name : b.part_names()) {
      if (!has(a, name)) add(Effect::nothing, "parts", "not there", name, part, "not compared");
    }
  }

  ComparisonContents& contents_;
};

}  // namespace

// ---- what was found ----------------------------------------------------------------------------------------------------

Comparison::Comparison(Comparison&& other) noexcept : contents_(std::exchange(other.contents_, nullptr)) {}
Comparison& Comparison::operator=(Comparison&& other) noexcept {
  std::swap(contents_, other.contents_);
  return *this;
}
Comparison::~Comparison() { delete contents_; }

double Comparison::tolerance() const noexcept { return contents_->tolerance; }
const std::vector<Difference>& Comparison::differences() const noexcept { return contents_->differences; }
const std::vector<ComparedLayers>& Comparison::layers() const noexcept { return contents_->layers; }

namespace {

/// Whether it holds for every difference, of models and of layers.
template <class Test>
bool all_differences(const Comparison& comparison, const Test& test) {
  const auto all = [&](const std::vector<Difference>& differences) {
    return std::all_of(differences.begin(), differences.end(), test);
  };
  return all(comparison.differences()) &&
         std::all_of(comparison.layers().begin(), comparison.layers().end(),
                     [&](const ComparedLayers& layers) { return all(layers.differences); });
}

}  // namespace

bool Comparison::same() const noexcept {
  return all_differences(*this, [](const Difference& difference) { return difference.effect == Effect::nothing; });
}

bool Comparison::same_keys() const noexcept {
  return all_differences(*this, [](const Difference& difference) { return difference.effect != Effect::keys; });
}

bool Comparison::only_pairing_differs() const noexcept {
  return !same() && first_position() < 0 && all_differences(*this, [](const Difference& difference) {
    return difference.effect == Effect::nothing || std::string_view(difference.name) == "pairing";
  });
}

std::int64_t Comparison::first_position() const noexcept {
  std::int64_t first = -1;
  for (const ComparedLayers& layers : contents_->layers) {
    if (layers.first_position >= 0 && (first < 0 || layers.first_position < first)) first = layers.first_position;
  }
  return first;
}

Comparison compare(const ModelRotations& a, const ModelRotations& b) {
  auto* contents = new ComparisonContents;
  Comparison comparison(contents);
  contents->tolerance = is_gguf(a) || is_gguf(b) ? float32_tolerance : exact_tolerance;
  contents->one_is_gguf = is_gguf(a) != is_gguf(b);
  ModelComparer(*contents).compare(a, b, "");
  return comparison;
}

}  // namespace rotary
