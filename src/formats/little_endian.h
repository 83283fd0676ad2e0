// Whole numbers as files hold them.
#pragma once

#include <bit>
#include <cstring>
#include <string_view>

namespace rotary {

static_assert(std::endian::native == std::endian::little, "elements are used as they lie in the file: little-endian");

/// From the front of `bytes`, which must be long enough.
template <class T>
T load_little_endian(std::string_view bytes) noexcept {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

}  // namespace rotary
