#include "formats/json.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/fail.h"
#include "base/text.h"
#include "formats/mapped_file.h"

namespace rotary {
namespace {

using nlohmann::json;

/// Walks over the text and tells how far the parser has come, which its events do not.
class TrackedChar {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  TrackedChar(const char* at, const char*& reached) : at_(at), reached_(&reached) {}
  char operator*() const { return *at_; }
  TrackedChar& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  bool operator==(const TrackedChar& other) const { return at_ == other.at_; }
  bool operator!=(const TrackedChar& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

/// nlohmann's sentence without its "[json.exception.parse_error.101] " in front.
std::string reason(const json::exception& error) {
  const std::string_view what = error.what();
  const std::size_t prefix = what.find("] ");
  return printable(prefix == what.npos ? what : what.substr(prefix + 2));
}

/// The names that Python's json writes for numbers that are not finite. nlohmann's lexer stops at them; it is given a string
/// of as many DELs as fit between quotes, so that nothing moves. (JSON allows DEL in strings; a text that has one is left as
/// it is.)
struct PythonConstant {
  std::string_view name;
  double value;
};
constexpr std::array python_constants{
    PythonConstant{"-Infinity", -std::numeric_limits<double>::infinity()},
    PythonConstant{"Infinity", std::numeric_limits<double>::infinity()},
    PythonConstant{"NaN", std::numeric_limits<double>::quiet_NaN()},
};
constexpr char stand_in = '\x7f';

std::string with_stand_ins(std::string_view text) {
  std::string result(text);
  bool inside_string = false;
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (inside_string) {
      if (result[i] == '\\') ++i;
      else if (result[i] == '"') inside_string = false;
      continue;
    }
    inside_string = result[i] == '"';
    for (const PythonConstant& constant : python_constants) {
      const std::size_t length = constant.name.size();
      if (result.compare(i, length, constant.name) != 0) continue;
      result.replace(i, length, '"' + std::string(length - 2, stand_in) + '"');
      i += length - 1;
      break;
    }
  }
  return result;
}

const PythonConstant* constant_of(std::string_view text) {
  if (text.empty() || text.find_first_not_of(stand_in) != text.npos) return nullptr;
  for (const PythonConstant& constant : python_constants) {
    if (constant.name.size() == text.size() + 2) return &constant;
  }
  return nullptr;
}

/// Receives the parser's events, builds the value, and refuses what nlohmann would let through. (nlohmann's own builder
/// with a callback looks at all members of an object again after each: quadratic in the length of a safetensors header.)
class Builder {
 public:
  Builder(std::string_view text, const std::string& name, const JsonLimits& limits)
      : text_(text), name_(name), limits_(limits), reached_(text.data()) {}

  TrackedChar begin() { return {text_.data(), reached_}; }
  TrackedChar end() { return {text_.data() + text_.size(), reached_}; }
  json& value() noexcept { return root_; }

  // What nlohmann calls; true means: go on.
  bool null() { return place(nullptr); }
  bool boolean(bool value) { return place(value); }
  bool number_integer(json::number_integer_t value) { return place(value); }
  bool number_unsigned(json::number_unsigned_t value) { return place(value); }
  bool number_float(json::number_float_t value, const std::string&) { return place(value); }
  bool string(std::string& value) {
    const PythonConstant* constant = limits_.python_constants ? constant_of(value) : nullptr;
    return constant != nullptr ? place(constant->value) : place(std::move(value));
  }
  bool binary(json::binary_t& value) { return place(std::move(value)); }
  bool start_object(std::size_t) { return open(json::object()); }
  bool end_object() { return close(); }
  bool start_array(std::size_t) { return open(json::array()); }
  bool end_array() { return close(); }

  bool key(std::string& key) {
    count();
    if (limits_.python_constants && constant_of(key) != nullptr) refuse("keys must be strings");
    const auto [member, is_new] = open_.back()->emplace(key, nullptr);
    if (!is_new) {
      if (limits_.repeated_keys == nullptr)
        refuse("must not have a key twice in one object, got ", in_quotes(key), " again");
      limits_.repeated_keys->push_back(in_quotes(key));
    }
    member_ = &*member;
    key_ = std::move(key);
    return true;
  }

  bool parse_error(std::size_t, const std::string&, const json::exception& error) {
    if (dynamic_cast<const json::out_of_range*>(&error) != nullptr) {
      if (reached_ != text_.data()) --reached_;  // the lexer has looked at the character behind the number
      refuse("numbers must fit in a double, see the value of ", in_quotes(key_));
    }
    fail_file(name_, "must be JSON in UTF-8: ", reason(error));
  }

 private:
  bool place(json value) {
    count();
    if (open_.empty()) root_ = std::move(value);
    else if (open_.back()->is_array()) open_.back()->push_back(std::move(value));
    else *member_ = std::move(value);
    return true;
  }

  bool open(json empty) {
    json* const parent = open_.empty() ? nullptr : open_.back();
    place(std::move(empty));
    open_.push_back(parent == nullptr ? &root_ : parent->is_array() ? &parent->back() : member_);
    if (open_.size() > static_cast<std::size_t>(limits_.max_depth)) {
      refuse("must nest at most ", limits_.max_depth, " levels deep");
    }
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  void count() {
    if (++values_ > limits_.max_values) refuse("must hold at most ", limits_.max_values, " values");
  }

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... rule) const {
    const std::string_view before(text_.data(), static_cast<std::size_t>(reached_ - text_.data()));
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t last_break = before.rfind('\n');
    const std::size_t column = before.size() - (last_break == before.npos ? 0 : last_break + 1);
    fail_file(name_, "JSON ", rule..., " (line ", line, ", column ", column, ")");
  }

  std::string_view text_;
  const std::string& name_;
  const JsonLimits& limits_;
  const char* reached_;

  json root_;
  std::vector<json*> open_;  // the objects and arrays around the next value, outermost first
  json* member_ = nullptr;   // of the innermost object: where the next value goes
  std::string key_;          // the last one, for errors
  std::int64_t values_ = 0;
};

}  // namespace

json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits) {
  if (static_cast<std::int64_t>(text.size()) > limits.max_bytes) {
    fail_file(name, "JSON must be at most ", limits.max_bytes, " bytes long, got ", text.size());
  }
  // nlohmann takes a zero byte for the end of the text.
  if (const std::size_t zero = text.find('\0'); zero != text.npos) {
    fail_file(name, "JSON must not hold a zero byte, got one at byte ", zero);
  }
  std::string replaced;
  JsonLimits own = limits;
  own.python_constants = limits.python_constants && text.find(stand_in) == text.npos &&
                         (text.find("NaN") != text.npos || text.find("Infinity") != text.npos);
  if (own.python_constants) text = replaced = with_stand_ins(text);
  Builder builder(text, name, own);
  json::sax_parse(builder.begin(), builder.end(), &builder);
  return std::move(builder.value());
}

json read_json(const std::string& path, const JsonLimits& limits) {
  const MappedFile file(path);
  return parse_json(file.bytes(), path, limits);
}

}  // namespace rotary
