#include "output.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

namespace rotary::cli {
namespace {

std::string formatted(const char* format, int digits, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, digits, value);
  return text;
}

/// Columns that a terminal needs for UTF-8 text without wide characters.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

void print_json(const Json& json) { std::cout << json.dump() << '\n'; }

std::string number(double value, int digits) { return formatted("%.*g", digits, value); }
std::string scientific(double value) { return value == 0 ? "0" : formatted("%.*e", 1, value); }

void Table::print(const std::string& indent, const std::vector<std::size_t>& left) const {
  std::vector<std::size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], width(row[column]));
    }
  }
  for (const auto& row : rows_) {
    std::string line = indent;
    for (std::size_t column = 0; column < row.size(); ++column) {
      const std::string padding(widths[column] - width(row[column]), ' ');
      const bool to_the_left = std::find(left.begin(), left.end(), column) != left.end();
      line += (column > 0 ? "  " : "") + (to_the_left ? row[column] + padding : padding + row[column]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    std::cout << line << '\n';
  }
}

ProgressBar::ProgressBar(std::string label) : label_(std::move(label)), visible_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() { clear(); }

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
