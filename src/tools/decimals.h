// Numbers as people write them.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <string>

namespace rotary {

/// The shortest decimals that read back to the same number, without an exponent where that is the usual way to write it.
inline std::string shortest(double value) {
  std::array<char, 64> text;
  const bool usual = value == 0 || (std::abs(value) >= 1e-4 && std::abs(value) < 1e15);
  const auto format = usual ? std::chars_format::fixed : std::chars_format::scientific;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value, format).ptr};
}

/// To two significant digits.
inline std::string rough(double value) {
  std::array<char, 64> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 2).ptr};
}

}  // namespace rotary
