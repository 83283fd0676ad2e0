// Sentences for errors: fail_argument("rotate", "rotary_dim must be even and at most head_dim, got ", 7, " and ", 64).
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

/// Operation, rule and what was given: "rotate: rotary_dim must be even, got 7".
template <class... Parts>
[[noreturn]] void fail_argument(const char* operation, const Parts&... rule) {
  throw Error(ErrorCode::invalid_argument, sentence(operation, ": ", rule...).c_str());
}

/// The path and the broken rule: "weights.safetensors: header length must fit in the file, got 99 of 12 bytes".
template <class... Parts>
[[noreturn]] void fail_file(const std::string& path, const Parts&... rule) {
  throw Error(ErrorCode::invalid_file, sentence(path, ": ", rule...).c_str());
}

template <class... Parts>
[[noreturn]] void fail_unsupported(const std::string& what, const Parts&... reason) {
  throw Error(ErrorCode::unsupported, sentence(what, ": ", reason...).c_str());
}

}  // namespace rotary
