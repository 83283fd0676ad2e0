#include "formats/gguf_header.h"

#include <algorithm>
#include <set>

#include "base/checked.h"
#include "base/fail.h"
#include "base/text.h"
#include "formats/ggml_type.h"
#include "formats/little_endian.h"

namespace rotary {
namespace {

constexpr std::string_view magic = "GGUF";
constexpr std::uint64_t text_length_size = 8;

// What an entry takes at least: a key of one byte and a value of one; a nameless tensor without dims.
constexpr std::uint64_t smallest_value = text_length_size + 1 + 4 + 1;
constexpr std::uint64_t smallest_tensor = text_length_size + 4 + 4 + 8;

/// Walks over the header; nothing is taken that is not there.
class Cursor {
 public:
  Cursor(std::string_view file, const std::string& path) : file_(file), path_(path) {}

  std::uint64_t position() const noexcept { return position_; }
  std::uint64_t left() const noexcept { return file_.size() - position_; }
  const char* here() const noexcept { return file_.data() + position_; }

  /// `what` becomes a part of the sentence, if there is need for one.
  template <class... What>
  std::string_view take(std::uint64_t size, const What&... what) {
    if (size > left()) {
      fail_file(path_, "GGUF is truncated: ", what..., " takes ", size, " bytes from byte ", position_, " on, and ", left(),
                " are there");
    }
    const std::string_view taken = file_.substr(position_, size);
    position_ += size;
    return taken;
  }

  template <class T, class... What>
  T number(const What&... what) {
    return load_little_endian<T>(take(sizeof(T), what...));
  }

  template <class... What>
  std::string_view text(const What&... what) {
    const auto length = number<std::uint64_t>("the length of ", what...);
    return take(length, what...);
  }

 private:
  std::string_view file_;
  const std::string& path_;
  std::uint64_t position_ = 0;
};

class HeaderReader {
 public:
  HeaderReader(std::string_view file, const char* path, FileContents& contents)
      : file_(file), path_(path), cursor_(file, path_), contents_(contents) {
    header_.part.path = path;
  }

  GgufHeader read() {
    read_magic();
    read_version();
    const auto num_tensors = cursor_.number<std::uint64_t>("the number of tensors");
    const auto num_values = cursor_.number<std::uint64_t>("the number of keys");
    check_count(num_values, "keys", smallest_value);
    check_count(num_tensors, "tensors", smallest_tensor);

    for (std::uint64_t i = 0; i < num_values; ++i) read_value();
    for (std::uint64_t i = 0; i < num_tensors; ++i) read_tensor();
    find_data_section();
    for (GgufTensor& tensor : header_.tensors) place(tensor);
    check_overlap();
    warn_of_gaps();
    return std::move(header_);
  }

 private:
  void read_magic() {
    const std::string_view begin = file_.substr(0, magic.size());
    if (begin != magic.substr(0, begin.size())) fail_file(path_, "must begin with GGUF, got ", in_quotes(begin));
    cursor_.take(magic.size(), "the mark GGUF");
  }

  void read_version() {
    const auto version = cursor_.number<std::uint32_t>("the version");
    if (version != 0 && (version & 0xFFFF) == 0) {
      fail_unsupported(path_, "GGUF must be little-endian, and this one is big-endian: its version reads as ", version);
    }
    if (version != 2 && version != 3) fail_unsupported(path_, "GGUF version must be 2 or 3, got ", version);
    header_.part.version = version;
  }

  void check_count(std::uint64_t count, const char* what, std::uint64_t smallest) const {
    if (count > cursor_.left() / smallest) {
      fail_file(path_, "GGUF is truncated, or its number of ", what, " is wrong: got ", count, " of at least ", smallest,
                " bytes each, and ", cursor_.left(), " bytes are there");
    }
    if (count > max_gguf_entries) {
      fail_unsupported(path_, "GGUF may list at most ", max_gguf_entries, " ", what, ", got ", count);
    }
  }

  void read_value() {
    const std::string_view key = read_key();
    const std::string where = "key " + in_quotes(key);
    if (!keys_.insert(key).second) fail_file(path_, "keys must be different, got ", in_quotes(key), " twice");

    GgufValue value;
    value.key = contents_.keep(std::string(key));
    value.path = header_.part.path;
    value.type = read_type(where);
    if (value.type == GgufType::array) {
      value.is_array = true;
      read_array_head(value, where);
    }
    value.data = cursor_.here();
    if (value.type == GgufType::string) {
      skip_strings(value, where);
    } else {
      const auto bytes = cursor_.take(static_cast<std::uint64_t>(value.size) * gguf_element_size(value.type), where);
      if (value.type == GgufType::boolean) check_booleans(bytes, where);
    }
    header_.values.push_back(value);
  }

  std::string_view read_key() {
    const std::string_view key = cursor_.text("a key");
    if (key.empty()) fail_file(path_, "a key must not be empty");
    if (key.size() > max_gguf_key) {
      fail_file(path_, "a key must be at most ", max_gguf_key, " bytes long, got ", key.size());
    }
    const auto is_plain = [](char c) { return c >= 0x20 && c < 0x7F; };
    if (!std::all_of(key.begin(), key.end(), is_plain)) {
      fail_file(path_, "a key must be ASCII without control characters, got ", in_quotes(key));
    }
    return key;
  }

  GgufType read_type(const std::string& where) {
    const auto type = cursor_.number<std::uint32_t>(where, ": the type");
    if (type > static_cast<std::uint32_t>(GgufType::f64)) {
      fail_file(path_, where, ": the value's type must be 0 ... 12, got ", type);
    }
    return static_cast<GgufType>(type);
  }

  void read_array_head(GgufValue& value, const std::string& where) {
    value.type = read_type(where);
    if (value.type == GgufType::array) fail_unsupported(path_ + ": " + where, "an array must not hold arrays");
    const auto count = cursor_.number<std::uint64_t>(where, ": the number of elements");
    const std::uint64_t smallest = value.type == GgufType::string ? text_length_size : gguf_element_size(value.type);
    if (count > cursor_.left() / smallest) {
      fail_file(path_, where, ": the array must fit in the file, got ", count, " elements of at least ", smallest,
                " bytes with ", cursor_.left(), " bytes there");
    }
    if (count > max_gguf_array) {
      fail_unsupported(path_ + ": " + where, "an array may have at most ", max_gguf_array, " elements, got ", count);
    }
    value.size = static_cast<std::int64_t>(count);
  }

  void skip_strings(const GgufValue& value, const std::string& where) {
    for (std::int64_t i = 0; i < value.size; ++i) {
      const std::string_view text = cursor_.text("a string of ", where);
      if (!value.is_array && !is_utf8(text)) fail_file(path_, where, ": a string must be UTF-8, got ", in_quotes(text));
    }
  }

  void check_booleans(std::string_view bytes, const std::string& where) const {
    for (const char byte : bytes) {
      if (byte != 0 && byte != 1) {
        fail_file(path_, where, ": a boolean must be 0 or 1, got ", int{static_cast<std::uint8_t>(byte)});
      }
    }
  }

  void read_tensor() {
    const std::string_view name = cursor_.text("a tensor's name");
    const std::string where = "tensor " + in_quotes(name);
    if (name.size() > max_gguf_tensor_name) {
      fail_file(path_, where, ": the name must be at most ", max_gguf_tensor_name, " bytes long, got ", name.size());
    }
    if (!is_utf8(name)) fail_file(path_, where, ": the name must be UTF-8");
    if (name.find('\0') != name.npos) fail_unsupported(path_ + ": " + where, "the name must not hold a zero byte");
    if (!names_.insert(name).second) fail_file(path_, "tensors must have different names, got ", in_quotes(name), " twice");
    if (name.size() == max_gguf_tensor_name) {
      contents_.warnings.push_back(
          contents_.keep(path_ + ": " + where + " has a name of 64 bytes, and llama.cpp takes 63"));
    }

    GgufTensor tensor;
    tensor.name = contents_.keep(std::string(name));
    read_dims(tensor, where);
    read_tensor_type(tensor, where);
    tensor.offset = read_offset(where);
    header_.tensors.push_back(std::move(tensor));
  }

  void read_dims(GgufTensor& tensor, const std::string& where) {
    constexpr std::uint32_t max_dims = 4;
    const auto num_dims = cursor_.number<std::uint32_t>(where, ": the number of dims");
    if (num_dims > max_dims) fail_file(path_, where, ": must have at most 4 dims, got ", num_dims);
    for (std::uint32_t i = 0; i < num_dims; ++i) {
      const auto dim = cursor_.number<std::uint64_t>(where, ": a dim");
      if (dim > INT64_MAX) fail_file(path_, where, ": dims must be below 2^63, got ", dim);
      tensor.dims.push_back(static_cast<std::int64_t>(dim));
    }
  }

  void read_tensor_type(GgufTensor& tensor, const std::string& where) {
    tensor.type = cursor_.number<std::uint32_t>(where, ": the type");
    const GgmlType* const type = find_ggml_type(tensor.type);
    if (type == nullptr) {
      fail_unsupported(path_ + ": " + where, "the type must be one of ggml's, below 43 and not removed, got ", tensor.type);
    }
    tensor.type_name = type->name;
    const std::int64_t row = tensor.dims.empty() ? 1 : tensor.dims[0];
    if (row % type->block_length != 0) {
      fail_file(path_, where, ": dims[0] must be a multiple of ", type->block_length, ", the block of ", type->name,
                ", got ", row);
    }
    const auto count = checked_product(tensor.dims);
    const auto num_bytes = count ? checked_mul(*count / type->block_length, type->block_bytes) : std::nullopt;
    if (!num_bytes) fail_file(path_, where, ": the size must be below 2^63 elements and bytes, got ", describe(tensor));
    tensor.num_bytes = *num_bytes;
  }

  static std::string describe(const GgufTensor& tensor) {
    std::string text = tensor.type_name;
    for (std::size_t i = 0; i < tensor.dims.size(); ++i) text += (i == 0 ? " " : " x ") + std::to_string(tensor.dims[i]);
    return text;
  }

  std::int64_t read_offset(const std::string& where) {
    const auto offset = cursor_.number<std::uint64_t>(where, ": the offset");
    if (offset > file_.size()) {
      fail_file(path_, where, ": the offset must lie in the file, got ", offset, " of ", file_.size(), " bytes");
    }
    return static_cast<std::int64_t>(offset);
  }

  /// It begins at the next multiple of the alignment behind the tensors' list. Without tensors the file may end before.
  void find_data_section() {
    const auto stated = std::find_if(header_.values.begin(), header_.values.end(), [](const GgufValue& value) {
      return std::string_view(value.key) == "general.alignment";
    });
    if (stated != header_.values.end()) {
      if (stated->type != GgufType::u32 || stated->is_array) {
        fail_file(path_, "general.alignment must be a uint32, got ", stated->is_array ? "an array" : name(stated->type));
      }
      header_.part.alignment = stated->integer();
    }
    const std::int64_t alignment = header_.part.alignment;
    if (alignment < 8 || (alignment & (alignment - 1)) != 0) {
      fail_file(path_, "general.alignment must be a power of two from 8 on, got ", alignment);
    }
    const auto end = static_cast<std::int64_t>(cursor_.position());
    header_.part.data_start = (end + alignment - 1) / alignment * alignment;
  }

  void place(GgufTensor& tensor) const {
    const std::string where = "tensor " + in_quotes(tensor.name);
    const auto [alignment, data_start] = std::pair(header_.part.alignment, header_.part.data_start);
    if (tensor.offset % alignment != 0) {
      fail_file(path_, where, ": the offset must be a multiple of the alignment, got ", tensor.offset, " and ", alignment);
    }
    const std::int64_t there = std::max<std::int64_t>(static_cast<std::int64_t>(file_.size()) - data_start, 0);
    if (tensor.offset > there || tensor.num_bytes > there - tensor.offset) {
      fail_file(path_, "GGUF is truncated: ", where, " (", describe(tensor), ") takes ", tensor.num_bytes,
                " bytes of data from ", tensor.offset, " on, and ", there, " bytes of data are there");
    }
    if (tensor.num_bytes > 0) tensor.data = file_.data() + data_start + tensor.offset;
  }

  void check_overlap() const {
    std::vector<const GgufTensor*> by_offset;
    for (const GgufTensor& tensor : header_.tensors) {
      if (tensor.num_bytes > 0) by_offset.push_back(&tensor);
    }
    std::sort(by_offset.begin(), by_offset.end(),
              [](const GgufTensor* a, const GgufTensor* b) { return a->offset < b->offset; });
    for (std::size_t i = 1; i < by_offset.size(); ++i) {
      const GgufTensor &before = *by_offset[i - 1], &tensor = *by_offset[i];
      if (tensor.offset < before.offset + before.num_bytes) {
        fail_file(path_, "tensors must not overlap: ", in_quotes(tensor.name), " begins at ", tensor.offset, ", before ",
                  in_quotes(before.name), " ends at ", before.offset + before.num_bytes);
      }
    }
  }

  /// ggml wants each tensor where the one before it ends, padded to the alignment.
  void warn_of_gaps() {
    std::int64_t expected = 0;
    for (const GgufTensor& tensor : header_.tensors) {
      if (tensor.offset != expected) {
        contents_.warnings.push_back(
            contents_.keep(sentence(path_, ": tensor ", in_quotes(tensor.name), " has its data at ", tensor.offset,
                                    ", and llama.cpp takes only ", expected, ", right behind the tensor before it")));
        return;
      }
      const std::int64_t alignment = header_.part.alignment;
      expected += (tensor.num_bytes + alignment - 1) / alignment * alignment;
    }
  }

  std::string_view file_;
  std::string path_;
  Cursor cursor_;
  FileContents& contents_;
  GgufHeader header_;
  std::set<std::string_view> keys_, names_;
};

}  // namespace

GgufHeader read_gguf_header(std::string_view file, const char* path, FileContents& contents) {
  return HeaderReader(file, path, contents).read();
}

}  // namespace rotary
