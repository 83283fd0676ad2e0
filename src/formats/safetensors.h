// Reading safetensors: u64 header length, JSON header, data (github.com/huggingface/safetensors, "Format").
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/file_contents.h"

namespace rotary {

inline constexpr std::uint64_t max_safetensors_header = 100'000'000;  ///< the reference implementation's own cap
inline constexpr std::size_t max_safetensors_entries = std::size_t{1} << 18;

struct Safetensors {
  std::vector<StoredTensor> tensors;  ///< in the order of their data
  std::vector<std::pair<const char*, const char*>> metadata;
};

/// `file` must live as long as `contents`, which also takes the names, the warnings, and copies of misaligned tensors.
Safetensors read_safetensors(std::string_view file, const std::string& path, FileContents& contents);

}  // namespace rotary
