// Strict JSON: what two readers could understand differently is refused.
//
// Beyond the grammar of RFC 8259 (which nlohmann checks): no key twice in an object, also not spelled with escapes; UTF-8
// only; nothing after the value; limits on size, depth and number of values, so that a small file cannot cost much memory.
// Errors: Error (invalid_file) with the name, the line and the column.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace rotary {

struct JsonLimits {
  std::int64_t max_bytes = std::int64_t{64} << 20;
  int max_depth = 64;
  std::int64_t max_values = 4'000'000;  ///< keys count too
  /// Where given, a key that stands twice in an object is added here instead of refused, and its last value counts.
  std::vector<std::string>* repeated_keys = nullptr;
  /// Take NaN, Infinity and -Infinity, which Python's json writes and RFC 8259 does not know, for the doubles that they name.
  bool python_constants = false;
};

/// `name` stands in errors for the place where the text came from.
nlohmann::json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits = {});
nlohmann::json read_json(const std::string& path, const JsonLimits& limits = {});

}  // namespace rotary
