// Text that came from outside, made fit for a sentence.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/printable.h"

namespace rotary {

bool is_utf8(std::string_view text) noexcept;

/// printable(), cut after 120 bytes, between double quotes.
std::string in_quotes(std::string_view text);

/// A finished sentence in which text from a file may stand: printable, and without its middle where it is longer than some
/// 1,000 bytes, so that the rule at its end stays.
std::string one_line(std::string_view sentence);

/// "a, b and c"; of more than 8 names the first 8 "and N more".
std::string in_words(const std::vector<std::string>& names);

}  // namespace rotary
