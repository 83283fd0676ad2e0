// Sentences for errors: fail_argument("rotate", "rotary_dim must be even and at most head_dim, got ", 7, " and ", 64).
// Parts may come from a file as they are: control characters are escaped and endless texts are cut in the finished sentence.
#pragma once

#include <sstream>
#include <string>

#include "rotary/error.hpp"

namespace rotary {

template <class... Parts>
std::string sentence(const Parts&... parts) {
  std::ostringstream text;
  text.precision(17);
  (text << ... << parts);
  return text.str();
}

/// "subject: rule", as one line that a terminal can show.
[[noreturn]] void fail(ErrorCode code, const std::string& subject, const std::string& rule);

/// Operation, rule and what was given: "rotate: rotary_dim must be even, got 7".
template <class... Parts>
[[noreturn]] void fail_argument(const char* operation, const Parts&... rule) {
  fail(ErrorCode::invalid_argument, operation, sentence(rule...));
}

/// The path and the broken rule: "weights.safetensors: header length must fit in the file, got 99 of 12 bytes".
template <class... Parts>
[[noreturn]] void fail_file(const std::string& path, const Parts&... rule) {
  fail(ErrorCode::invalid_file, path, sentence(rule...));
}

template <class... Parts>
[[noreturn]] void fail_unsupported(const std::string& what, const Parts&... reason) {
  fail(ErrorCode::unsupported, what, sentence(reason...));
}

}  // namespace rotary
