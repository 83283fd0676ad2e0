// Two counter-examples as curves: a score that rises with the distance, and one that was right up to a length.
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "base/fail.h"
#include "formats/atomic_file.h"
#include "rotary/claims.hpp"
#include "tools/chart.h"
#include "tools/decimals.h"
#include "tools/svg.h"

namespace rotary {
namespace {

constexpr double width = 960, height = 372;
constexpr double top = 74, bottom = 312;
constexpr double left_first = 84, left_last = 462;
constexpr double right_first = 562, right_last = 934;

const Claim& claim_in(const std::vector<Claim>& claims, std::string_view id) {
  for (const Claim& claim : claims) {
    if (id == claim.id) return claim;
  }
  fail_argument("claims_svg", "needs the claim ", id);
}

const std::vector<double>& figure(const Claim& claim, std::string_view name) {
  for (const ClaimFigure& figure : claim.figures) {
    if (name == figure.name) return figure.values;
  }
  fail_argument("claims_svg", "needs the figure ", name, " of the claim ", claim.id);
}

std::vector<Point> curve_of(const std::vector<double>& scores, const Scale& x, const Scale& y) {
  std::vector<Point> points;
  for (std::size_t d = 0; d < scores.size(); ++d) points.emplace_back(x(static_cast<double>(d)), y(scores[d]));
  return points;
}

/// A chart of scores by distance. The scale of its scores comes back.
Scale draw_axes(Svg& svg, const Scale& x, const std::vector<double>& scores, const std::string& title) {
  constexpr double step = 0.2;
  const auto [low, high] = std::minmax_element(scores.begin(), scores.end());
  const int first_line = static_cast<int>(std::floor(std::min(0.0, *low) / step));
  const int last_line = static_cast<int>(std::ceil(*high / step - 0.01));
  const Scale y{step * first_line, step * last_line, bottom, top};
  svg.text({x.first - 62, 30}, title, 14, Tone::ink, Anchor::start, true);
  for (int line = first_line; line <= last_line; ++line) y_tick(svg, x, y, step * line, rough(step * line));
  for (int distance = 0; distance <= x.high; distance += 64) x_tick(svg, x, y, distance, std::to_string(distance));
  frame(svg, x, y, "distance", "score");
  return y;
}

void draw_rise(Svg& svg, const Claim& claim) {
  const auto& scores = figure(claim, "scores");
  const Scale x{0, static_cast<double>(scores.size()), left_first, left_last};
  const Scale y = draw_axes(svg, x, scores, "A score does not fall with the distance");
  svg.curve(curve_of(scores, x, y), Tone::main, 1.6);
  for (const auto& [distance, score] : {std::pair{"near", "score_near"}, std::pair{"far", "score_far"}}) {
    svg.dot({x(figure(claim, distance).at(0)), y(figure(claim, score).at(0))}, 4, Tone::accent);
  }
  Legend legend(svg, left_first - 62, 52);
  legend.line(Tone::main, "key equal to the query");
  legend.dot(Tone::accent, "the largest rise");
}

void draw_fit(Svg& svg, const Claim& claim) {
  const auto& scores = figure(claim, "scores");
  const double trained = figure(claim, "trained_length").at(0), tested = static_cast<double>(scores.size());
  const Scale x{0, tested, right_first, right_last};
  const Scale y = draw_axes(svg, x, scores, "Right up to the trained length, and beyond");
  svg.line({x(trained), bottom}, {x(trained), top}, Tone::ink, 1.3, "5 4");
  svg.text({x(trained) + 6, top + 10}, "trained length " + shortest(trained), 12, Tone::ink);
  svg.curve({{x(0), y(1)}, {x(trained), y(0)}, {x(tested), y(0)}}, Tone::accent, 5);
  svg.curve(curve_of(scores, x, y), Tone::main, 1.6);
  Legend legend(svg, right_first - 62, 52);
  legend.line(Tone::accent, "wanted");
  legend.line(Tone::main, "fitted query and key");
}

std::string draw(const std::vector<Claim>& claims) {
  Svg svg(width, height, "Scores by distance: what does not follow from rotation");
  draw_rise(svg, claim_in(claims, "score-falls-with-distance"));
  draw_fit(svg, claim_in(claims, "lengths-extrapolate"));
  return svg.str();
}

}  // namespace

std::vector<char> claims_svg(const std::vector<Claim>& claims) {
  const std::string picture = draw(claims);
  return {picture.begin(), picture.end()};
}

void write_claims_svg(const char* path, const std::vector<Claim>& claims) {
  const std::string picture = draw(claims);
  AtomicFile file(path);
  file.write(picture);
  file.commit();
}

}  // namespace rotary
