// Typed, checked reading of one JSON object of a config file. A number must be a JSON number: "10000" is refused, as are
// zero, negatives and fractions where they make no sense, each with the key's name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "models/provenance.h"

namespace rotary {

class ConfigObject {
 public:
  /// `path` is the file's; `prefix` names the object within it: "rope_scaling." or "".
  ConfigObject(const nlohmann::json& object, std::string path, std::string prefix = "");

  /// Whether the key is there and not null.
  bool has(const char* key) const;
  std::string source(const char* key) const;  ///< "config.json: rope_scaling.factor"
  std::string key(const char* key) const { return prefix_ + key; }
  const std::string& path() const { return path_; }
  const nlohmann::json& json() const { return object_; }

  /// Nothing where the key is missing or null; Error (invalid_file) where its value is of the wrong kind.
  std::optional<Found<double>> number(const char* key) const;           ///< finite
  std::optional<Found<double>> positive_number(const char* key) const;  ///< finite and above 0
  std::optional<Found<std::int64_t>> count(const char* key) const;      ///< a whole number from 1 to 2^31; 4096.0 is one
  std::optional<Found<bool>> boolean(const char* key) const;
  std::optional<Found<std::string>> text(const char* key) const;
  std::optional<Found<std::vector<double>>> positive_numbers(const char* key) const;

  /// An object inside this one; nothing where it is missing, null or empty.
  std::optional<ConfigObject> object(const char* key) const;

  /// Throws Error (invalid_file): "config.json: rope_theta must be a positive number, got \"10000\"".
  [[noreturn]] void refuse(const char* key, const std::string& rule) const;

 private:
  const nlohmann::json* find(const char* key) const;

  const nlohmann::json& object_;
  std::string path_;
  std::string prefix_;
};

/// The last part of a path.
std::string file_name(const std::string& path);

}  // namespace rotary
