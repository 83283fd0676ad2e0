// How elements lie in a file: sizes, strides, and the words for them in errors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rotary/dtype.hpp"

namespace rotary {

/// NumPy's own limit. A file with more axes is well formed, but nothing uses it.
inline constexpr std::size_t max_stored_rank = 64;

/// Nothing where the size is not representable, or not a whole number of bytes.
std::optional<std::int64_t> checked_num_bytes(DType dtype, const std::vector<std::int64_t>& shape) noexcept;

std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& shape);
std::vector<std::int64_t> column_major_strides(const std::vector<std::int64_t>& shape);

/// "float32 (2, 3)"
std::string describe(DType dtype, const std::vector<std::int64_t>& shape);

}  // namespace rotary
