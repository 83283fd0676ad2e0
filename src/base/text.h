// Text that came from outside, made fit for a sentence.
#pragma once

#include <string>
#include <string_view>

namespace rotary {

bool is_utf8(std::string_view text) noexcept;

/// Control bytes, and everything above ASCII where the text is not UTF-8, as \x0a; cut after 120 bytes.
std::string printable(std::string_view text);
/// The same between double quotes.
std::string in_quotes(std::string_view text);

}  // namespace rotary
