// Just enough SVG for a picture of a few curves, in colours that follow the page: light or dark.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace rotary {

/// Colours by what they are for.
enum class Tone { ink, faint, grid, main, other, accent };

enum class Anchor { start, middle, end };

using Point = std::pair<double, double>;

class Svg {
 public:
  Svg(double width, double height, const std::string& title);

  void line(Point from, Point to, Tone tone, double width = 1, const char* dashes = "");
  void curve(const std::vector<Point>& points, Tone tone, double width, const char* dashes = "");
  /// The area between an upper and a lower edge, both from left to right.
  void band(const std::vector<Point>& upper, const std::vector<Point>& lower, Tone tone);
  void dot(Point center, double radius, Tone tone);
  void ring(Point center, double radius, Tone tone);
  void text(Point at, const std::string& words, double size, Tone tone, Anchor anchor = Anchor::start, bool bold = false,
            double rotated_by = 0);

  std::string str() const { return head_ + body_ + "</svg>\n"; }

 private:
  std::string head_, body_;
};

/// An axis from data to pixels, straight or logarithmic.
struct Scale {
  double low, high;    // data
  double first, last;  // pixels
  bool logarithmic = false;

  double operator()(double value) const;
};

}  // namespace rotary
