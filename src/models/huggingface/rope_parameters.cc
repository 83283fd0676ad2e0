#include "models/huggingface/rope_parameters.h"

#include <set>
#include <string>
#include <utility>

#include "base/fail.h"

namespace rotary {
namespace {

using nlohmann::json;

/// rope_scaling and rope_parameters, where the file has them.
struct Spellings {
  std::optional<ConfigObject> scaling;
  std::optional<ConfigObject> parameters;

  /// The one that counts: rope_scaling wins.
  const ConfigObject* chosen() const { return scaling ? &*scaling : parameters ? &*parameters : nullptr; }
};

/// Keys that say which rule, and those that both generations may also keep at the top level.
bool is_parameter_of_rule(const std::string& key) {
  return key != "type" && key != "rope_type" && key != "rope_theta" && key != "partial_rotary_factor";
}

json rule_name_in(const ConfigObject& object) {
  const auto rope_type = object.text("rope_type");
  const auto type = object.text("type");
  if (rope_type && type && rope_type->value != type->value) {
    fail_file(object.path(), object.key("type"), " and ", object.key("rope_type"), " must name the same rule, got \"",
              type->value, "\" and \"", rope_type->value, "\"");
  }
  if (rope_type) return rope_type->value;
  if (type) return type->value;
  return nullptr;
}

json parameters_of_rule(const ConfigObject& object) {
  json parameters = json::object();
  for (const auto& [key, value] : object.json().items()) {
    if (is_parameter_of_rule(key) && !value.is_null()) parameters[key] = value;
  }
  return parameters;
}

void refuse_disagreement(const Spellings& spellings) {
  if (!spellings.scaling || !spellings.parameters) return;
  const json old_rule = rule_name_in(*spellings.scaling), new_rule = rule_name_in(*spellings.parameters);
  if (old_rule != new_rule || parameters_of_rule(*spellings.scaling) != parameters_of_rule(*spellings.parameters)) {
    fail_file(spellings.scaling->path(), "rope_scaling and rope_parameters must agree where both are given, got ",
              old_rule.dump(), " and ", new_rule.dump());
  }
}

void refuse_nesting(const ConfigObject& object) {
  for (const auto& [key, value] : object.json().items()) {
    if (value.is_object()) {
      fail_unsupported(object.path(), object.key(key.c_str()),
                       " is an object: rotations per layer type are not read for this family");
    }
  }
}

/// A value that may stand in either object and at the top level: all that are there must be equal; the first one counts.
std::optional<Found<double>> agreed_number(const Spellings& spellings, const ConfigObject& config, const char* key) {
  std::optional<Found<double>> agreed;
  for (const ConfigObject* object : {spellings.scaling ? &*spellings.scaling : nullptr,
                                     spellings.parameters ? &*spellings.parameters : nullptr, &config}) {
    if (object == nullptr) continue;
    auto found = object->positive_number(key);
    if (!found) continue;
    if (agreed && agreed->value != found->value) {
      fail_file(config.path(), key, " must be the same wherever it stands, got ", found->value, " for ", object->key(key),
                " and ", agreed->value, " (", agreed->source, ")");
    }
    if (!agreed) agreed = std::move(found);
  }
  return agreed;
}

/// Reads the keys of one rule, and remembers which of them it knows.
class RuleReader {
 public:
  RuleReader(std::string rule, const Spellings& spellings, const ConfigObject& config, const HeadFacts& head, double base,
             Provenance& provenance, Findings& findings)
      : rule_(std::move(rule)),
        object_(spellings.chosen()),
        config_(config),
        head_(head),
        base_(base),
        provenance_(provenance),
        findings_(findings) {}

  FrequencyRule read() {
    FrequencyRule rule = dispatch();
    warn_about_unread_keys();
    return rule;
  }

 private:
  FrequencyRule dispatch() {
    if (rule_ == "default") return default_frequencies(base_, head_.head_dim);
    if (rule_ == "linear") return linear_frequencies(base_, head_.head_dim, factor());
    if (rule_ == "dynamic") return dynamic();
    if (rule_ == "yarn") return yarn();
    if (rule_ == "longrope") return longrope();
    if (rule_ == "llama3") return llama3();
    fail_unsupported(config_.path(), "rope_type \"", rule_, "\" is not a rule of transformers' ", head_.model_type,
                     " (default, linear, dynamic, yarn, longrope, llama3)");
  }

  FrequencyRule dynamic() {
    DynamicNtk rule{base_, head_.head_dim, factor(), head_.max_position_embeddings.value};
    provenance_.add("trained_length", rule.max_position_embeddings, head_.max_position_embeddings.source);
    return rule;
  }

  FrequencyRule yarn() {
    Yarn rule;
    rule.original_max_position_embeddings = original_length();
    if (object_->json().contains("factor") && object_->json()["factor"].is_null()) {
      known("factor");
      rule.factor = static_cast<double>(head_.max_position_embeddings.value) /
                    static_cast<double>(rule.original_max_position_embeddings);
      provenance_.add("factor", rule.factor, "max_position_embeddings / original length, as the factor is null");
    } else {
      rule.factor = factor();
      warn_about_lengths(rule);
    }
    rule.beta_fast = optional_nonzero("beta_fast", rule.beta_fast);
    rule.beta_slow = optional_nonzero("beta_slow", rule.beta_slow);
    if (rule.beta_fast < rule.beta_slow) {
      findings_.warn("RP004", sentence("beta_fast ", rule.beta_fast, " is smaller than beta_slow ", rule.beta_slow,
                                ": the pairs that should be kept are divided and the other way round"));
    }
    rule.attention_factor = optional_positive("attention_factor");
    rule.mscale = optional_nonzero("mscale", 0);
    rule.mscale_all_dim = optional_nonzero("mscale_all_dim", 0);
    known("truncate");
    if (const auto truncate = object_->boolean("truncate")) {
      rule.truncate = truncate->value;
      provenance_.add("truncate", truncate->value, truncate->source);
    }
    return with_amplitude(yarn_frequencies(base_, head_.head_dim, rule), rule.attention_factor);
  }

  FrequencyRule longrope() {
    LongRope rule;
    rule.base = base_;
    rule.rotary_dim = head_.head_dim;
    rule.original_max_position_embeddings = original_length();
    rule.max_position_embeddings = head_.max_position_embeddings.value;
    rule.short_factor = divisors("short_factor");
    rule.long_factor = divisors("long_factor");
    rule.factor = optional_positive("factor");
    rule.attention_factor = optional_positive("attention_factor");
    return with_amplitude(rule, rule.attention_factor);
  }

  FrequencyRule llama3() {
    Llama3 rule;
    rule.factor = factor();
    rule.low_freq_factor = required("low_freq_factor");
    rule.high_freq_factor = required("high_freq_factor");
    rule.original_max_position_embeddings = original_length();
    if (rule.high_freq_factor < rule.low_freq_factor) {
      object_->refuse("high_freq_factor", sentence("must be at least low_freq_factor ", rule.low_freq_factor));
    }
    return llama3_frequencies(base_, head_.head_dim, rule);
  }

  void known(const char* key) { known_.insert(key); }

  double required(const char* key) {
    known(key);
    const auto found = object_->positive_number(key);
    if (!found) {
      fail_file(config_.path(), "rope_type \"", rule_, "\" needs ", object_->key(key), ", which is missing");
    }
    provenance_.add(key, found->value, found->source);
    return found->value;
  }

  double factor() {
    const double factor = required("factor");
    if (factor < 1) {
      findings_.warn("RP001", sentence("factor ", factor, " is below 1: it shortens the wavelengths instead of stretching them"));
    }
    return factor;
  }

  /// 0 where it is not given.
  double optional_positive(const char* key) {
    known(key);
    const auto found = object_->positive_number(key);
    if (!found) return 0;
    provenance_.add(key, found->value, found->source);
    return found->value;
  }

  /// transformers takes 0 and null for "not given" here.
  double optional_nonzero(const char* key, double otherwise) {
    known(key);
    const auto found = object_->number(key);
    if (!found || found->value == 0) return otherwise;
    if (found->value < 0) object_->refuse(key, "must be positive");
    provenance_.add(key, found->value, found->source);
    return found->value;
  }

  std::vector<double> divisors(const char* key) {
    known(key);
    auto found = object_->positive_numbers(key);
    if (!found) fail_file(config_.path(), "rope_type \"", rule_, "\" needs ", object_->key(key), ", which is missing");
    if (static_cast<std::int64_t>(found->value.size()) * 2 != head_.head_dim) {
      fail_file(config_.path(), object_->key(key), " must have one entry per pair, got ", found->value.size(), " for ",
                head_.head_dim / 2, " pairs");
    }
    provenance_.add(key, found->value, found->source);
    return std::move(found->value);
  }

  /// original_max_position_embeddings: in the rule's object, or (Phi-3 and its kin) at the top level.
  std::int64_t original_length() {
    constexpr const char* key = "original_max_position_embeddings";
    known(key);
    const auto inside = object_->count(key);
    const auto outside = config_.count(key);
    if (inside && outside && inside->value != outside->value) {
      fail_file(config_.path(), key, " must be the same wherever it stands, got ", outside->value, " and ", inside->value,
                " (", inside->source, ")");
    }
    if (!inside && !outside) {
      findings_.warn("RP003", sentence(key, " is missing: max_position_embeddings ", head_.max_position_embeddings.value,
                                " stands in for it, as in transformers, which is hardly intended"));
    }
    const auto& found = inside ? *inside : outside ? *outside : head_.max_position_embeddings;
    provenance_.add("original_length", found.value, found.source);
    return found.value;
  }

  void warn_about_lengths(const Yarn& rule) {
    const double implied = static_cast<double>(head_.max_position_embeddings.value) /
                           static_cast<double>(rule.original_max_position_embeddings);
    if (implied == rule.factor || implied == 1) return;
    findings_.warn("RP002", sentence("factor ", rule.factor, " does not match max_position_embeddings / original length = ",
                              implied, "; the factor counts"));
  }

  FrequencyRule with_amplitude(FrequencyRule rule, double given) {
    if (given == 0) {
      provenance_.add("amplitude", rule.at(0).amplitude,
                      "derived by the rule \"" + rule_ + "\" from the lengths and the factor");
    }
    return rule;
  }

  void warn_about_unread_keys() {
    if (object_ == nullptr) return;
    const json parameters = parameters_of_rule(*object_);
    for (const auto& [key, value] : parameters.items()) {
      if (!known_.contains(key)) {
        findings_.warn("RP005", sentence(object_->key(key.c_str()), " is no key of the rule \"", rule_, "\" and is not read"));
      }
    }
  }

  std::string rule_;
  const ConfigObject* object_;  // nullptr only for the default rule
  const ConfigObject& config_;
  const HeadFacts& head_;
  double base_;
  Provenance& provenance_;
  Findings& findings_;
  std::set<std::string> known_;
};

double read_base(const Spellings& spellings, const ConfigObject& config, const HeadFacts& head, Provenance& provenance, Findings& findings) {
  const auto found = agreed_number(spellings, config, "rope_theta");
  const double base = found ? found->value : head.default_base;
  provenance.add("base", base,
                 found ? found->source : sentence("default of ", head.model_type, " in transformers: ", head.default_base));
  if (base < 100) findings.warn("RP008", sentence("rope_theta ", base, " is far below every known model's"));
  return base;
}

std::string read_rule_name(const Spellings& spellings, const ConfigObject& config, Provenance& provenance) {
  const ConfigObject* object = spellings.chosen();
  const json name = object == nullptr ? json() : rule_name_in(*object);
  if (name.is_null()) {
    if (object != nullptr && !parameters_of_rule(*object).empty()) {
      fail_file(config.path(), object->key("rope_type"), " must name the rule that the other keys belong to, got nothing");
    }
    provenance.add("rule", "default", "no rope_scaling in the file: the plain rule");
    return "default";
  }
  provenance.add("rule", name, object->source(object->has("rope_type") ? "rope_type" : "type"));
  return name.get<std::string>();
}

void refuse_partial(const Spellings& spellings, const ConfigObject& config, const HeadFacts& head) {
  const auto share = agreed_number(spellings, config, "partial_rotary_factor");
  if (share && share->value != 1) {
    fail_unsupported(config.path(), "partial_rotary_factor must be 1 or missing for ", head.model_type,
                     ", whose code turns the whole head, got ", share->value);
  }
}

}  // namespace

FrequencyRule read_rope_parameters(const ConfigObject& config, const HeadFacts& head, Provenance& provenance, Findings& findings) {
  const Spellings spellings{config.object("rope_scaling"), config.object("rope_parameters")};
  if (spellings.scaling) refuse_nesting(*spellings.scaling);
  if (spellings.parameters) refuse_nesting(*spellings.parameters);
  refuse_disagreement(spellings);
  refuse_partial(spellings, config, head);

  const double base = read_base(spellings, config, head, provenance, findings);
  std::string rule = read_rule_name(spellings, config, provenance);
  try {
    return RuleReader(std::move(rule), spellings, config, head, base, provenance, findings).read();
  } catch (const Error& error) {
    // What the rule itself refuses is the file's fault here.
    if (error.code() != ErrorCode::invalid_argument) throw;
    fail_file(config.path(), error.what());
  }
}

}  // namespace rotary
