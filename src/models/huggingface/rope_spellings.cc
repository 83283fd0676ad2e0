#include "models/huggingface/rope_spellings.h"

#include <algorithm>
#include <utility>

namespace rotary::huggingface {

namespace {

using nlohmann::json;

bool is_nested(const ConfigObject& object) {
  return std::any_of(object.json().begin(), object.json().end(), [](const json& value) { return value.is_object(); });
}

/// Keys that name the rule, and those that both generations may also keep at the top level.
bool is_parameter_of_rule(const std::string& key) {
  return key != "type" && key != "rope_type" && key != "rope_theta" && key != "partial_rotary_factor";
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

}  // namespace

Spellings find_spellings(const Part& part, const RopeQuestion& question) { return SpellingsFinder(part, question).find(); }

bool is_scaled(const Family& family, const RopeQuestion& question) {
  const SortRope* rope = family.rope_of(question.sort);
  return question.scaled && (rope == nullptr || rope->scaled);
}

nlohmann::json parameters_of_rule(const ConfigObject& object) {
  nlohmann::json parameters = nlohmann::json::object();
  for (const auto& [key, value] : object.json().items()) {
    if (is_parameter_of_rule(key) && !value.is_null()) parameters[key] = value;
  }
  return parameters;
}

nlohmann::json rule_name_in(const ConfigObject& object, Findings& findings) {
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

}  // namespace rotary::huggingface
