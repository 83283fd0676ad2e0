#include "rotary/gguf.hpp"

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/fail.h"
#include "base/text.h"
#include "formats/file_contents.h"
#include "formats/gguf_header.h"

namespace rotary {

struct GgufFile::Contents : FileContents {
  std::vector<GgufPart> parts;
  std::vector<GgufValue> values;
  std::vector<GgufTensor> tensors;
  std::map<std::string_view, const GgufValue*> values_by_key;
  std::map<std::string_view, const GgufTensor*> tensors_by_name;

  void open(const std::string& path);
  void index_names();

 private:
  GgufHeader read(const std::string& path);
  void open_split(const std::string& path, std::int64_t num_parts);
  void add(GgufHeader header);
};

namespace {

const GgufValue* find_value(const GgufHeader& header, std::string_view key) {
  for (const GgufValue& value : header.values) {
    if (value.key == key) return &value;
  }
  return nullptr;
}

/// Merged files keep the keys, with a count of 0.
std::int64_t number_of_parts(const GgufHeader& header) {
  const GgufValue* const count = find_value(header, "split.count");
  if (count == nullptr) return 1;
  constexpr std::int64_t max_parts = 99'999;  // what five digits can name
  const std::int64_t num_parts = count->integer();
  if (num_parts < 0 || num_parts > max_parts) {
    fail_file(header.part.path, "split.count must be 0 ... ", max_parts, ", got ", num_parts);
  }
  return num_parts;
}

/// "-00002-of-00003.gguf"; `index` counts from 0, names from 1.
std::string part_ending(std::int64_t index, std::int64_t num_parts) {
  char ending[64];
  std::snprintf(ending, sizeof ending, "-%05lld-of-%05lld.gguf", static_cast<long long>(index) + 1,
                static_cast<long long>(num_parts));
  return ending;
}

/// A part's own word for where it belongs must agree with its name.
void check_part(const GgufHeader& header, std::int64_t index, std::int64_t num_parts) {
  const std::string path = header.part.path;
  if (find_value(header, "split.count") == nullptr || number_of_parts(header) != num_parts) {
    fail_file(path, "all parts must have the same split.count, ", num_parts);
  }
  const GgufValue* const number = find_value(header, "split.no");
  if (number == nullptr) fail_file(path, "a part of a split GGUF must have the key split.no");
  if (number->integer() != index) {
    fail_file(path, "split.no must agree with the name, got ", number->integer(), " in part ", index, " of ", num_parts,
              ", counted from 0");
  }
}

}  // namespace

GgufHeader GgufFile::Contents::read(const std::string& path) { return read_gguf_header(map(path), keep(path), *this); }

void GgufFile::Contents::open(const std::string& path) {
  GgufHeader header = read(path);
  const std::int64_t num_parts = number_of_parts(header);
  if (num_parts > 1) {
    open_split(path, num_parts);
  } else {
    add(std::move(header));
  }
}

void GgufFile::Contents::open_split(const std::string& path, std::int64_t num_parts) {
  warnings.clear();  // the part that was asked for is read again, in its turn
  const std::size_t length = part_ending(0, num_parts).size();
  const std::string stem = path.substr(0, path.size() - std::min(length, path.size()));

  bool is_named_so = false;
  for (std::int64_t i = 0; i < num_parts && !is_named_so; ++i) is_named_so = path == stem + part_ending(i, num_parts);
  if (!is_named_so) {
    fail_file(path, "one of ", num_parts, " parts must be named like NAME", part_ending(0, num_parts),
              ", for the others to be found");
  }
  for (std::int64_t i = 0; i < num_parts; ++i) {
    GgufHeader header = read(stem + part_ending(i, num_parts));
    check_part(header, i, num_parts);
    add(std::move(header));
  }
  for (const GgufValue& value : values) {
    if (std::string_view(value.key) == "split.tensors.count" && std::cmp_not_equal(value.integer(), tensors.size())) {
      fail_file(path, "all parts together must have split.tensors.count tensors, ", value.integer(), ", got ",
                tensors.size());
    }
  }
}

void GgufFile::Contents::add(GgufHeader header) {
  for (GgufTensor& tensor : header.tensors) {
    tensor.part = parts.size();
    tensors.push_back(std::move(tensor));
  }
  if (parts.empty()) values = std::move(header.values);
  parts.push_back(header.part);
}

void GgufFile::Contents::index_names() {
  for (const GgufValue& value : values) values_by_key.emplace(value.key, &value);
  for (const GgufTensor& tensor : tensors) {
    if (!tensors_by_name.emplace(tensor.name, &tensor).second) {
      fail_file(parts[tensor.part].path, "tensors must have different names in all parts, got ", in_quotes(tensor.name),
                " twice");
    }
  }
}

GgufFile::GgufFile(const char* path) : contents_(nullptr) {
  auto contents = std::make_unique<Contents>();
  contents->open(path);
  contents->index_names();
  contents_ = contents.release();
}

GgufFile::GgufFile(GgufFile&& other) noexcept : contents_(std::exchange(other.contents_, nullptr)) {}

GgufFile& GgufFile::operator=(GgufFile&& other) noexcept {
  std::swap(contents_, other.contents_);
  return *this;
}

GgufFile::~GgufFile() { delete contents_; }

const std::vector<GgufValue>& GgufFile::values() const noexcept { return contents_->values; }

const GgufValue* GgufFile::find(const char* key) const noexcept {
  const auto found = contents_->values_by_key.find(key);
  return found == contents_->values_by_key.end() ? nullptr : found->second;
}

const GgufValue& GgufFile::at(const char* key) const {
  if (const GgufValue* value = find(key)) return *value;
  fail_file(parts().front().path, "must have the key ", in_quotes(key));
}

const std::vector<GgufTensor>& GgufFile::tensors() const noexcept { return contents_->tensors; }

const GgufTensor* GgufFile::find_tensor(const char* name) const noexcept {
  const auto found = contents_->tensors_by_name.find(name);
  return found == contents_->tensors_by_name.end() ? nullptr : found->second;
}

const std::vector<GgufPart>& GgufFile::parts() const noexcept { return contents_->parts; }

const std::vector<const char*>& GgufFile::warnings() const noexcept { return contents_->warnings; }

}  // namespace rotary
