#include "formats/json.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/fail.h"
#include "base/text.h"
#include "formats/mapped_file.h"

namespace rotary {
namespace {

using nlohmann::json;

/// Walks over the text and tells how far the parser has come, which nlohmann's callback does not.
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

/// Sees every event of the parser and refuses what nlohmann would let through.
class Strictness {
 public:
  Strictness(std::string_view text, const std::string& name, const JsonLimits& limits)
      : text_(text), name_(name), limits_(limits), reached_(text.data()) {}

  TrackedChar begin() { return {text_.data(), reached_}; }
  TrackedChar end() { return {text_.data() + text_.size(), reached_}; }

  bool on_event(json::parse_event_t event, const json& parsed) {
    using Event = json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (++depth_ > limits_.max_depth) refuse("must nest at most ", limits_.max_depth, " levels deep");
      if (event == Event::object_start) keys_.emplace_back();
    } else if (event == Event::object_end || event == Event::array_end) {
      --depth_;
      if (event == Event::object_end) keys_.pop_back();
      return true;  // counted when it began
    } else if (event == Event::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second)
        refuse("must not have a key twice in one object, got ", in_quotes(key), " again");
      last_key_ = key;
    }
    if (++values_ > limits_.max_values) refuse("must hold at most ", limits_.max_values, " values");
    return true;
  }

  /// nlohmann says which number is too large, but not where.
  [[noreturn]] void refuse_number() const { refuse("numbers must fit in a double, see the value of ", in_quotes(last_key_)); }

 private:
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
  std::string last_key_;
  int depth_ = 0;
  std::int64_t values_ = 0;
  std::vector<std::unordered_set<std::string>> keys_;  // of every object that is open
};

/// nlohmann's sentence without its "[json.exception.parse_error.101] " in front.
std::string reason(const json::exception& error) {
  const std::string_view what = error.what();
  const std::size_t prefix = what.find("] ");
  return printable(prefix == what.npos ? what : what.substr(prefix + 2));
}

}  // namespace

json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits) {
  if (static_cast<std::int64_t>(text.size()) > limits.max_bytes) {
    fail_file(name, "JSON must be at most ", limits.max_bytes, " bytes long, got ", text.size());
  }
  // nlohmann takes a zero byte for the end of the text.
  if (const std::size_t zero = text.find('\0'); zero != text.npos) {
    fail_file(name, "JSON must not hold a zero byte, got one at byte ", zero);
  }
  Strictness strictness(text, name, limits);
  try {
    return json::parse(strictness.begin(), strictness.end(),
                       [&](int, json::parse_event_t event, json& parsed) { return strictness.on_event(event, parsed); });
  } catch (const json::out_of_range&) {
    strictness.refuse_number();
  } catch (const json::exception& error) {
    fail_file(name, "must be JSON in UTF-8: ", reason(error));
  }
}

json read_json(const std::string& path, const JsonLimits& limits) {
  const MappedFile file(path);
  return parse_json(file.bytes(), path, limits);
}

}  // namespace rotary
