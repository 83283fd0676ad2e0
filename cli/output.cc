#include "output.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>

#include "base/printable.h"

namespace rotary::cli {
namespace {

std::string formatted(const char* format, int digits, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, digits, value);
  return text;
}

std::string styled(const std::string& text, const char* code) {
  static const bool coloured = [] {
    const char* no_color = std::getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) == 1 && (no_color == nullptr || *no_color == '\0');
  }();
  return coloured ? "\033[" + std::string(code) + "m" + text + "\033[0m" : text;
}

/// At most so many bytes, not ending within a character.
std::size_t whole_characters(const std::string& text, std::size_t bytes) {
  while (bytes > 1 && (text[bytes] & 0xC0) == 0x80) --bytes;
  return bytes;
}

}  // namespace

void print_json(const Json& json) {
  std::cout << json.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';  // paths may hold any byte
}

std::string number(double value, int digits) { return formatted("%.*g", digits, value); }
std::string scientific(double value) { return value == 0 ? "0" : formatted("%.*e", 1, value); }

std::string plain(const std::string& text) { return printable(text, std::string::npos); }

std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::vector<std::string> wrapped(const std::string& text, std::size_t columns) {
  std::vector<std::string> lines;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!lines.empty() && width(lines.back()) + 1 + width(word) <= columns) {
      lines.back() += " " + word;
      continue;
    }
    for (; word.size() > columns && width(word) > columns; word.erase(0, lines.back().size())) {
      const std::size_t dot = word.rfind('.', columns - 1);  // of a.long.key, the last one that fits
      lines.push_back(word.substr(0, dot == word.npos ? whole_characters(word, columns) : dot + 1));
    }
    lines.push_back(word);
  }
  return lines;
}

std::string bold(const std::string& text) { return styled(text, "1"); }
std::string dim(const std::string& text) { return styled(text, "2"); }
std::string yellow(const std::string& text) { return styled(text, "33"); }

void Table::print(const std::string& indent, const std::vector<std::size_t>& left) const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], width(row[column]));
    }
  }
  std::size_t before_last = indent.size();
  for (std::size_t column = 0; column + 1 < widths.size(); ++column) before_last += widths[column] + 2;
  const std::size_t room = line_width > before_last + 20 ? line_width - before_last : 20;
  const bool may_break = std::find(left.begin(), left.end(), widths.size() - 1) != left.end();
  for (std::vector<std::string> row : rows_) {
    std::vector<std::string> more;
    if (may_break && row.size() == widths.size() && width(row.back()) > room) {
      more = wrapped(row.back(), room);
      row.back() = more.front();
      more.erase(more.begin());
    }
    std::string line = indent;
    for (std::size_t column = 0; column < row.size(); ++column) {
      const std::string padding(std::max(widths[column], width(row[column])) - width(row[column]), ' ');
      const bool to_the_left = std::find(left.begin(), left.end(), column) != left.end();
      line += (column > 0 ? "  " : "") + (to_the_left ? row[column] + padding : padding + row[column]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::cout << line << '\n';
    for (const std::string& rest : more) std::cout << std::string(before_last, ' ') << rest << '\n';
  }
}

ProgressBar::ProgressBar(std::string label) : label_(std::move(label)), visible_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() { clear(); }

Progress ProgressBar::progress() noexcept {
  return {[](void* bar, std::int64_t done, std::int64_t total) { static_cast<ProgressBar*>(bar)->update(done, total); },
          this};
}

void ProgressBar::clear() {
  if (drawn_percent_ >= 0) std::cerr << "\r\033[K" << std::flush;
  drawn_percent_ = -1;
}

void ProgressBar::update(std::int64_t done, std::int64_t total) {
  if (!visible_ || total <= 0) return;
  const int percent = static_cast<int>(100 * done / total);
  if (percent == drawn_percent_) return;
  drawn_percent_ = percent;
  constexpr int length = 30;
  const auto filled = static_cast<std::size_t>(percent * length / 100);
  std::cerr << '\r' << label_ << " [" << std::string(filled, '=') << std::string(length - filled, ' ') << "] " << percent
            << "%" << std::flush;
}

}  // namespace rotary::cli
