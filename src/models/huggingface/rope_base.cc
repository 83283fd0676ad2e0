#include "models/huggingface/rope_base.h"

#include <string>

namespace rotary::huggingface {

namespace {

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

}  // namespace

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

}  // namespace rotary::huggingface
