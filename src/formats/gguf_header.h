// Reading one GGUF file's header (ggml: docs/gguf.md, and what src/gguf.cpp checks beyond it).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/file_contents.h"
#include "rotary/gguf.hpp"

namespace rotary {

inline constexpr std::uint64_t max_gguf_entries = std::uint64_t{1} << 18;  ///< keys, and tensors
inline constexpr std::uint64_t max_gguf_array = std::uint64_t{1} << 30;    ///< elements; ggml's own cap
inline constexpr std::size_t max_gguf_key = 65'535;                        ///< by the format
inline constexpr std::size_t max_gguf_tensor_name = 64;                    ///< by the format; ggml takes 63

struct GgufHeader {
  GgufPart part;
  std::vector<GgufValue> values;
  std::vector<GgufTensor> tensors;
};

/// `file` and `path` must live as long as `contents`, which also takes the names and the warnings.
GgufHeader read_gguf_header(std::string_view file, const char* path, FileContents& contents);

/// Bytes of one element; strings have no fixed size: 0.
std::size_t gguf_element_size(GgufType type) noexcept;

}  // namespace rotary
