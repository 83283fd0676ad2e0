#include "formats/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "base/text.h"
#include "formats/json.h"
#include "formats/layout.h"
#include "formats/little_endian.h"
#include "formats/safetensors_dtype.h"

namespace rotary {
namespace {

using nlohmann::json;

struct Parts {
  std::string_view header, data;
};

Parts split(std::string_view file, const std::string& path) {
  constexpr std::size_t length_size = 8;
  if (file.size() < length_size)
    fail_file(path, "safetensors is truncated: the header length takes 8 bytes, got ", file.size());
  const auto length = load_little_endian<std::uint64_t>(file);
  const std::string_view rest = file.substr(length_size);
  if (length > max_safetensors_header) {
    fail_file(path, "safetensors header length must be at most ", max_safetensors_header, ", got ", length);
  }
  if (length > rest.size()) {
    fail_file(path, "safetensors header length must fit in the file, got ", length, " with ", rest.size(), " bytes there");
  }
  const Parts parts = {rest.substr(0, length), rest.substr(length)};
  if (!parts.header.starts_with('{')) {
    fail_file(path, "safetensors header must begin with {, got ", in_quotes(parts.header.substr(0, 1)));
  }
  return parts;
}

struct Entry {
  StoredTensor tensor;
  std::uint64_t begin = 0, end = 0;
};

/// Reads one entry of the header. Every sentence begins with the tensor's name.
class EntryReader {
 public:
  EntryReader(const std::string& name, const json& fields, const std::string& path, FileContents& contents)
      : where_(path + ": tensor " + in_quotes(name)), fields_(fields), contents_(contents) {}

  Entry read() {
    if (!fields_.is_object()) fail_file(where_, "must be an object of dtype, shape and data_offsets");
    Entry entry;
    entry.tensor.dtype = dtype();
    entry.tensor.shape = shape();
    entry.tensor.strides = row_major_strides(entry.tensor.shape);
    offsets(entry);
    for (const auto& field : fields_.items()) {
      if (field.key() != "dtype" && field.key() != "shape" && field.key() != "data_offsets") {
        contents_.warnings.push_back(contents_.keep(where_ + " has an unknown field: " + in_quotes(field.key())));
      }
    }
    return entry;
  }

 private:
  const json& field(const char* key) const {
    const auto found = fields_.find(key);
    if (found == fields_.end()) fail_file(where_, "must have the field ", key);
    return *found;
  }

  DType dtype() const {
    const json& value = field("dtype");
    if (!value.is_string()) fail_file(where_, "dtype must be a string, got ", printable(value.dump()));
    const auto& text = value.get_ref<const std::string&>();
    for (const SafetensorsDType& known : safetensors_dtypes) {
      if (known.name == text) return known.dtype;
    }
    fail_file(where_, "dtype must be one of the format's, got ", in_quotes(text));
  }

  std::vector<std::int64_t> shape() const {
    constexpr std::uint64_t longest = (std::uint64_t{1} << 48) - 1;  // by the format's own schema
    const json& value = field("shape");
    if (!value.is_array()) fail_file(where_, "shape must be a list, got ", printable(value.dump()));
    if (value.size() > max_stored_rank)
      fail_file(where_, "shape must have at most ", max_stored_rank, " axes, got ", value.size());
    std::vector<std::int64_t> lengths;
    for (const json& length : value) {
      if (!length.is_number_unsigned()) {
        fail_file(where_, "shape must be whole numbers >= 0, got ", printable(length.dump()));
      }
      if (length.get<std::uint64_t>() > longest) {
        fail_file(where_, "shape must be numbers below 2^48, got ", length.get<std::uint64_t>());
      }
      lengths.push_back(length.get<std::int64_t>());
    }
    return lengths;
  }

  void offsets(Entry& entry) const {
    const json& value = field("data_offsets");
    if (!value.is_array() || value.size() != 2 || !value[0].is_number_unsigned() || !value[1].is_number_unsigned()) {
      fail_file(where_, "data_offsets must be two whole numbers >= 0, got ", printable(value.dump()));
    }
    entry.begin = value[0].get<std::uint64_t>();
    entry.end = value[1].get<std::uint64_t>();
    if (entry.begin > entry.end) {
      fail_file(where_, "data_offsets must not be reversed, got ", entry.begin, " and ", entry.end);
    }
    const auto num_bytes = checked_num_bytes(entry.tensor.dtype, entry.tensor.shape);
    if (!num_bytes) {
      fail_file(where_, "shape must have a representable size in whole bytes, got ",
                describe(entry.tensor.dtype, entry.tensor.shape));
    }
    if (static_cast<std::uint64_t>(*num_bytes) != entry.end - entry.begin) {
      fail_file(where_, "data_offsets must span the tensor's size: ", describe(entry.tensor.dtype, entry.tensor.shape),
                " has ", *num_bytes, " bytes and the offsets span ", entry.end - entry.begin);
    }
    entry.tensor.num_bytes = *num_bytes;
  }

  std::string where_;
  const json& fields_;
  FileContents& contents_;
};

/// Names and metadata are handed out as C strings.
const char* keep_text(const std::string& text, const char* what, const std::string& path, FileContents& contents) {
  if (text.find('\0') != text.npos) fail_unsupported(path, what, " must not hold a zero byte, got ", in_quotes(text));
  return contents.keep(text);
}

std::vector<std::pair<const char*, const char*>> read_metadata(const json& header, const std::string& path,
                                                               FileContents& contents) {
  std::vector<std::pair<const char*, const char*>> metadata;
  const auto found = header.find("__metadata__");
  if (found == header.end()) return metadata;
  if (!found->is_object()) fail_file(path, "__metadata__ must be an object of strings");
  for (const auto& entry : found->items()) {
    if (!entry.value().is_string()) {
      fail_file(path, "__metadata__ must hold strings only, got ", in_quotes(entry.key()), ": ",
                printable(entry.value().dump()));
    }
    metadata.emplace_back(keep_text(entry.key(), "metadata", path, contents),
                          keep_text(entry.value().get_ref<const std::string&>(), "metadata", path, contents));
  }
  return metadata;
}

std::vector<Entry> read_entries(const json& header, const std::string& path, FileContents& contents) {
  std::vector<Entry> entries;
  for (const auto& item : header.items()) {
    if (item.key() == "__metadata__") continue;
    entries.push_back(EntryReader(item.key(), item.value(), path, contents).read());
    entries.back().tensor.name = keep_text(item.key(), "a tensor's name", path, contents);
    if (entries.size() > max_safetensors_entries) {
      fail_unsupported(path, "safetensors header may list at most ", max_safetensors_entries, " tensors");
    }
  }
  return entries;
}

/// Together the tensors must cover every byte of the data once, so that nothing can hide between or behind them.
void check_coverage(const std::vector<Entry>& by_offset, std::uint64_t data_size, const std::string& path) {
  std::uint64_t covered = 0;
  for (const Entry& entry : by_offset) {
    const std::string tensor = in_quotes(entry.tensor.name);
    if (entry.begin < covered) {
      fail_file(path, "safetensors data must not overlap: ", tensor, " begins at ", entry.begin,
                ", before the end of another at ", covered);
    }
    if (entry.begin > covered) {
      fail_file(path, "safetensors data must not have holes: ", tensor, " begins at ", entry.begin,
                " and the data before it end at ", covered);
    }
    if (entry.end > data_size) {
      fail_file(path, "safetensors is truncated: ", tensor, " ends at ", entry.end, " and ", data_size,
                " bytes of data are there");
    }
    covered = entry.end;
  }
  if (covered < data_size) {
    fail_file(path, "safetensors must end with its last tensor, got ", data_size - covered, " more bytes");
  }
}

}  // namespace

Safetensors read_safetensors(std::string_view file, const std::string& path, FileContents& contents) {
  const auto [header_text, data] = split(file, path);
  const json header = parse_json(header_text, path + ": header", {.max_bytes = max_safetensors_header});

  std::vector<Entry> entries = read_entries(header, path, contents);
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  check_coverage(entries, data.size(), path);

  Safetensors result;
  result.metadata = read_metadata(header, path, contents);
  for (Entry& entry : entries) {
    entry.tensor.data = contents.aligned(data.substr(entry.begin, entry.end - entry.begin), entry.tensor.dtype);
    result.tensors.push_back(std::move(entry.tensor));
  }
  return result;
}

}  // namespace rotary
