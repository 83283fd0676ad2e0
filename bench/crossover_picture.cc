#include "crossover_picture.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "tools/decimals.h"
#include "tools/svg.h"

namespace rotary::bench {
namespace {

constexpr double width = 960, height = 560;

struct Style {
  Tone tone;
  const char* dashes;
};

Style style(std::size_t curve) {
  if (curve == 0) return {Tone::ink, ""};
  constexpr Tone tones[] = {Tone::accent, Tone::main, Tone::other};
  constexpr const char* dashes[] = {"", "7 4", "2 3", "10 3 2 3"};
  return {tones[(curve - 1) % 3], dashes[(curve - 1) / 3 % 4]};
}

std::string length_words(double length) {
  if (length >= 1 << 20) return shortest(length / (1 << 20)).append("M");
  if (length >= 1024) return shortest(length / 1024).append("k");
  return shortest(length);
}

std::string time_words(double ns) { return ns < 1000 ? shortest(ns) + " ns" : shortest(ns / 1000) + " µs"; }

/// A sample over that of the first curve at its length; 0 where there is none.
double ratio_at(const Curve& first, const Sample& sample) {
  for (const Sample& other : first.samples) {
    if (other.length == sample.length) return sample.ns / other.ns;
  }
  return 0;
}

double between(const Curve& curve, double length) {
  for (std::size_t i = 1; i < curve.samples.size(); ++i) {
    const Sample &a = curve.samples[i - 1], &b = curve.samples[i];
    if (length > static_cast<double>(b.length)) continue;
    const double part = std::log(length / static_cast<double>(a.length)) /
                        std::log(static_cast<double>(b.length) / static_cast<double>(a.length));
    return a.ns * std::pow(b.ns / a.ns, part);
  }
  return curve.samples.back().ns;
}

void draw_axes(Svg& svg, const Scale& x, const Scale& y) {
  for (double ns = y.low; ns <= y.high * 1.001; ns *= 10) {
    svg.line({x.first, y(ns)}, {x.last, y(ns)}, Tone::grid);
    svg.text({x.first - 8, y(ns) + 4}, time_words(ns), 12, Tone::faint, Anchor::end);
  }
  for (double length = x.low; length <= x.high; length *= 4) {
    svg.line({x(length), y.first}, {x(length), y.first + 4}, Tone::faint);
    svg.text({x(length), y.first + 18}, length_words(length), 12, Tone::faint, Anchor::middle);
  }
  svg.line({x.first, y.first}, {x.last, y.first}, Tone::faint);
  svg.text({(x.first + x.last) / 2, y.first + 40}, "tokens", 13, Tone::ink, Anchor::middle);
  svg.text({24, (y.first + y.last) / 2}, "time per token and head", 13, Tone::ink, Anchor::middle, false, -90);
}

std::string crossing_words(const Curve& curve) {
  if (curve.crossing == 0) return ", never here";
  if (curve.crossing <= static_cast<double>(curve.samples.front().length)) return ", always here";
  return ", from " + std::to_string(std::lround(curve.crossing));
}

/// Names at the right, each beside the end of its curve, and moved apart.
void draw_names(Svg& svg, const std::vector<Curve>& curves, const Scale& x, const Scale& y) {
  std::vector<std::size_t> order(curves.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto end = [&](std::size_t i) { return y(curves[i].samples.back().ns); };
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return end(a) < end(b); });
  double lowest = 0;
  for (const std::size_t i : order) {
    const double at = std::max(end(i) + 4, lowest);
    const Style look = style(i);
    svg.line({x.last + 12, at - 4}, {x.last + 34, at - 4}, look.tone, 2, look.dashes);
    std::string words = curves[i].name;
    if (i > 0) words += crossing_words(curves[i]);
    svg.text({x.last + 40, at}, words, 13, Tone::ink);
    lowest = at + 20;
  }
}

}  // namespace

double crossing(const Curve& first, const Curve& curve) {
  double found = 0, before = 0, length_before = 0;
  for (const Sample& sample : curve.samples) {
    const double ratio = ratio_at(first, sample);
    if (ratio == 0) continue;
    const auto length = static_cast<double>(sample.length);
    if (ratio >= 1) {
      found = 0;
    } else if (found == 0) {
      const double part = before >= 1 ? std::log(before) / std::log(before / ratio) : 1;
      found = before >= 1 ? length_before * std::pow(length / length_before, part) : length;
    }
    before = ratio;
    length_before = length;
  }
  return found;
}

std::string crossover_picture(const std::vector<Curve>& curves, const std::string& words) {
  double longest = 16, most = 1000, least = 1000;
  for (const Curve& curve : curves) {
    for (const Sample& sample : curve.samples) {
      longest = std::max(longest, static_cast<double>(sample.length));
      most = std::max(most, sample.ns);
      least = std::min(least, sample.ns);
    }
  }
  const Scale x{16, longest, 92, width - 210, true};
  const Scale y{std::pow(10, std::floor(std::log10(least))), std::pow(10, std::ceil(std::log10(most))), height - 62, 84,
                true};
  Svg svg(width, height, "Time per token of softmax and linear attention, by length");
  svg.text({22, 34}, "Where linear attention overtakes softmax attention", 18, Tone::ink, Anchor::start, true);
  svg.text({22, 58}, words, 12, Tone::faint);
  draw_axes(svg, x, y);
  for (std::size_t i = 0; i < curves.size(); ++i) {
    std::vector<Point> points;
    for (const Sample& sample : curves[i].samples) points.emplace_back(x(static_cast<double>(sample.length)), y(sample.ns));
    svg.curve(points, style(i).tone, i == 0 ? 2.6 : 2, style(i).dashes);
  }
  for (std::size_t i = 1; i < curves.size(); ++i) {
    const double at = curves[i].crossing;
    if (at > static_cast<double>(curves[i].samples.front().length))
      svg.ring({x(at), y(between(curves.front(), at))}, 5, style(i).tone);
  }
  draw_names(svg, curves, x, y);
  return svg.str();
}

}  // namespace rotary::bench
