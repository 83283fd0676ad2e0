#include "models/config_object.h"

#include <cmath>
#include <utility>

#include "base/fail.h"

namespace rotary {

std::string file_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

ConfigObject::ConfigObject(const nlohmann::json& object, std::string path, std::string prefix)
    : object_(object), path_(std::move(path)), prefix_(std::move(prefix)) {}

const nlohmann::json* ConfigObject::find(const char* key) const {
  const auto it = object_.find(key);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

bool ConfigObject::has(const char* key) const { return find(key) != nullptr; }

std::string ConfigObject::source(const char* key) const { return file_name(path_) + ": " + prefix_ + key; }

void ConfigObject::refuse(const char* key, const std::string& rule) const {
  std::string got =
      object_.contains(key) ? object_.at(key).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) : "nothing";
  constexpr std::size_t enough = 60;
  if (got.size() > enough) got = got.substr(0, enough) + "...";
  fail_file(path_, prefix_, key, " ", rule, ", got ", got);
}

std::optional<Found<double>> ConfigObject::number(const char* key) const {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>())) refuse(key, "must be a finite number");
  return Found<double>{value->get<double>(), source(key)};
}

std::optional<Found<double>> ConfigObject::positive_number(const char* key) const {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>()) || value->get<double>() <= 0) {
    refuse(key, "must be a positive number");
  }
  return Found<double>{value->get<double>(), source(key)};
}

std::optional<Found<std::int64_t>> ConfigObject::count(const char* key) const {
  constexpr double most = 2147483648.0;
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : 0;
  if (!(number >= 1 && number <= most) || number != std::floor(number)) {
    refuse(key, "must be a whole number from 1 to 2147483648");
  }
  return Found<std::int64_t>{static_cast<std::int64_t>(number), source(key)};
}

std::optional<Found<bool>> ConfigObject::boolean(const char* key) const {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse(key, "must be true or false");
  return Found<bool>{value->get<bool>(), source(key)};
}

std::optional<Found<std::string>> ConfigObject::text(const char* key) const {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse(key, "must be a string");
  return Found<std::string>{value->get<std::string>(), source(key)};
}

std::optional<Found<std::vector<double>>> ConfigObject::positive_numbers(const char* key) const {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) refuse(key, "must be a list of positive numbers");
  Found<std::vector<double>> found{{}, source(key)};
  for (const auto& entry : *value) {
    if (!entry.is_number() || !std::isfinite(entry.get<double>()) || entry.get<double>() <= 0) {
      fail_file(path_, prefix_, key, " must hold positive numbers, got ", entry.dump(), " in place ", found.value.size());
    }
    found.value.push_back(entry.get<double>());
  }
  return found;
}

std::optional<ConfigObject> ConfigObject::object(const char* key) const {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) refuse(key, "must be an object, not an object written inside a string");
  if (!value->is_object()) refuse(key, "must be an object");
  if (value->empty()) return std::nullopt;
  return ConfigObject(*value, path_, prefix_ + key + ".");
}

}  // namespace rotary
