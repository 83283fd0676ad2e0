// The rule that a rope object names, from its keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "models/huggingface/rope_spellings.h"
#include "rotary/frequencies.hpp"

namespace rotary::huggingface {

struct RopeAnswer {
  bool rotates = true;  ///< false where the file has null for this sort
  std::string rule_name;
  FrequencyRule rule;
  std::int64_t rotary_dim = 0;
  std::int64_t original_max_position_embeddings = 0;
  double base = 0;
  double logit_scale = 1;            ///< YaRN's mscale_all_dim squared, for Scale::mla
  std::optional<ConfigObject> keys;  ///< the object with the rule's keys, where there is one
};

/// The rule's name, as the file or the class has it.
std::string read_rule_name(const Spellings& spellings, const Part& part, const RopeQuestion& question,
                           Provenance& provenance);

/// Fills in the rule of an answer whose base and width are known.
void read_rule(std::string rule, const Spellings& spellings, const Part& part, const RopeQuestion& question,
               RopeAnswer& answer, Provenance& provenance);

}  // namespace rotary::huggingface
