#include "models/huggingface/rope_parameters.h"

#include <string>
#include <utility>

#include "models/blame.h"
#include "models/huggingface/rope_base.h"
#include "models/huggingface/rotary_width.h"

namespace rotary::huggingface {

RopeAnswer read_rope_parameters(const Part& part, const RopeQuestion& question, Provenance& provenance) {
  const Spellings spellings = find_spellings(part, question);
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
      rule == "proportional" ? question.head_dim : read_rotary_width(rule, spellings, part, question, provenance);
  std::string keys = base.source;
  if (spellings.chosen() != nullptr)
    keys += " and " + spellings.chosen()->source(spellings.chosen()->has("rope_type") ? "rope_type" : "type");
  blaming_file(part.config.path(), keys,
               [&] { read_rule(std::move(rule), spellings, part, question, answer, provenance); });
  answer.keys = spellings.scaling ? spellings.scaling : spellings.parameters;
  return answer;
}

}  // namespace rotary::huggingface
