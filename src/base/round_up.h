#pragma once

#include <cstdint>

namespace rotary {

/// To a multiple; n >= 0.
constexpr std::int64_t round_up(std::int64_t n, std::int64_t multiple) noexcept {
  return (n + multiple - 1) / multiple * multiple;
}

}  // namespace rotary
