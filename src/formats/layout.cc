#include "formats/layout.h"

#include <algorithm>

#include "base/checked.h"
#include "base/strides.h"

namespace rotary {

std::optional<std::int64_t> checked_num_bytes(DType dtype, const std::vector<std::int64_t>& shape) noexcept {
  const auto count = checked_product(shape);
  const auto bits = count ? checked_mul(*count, bit_size(dtype)) : std::nullopt;
  if (!bits || *bits % 8 != 0) return std::nullopt;
  return *bits / 8;
}

std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& shape) { return dense_strides(shape, true); }

std::vector<std::int64_t> column_major_strides(const std::vector<std::int64_t>& shape) {
  return dense_strides(shape, false);
}

std::string describe(DType dtype, const std::vector<std::int64_t>& shape) {
  std::string text = std::string(name(dtype)) + " (";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + ")";
}

}  // namespace rotary
