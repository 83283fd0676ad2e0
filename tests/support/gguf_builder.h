// GGUF files byte by byte, so that a test can state what no writer would.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace rotary {

/// The bytes of a number, little-endian.
template <class T>
std::string le(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

inline std::string gguf_string(const std::string& text) { return le<std::uint64_t>(text.size()) + text; }

/// A key with the bytes of its value; `type` is the format's number.
inline std::string gguf_key(const std::string& key, std::uint32_t type, const std::string& value) {
  return gguf_string(key) + le(type) + value;
}

inline std::string gguf_array(const std::string& key, std::uint32_t type, std::uint64_t count,
                              const std::string& elements) {
  return gguf_key(key, 9, le(type) + le(count) + elements);
}

inline std::string gguf_tensor(const std::string& name, const std::vector<std::uint64_t>& dims, std::uint32_t type = 0,
                               std::uint64_t offset = 0) {
  std::string info = gguf_string(name) + le(static_cast<std::uint32_t>(dims.size()));
  for (const std::uint64_t dim : dims) info += le(dim);
  return info + le(type) + le(offset);
}

/// A whole file: keys, tensors, padding, and data of ones.
inline std::string gguf_file(const std::vector<std::string>& keys, const std::vector<std::string>& tensors = {},
                             std::size_t data_size = 0, std::uint32_t version = 3, std::size_t alignment = 32) {
  std::string file = "GGUF" + le(version) + le<std::uint64_t>(tensors.size()) + le<std::uint64_t>(keys.size());
  for (const std::string& key : keys) file += key;
  for (const std::string& tensor : tensors) file += tensor;
  if (data_size > 0) file.append((alignment - file.size() % alignment) % alignment, '\0');
  return file.append(data_size, '\1');
}

}  // namespace rotary
