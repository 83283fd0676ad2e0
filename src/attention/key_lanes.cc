#include "attention/key_lanes.h"

#include <cstring>

namespace rotary {
namespace {

/// Words of a key, which stay together: `step` of them from one to the next.
template <class Byte>
struct Words {
  Byte* first;
  std::int64_t step;
};

template <std::size_t bytes>
void copy_words(Words<const std::byte> from, Words<std::byte> to, std::int64_t count) noexcept {
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(to.first + i * to.step * std::int64_t{bytes}, from.first + i * from.step * std::int64_t{bytes}, bytes);
  }
}

std::int64_t word_bytes(DType dtype) noexcept { return bit_size(dtype) / 8 * numbers_together(dtype); }

template <class Byte>
Words<Byte> lane_of(DType dtype, Byte* group, std::int64_t lane) noexcept {
  return {group + lane * word_bytes(dtype), key_lanes};
}

void copy(DType dtype, std::int64_t width, Words<const std::byte> from, Words<std::byte> to) noexcept {
  const std::int64_t count = (width + numbers_together(dtype) - 1) / numbers_together(dtype);
  switch (word_bytes(dtype)) {
    case 1: return copy_words<1>(from, to, count);
    case 2: return copy_words<2>(from, to, count);
    default: return copy_words<4>(from, to, count);
  }
}

}  // namespace

void store_lane(DType dtype, std::int64_t width, const std::byte* row, std::byte* group, std::int64_t lane) noexcept {
  copy(dtype, width, {row, 1}, lane_of(dtype, group, lane));
}

void load_lane(DType dtype, std::int64_t width, const std::byte* group, std::int64_t lane, std::byte* row) noexcept {
  copy(dtype, width, lane_of(dtype, group, lane), {row, 1});
}

void copy_lane(DType dtype, std::int64_t width, const std::byte* from, std::int64_t from_lane, std::byte* to,
               std::int64_t to_lane) noexcept {
  copy(dtype, width, lane_of(dtype, from, from_lane), lane_of(dtype, to, to_lane));
}

}  // namespace rotary
