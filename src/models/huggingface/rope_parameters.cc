#include "models/huggingface/rope_parameters.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "models/blame.h"

namespace rotary::huggingface {
namespace {

using nlohmann::json;

// ---- finding the object that counts -------------------------------------------------------------------------------

/// rope_scaling and rope_parameters, where the file has them, as they apply to one sort of layer.
struct Spellings {
  std::optional<ConfigObject> scaling;
  std::optional<ConfigObject> parameters;
  bool nested = false;        ///< by sort of layer
  bool of_class = false;      ///< the class's own, as the file has none
  bool switched_off = false;  ///< null for this sort

  /// The one that counts: rope_scaling wins.
  const ConfigObject* chosen() const { return scaling ? &*scaling : parameters ? &*parameters : nullptr; }
};

/// Whether a flat rope object is for this layer, too.
bool is_scaled(const Family& family, const RopeQuestion& question) {
  const SortRope* rope = family.rope_of(question.sort);
  return question.scaled && (rope == nullptr || rope->scaled);
}

bool is_nested(const ConfigObject& object) {
  return std::any_of(object.json().begin(), object.json().end(), [](const json& value) { return value.is_object(); });
}

/// Keys that name the rule, and those that both generations may also keep at the top level.
bool is_parameter_of_rule(const std::string& key) {
  return key != "type" && key != "rope_type" && key != "rope_theta" && key != "partial_rotary_factor";
}

json parameters_of_rule(const ConfigObject& object) {
  json parameters = json::object();
  for (const auto& [key, value] : object.json().items()) {
    if (is_parameter_of_rule(key) && !value.is_null()) parameters[key] = value;
  }
  return parameters;
}

json rule_name_in(const ConfigObject& object, Findings& findings) {
  const auto rope_type = object.text("rope_type");
  const auto type = object.text("type");
  if (rope_type && type && rope_type->value != type->value) {
    findings.tolerate("RP011", object.path(),
                      sentence(object.key("type"), " and ", object.key("rope_type"), " must name the same rule, got \"",
                               type->value, "\" and \"", rope_type->value, "\""),
                      "transformers reads rope_type");
  }
  if (rope_type) return rope_type->value;
  if (type) return type->value;
  return nullptr;
}

class SpellingsFinder {
 public:
  SpellingsFinder(const Part& part, const RopeQuestion& question) : part_(part), question_(question) {}

  Spellings find() {
    Spellings found;
    found.scaling = object_for_sort("rope_scaling", part_.config.object("rope_scaling"), found);
    found.parameters = object_for_sort("rope_parameters", part_.config.object("rope_parameters"), found);
    if (!found.chosen() && !found.nested && !part_.family.rope_parameters.empty()) take_those_of_class(found);
    // One flat object is for the layers that the family scales; it may still hold the base of the others.
    if (!found.nested && !is_scaled(part_.family, question_)) found.scaling.reset(), found.parameters.reset();
    refuse_disagreement(found);
    return found;
  }

 private:
  void take_those_of_class(Spellings& found) {
    const std::string of_class = part_.class_default("rope_parameters");
    found.of_class = true;
    found.parameters = object_for_sort(
        "rope_parameters", ConfigObject::of_class(part_.family.rope_parameters, part_.config.path(), "", of_class), found);
    part_.findings.warn("RP009", sentence("no rope_parameters in the file: those of the class ", part_.family.model_type,
                                          " are taken, ", part_.family.rope_parameters));
  }

  std::optional<ConfigObject> object_for_sort(const char* key, std::optional<ConfigObject> object, Spellings& found) {
    if (!object) return object;
    const SortRope* rope = part_.family.rope_of(question_.sort);
    const std::string sort(rope != nullptr && !rope->entry.empty() ? rope->entry : std::string_view(question_.sort));
    if (!is_nested(*object)) {
      if (part_.family.rope_by_sort) {
        fail_file(object->path(), key, " must have an entry for each sort of layer, as the code of ",
                  part_.family.model_type, " reads nothing else, got none for ", sort);
      }
      return object;
    }
    found.nested = true;
    if (object->is_null(sort)) {
      found.switched_off = true;
      return std::nullopt;
    }
    if (!object->json().contains(sort)) {
      fail_file(object->path(), key, " must have an entry for each sort of layer, got none for ", sort);
    }
    return object->object(sort);
  }

  void refuse_disagreement(const Spellings& found) {
    if (!found.scaling || !found.parameters) return;
    const json old_rule = rule_name_in(*found.scaling, part_.findings);
    const json new_rule = rule_name_in(*found.parameters, part_.findings);
    if (old_rule != new_rule || parameters_of_rule(*found.scaling) != parameters_of_rule(*found.parameters)) {
      part_.findings.tolerate("RP012", found.scaling->path(),
                              sentence("rope_scaling and rope_parameters must agree where both are given, got ",
                                       old_rule.dump(), " and ", new_rule.dump()),
                              "transformers reads rope_scaling");
    }
  }

  const Part& part_;
  const RopeQuestion& question_;
};

/// A value that may stand in either object and at the top level: the first one counts, and the others must be equal.
std::optional<Found<double>> agreed_number(const Spellings& spellings, const Part& part, const std::string& inner_key,
                                           const std::string& outer_key, const char* warning) {
  std::optional<Found<double>> agreed;
  const auto take = [&](const ConfigObject& object, const std::string& key) {
    auto found = object.positive_number(key);
    if (!found) return;
    if (agreed && agreed->value != found->value) {
      part.findings.tolerate(warning, object.path(),
                             sentence(outer_key, " must be the same wherever it stands, got ", found->value, " for ",
                                      object.key(key), " and ", agreed->value, " (", agreed->source, ")"),
                             "transformers reads the one inside");
    }
    if (!agreed) agreed = std::move(found);
  };
  // Beside parameters by sort, the top level is only a fallback.
  const auto take_outer = [&] {
    if (!outer_key.empty() && !(spellings.nested && agreed)) take(part.config, outer_key);
  };
  if (spellings.scaling) take(*spellings.scaling, inner_key), take_outer();
  if (spellings.parameters) take(*spellings.parameters, inner_key);
  if (!spellings.scaling) take_outer();
  return agreed;
}

// ---- base ---------------------------------------------------------------------------------------------------------

/// Where the code reads bases only by sort, and the file has none: those of the class.
Found<double> base_of_class_by_sort(const Part& part, const RopeQuestion& question, const std::string& key) {
  const SortRope* rope = part.family.rope_of(question.sort);
  const double base = rope != nullptr && rope->base != 0 ? rope->base : part.family.base;
  if (part.config.has(key)) {
    part.findings.warn("RP024", sentence(key, " at the top level is not read by the code of ", part.family.model_type,
                                         ", which takes a base for each sort of layer"));
  }
  part.findings.warn("RP009", sentence("the file has no base for ", question.sort, ": ", base, " is the default of ",
                                       part.family.model_type));
  return {base, part.class_default(sentence(base))};
}

Found<double> read_base(const Spellings& spellings, const Part& part, const RopeQuestion& question) {
  if (question.base_of_layer) return *question.base_of_layer;
  const Family& family = part.family;
  const SortRope* rope = family.rope_of(question.sort);
  const bool own_key = rope != nullptr && !rope->base_key.empty();
  const std::string key(own_key ? rope->base_key : family.base_key);
  // A base in one flat object is that of rope_theta, not of a sort with a key of its own.
  Spellings inner = spellings;
  if (!spellings.nested && own_key && rope->base_key != family.base_key) inner.scaling.reset(), inner.parameters.reset();
  if (!spellings.nested && !own_key && !is_scaled(family, question))
    inner.parameters = part.config.object("rope_parameters");
  if (family.rope_by_sort && !spellings.nested && !own_key) return base_of_class_by_sort(part, question, key);
  if (spellings.of_class && part.config.has(key)) {
    inner.parameters.reset();
    part.findings.warn("RP024", sentence(key,
                                         " of the file is taken, with the other rope_parameters of the class; "
                                         "transformers 5.24 ignores it where the file has no rope object"));
  }

  if (auto found = agreed_number(inner, part, "rope_theta", key, "RP012")) {
    if (family.base_is_ratio && found->source == part.config.source(key)) {
      found->value *= 10000;
      found->source += " * 10000";
    }
    return *found;
  }
  const double base = rope != nullptr && rope->base != 0 ? rope->base : family.base;
  if (!key.empty()) {
    part.findings.warn("RP009", sentence(key, " is not in the file: ", base, " is the default of ", family.model_type,
                                         question.sort == "full_attention" ? "" : " for " + question.sort));
    return {base, part.class_default(sentence(base))};
  }
  return {base, part.code(sentence("base ", base, ", which no key changes"))};
}

// ---- which channels ---------------------------------------------------------------------------------------------------

class SliceReader {
 public:
  SliceReader(std::string rule, const Spellings& spellings, const Part& part, const RopeQuestion& question,
              Provenance& provenance)
      : rule_(std::move(rule)), spellings_(spellings), part_(part), question_(question), provenance_(provenance) {}

  /// Channels that turn.
  std::int64_t read() {
    const Slice& slice = part_.family.slice;
    switch (slice.kind) {
      case Slice::Kind::mla: return taken(question_.mla_rotary, part_.config.source("qk_rope_head_dim"));
      case Slice::Kind::projected: return projected();
      case Slice::Kind::channels: return channels();
      case Slice::Kind::share:
      case Slice::Kind::whole: break;
    }
    const auto share = given_share();
    if (slice.kind == Slice::Kind::whole) return whole(share);
    return share ? part_of_head(share->value, share->source) : default_width();
  }

 private:
  const SortRope* rope() const { return part_.family.rope_of(question_.sort); }

  std::optional<Found<double>> given_share() const {
    if (question_.share_of_layer) return question_.share_of_layer;
    const std::string key =
        part_.family.slice.kind == Slice::Kind::share ? std::string(part_.family.slice.key) : "partial_rotary_factor";
    return agreed_number(spellings_, part_, "partial_rotary_factor", key, "RP017");
  }

  /// A share wins, as in transformers, but has to agree.
  std::int64_t channels() {
    const std::string key(part_.family.slice.key);
    const auto found = part_.config.count(key);
    if (found && (found->value % 2 != 0 || found->value > question_.head_dim)) {
      part_.config.refuse(key, sentence("must be even and at most head_dim ", question_.head_dim));
    }
    const auto share = given_share();
    if (share) {
      const std::int64_t width = part_of_head(share->value, share->source);
      if (found && found->value != width) {
        part_.findings.tolerate("RP017", part_.config.path(),
                                sentence(key, " must agree with partial_rotary_factor, got ", found->value, " and ",
                                         share->value, " of ", question_.head_dim, " (", share->source, ")"),
                                "transformers takes the factor");
      }
      return width;
    }
    if (found) return taken(found->value, found->source);
    if (part_.config.is_null(key) && part_.family.slice.otherwise != 0) part_.config.refuse(key, "must not be null");
    return default_width();
  }

  std::int64_t projected() {
    const auto projection = part_.config.count("projection_dim");
    const auto heads = part_.config.count("num_attention_heads");
    const std::int64_t width = std::max<std::int64_t>(
        32, (projection ? projection->value : 768) / (2 * (heads ? heads->value : part_.family.defaults.q_heads)));
    if (width % 2 != 0 || width > question_.head_dim) {
      part_.config.refuse("projection_dim",
                          sentence("/ (2 * num_attention_heads) must be even and at most head_dim ", question_.head_dim));
    }
    return taken(width, "max(32, projection_dim / (2 * num_attention_heads))");
  }

  std::int64_t whole(const std::optional<Found<double>>& share) {
    if (share && share->value != 1) {
      if (share->value > 1) refuse_share(*share);
      const std::string rule = sentence("partial_rotary_factor must be 1 or missing for ", part_.family.model_type,
                                        ", whose code turns the whole head, got ", share->value);
      // The other rules would make a table for a part of the head, on which that code then fails.
      if (!part_.findings.lenient() || rule_ != "default") fail_unsupported(part_.config.path(), rule);
      part_.findings.warn("RP025", rule + "; transformers does not read it with the plain rule");
    }
    return taken(question_.head_dim, part_.code("turns the whole head"));
  }

  std::int64_t default_width() {
    const double otherwise = rope() != nullptr && rope()->partial != 0 ? rope()->partial : part_.family.slice.otherwise;
    if (part_.family.slice.kind == Slice::Kind::channels) {
      const auto width = static_cast<std::int64_t>(otherwise);
      if (width == 0) return taken(question_.head_dim, part_.code("turns the whole head"));
      return taken(std::min(width, question_.head_dim), part_.class_default(sentence(width, " channels")));
    }
    return part_of_head(otherwise, part_.class_default(sentence("partial_rotary_factor ", otherwise)));
  }

  std::int64_t part_of_head(double share, const std::string& source) {
    if (share > 1) refuse_share({share, source});
    const double channels = static_cast<double>(question_.head_dim) * share;
    const auto width = static_cast<std::int64_t>(channels);
    provenance_.add("partial_rotary_factor", share, source);
    if (width < 2) {
      fail_file(part_.config.path(), "partial_rotary_factor must leave at least two channels, got ", share, " (", source,
                ") of head_dim ", question_.head_dim);
    }
    if (width % 2 != 0) {
      part_.findings.tolerate("RP013", part_.config.path(),
                              sentence("head_dim * partial_rotary_factor must be even, got int(", question_.head_dim, " * ",
                                       share, ") = ", width, " (", source, ")"),
                              sentence("transformers turns ", width + 1, " channels with the exponent of ", width));
    }
    return taken(width, sentence("floor(head_dim * ", share, ")"));
  }

  [[noreturn]] void refuse_share(const Found<double>& share) const {
    fail_file(part_.config.path(), "partial_rotary_factor must be at most 1, as no more than the head can turn, got ",
              share.value, " (", share.source, ")");
  }

  std::int64_t taken(std::int64_t width, const std::string& source) {
    provenance_.add("rotary_dim", width, source);
    return width;
  }

  std::string rule_;
  const Spellings& spellings_;
  const Part& part_;
  const RopeQuestion& question_;
  Provenance& provenance_;
};

// ---- the rule -----------------------------------------------------------------------------------------------------------

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

std::string read_rule_name(const Spellings& spellings, const Part& part, const RopeQuestion& question,
                           Provenance& provenance) {
  const ConfigObject* object = spellings.chosen();
  const json name = object == nullptr ? json() : rule_name_in(*object, part.findings);
  if (!name.is_null()) {
    provenance.add("rule", name, object->source(object->has("rope_type") ? "rope_type" : "type"));
    return name.get<std::string>();
  }
  // Keys without a rule belong to one that is missing, unless they are those of the axes.
  if (object != nullptr) {
    const json parameters = parameters_of_rule(*object);
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

}  // namespace

RopeAnswer read_rope_parameters(const Part& part, const RopeQuestion& question, Provenance& provenance) {
  const Spellings spellings = SpellingsFinder(part, question).find();
  RopeAnswer answer;
  if (spellings.switched_off) {
    answer.rotates = false;
    return answer;
  }
  std::string rule = read_rule_name(spellings, part, question, provenance);
  const Found<double> base = read_base(spellings, part, question);
  answer.base = base.value;
  provenance.add("base", base);
  if (base.value < 100 && part.family.axes < Axes::vision_rows) {
    part.findings.warn("RP008", sentence(part.family.base_key, " ", base.value, " is far below every known text model's"));
  }
  // The share of a proportional rule is of its frequencies, not of the head.
  answer.rotary_dim =
      rule == "proportional" ? question.head_dim : SliceReader(rule, spellings, part, question, provenance).read();
  std::string keys = base.source;
  if (spellings.chosen() != nullptr)
    keys += " and " + spellings.chosen()->source(spellings.chosen()->has("rope_type") ? "rope_type" : "type");
  blaming_file(part.config.path(), keys,
               [&] { RuleReader(std::move(rule), spellings, part, question, answer, provenance).read(); });
  answer.keys = spellings.scaling ? spellings.scaling : spellings.parameters;
  return answer;
}

}  // namespace rotary::huggingface
