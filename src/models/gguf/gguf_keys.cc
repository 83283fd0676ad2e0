#include "models/gguf/gguf_keys.h"

#include <cmath>
#include <utility>

#include "models/config_object.h"

namespace rotary::gguf {
namespace {

constexpr std::int64_t most = std::int64_t{1} << 31;

std::string to_string(GgufText text) { return {text.data, text.size}; }

}  // namespace

GgufKeys::GgufKeys(const GgufFile& file, std::string path)
    : file_(file),
      path_(std::move(path)),
      architecture_(to_string(file.at("general.architecture").string())),
      prefix_(architecture_ + ".") {}

const GgufValue* GgufKeys::find(const std::string& key) {
  const std::string whole_key = prefix_ + key;
  read_.insert(whole_key);
  return file_.find(whole_key.c_str());
}

std::string GgufKeys::source(const std::string& key) const { return file_name(path_) + ": " + prefix_ + key; }

std::optional<Found<std::int64_t>> GgufKeys::whole(const std::string& key) {
  const GgufValue* value = find(key);
  if (value == nullptr) return {};
  const std::int64_t number = value->integer();
  if (number < 0 || number > most) refuse(key, "a whole number from 0 to 2^31", number);
  return Found<std::int64_t>{number, source(key)};
}

std::optional<Found<std::int64_t>> GgufKeys::count(const std::string& key) {
  auto found = whole(key);
  if (found && found->value == 0) refuse(key, "at least 1", 0);
  return found;
}

Found<std::int64_t> GgufKeys::required_count(const std::string& key) {
  const auto found = count(key);
  if (!found) fail_file(path_, "must have the key ", prefix_, key);
  return *found;
}

std::optional<Found<double>> GgufKeys::number(const std::string& key) {
  const GgufValue* value = find(key);
  if (value == nullptr) return {};
  const double number = value->number();
  if (!std::isfinite(number)) refuse(key, "finite", number);
  return Found<double>{number, source(key)};
}

std::optional<Found<double>> GgufKeys::positive_number(const std::string& key) {
  auto found = number(key);
  if (found && found->value <= 0) refuse(key, "positive", found->value);
  return found;
}

std::optional<Found<bool>> GgufKeys::boolean(const std::string& key) {
  const GgufValue* value = find(key);
  if (value == nullptr) return {};
  return Found<bool>{value->boolean(), source(key)};
}

std::optional<Found<std::string>> GgufKeys::text(const std::string& key) {
  const GgufValue* value = find(key);
  if (value == nullptr) return {};
  return Found<std::string>{to_string(value->string()), source(key)};
}

std::optional<Found<std::vector<std::int64_t>>> GgufKeys::wholes(const std::string& key, std::int64_t size) {
  const GgufValue* value = find(key);
  if (value == nullptr) return {};
  if (value->is_array && value->size != size) {
    refuse(key, sentence("one number, or a list of ", size), sentence("a list of ", value->size));
  }
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < size; ++i) {
    numbers.push_back(value->integer(value->is_array ? i : 0));
    if (numbers.back() < 0 || numbers.back() > most) refuse(key, "whole numbers from 0 to 2^31", numbers.back());
  }
  return Found<std::vector<std::int64_t>>{std::move(numbers), source(key)};
}

std::optional<Found<std::vector<bool>>> GgufKeys::flags(const std::string& key, std::int64_t size) {
  const GgufValue* value = find(key);
  if (value == nullptr || !value->is_array) return {};
  if (value->size < size) refuse(key, sentence("a list with an entry for each of the ", size, " layers"), value->size);
  std::vector<bool> flags;
  for (std::int64_t i = 0; i < size; ++i) {
    if (value->type == GgufType::boolean) {
      flags.push_back(value->boolean(i));
      continue;
    }
    flags.push_back(value->integer(i) != 0);
  }
  return Found<std::vector<bool>>{std::move(flags), source(key)};
}

std::vector<std::string> GgufKeys::unread(const std::string& beginning) const {
  std::vector<std::string> keys;
  for (const GgufValue& value : file_.values()) {
    const std::string key = value.key;
    if (key.starts_with(prefix_ + beginning) && !read_.contains(key)) keys.push_back(key);
  }
  return keys;
}

}  // namespace rotary::gguf
