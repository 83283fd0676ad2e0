// Collects where every value came from, and what is odd about them.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "rotary/model.hpp"

namespace rotary {

class Provenance {
 public:
  void add(const char* name, const nlohmann::json& value, const std::string& source) {
    values_.push_back({keep(name), keep(value.dump()), keep(source)});
  }
  void warn(const std::string& sentence) { warnings_.push_back(keep(sentence)); }

  const std::vector<ValueSource>& values() const { return values_; }
  const std::vector<const char*>& warnings() const { return warnings_; }

 private:
  const char* keep(std::string text) { return texts_.emplace_back(std::move(text)).c_str(); }

  std::deque<std::string> texts_;  // its strings do not move as it grows
  std::vector<ValueSource> values_;
  std::vector<const char*> warnings_;
};

}  // namespace rotary
