#include <utility>

#include "rotary/frequencies.hpp"

namespace rotary {

// at(0) checks every option of a rule; some only matter beyond the trained length, hence the second look.
FrequencyRule::FrequencyRule(Frequencies fixed) : fixed_(std::move(fixed)) {}
FrequencyRule::FrequencyRule(DynamicNtk rule) : kind_(Kind::dynamic_ntk), dynamic_ntk_(rule) { at(0); }
FrequencyRule::FrequencyRule(QwenDynamicNtk rule) : kind_(Kind::qwen_dynamic_ntk), qwen_dynamic_ntk_(rule) { at(0); }
FrequencyRule::FrequencyRule(DynamicYarn rule) : kind_(Kind::dynamic_yarn), dynamic_yarn_(rule) { at(0); }
FrequencyRule::FrequencyRule(LongRope rule) : kind_(Kind::long_rope), long_rope_(std::move(rule)) {
  at(0);
  at(long_rope_.original_max_position_embeddings + 1);
}

Frequencies FrequencyRule::at(std::int64_t length) const {
  switch (kind_) {
    case Kind::fixed: return fixed_;
    case Kind::dynamic_ntk: return dynamic_ntk_.at(length);
    case Kind::qwen_dynamic_ntk: return qwen_dynamic_ntk_.at(length);
    case Kind::dynamic_yarn: return dynamic_yarn_.at(length);
    case Kind::long_rope: return long_rope_.at(length);
  }
  return fixed_;
}

}  // namespace rotary
