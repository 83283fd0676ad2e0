#include <algorithm>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "base/fail.h"
#include "base/text.h"
#include "formats/atomic_file.h"
#include "formats/safetensors.h"
#include "formats/safetensors_dtype.h"
#include "formats/writing.h"

namespace rotary {
namespace {

struct Part {
  std::string_view name;
  std::size_t dtype;  // index in safetensors_dtypes
  Dims shape;
  ElementStream elements;
};

std::size_t dtype_index(const TensorToWrite& tensor) {
  const auto* const found = std::find_if(std::begin(safetensors_dtypes), std::end(safetensors_dtypes),
                                         [&](const SafetensorsDType& known) { return known.dtype == tensor.view.dtype(); });
  if (found == std::end(safetensors_dtypes)) {
    fail_unsupported("safetensors", "has no name for the dtype ", name(tensor.view.dtype()));
  }
  return static_cast<std::size_t>(found - std::begin(safetensors_dtypes));
}

/// The reference's order: widest type first (so that every tensor is aligned), then by the bytes of the name.
std::vector<Part> in_file_order(const std::vector<TensorToWrite>& tensors) {
  std::vector<Part> parts;
  parts.reserve(tensors.size());
  for (const TensorToWrite& tensor : tensors) {
    parts.push_back({tensor.name, dtype_index(tensor), tensor.view.shape(), ElementStream(tensor.view)});
  }
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.dtype != b.dtype ? a.dtype > b.dtype : a.name < b.name; });
  return parts;
}

std::string json_string(std::string_view text) { return nlohmann::json(text).dump(); }

std::string metadata_entry(const std::vector<std::pair<const char*, const char*>>& metadata) {
  std::string text = "\"__metadata__\":{";
  for (const auto& [key, value] : metadata) {
    if (text.back() != '{') text += ',';
    text.append(json_string(key)).append(":").append(json_string(value));
  }
  return text + "}";
}

std::string tensor_entry(const Part& part, std::int64_t begin) {
  std::string text = json_string(part.name);
  text.append(":{\"dtype\":\"").append(safetensors_dtypes[part.dtype].name).append("\",\"shape\":[");
  for (int i = 0; i < part.shape.size(); ++i) text.append(i > 0 ? "," : "").append(std::to_string(part.shape[i]));
  text.append("],\"data_offsets\":[").append(std::to_string(begin));
  return text.append(",").append(std::to_string(begin + part.elements.num_bytes())).append("]}");
}

std::string header_of(const std::vector<Part>& parts, const std::vector<std::pair<const char*, const char*>>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += metadata_entry(metadata);
  std::int64_t begin = 0;
  for (const Part& part : parts) {
    if (text.size() > 1) text += ',';
    text += tensor_entry(part, begin);
    begin += part.elements.num_bytes();
  }
  text += '}';
  constexpr std::size_t alignment = 8;
  text.append((alignment - text.size() % alignment) % alignment, ' ');
  return text;
}

void check_metadata(const std::vector<std::pair<const char*, const char*>>& metadata) {
  std::set<std::string_view> keys;
  for (const auto& [key, value] : metadata) {
    if (!is_utf8(key) || !is_utf8(value))
      fail_argument("write_safetensors", "metadata must be UTF-8, got ", in_quotes(key));
    if (!keys.insert(key).second)
      fail_argument("write_safetensors", "metadata keys must differ, got ", in_quotes(key), " twice");
  }
}

}  // namespace

void write_safetensors(const char* path, const std::vector<TensorToWrite>& tensors,
                       const std::vector<std::pair<const char*, const char*>>& metadata) {
  check_tensors("write_safetensors", tensors);
  check_metadata(metadata);
  for (const TensorToWrite& tensor : tensors) {
    if (tensor.name == std::string_view("__metadata__")) {
      fail_argument("write_safetensors", "a tensor must not be called __metadata__");
    }
  }
  std::vector<Part> parts = in_file_order(tensors);
  const std::string header = header_of(parts, metadata);
  if (header.size() > max_safetensors_header) {
    fail_argument("write_safetensors", "the header must be at most ", max_safetensors_header, " bytes, got ",
                  header.size());
  }

  AtomicFile file(path);
  const std::uint64_t length = header.size();
  file.write({reinterpret_cast<const char*>(&length), sizeof length});
  file.write(header);
  for (Part& part : parts) {
    for (std::string_view piece = part.elements.next(); !piece.empty(); piece = part.elements.next()) file.write(piece);
  }
  file.commit();
}

}  // namespace rotary
