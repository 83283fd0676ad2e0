// Typed, checked reading of one JSON object of a config file. A number must be a JSON number: "10000" is refused, as are
// zero, negatives and fractions where they make no sense, each with the key's name. Lenient reading takes "10000" for 10000,
// and an object that is written inside a string for that object.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "models/findings.h"
#include "models/provenance.h"

namespace rotary {

class ConfigObject {
 public:
  /// `path` is the file's; `prefix` names the object within it: "rope_scaling." or "". The object must outlive this.
  ConfigObject(const nlohmann::json& object, std::string path, std::string prefix = "");

  /// What a model's class holds where its file has nothing, as JSON text. `origin` stands in sources instead of the file.
  static ConfigObject of_class(std::string_view text, std::string path, std::string prefix, std::string origin);

  /// Finds what lenient reading lets pass. They must outlive this and the objects inside.
  void tolerate_with(Findings& findings) { findings_ = &findings; }

  /// Other names for keys of this object: "num_hidden_layers=n_layer hidden_size=n_embd". Where both names are there, the
  /// left one counts.
  void add_aliases(std::string_view list);

  /// All functions below take a path of keys, too: "attn_config.rope_theta".
  /// Whether the key is there and not null.
  bool has(const std::string& key) const;
  bool is_null(const std::string& key) const;        ///< there, and null
  std::string source(const std::string& key) const;  ///< "config.json: rope_scaling.factor"
  std::string key(const std::string& key) const { return prefix_ + spelled(key); }
  const std::string& path() const { return path_; }
  const nlohmann::json& json() const { return *object_; }
  /// What stands at a key that is there.
  const nlohmann::json& value(const std::string& key) const { return *find(key); }

  /// Nothing where the key is missing or null; Error (invalid_file) where its value is of the wrong kind.
  std::optional<Found<double>> number(const std::string& key) const;           ///< finite
  std::optional<Found<double>> positive_number(const std::string& key) const;  ///< finite and above 0
  std::optional<Found<std::int64_t>> count(const std::string& key) const;  ///< a whole number from 1 to 2^31; 4096.0 is one
  std::optional<Found<std::int64_t>> whole_number(const std::string& key) const;  ///< the same from 0
  std::optional<Found<bool>> boolean(const std::string& key) const;
  std::optional<Found<std::string>> text(const std::string& key) const;
  std::optional<Found<std::vector<double>>> positive_numbers(const std::string& key) const;
  /// Whole numbers from 0 to 2^31.
  std::optional<Found<std::vector<std::int64_t>>> whole_numbers(const std::string& key) const;
  std::optional<Found<std::vector<std::string>>> texts(const std::string& key) const;

  /// An object inside this one; nothing where it is missing, null or empty.
  std::optional<ConfigObject> object(const std::string& key) const;

  /// Throws Error (invalid_file): "config.json: rope_theta must be a positive number, got \"10000\"".
  [[noreturn]] void refuse(const std::string& key, const std::string& rule) const;

 private:
  const nlohmann::json* find(const std::string& key) const;
  /// What find() gives; of a number inside a string, where that is tolerated, the number.
  std::optional<nlohmann::json> find_number(const std::string& key) const;
  std::optional<ConfigObject> object_in_string(const std::string& key) const;
  /// The name under which the file has it: the alias, where only that is there.
  std::string spelled(const std::string& key) const;

  std::shared_ptr<const nlohmann::json> owned_;  // of_class only
  const nlohmann::json* object_;
  std::string path_;
  std::string prefix_;
  std::string origin_;
  std::vector<std::pair<std::string, std::string>> aliases_;
  Findings* findings_ = nullptr;
};

/// The last part of a path.
std::string file_name(const std::string& path);

}  // namespace rotary
