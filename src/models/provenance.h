// Where the values of one layer came from.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace rotary {

/// What a file says, and where: {1e6, "config.json: rope_theta"}.
template <class T>
struct Found {
  T value;
  std::string source;
};

class Provenance {
 public:
  struct Entry {
    std::string name;
    std::string value;  // JSON
    std::string source;
  };

  /// The last word on a name counts; it keeps the place of the first.
  void add(const std::string& name, const nlohmann::json& value, const std::string& source) {
    std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    for (Entry& entry : entries_) {
      if (entry.name == name) {
        entry = {name, std::move(text), source};
        return;
      }
    }
    entries_.push_back({name, std::move(text), source});
  }
  template <class T>
  void add(const std::string& name, const Found<T>& found) {
    add(name, found.value, found.source);
  }

  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

}  // namespace rotary
