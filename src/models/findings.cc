#include "models/findings.h"

#include <cassert>
#include <utility>

#include "base/fail.h"
#include "base/text.h"
#include "rotary/warning.hpp"

namespace rotary {

void Findings::warn(const std::string& id, const std::string& text) {
  assert(find_warning_kind(id.c_str()) != nullptr);
  std::string line = one_line(text);
  if (known_.emplace(id, line).second) entries_.push_back({id, std::move(line)});
}

void Findings::tolerate(const std::string& id, const std::string& path, const std::string& rule,
                        const std::string& what_loaders_do) {
  if (!lenient_) fail_file(path, rule, " (lenient reading: ", what_loaders_do, ")");
  warn(id, rule + "; " + what_loaders_do);
}

}  // namespace rotary
