// Just enough SVG for a picture of a few curves.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace demo {

using Point = std::pair<double, double>;

enum class Anchor { start, middle, end };

class Svg {
 public:
  Svg(double width, double height);

  void line(Point from, Point to, const std::string& color, double width = 1, const std::string& dashes = "");
  void curve(const std::vector<Point>& points, const std::string& color, double width = 2);
  void dot(Point center, double radius, const std::string& color);
  void rectangle(Point corner, double width, double height, const std::string& color);
  void text(Point at, const std::string& words, double size, const std::string& color, Anchor anchor = Anchor::start,
            bool bold = false, double rotated_by = 0);

  /// The whole picture as an SVG file.
  std::string str() const;

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

}  // namespace demo
