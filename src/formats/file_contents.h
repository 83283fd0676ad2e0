// What an open TensorFile consists of: its tensors, and everything that their names and data live in.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/mapped_file.h"
#include "rotary/tensor_file.hpp"

namespace rotary {

struct FileContents {
  std::vector<StoredTensor> tensors;
  std::vector<std::pair<const char*, const char*>> metadata;
  std::vector<const char*> warnings;

  std::vector<MappedFile> mappings;
  std::vector<std::unique_ptr<char[]>> copies;
  std::deque<std::string> strings;  // a deque, so that they stay where they are

  /// The file's bytes, mapped for as long as the contents live.
  std::string_view map(const std::string& path);
  /// Zero-terminated, for as long as the contents live.
  const char* keep(std::string text);
  /// Memory for data that cannot be used where they are. `size` has been compared with bytes that exist.
  char* allocate(std::size_t size);
  /// The bytes of elements of this type, where they are or, if a processor could not load them from there, in a copy.
  const char* aligned(std::string_view bytes, DType dtype);
};

}  // namespace rotary
