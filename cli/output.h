// Printing: JSON, numbers, aligned columns, and a progress bar for people who wait.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "rotary/progress.hpp"

namespace rotary::cli {

using Json = nlohmann::ordered_json;

/// On stdout, one line; doubles so that reading them back gives the same bits.
void print_json(const Json& json);

/// To `digits` significant digits, no trailing zeros.
std::string number(double value, int digits = 6);
std::string scientific(double value);  ///< "3.4e-05"

/// Text from a file, with control bytes as \x0a, so that a terminal shows it and does nothing else.
std::string plain(const std::string& text);

/// Columns that a terminal needs for UTF-8 text without wide characters.
std::size_t width(const std::string& text);

/// At most this many columns of a terminal are used.
inline constexpr std::size_t line_width = 100;
/// Lines of at most `columns` columns, broken between words.
std::vector<std::string> wrapped(const std::string& text, std::size_t columns);

/// For a terminal; elsewhere, and where NO_COLOR is set, the text itself.
std::string bold(const std::string& text);
std::string dim(const std::string& text);
std::string yellow(const std::string& text);

/// Rows of cells, each column as wide as its widest cell. Numbers look best to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// On stdout. The columns in `left` are set to the left; the last one is broken into lines where it would not fit.
  void print(const std::string& indent, const std::vector<std::size_t>& left = {}) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// A bar on stderr, drawn only where stderr is a terminal.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar();
  /// Draws what a call of the library reports.
  Progress progress() noexcept;
  void clear();

 private:
  void update(std::int64_t done, std::int64_t total);

  std::string label_;
  bool visible_;
  int drawn_percent_ = -1;
};

}  // namespace rotary::cli
