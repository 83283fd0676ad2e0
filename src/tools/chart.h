// Axes and legends around the curves of a picture.
#pragma once

#include <string>

#include "tools/svg.h"

namespace rotary {

/// Entries of a legend from left to right, each behind its mark.
class Legend {
 public:
  Legend(Svg& svg, double x, double y) : svg_(svg), x_(x), y_(y) {}

  void dot(Tone tone, const std::string& words);
  void ring(Tone tone, const std::string& words);
  void line(Tone tone, const std::string& words, const char* dashes = "");

 private:
  void add(double mark, const std::string& words);

  Svg& svg_;
  double x_, y_;
};

void x_tick(Svg& svg, const Scale& x, const Scale& y, double value, const std::string& words);
/// With a line across the chart.
void y_tick(Svg& svg, const Scale& x, const Scale& y, double value, const std::string& words);
/// The line below the chart, and what both axes show.
void frame(Svg& svg, const Scale& x, const Scale& y, const std::string& x_words, const std::string& y_words);

}  // namespace rotary
