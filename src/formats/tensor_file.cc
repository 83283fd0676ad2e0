#include "rotary/tensor_file.hpp"

#include <sys/stat.h>

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/fail.h"
#include "base/text.h"
#include "formats/file_contents.h"
#include "formats/little_endian.h"
#include "formats/npy.h"
#include "formats/npy_header.h"
#include "formats/npz.h"
#include "formats/safetensors.h"
#include "formats/sharded_safetensors.h"

namespace rotary {

struct TensorFile::Contents : FileContents {
  std::string path;
  std::unordered_map<std::string_view, const StoredTensor*> by_name;
};

namespace {

enum class Kind : std::uint8_t { npy, zip, safetensors, json, unknown };

Kind kind_of(std::string_view file) {
  if (file.starts_with(npy_magic)) return Kind::npy;
  if (file.starts_with("PK\3\4") || file.starts_with("PK\5\6")) return Kind::zip;  // the second: without any member
  constexpr std::size_t length_size = 8;
  const bool has_length = file.size() >= length_size;
  // Text cannot be taken for this: its first eight bytes make a huge number.
  if (has_length && load_little_endian<std::uint64_t>(file) <= max_safetensors_header) return Kind::safetensors;
  const std::size_t first = file.find_first_not_of(" \t\r\n");
  if (first != file.npos && file[first] == '{') return Kind::json;
  // A wrong length before what can only be a header: safetensors says better what is wrong.
  return has_length && file.substr(length_size).starts_with("{\"") ? Kind::safetensors : Kind::unknown;
}

bool exists(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0;
}

bool is_folder(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

/// A checkpoint's folder stands for the file in it. As transformers does, one file comes before an index.
std::string file_in_folder(const std::string& folder) {
  for (const char* name : {"/model.safetensors", "/model.safetensors.index.json"}) {
    if (exists(folder + name)) return folder + name;
  }
  fail_file(folder, "a folder must hold model.safetensors or model.safetensors.index.json");
}

void read(const std::string& path, FileContents& contents) {
  const std::string_view file = contents.map(path);
  switch (kind_of(file)) {
    case Kind::npy: contents.tensors.push_back(read_npy(file, path, contents)); return;
    case Kind::zip: read_npz(file, path, contents); return;
    case Kind::json: read_sharded_safetensors(file, path, contents); return;
    case Kind::safetensors: {
      Safetensors read = read_safetensors(file, path, contents);
      contents.tensors = std::move(read.tensors);
      contents.metadata = std::move(read.metadata);
      return;
    }
    case Kind::unknown: break;
  }
  if (file.size() < 8) fail_file(path, "is truncated, or no tensor file: it has ", file.size(), " bytes");
  fail_file(path,
            "must be .npy (beginning with \\x93NUMPY), .npz (a zip archive), safetensors or the index of its shards, got a "
            "file that begins with ",
            in_quotes(file.substr(0, 8)));
}

}  // namespace

ConstTensorView StoredTensor::view(Axes axes) const {
  if (static_cast<std::size_t>(axes.rank()) != shape.size()) {
    fail_argument("view", "must name every axis of tensor ", in_quotes(name), ", which has ", shape.size(), ", got \"",
                  axes.c_str(), "\"");
  }
  return {data, dtype, axes, Dims(shape), Dims(strides)};
}

TensorFile::TensorFile(const char* path) : contents_(nullptr) {
  auto contents = std::make_unique<Contents>();
  contents->path = is_folder(path) ? file_in_folder(path) : path;
  read(contents->path, *contents);
  for (const StoredTensor& tensor : contents->tensors) {
    if (!contents->by_name.emplace(tensor.name, &tensor).second) {
      fail_file(contents->path, "tensors must have different names, got ", in_quotes(tensor.name), " twice");
    }
  }
  contents_ = contents.release();
}

TensorFile::TensorFile(TensorFile&& other) noexcept : contents_(std::exchange(other.contents_, nullptr)) {}

TensorFile& TensorFile::operator=(TensorFile&& other) noexcept {
  std::swap(contents_, other.contents_);
  return *this;
}

TensorFile::~TensorFile() { delete contents_; }

const std::vector<StoredTensor>& TensorFile::tensors() const noexcept { return contents_->tensors; }

const StoredTensor* TensorFile::find(const char* name) const noexcept {
  const auto found = contents_->by_name.find(name);
  return found == contents_->by_name.end() ? nullptr : found->second;
}

const StoredTensor& TensorFile::at(const char* name) const {
  if (const StoredTensor* tensor = find(name)) return *tensor;
  constexpr std::size_t listed = 12;
  std::string there;
  for (std::size_t i = 0; i < tensors().size() && i < listed; ++i) {
    if (i > 0) there += ", ";
    there += in_quotes(tensors()[i].name);
  }
  if (tensors().size() > listed) there += sentence(" and ", tensors().size() - listed, " more");
  fail_file(contents_->path, "has no tensor ", in_quotes(name), ", it has ", there.empty() ? "none" : there);
}

const std::vector<std::pair<const char*, const char*>>& TensorFile::metadata() const noexcept {
  return contents_->metadata;
}

const std::vector<const char*>& TensorFile::warnings() const noexcept { return contents_->warnings; }

}  // namespace rotary
