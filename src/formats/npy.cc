#include "formats/npy.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/component.h"
#include "base/fail.h"
#include "formats/layout.h"
#include "formats/little_endian.h"
#include "formats/npy_header.h"

namespace rotary {
namespace {

// NumPy itself stops at 10,000 bytes, because it evaluates the header as Python.
constexpr std::uint64_t max_header_length = 65'535;

struct Parts {
  NpyHeader header;
  std::string_view data;
};

Parts split(std::string_view bytes, const std::string& where) {
  constexpr std::size_t version_end = npy_magic.size() + 2;
  if (!bytes.starts_with(npy_magic)) fail_file(where, "a .npy array must begin with \\x93NUMPY");
  if (bytes.size() < version_end) fail_file(where, ".npy is truncated: it ends after ", bytes.size(), " bytes");
  const int major = static_cast<std::uint8_t>(bytes[version_end - 2]);
  const int minor = static_cast<std::uint8_t>(bytes[version_end - 1]);
  if (major < 1 || major > 3 || minor != 0) {
    fail_file(where, ".npy version must be 1.0, 2.0 or 3.0, got ", major, ".", minor);
  }

  const std::size_t length_size = major == 1 ? 2 : 4;
  std::string_view rest = bytes.substr(version_end);
  if (rest.size() < length_size) fail_file(where, ".npy is truncated: it ends after ", bytes.size(), " bytes");
  const std::uint64_t length =
      major == 1 ? load_little_endian<std::uint16_t>(rest) : load_little_endian<std::uint32_t>(rest);
  rest.remove_prefix(length_size);
  if (length > max_header_length) {
    fail_file(where, ".npy header length must be at most ", max_header_length, ", got ", length);
  }
  if (length > rest.size()) {
    fail_file(where, ".npy is truncated: the header is ", length, " bytes long and ", rest.size(), " bytes are there");
  }
  return {parse_npy_header(rest.substr(0, length), where), rest.substr(length)};
}

const char* byte_swapped(std::string_view data, std::int64_t size, FileContents& contents) {
  char* const copy = contents.allocate(data.size());
  for (std::size_t i = 0; i < data.size(); i += static_cast<std::size_t>(size)) {
    std::reverse_copy(data.data() + i, data.data() + i + size, copy + i);
  }
  return copy;
}

}  // namespace

StoredTensor read_npy(std::string_view bytes, const std::string& where, FileContents& contents) {
  const auto [header, data] = split(bytes, where);
  const auto num_bytes = checked_num_bytes(header.dtype, header.shape);
  if (!num_bytes) {
    fail_file(where, ".npy shape must have a representable size, got ", describe(header.dtype, header.shape));
  }
  const auto available = static_cast<std::int64_t>(data.size());
  if (*num_bytes > available) {
    fail_file(where, ".npy is truncated: ", describe(header.dtype, header.shape), " needs ", *num_bytes, " bytes and ",
              available, " are there");
  }
  if (*num_bytes < available) {
    fail_file(where, ".npy must end with its array, got ", available - *num_bytes, " more bytes");
  }

  StoredTensor tensor;
  tensor.dtype = header.dtype;
  tensor.shape = header.shape;
  tensor.strides = header.fortran_order ? column_major_strides(header.shape) : row_major_strides(header.shape);
  tensor.num_bytes = *num_bytes;
  const std::int64_t component = component_size(header.dtype);
  tensor.data =
      header.big_endian && component > 1 ? byte_swapped(data, component, contents) : contents.aligned(data, header.dtype);
  return tensor;
}

}  // namespace rotary
