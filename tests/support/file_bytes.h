// A whole file as a string.
#pragma once

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace rotary {

inline std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace rotary
