// One part of a config (the whole file, or a text_config inside it) on its way to a ModelDescription.
#pragma once

#include <string>

#include "base/fail.h"
#include "models/config_object.h"
#include "models/findings.h"
#include "models/huggingface/family.h"

namespace rotary::huggingface {

struct Part {
  const ConfigObject& config;
  const Family& family;
  Findings& findings;
  bool nested;  ///< a part of a composite file, where transformers leaves out class defaults when it saves

  /// "code of llama in transformers: what".
  std::string code(const std::string& what) const { return sentence("code of ", family.model_type, where(), ": ", what); }
  std::string class_default(const std::string& value) const {
    return sentence("default of ", family.model_type, where(), ": ", value);
  }

 private:
  std::string where() const {
    return family.source.starts_with("transformers") ? " in transformers" : sentence(" (", family.source, ")");
  }
};

}  // namespace rotary::huggingface
