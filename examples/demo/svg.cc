#include "svg.h"

#include <cmath>
#include <cstdio>

namespace demo {
namespace {

std::string pixels(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string attribute(const char* name, const std::string& value) { return std::string(" ") + name + "=\"" + value + "\""; }
std::string attribute(const char* name, double value) { return attribute(name, pixels(value)); }

std::string escaped(const std::string& words) {
  std::string text;
  for (const char c : words) {
    if (c == '<') text += "&lt;";
    else if (c == '&') text += "&amp;";
    else text += c;
  }
  return text;
}

}  // namespace

Svg::Svg(double width, double height) {
  head_ = "<svg xmlns=\"http://www.w3.org/2000/svg\"" +
          attribute("viewBox", "0 0 " + pixels(width) + " " + pixels(height)) + attribute("width", width) +
          attribute("height", height) + " font-family=\"Helvetica, Arial, sans-serif\">\n";
  rectangle({0, 0}, width, height, "#ffffff");
}

void Svg::line(Point from, Point to, const std::string& color, double width, const std::string& dashes) {
  body_ += "<line" + attribute("x1", from.first) + attribute("y1", from.second) + attribute("x2", to.first) +
           attribute("y2", to.second) + attribute("stroke", color) + attribute("stroke-width", width) +
           (dashes.empty() ? "" : attribute("stroke-dasharray", dashes)) + "/>\n";
}

void Svg::curve(const std::vector<Point>& points, const std::string& color, double width) {
  std::string list;
  for (const auto& [x, y] : points) list.append(pixels(x)).append(",").append(pixels(y)).append(" ");
  body_ += "<polyline fill=\"none\" stroke-linejoin=\"round\"" + attribute("points", list) + attribute("stroke", color) +
           attribute("stroke-width", width) + "/>\n";
}

void Svg::dot(Point center, double radius, const std::string& color) {
  body_ += "<circle" + attribute("cx", center.first) + attribute("cy", center.second) + attribute("r", radius) +
           attribute("fill", color) + "/>\n";
}

void Svg::rectangle(Point corner, double width, double height, const std::string& color) {
  body_ += "<rect" + attribute("x", corner.first) + attribute("y", corner.second) + attribute("width", width) +
           attribute("height", height) + attribute("fill", color) + "/>\n";
}

void Svg::text(Point at, const std::string& words, double size, const std::string& color, Anchor anchor, bool bold,
               double rotated_by) {
  const char* anchors[] = {"start", "middle", "end"};
  body_ +=
      "<text" + attribute("x", at.first) + attribute("y", at.second) + attribute("font-size", size) +
      attribute("fill", color) + attribute("text-anchor", anchors[static_cast<int>(anchor)]) +
      (bold ? attribute("font-weight", "bold") : "") +
      (rotated_by != 0
           ? attribute("transform", "rotate(" + pixels(rotated_by) + " " + pixels(at.first) + " " + pixels(at.second) + ")")
           : "") +
      ">" + escaped(words) + "</text>\n";
}

std::string Svg::str() const { return head_ + body_ + "</svg>\n"; }

double Scale::operator()(double value) const {
  const double share = logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  return first + share * (last - first);
}

}  // namespace demo
