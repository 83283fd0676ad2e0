// Keys as lanes: the numbers of key_lanes keys that follow each other, a group, channel by channel. A vector then holds one
// channel of many keys, and their scores need no sum over its lanes. See KeyLayout.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/decode.h"
#include "rotary/dtype.hpp"

namespace rotary {

/// Numbers of a key that stay together: of bfloat16 two, so that a word holds them.
constexpr std::int64_t numbers_together(DType dtype) noexcept { return dtype == DType::bf16 ? 2 : 1; }

/// Copies a key of `width` numbers, as they are, from or to a row, which has room for an even number of them, or to another group.
void store_lane(DType dtype, std::int64_t width, const std::byte* row, std::byte* group, std::int64_t lane) noexcept;
void load_lane(DType dtype, std::int64_t width, const std::byte* group, std::int64_t lane, std::byte* row) noexcept;
void copy_lane(DType dtype, std::int64_t width, const std::byte* from, std::int64_t from_lane, std::byte* to,
               std::int64_t to_lane) noexcept;

}  // namespace rotary
