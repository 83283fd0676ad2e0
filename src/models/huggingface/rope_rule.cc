#include "models/huggingface/rope_rule.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/text.h"

namespace rotary::huggingface {

namespace {

using nlohmann::json;

/// transformers' way with an odd width: one pair more than fits, by the exponent of the odd width.
Frequencies default_of_odd_width(double base, std::int64_t width) {
  Frequencies frequencies;
  for (std::int64_t i = 0; i < width; i += 2) {
    frequencies.inv_freq.push_back(std::pow(base, -static_cast<double>(i) / static_cast<double>(width)));
  }
  return frequencies;
}

/// Reads the keys of one rule, and remembers which of them it knows.
class RuleReader {
 public:
  RuleReader(std::string rule, const Spellings& spellings, const Part& part, const RopeQuestion& question,
             RopeAnswer& answer, Provenance& provenance)
      : rule_(std::move(rule)),
        object_(spellings.chosen()),
        nested_(spellings.nested),
        part_(part),
        question_(question),
        answer_(answer),
        provenance_(provenance) {}

  void read() {
    answer_.rule = dispatch();
    answer_.rule_name = rule_;
    if (!answer_.rule.depends_on_length()) answer_.logit_scale = answer_.rule.at(0).logit_scale;
    if (part_.family.scale == Scale::mla && rule_ != "default" && rule_ != "yarn") scale_of_other_rules();
    warn_about_unread_keys();
  }

 private:
  double base() const { return answer_.base; }
  std::int64_t width() const { return answer_.rotary_dim; }

  /// DeepSeek's code applies mscale_all_dim with every rule.
  void scale_of_other_rules() {
    const double mscale_all_dim = optional_nonzero("mscale_all_dim", 0);
    if (mscale_all_dim == 0) return;
    const double mscale = 1 + 0.1 * mscale_all_dim * std::log(std::max(1.0, required("factor")));
    answer_.logit_scale = mscale * mscale;
  }

  void refuse_rules_that_the_code_lacks() {
    const bool known = !part_.family.plain_rule_only && !part_.family.yarn_is_longrope;
    if (known || rule_ == "default" || (rule_ == "longrope" && part_.family.yarn_is_longrope)) return;
    if (part_.findings.lenient() && part_.family.plain_rule_only) {
      part_.findings.warn("RP025", sentence("rope_type \"", rule_, "\" is not a rule of ", part_.family.model_type,
                                            "; its code does not read it and turns by the plain rule"));
      rule_ = "default";
      return;
    }
    fail_unsupported(part_.config.path(), "rope_type \"", rule_, "\" is not a rule of ", part_.family.model_type,
                     ", whose code knows only ", part_.family.yarn_is_longrope ? "default and longrope" : "the plain one");
  }

  FrequencyRule dispatch() {
    rename();
    refuse_rules_that_the_code_lacks();
    if (answer_.rotary_dim % 2 != 0) return odd_width();
    if (rule_ == "default" && !part_.family.prompt_ntk_flag.empty()) return prompt_ntk();
    if (rule_ == "default") return default_frequencies(base(), width());
    if (rule_ == "linear") return linear_frequencies(base(), width(), factor());
    if (rule_ == "dynamic") return dynamic();
    if (rule_ == "ntk_alpha") return ntk_alpha();
    if (rule_ == "yarn") return yarn();
    if (rule_ == "longrope") return longrope();
    if (rule_ == "llama3") return llama3();
    if (rule_ == "proportional") return proportional();
    fail_unsupported(part_.config.path(), "rope_type \"", rule_, "\" is not a rule of ", part_.family.model_type,
                     " (default, linear, dynamic, yarn, longrope, llama3, proportional)");
  }

  /// Other names that files use for these rules.
  void rename() {
    if (rule_ == "su") rule_ = "longrope";
    if (rule_ == "mrope" || rule_ == "axial") rule_ = "default";
    if (rule_ == "deepseek_yarn") rule_ = "yarn";
    if (rule_ == "telechat3-yarn") yarn_amplitude_slope_ = 0.07, rule_ = "yarn";
    if (rule_ == "yarn" && part_.family.yarn_is_longrope) rule_ = "longrope";
    if (part_.family.alpha_is_ntk && (rule_ == "dynamic" || rule_ == "xdrope")) {
      const bool alpha = object_ != nullptr && object_->number("alpha").value_or(Found<double>{0, ""}).value != 0;
      if (alpha) rule_ = "ntk_alpha";
    }
  }

  FrequencyRule odd_width() {
    if (rule_ != "default") {
      fail_file(part_.config.path(), "rope_type \"", rule_, "\" needs an even rotary width, got ", answer_.rotary_dim);
    }
    return default_of_odd_width(base(), answer_.rotary_dim++);
  }

  FrequencyRule dynamic() {
    const auto& length = question_.max_position_embeddings;
    DynamicNtk rule{base(), width(), factor(), length.value};
    answer_.original_max_position_embeddings = length.value;
    provenance_.add("trained_length", length);
    part_.findings.warn("RP014",
                        sentence("rope_type dynamic: beyond ", length.value, " tokens the base grows with the length"));
    return rule;
  }

  /// Hunyuan's own files hold yarn's keys beside alpha, at values that change nothing.
  FrequencyRule ntk_alpha() {
    const std::pair<const char*, double> beside[] = {
        {"beta_fast", 32}, {"beta_slow", 1}, {"factor", 1}, {"mscale", 1}, {"mscale_all_dim", 1}};
    for (const auto& [key, value] : beside) {
      const auto found = object_->number(key);
      if (found && found->value == value) known(key);
    }
    return ntk_frequencies(base(), width(), required("alpha"));
  }

  FrequencyRule prompt_ntk() {
    const std::string flag(part_.family.prompt_ntk_flag);
    const auto used = part_.config.boolean(flag);
    if (!used) part_.config.refuse(flag, "must be given, as releases of this family disagree about its default");
    provenance_.add(flag, *used);
    if (!used->value) return default_frequencies(base(), width());
    const auto length = part_.config.count("seq_length");
    if (!length) part_.config.refuse("seq_length", sentence("must be given where ", flag, " is true"));
    provenance_.add("trained_length", *length);
    rule_ = flag;
    answer_.original_max_position_embeddings = length->value;
    part_.findings.warn("RP014", sentence(flag, ": prompts longer than ", length->value, " tokens get another base"));
    return QwenDynamicNtk{base(), width(), length->value};
  }

  FrequencyRule yarn() {
    Yarn rule;
    rule.original_max_position_embeddings = original_length();
    if (object_->is_null("factor")) {
      known("factor");
      rule.factor = static_cast<double>(question_.max_position_embeddings.value) /
                    static_cast<double>(rule.original_max_position_embeddings);
      provenance_.add("factor", rule.factor, "max_position_embeddings / original length, as the factor is null");
    } else {
      rule.factor = factor();
      warn_about_lengths(rule);
    }
    rule.beta_fast = optional_nonzero("beta_fast", rule.beta_fast);
    rule.beta_slow = optional_nonzero("beta_slow", rule.beta_slow);
    if (rule.beta_fast < rule.beta_slow) {
      part_.findings.warn("RP004", sentence("beta_fast ", rule.beta_fast, " is smaller than beta_slow ", rule.beta_slow,
                                            ": the pairs that should be kept are divided and the other way round"));
    }
    rule.attention_factor = attention_factor();
    if (rule.attention_factor == 0 && part_.family.yarn_amplitude_is_1) rule.attention_factor = 1;
    if (yarn_amplitude_slope_ != 0) rule.attention_factor = yarn_mscale(rule.factor, 10 * yarn_amplitude_slope_);
    rule.mscale = optional_nonzero("mscale", 0);
    rule.mscale_all_dim = optional_nonzero("mscale_all_dim", 0);
    known("truncate");
    if (const auto truncate = object_->boolean("truncate")) read_truncate(*truncate, rule);
    return with_amplitude(yarn_frequencies(base(), width(), rule), rule.attention_factor);
  }

  void read_truncate(const Found<bool>& truncate, Yarn& rule) {
    if (nested_ && !truncate.value) {
      part_.findings.warn("RP016", sentence(object_->key("truncate"),
                                            " is false, but transformers does not look for it there and rounds the range: "
                                            "so does this reading"));
      return;
    }
    rule.truncate = truncate.value;
    provenance_.add("truncate", truncate);
  }

  FrequencyRule longrope() {
    LongRope rule;
    rule.base = base();
    rule.rotary_dim = width();
    rule.original_max_position_embeddings = original_length();
    rule.max_position_embeddings = question_.max_position_embeddings.value;
    rule.short_factor = divisors("short_factor");
    rule.long_factor = divisors("long_factor");
    rule.factor = optional_positive("factor");
    rule.attention_factor = attention_factor();
    rule.short_mscale = optional_positive("short_mscale");
    rule.long_mscale = optional_positive("long_mscale");
    part_.findings.warn("RP015", sentence("rope_type longrope: long_factor from ",
                                          rule.original_max_position_embeddings + 1, " tokens on"));
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
    return llama3_frequencies(base(), width(), rule);
  }

  /// The share is read here: of the frequencies, not of the head.
  FrequencyRule proportional() {
    Proportional rule;
    const SortRope* rope = part_.family.rope_of(question_.sort);
    if (rope != nullptr && rope->partial != 0) rule.partial_rotary_factor = rope->partial;
    if (object_ != nullptr) {
      rule.factor = optional_nonzero("factor", 1);
      if (const auto share = object_->positive_number("partial_rotary_factor")) {
        rule.partial_rotary_factor = share->value;
        provenance_.add("partial_rotary_factor", *share);
      }
    }
    provenance_.add("rotary_dim", question_.head_dim, "rope_type proportional turns pairs over the whole head");
    answer_.rotary_dim = question_.head_dim;
    return proportional_frequencies(base(), question_.head_dim, rule);
  }

  void known(const std::string& key) { known_.insert(key); }

  double required(const std::string& key) {
    known(key);
    const auto found = object_ != nullptr ? object_->positive_number(key) : std::nullopt;
    if (!found) {
      fail_file(part_.config.path(), "rope_type \"", rule_, "\" needs ", object_ != nullptr ? object_->key(key) : key,
                ", which is missing");
    }
    provenance_.add(key, *found);
    return found->value;
  }

  double factor() {
    const double factor = required("factor");
    if (factor < 1) {
      part_.findings.warn("RP001", sentence("factor ", factor,
                                            " is below 1: it shortens the wavelengths instead of stretching "
                                            "them"));
    }
    return factor;
  }

  /// 0 where it is not given.
  double optional_positive(const std::string& key) {
    known(key);
    const auto found = object_->positive_number(key);
    if (!found) return 0;
    provenance_.add(key, *found);
    return found->value;
  }

  /// transformers takes 0 and null for "not given" here.
  double optional_nonzero(const std::string& key, double otherwise) {
    known(key);
    const auto found = object_->number(key);
    if (!found || found->value == 0) return otherwise;
    if (found->value < 0) object_->refuse(key, "must be positive");
    provenance_.add(key, *found);
    return found->value;
  }

  double attention_factor() {
    const double given = optional_positive("attention_factor");
    if (given != 0) {
      part_.findings.warn("RP018", sentence(object_->key("attention_factor"), " ", given,
                                            " is multiplied into cos and sin; not every system reads it"));
    }
    return given;
  }

  std::vector<double> divisors(const std::string& key) {
    known(key);
    auto found = object_->positive_numbers(key);
    if (!found) {
      fail_file(part_.config.path(), "rope_type \"", rule_, "\" needs ", object_->key(key), ", which is missing");
    }
    if (static_cast<std::int64_t>(found->value.size()) * 2 != width()) {
      fail_file(part_.config.path(), object_->key(key), " must have one entry per pair, got ", found->value.size(), " for ",
                width() / 2, " pairs");
    }
    provenance_.add(key, *found);
    return std::move(found->value);
  }

  /// original_max_position_embeddings: in the rule's object, or (Phi-3 and its kin) at the top level.
  std::int64_t original_length() {
    const std::string key = "original_max_position_embeddings";
    known(key);
    const auto inside = object_->count(key);
    const auto outside = nested_ ? std::nullopt : part_.config.count(key);
    if (inside && outside && inside->value != outside->value) {
      part_.findings.tolerate("RP012", part_.config.path(),
                              sentence(key, " must be the same wherever it stands, got ", outside->value, " and ",
                                       inside->value, " (", inside->source, ")"),
                              "transformers reads the outer one");
    }
    if (!inside && !outside) {
      part_.findings.warn("RP003",
                          sentence(key, " is missing: max_position_embeddings ", question_.max_position_embeddings.value,
                                   " stands in for it, as in transformers, which is hardly intended"));
    }
    const auto& found = outside ? *outside : inside ? *inside : question_.max_position_embeddings;
    provenance_.add(key, found);
    answer_.original_max_position_embeddings = found.value;
    return found.value;
  }

  void warn_about_lengths(const Yarn& rule) {
    const double implied = static_cast<double>(question_.max_position_embeddings.value) /
                           static_cast<double>(rule.original_max_position_embeddings);
    if (implied == rule.factor || implied == 1) return;
    part_.findings.warn(
        "RP002", sentence("factor ", rule.factor, " does not match max_position_embeddings / original length = ", implied,
                          "; the factor counts"));
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
    // Read for other things than the rule, and transformers' own copies.
    static const std::set<std::string> elsewhere{"finetuned", "rope_theta", "max_position_embeddings",
                                                 "original_max_position_embeddings"};
    static const std::set<std::string> of_axes{"mrope_section", "mrope_interleaved", "xdrope_section"};
    if (part_.family.axes != Axes::one) known_.insert(of_axes.begin(), of_axes.end());
    if (part_.family.temperature == Temperature::ministral) known("llama_4_scaling_beta");
    const json parameters = parameters_of_rule(*object_);
    std::vector<std::string> unread;
    for (const auto& [key, value] : parameters.items()) {
      if (!known_.contains(key) && !elsewhere.contains(key)) unread.push_back(object_->key(key));
    }
    if (unread.empty()) return;
    part_.findings.warn("RP005", sentence(in_words(unread), unread.size() == 1 ? " is no key" : " are no keys",
                                          " of the rule ", in_quotes(rule_), " and not read"));
  }

  std::string rule_;
  const ConfigObject* object_;  // nullptr only for rules that need no keys
  bool nested_;
  const Part& part_;
  const RopeQuestion& question_;
  RopeAnswer& answer_;
  Provenance& provenance_;
  std::set<std::string> known_;
  double yarn_amplitude_slope_ = 0;  // TeleChat-3: 0.07 ln(factor) + 1; others have 0.1
};

}  // namespace

std::string read_rule_name(const Spellings& spellings, const Part& part, const RopeQuestion& question,
                           Provenance& provenance) {
  const ConfigObject* object = spellings.chosen();
  const nlohmann::json name = object == nullptr ? nlohmann::json() : rule_name_in(*object, part.findings);
  if (!name.is_null()) {
    provenance.add("rule", name, object->source(object->has("rope_type") ? "rope_type" : "type"));
    return name.get<std::string>();
  }
  // Keys without a rule belong to one that is missing, unless they are those of the axes.
  if (object != nullptr) {
    const nlohmann::json parameters = parameters_of_rule(*object);
    for (const auto& [key, value] : parameters.items()) {
      if (key == "factor" || key.ends_with("_factor") || key.starts_with("beta_")) {
        fail_file(part.config.path(), object->key("rope_type"),
                  " must name the rule that the other keys belong to, got nothing");
      }
    }
  }
  const SortRope* rope = part.family.rope_of(question.sort);
  if (rope != nullptr && !rope->rule.empty() && part.config.object("rope_parameters") == std::nullopt &&
      part.config.object("rope_scaling") == std::nullopt) {
    provenance.add("rule", rope->rule, part.class_default(std::string(rope->rule)));
    return std::string(rope->rule);
  }
  provenance.add(
      "rule", "default",
      object == nullptr ? "no rope_scaling in the file: the plain rule" : "no rope_type in the file: the plain rule");
  return "default";
}

void read_rule(std::string rule, const Spellings& spellings, const Part& part, const RopeQuestion& question,
               RopeAnswer& answer, Provenance& provenance) {
  RuleReader(std::move(rule), spellings, part, question, answer, provenance).read();
}

}  // namespace rotary::huggingface
