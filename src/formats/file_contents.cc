#include "formats/file_contents.h"

#include <cstring>

#include "base/component.h"

namespace rotary {

std::string_view FileContents::map(const std::string& path) { return mappings.emplace_back(path).bytes(); }

const char* FileContents::keep(std::string text) { return strings.emplace_back(std::move(text)).c_str(); }

char* FileContents::allocate(std::size_t size) {
  return copies.emplace_back(std::make_unique_for_overwrite<char[]>(size)).get();
}

const char* FileContents::aligned(std::string_view bytes, DType dtype) {
  if (is_aligned(bytes.data(), dtype)) return bytes.data();
  char* const copy = allocate(bytes.size());
  std::memcpy(copy, bytes.data(), bytes.size());
  return copy;
}

}  // namespace rotary
