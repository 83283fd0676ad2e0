#include "tools/svg.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/text.h"

namespace rotary {
namespace {

// One rule per tone for strokes and one for fills. What does not know media queries sees the light ones.
constexpr const char* style = R"(<style>
  text { font-family: system-ui, "Segoe UI", "Helvetica Neue", Helvetica, Arial, sans-serif; }
  .paper { fill: #ffffff; }
  .ink { fill: #1f2937; } .ink-line { stroke: #1f2937; }
  .faint { fill: #6b7280; } .faint-line { stroke: #6b7280; }
  .grid { fill: #e5e7eb; } .grid-line { stroke: #e5e7eb; }
  .main { fill: #2563eb; } .main-line { stroke: #2563eb; }
  .other { fill: #9ca3af; } .other-line { stroke: #9ca3af; }
  .accent { fill: #ea580c; } .accent-line { stroke: #ea580c; }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117; }
    .ink { fill: #e6edf3; } .ink-line { stroke: #e6edf3; }
    .faint { fill: #9da7b3; } .faint-line { stroke: #9da7b3; }
    .grid { fill: #262c36; } .grid-line { stroke: #262c36; }
    .main { fill: #6ea8fe; } .main-line { stroke: #6ea8fe; }
    .other { fill: #6b7480; } .other-line { stroke: #6b7480; }
    .accent { fill: #ff9b5e; } .accent-line { stroke: #ff9b5e; }
  }
</style>
)";

std::string name(Tone tone) {
  switch (tone) {
    case Tone::ink: return "ink";
    case Tone::faint: return "faint";
    case Tone::grid: return "grid";
    case Tone::main: return "main";
    case Tone::other: return "other";
    case Tone::accent: return "accent";
  }
  return "ink";
}

std::string pixels(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

std::string attribute(const char* key, const std::string& value) { return std::string(" ") + key + "=\"" + value + "\""; }
std::string attribute(const char* key, double value) { return attribute(key, pixels(value)); }

/// Fit for XML, whatever a file put into a name.
std::string escaped(const std::string& words) {
  std::string text;
  for (const char c : printable(words)) {
    if (c == '<') text += "&lt;";
    else if (c == '&') text += "&amp;";
    else text += c;
  }
  return text;
}

std::string list(const std::vector<Point>& points) {
  std::string text;
  for (const auto& [x, y] : points) text.append(pixels(x)).append(",").append(pixels(y)).append(" ");
  return text;
}

std::string stroke(Tone tone, double width, const char* dashes) {
  return attribute("class", name(tone) + "-line") + attribute("stroke-width", width) +
         (*dashes == '\0' ? "" : attribute("stroke-dasharray", dashes));
}

}  // namespace

Svg::Svg(double width, double height, const std::string& title) {
  head_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\"" +
          attribute("viewBox", "0 0 " + pixels(width) + " " + pixels(height)) + attribute("width", width) +
          attribute("height", height) + ">\n<title>" + escaped(title) + "</title>\n" + style + "<rect class=\"paper\"" +
          attribute("width", width) + attribute("height", height) + "/>\n";
}

void Svg::line(Point from, Point to, Tone tone, double width, const char* dashes) {
  body_ += "<line" + attribute("x1", from.first) + attribute("y1", from.second) + attribute("x2", to.first) +
           attribute("y2", to.second) + stroke(tone, width, dashes) + "/>\n";
}

void Svg::curve(const std::vector<Point>& points, Tone tone, double width, const char* dashes) {
  body_ += "<polyline fill=\"none\" stroke-linejoin=\"round\"" + attribute("points", list(points)) +
           stroke(tone, width, dashes) + "/>\n";
}

void Svg::band(const std::vector<Point>& upper, const std::vector<Point>& lower, Tone tone) {
  std::vector<Point> around = upper;
  around.insert(around.end(), lower.rbegin(), lower.rend());
  body_ += "<polygon fill-opacity=\"0.35\"" + attribute("points", list(around)) + attribute("class", name(tone)) + "/>\n";
}

void Svg::dot(Point center, double radius, Tone tone) {
  body_ += "<circle" + attribute("cx", center.first) + attribute("cy", center.second) + attribute("r", radius) +
           attribute("class", name(tone)) + "/>\n";
}

void Svg::ring(Point center, double radius, Tone tone) {
  body_ += "<circle fill=\"none\"" + attribute("cx", center.first) + attribute("cy", center.second) +
           attribute("r", radius) + stroke(tone, 1.5, "") + "/>\n";
}

void Svg::text(Point at, const std::string& words, double size, Tone tone, Anchor anchor, bool bold, double rotated_by) {
  const char* anchors[] = {"start", "middle", "end"};
  const std::string turn = "rotate(" + pixels(rotated_by) + " " + pixels(at.first) + " " + pixels(at.second) + ")";
  body_ += "<text" + attribute("x", at.first) + attribute("y", at.second) + attribute("font-size", size) +
           attribute("class", name(tone)) + attribute("text-anchor", anchors[static_cast<int>(anchor)]) +
           (bold ? attribute("font-weight", "600") : "") + (rotated_by != 0 ? attribute("transform", turn) : "") + ">" +
           escaped(words) + "</text>\n";
}

double Scale::operator()(double value) const {
  const double share = logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  return first + std::clamp(share, 0.0, 1.0) * (last - first);
}

}  // namespace rotary
