#include "models/config_object.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/fail.h"
#include "formats/json.h"
#include "models/word_pairs.h"

namespace rotary {

std::string file_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

ConfigObject::ConfigObject(const nlohmann::json& object, std::string path, std::string prefix)
    : object_(&object), path_(std::move(path)), prefix_(std::move(prefix)), origin_(file_name(path_)) {}

ConfigObject ConfigObject::of_class(std::string_view text, std::string path, std::string prefix, std::string origin) {
  const auto object = std::make_shared<const nlohmann::json>(nlohmann::json::parse(text));
  ConfigObject result(*object, std::move(path), std::move(prefix));
  result.owned_ = object;
  result.origin_ = std::move(origin);
  return result;
}

void ConfigObject::add_aliases(std::string_view list) {
  for (auto& pair : word_pairs(list)) aliases_.push_back(std::move(pair));
}

namespace {

/// The value at a path of keys, or nullptr.
const nlohmann::json* at_path(const nlohmann::json& object, std::string_view path) {
  const nlohmann::json* value = &object;
  for (;;) {
    const std::size_t dot = path.find('.');
    const auto it = value->is_object() ? value->find(path.substr(0, dot)) : value->end();
    if (!value->is_object() || it == value->end()) return nullptr;
    value = &*it;
    if (dot == path.npos) return value;
    path.remove_prefix(dot + 1);
  }
}

}  // namespace

std::string ConfigObject::spelled(const std::string& key) const {
  if (at_path(*object_, key) != nullptr) return key;
  for (const auto& [name, alias] : aliases_) {
    if (name == key && at_path(*object_, alias) != nullptr) return alias;
  }
  return key;
}

const nlohmann::json* ConfigObject::find(const std::string& key) const {
  const nlohmann::json* value = at_path(*object_, spelled(key));
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool ConfigObject::has(const std::string& key) const { return find(key) != nullptr; }

bool ConfigObject::is_null(const std::string& key) const {
  const nlohmann::json* value = at_path(*object_, spelled(key));
  return value != nullptr && value->is_null();
}

std::string ConfigObject::source(const std::string& key) const { return origin_ + ": " + this->key(key); }

namespace {

/// As the file has it; nlohmann writes null for numbers that are not finite.
std::string as_written(const nlohmann::json& value) {
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    const auto number = value.get<double>();
    return std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
  }
  return value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace

void ConfigObject::refuse(const std::string& key, const std::string& rule) const {
  const nlohmann::json* value = at_path(*object_, spelled(key));
  std::string got = value != nullptr ? as_written(*value) : "nothing";
  constexpr std::size_t enough = 60;
  if (got.size() > enough) got = got.substr(0, enough) + "...";
  fail_file(path_, this->key(key), " ", rule, ", got ", got);
}

std::optional<nlohmann::json> ConfigObject::find_number(const std::string& key) const {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string() || findings_ == nullptr || !findings_->lenient()) return *value;
  nlohmann::json number = nlohmann::json::parse(value->get<std::string>(), nullptr, false);
  if (!number.is_number()) return *value;
  findings_->tolerate("RP023", path_, sentence(this->key(key), " must be a number, got ", value->dump()),
                      "loaders that convert strings go on, transformers fails when it computes");
  return number;
}

std::optional<Found<double>> ConfigObject::number(const std::string& key) const {
  const auto value = find_number(key);
  if (!value) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>())) refuse(key, "must be a finite number");
  return Found<double>{value->get<double>(), source(key)};
}

std::optional<Found<double>> ConfigObject::positive_number(const std::string& key) const {
  const auto value = find_number(key);
  if (!value) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>()) || value->get<double>() <= 0) {
    refuse(key, "must be a positive number");
  }
  return Found<double>{value->get<double>(), source(key)};
}

namespace {

constexpr double most = 2147483648.0;

std::optional<std::int64_t> whole(const nlohmann::json& value, double least) {
  const double number = value.is_number() ? value.get<double>() : -1;
  if (!(number >= least && number <= most) || number != std::floor(number)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

}  // namespace

std::optional<Found<std::int64_t>> ConfigObject::count(const std::string& key) const {
  const auto value = find_number(key);
  if (!value) return std::nullopt;
  const auto number = whole(*value, 1);
  if (!number) refuse(key, "must be a whole number from 1 to 2147483648");
  return Found<std::int64_t>{*number, source(key)};
}

std::optional<Found<std::int64_t>> ConfigObject::whole_number(const std::string& key) const {
  const auto value = find_number(key);
  if (!value) return std::nullopt;
  const auto number = whole(*value, 0);
  if (!number) refuse(key, "must be a whole number from 0 to 2147483648");
  return Found<std::int64_t>{*number, source(key)};
}

std::optional<Found<std::vector<std::int64_t>>> ConfigObject::whole_numbers(const std::string& key) const {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) refuse(key, "must be a list of whole numbers");
  Found<std::vector<std::int64_t>> found{{}, source(key)};
  for (const auto& entry : *value) {
    const auto number = entry.is_boolean() ? std::optional<std::int64_t>(entry.get<bool>()) : whole(entry, 0);
    if (!number) {
      fail_file(path_, this->key(key), " must hold whole numbers, got ", as_written(entry), " in place ",
                found.value.size());
    }
    found.value.push_back(*number);
  }
  return found;
}

std::optional<Found<std::vector<std::string>>> ConfigObject::texts(const std::string& key) const {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) refuse(key, "must be a list of strings");
  Found<std::vector<std::string>> found{{}, source(key)};
  for (const auto& entry : *value) {
    if (!entry.is_string()) {
      fail_file(path_, this->key(key), " must hold strings, got ", as_written(entry), " in place ", found.value.size());
    }
    found.value.push_back(entry.get<std::string>());
  }
  return found;
}

std::optional<Found<bool>> ConfigObject::boolean(const std::string& key) const {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse(key, "must be true or false");
  return Found<bool>{value->get<bool>(), source(key)};
}

std::optional<Found<std::string>> ConfigObject::text(const std::string& key) const {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse(key, "must be a string");
  return Found<std::string>{value->get<std::string>(), source(key)};
}

std::optional<Found<std::vector<double>>> ConfigObject::positive_numbers(const std::string& key) const {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) refuse(key, "must be a list of positive numbers");
  Found<std::vector<double>> found{{}, source(key)};
  for (const auto& entry : *value) {
    if (!entry.is_number() || !std::isfinite(entry.get<double>()) || entry.get<double>() <= 0) {
      fail_file(path_, this->key(key), " must hold positive numbers, got ", as_written(entry), " in place ",
                found.value.size());
    }
    found.value.push_back(entry.get<double>());
  }
  return found;
}

std::optional<ConfigObject> ConfigObject::object(const std::string& key) const {
  const auto* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return object_in_string(key);
  if (!value->is_object()) refuse(key, "must be an object");
  if (value->empty()) return std::nullopt;
  ConfigObject inner(*value, path_, this->key(key) + ".");
  inner.owned_ = owned_;
  inner.origin_ = origin_;
  inner.findings_ = findings_;
  return inner;
}

std::optional<ConfigObject> ConfigObject::object_in_string(const std::string& key) const {
  const auto& text = find(key)->get_ref<const std::string&>();
  if (text.find_first_not_of(" \t\r\n") != text.find('{')) refuse(key, "must be an object");
  const std::string rule = "must be an object, not an object written inside a string";
  if (findings_ == nullptr || !findings_->lenient()) refuse(key, rule);
  const auto object = std::make_shared<const nlohmann::json>(parse_json(text, path_ + ": " + this->key(key)));
  if (!object->is_object()) refuse(key, rule);
  findings_->tolerate("RP023", path_, this->key(key) + " " + rule, "it was read as the object");
  if (object->empty()) return std::nullopt;
  ConfigObject inner(*object, path_, this->key(key) + ".");
  inner.owned_ = object;
  inner.findings_ = findings_;
  return inner;
}

}  // namespace rotary
