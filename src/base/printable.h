// Text that came from outside, as a terminal may show it. In a header alone, so that the program has it without the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace rotary {

/// How many bytes the UTF-8 sequence at the front takes, 0 where there is none (Unicode 15, table 3-7).
inline std::size_t utf8_length(std::string_view text) noexcept {
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

/// Whether a character changes how the text around it is shown: control characters, breaks of lines, and the marks that turn
/// the direction of writing, by which a sentence can be made to look like another one.
inline bool steers_the_terminal(std::string_view character) noexcept {
  std::uint32_t point = static_cast<std::uint8_t>(character[0]);
  if (character.size() > 1) point &= 0x7Fu >> character.size();
  for (const char c : character.substr(1)) point = point << 6 | (static_cast<std::uint8_t>(c) & 0x3F);
  return point < 0x20 || (point >= 0x7F && point < 0xA0) || point == 0x061C || (point >= 0x200E && point <= 0x200F) ||
         (point >= 0x2028 && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069);
}

/// Control characters, and everything above ASCII where the text is not UTF-8, byte by byte as \x0a. Cut after `longest`
/// bytes.
inline std::string printable(std::string_view text, std::size_t longest = 120) {
  std::string shown;
  while (!text.empty()) {
    if (shown.size() >= longest) return shown + "...";
    const std::size_t length = utf8_length(text);
    const std::string_view character = text.substr(0, length == 0 ? 1 : length);
    if (length == 0 || steers_the_terminal(character)) {
      for (const char c : character) {
        constexpr char digits[] = "0123456789abcdef";
        const auto byte = static_cast<std::uint8_t>(c);
        shown.append("\\x").append({digits[byte >> 4], digits[byte & 15]});
      }
    } else {
      shown.append(character);
    }
    text.remove_prefix(character.size());
  }
  return shown;
}

}  // namespace rotary
