#include "base/text.h"

#include <cstddef>
#include <cstdint>

namespace rotary {
namespace {

/// How many bytes the UTF-8 sequence at the front takes, 0 where there is none (Unicode 15, table 3-7).
std::size_t sequence_length(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<std::uint8_t>(text[i]) : 0; };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const int lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;  // a continuation, or an overlong form of ASCII
  if (lead < 0xE0) return continues(1) ? 2 : 0;
  if (lead < 0xF0) {
    if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) >= 0xA0)) return 0;  // overlong, surrogate
    return continues(1) && continues(2) ? 3 : 0;
  }
  if (lead > 0xF4 || (lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) >= 0x90)) return 0;
  return continues(1) && continues(2) && continues(3) ? 4 : 0;
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string printable(std::string_view text) {
  constexpr std::size_t longest = 120;
  std::string shown;
  while (!text.empty()) {
    if (shown.size() >= longest) return shown + "...";
    const std::size_t length = sequence_length(text);
    const auto byte = static_cast<std::uint8_t>(text.front());
    if (length == 0 || byte < 0x20 || byte == 0x7F) {
      constexpr char digits[] = "0123456789abcdef";
      shown.append("\\x").append({digits[byte >> 4], digits[byte & 15]});
      text.remove_prefix(1);
    } else {
      shown.append(text.substr(0, length));
      text.remove_prefix(length);
    }
  }
  return shown;
}

std::string in_quotes(std::string_view text) { return std::string(1, '"').append(printable(text)).append(1, '"'); }

}  // namespace rotary
