#include "base/text.h"

#include <algorithm>
#include <cstddef>

namespace rotary {

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string in_quotes(std::string_view text) { return std::string(1, '"').append(printable(text)).append(1, '"'); }

std::string one_line(std::string_view sentence) {
  constexpr std::size_t longest = 1000, beginning = 600, end = 350;
  if (sentence.size() <= longest) return printable(sentence, std::string::npos);
  const auto is_inside = [&](std::size_t at) { return (sentence[at] & 0xC0) == 0x80; };
  std::size_t left = beginning, right = sentence.size() - end;
  for (int i = 0; i < 3 && is_inside(left); ++i) --left;
  for (int i = 0; i < 3 && is_inside(right); ++i) ++right;
  return printable(sentence.substr(0, left), std::string::npos) + " ... " +
         printable(sentence.substr(right), std::string::npos);
}

std::string in_words(const std::vector<std::string>& names) {
  constexpr std::size_t most = 8;
  const std::size_t shown = std::min(names.size(), most);
  std::string words;
  for (std::size_t i = 0; i < shown; ++i) {
    const bool is_last = i > 0 && i + 1 == names.size();
    words.append(i == 0 ? "" : is_last ? " and " : ", ").append(printable(names[i]));
  }
  if (names.size() > shown) words += " and " + std::to_string(names.size() - shown) + " more";
  return words;
}

}  // namespace rotary
