#pragma once

#include <cstdint>

namespace rotary {

/// To a multiple; n >= 0, so that without a sign a power of two takes no division.
constexpr std::int64_t round_up(std::int64_t n, std::int64_t multiple) noexcept {
  const auto unit = static_cast<std::uint64_t>(multiple);
  return static_cast<std::int64_t>((static_cast<std::uint64_t>(n) + unit - 1) / unit * unit);
}

}  // namespace rotary
