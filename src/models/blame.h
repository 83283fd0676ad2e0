// Whose fault it is.
#pragma once

#include <string>

#include "base/fail.h"

namespace rotary {

/// Runs a part of a reader. What a rule of the library refuses there is the file's fault: Error (invalid_file) with the path,
/// the reason, and `keys`, from which the refused values came.
template <class Read>
auto blaming_file(const std::string& path, const std::string& keys, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    if (keys.empty()) fail_file(path, error.what());
    fail_file(path, error.what(), " (from ", keys, ")");
  }
}

}  // namespace rotary
