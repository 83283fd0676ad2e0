#include "rotary/plot.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fail.h"
#include "formats/atomic_file.h"
#include "models/layers_by_sort.h"
#include "rotary/frequencies.hpp"
#include "tools/chart.h"
#include "tools/decimals.h"
#include "tools/score_band.h"
#include "tools/svg.h"

namespace rotary {
namespace {

constexpr std::size_t most_sorts = 8;

constexpr double picture_width = 960;
constexpr double head_height = 56;
constexpr double block_height = 424;
// Within a block:
constexpr double chart_top = 116, chart_bottom = 350;
constexpr double left_first = 84, left_last = 462;
constexpr double right_first = 562, right_last = 934;

/// What one block shows.
struct Block {
  LayerSort sort;
  Rotation rotation;
  std::optional<Rotation> unscaled;  ///< by the plain rule, where another one changed it
  std::int64_t trained;              ///< positions; 0: not known
  std::int64_t extended;             ///< the length that the file states
};

// ---- numbers -----------------------------------------------------------------------------------------------------------

double wavelength(double inv_freq) { return 2 * std::numbers::pi / std::abs(inv_freq); }

bool turns(double inv_freq) { return std::abs(inv_freq) > 1e-18; }

std::optional<double> known_number(const LayerRotation& layer, std::string_view name) {
  for (const ValueSource& value : layer.provenance()) {
    if (name != value.name) continue;
    char* end = nullptr;
    const double number = std::strtod(value.value, &end);
    if (end != value.value && *end == '\0') return number;
  }
  return {};
}

/// The same base without the rule, where that is another rotation and the pairs are one series.
std::optional<Rotation> without_rule(const LayerRotation& layer, const Rotation& rotation) {
  const auto base = known_number(layer, "base");
  const std::string_view rule = layer.rule();
  if (!base || *base <= 1 || rule == "default" || rule == "axial" || rule == "proportional") return {};
  RotationSpec spec;
  spec.head_dim = rotation.head_dim();
  spec.rotary_dim = 2 * rotation.num_pairs();
  spec.pairing_in = Pairing::half;
  spec.inv_freq = default_frequencies(*base, spec.rotary_dim).inv_freq;
  if (spec.inv_freq == rotation.inv_freq()) return {};
  return Rotation(std::move(spec));
}

Block block_of(const ModelRotations& model, const LayerSort& sort, std::int64_t length) {
  Rotation rotation = sort.layer.rotation(std::max<std::int64_t>(length, 0));
  auto unscaled = without_rule(sort.layer, rotation);
  return {sort, std::move(rotation), std::move(unscaled), model.original_max_position_embeddings(),
          model.max_position_embeddings()};
}

// ---- words -------------------------------------------------------------------------------------------------------------

/// 8192 as "8,192".
std::string with_commas(double value) {
  const std::string digits = std::to_string(static_cast<std::int64_t>(value));
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

/// A power of ten for an axis: 0.1, 1, 10, 100, 1k, …, 100M, 1e9.
std::string decade(double value) {
  if (value >= 1e9) return "1e" + std::to_string(std::lround(std::log10(value)));
  if (value >= 1e6) return shortest(value / 1e6).append("M");
  if (value >= 1e3) return shortest(value / 1e3).append("k");
  return shortest(value);
}

/// A share of the full score: 0.2, −0.4, 1.0.
std::string share(double value) {
  if (std::abs(value) >= 1e6) return rough(value);
  const long tenths = std::lround(10 * value);
  return std::string(tenths < 0 ? "−" : "") + std::to_string(std::abs(tenths) / 10) + "." +
         std::to_string(std::abs(tenths) % 10);
}

std::string rule_words(const LayerRotation& layer) {
  std::string words = *layer.rule() == '\0' ? "" : std::string("rule ") + layer.rule();
  for (const char* parameter : {"base", "factor"}) {
    if (const auto value = known_number(layer, parameter)) {
      words += (words.empty() ? "" : ", ") + std::string(parameter) + " " + shortest(*value);
    }
  }
  return words;
}

std::string slice_words(const Rotation& rotation) {
  std::string words = "turns " + std::to_string(rotation.rotary_dim()) + " of " + std::to_string(rotation.head_dim()) +
                      " channels, pairing " + name(rotation.pairing_in());
  if (rotation.num_axes() > 1) words += ", " + std::to_string(rotation.num_axes()) + " axes";
  return words;
}

// ---- drawing -----------------------------------------------------------------------------------------------------------

std::vector<double> decades(double low, double high) {
  std::vector<double> values;
  const int first = static_cast<int>(std::lround(std::log10(low))), last = static_cast<int>(std::lround(std::log10(high)));
  const int step = last - first > 9 ? 2 : 1;
  for (int power = first; power <= last; power += step) values.push_back(std::pow(10.0, power));
  return values;
}

/// From a power of ten to a power of ten, around all wavelengths and lengths.
Scale wavelength_scale(const Block& block, double top) {
  double low = 1, high = std::max<double>({10.0, static_cast<double>(block.extended), static_cast<double>(block.trained)});
  for (const double inv_freq : block.rotation.inv_freq()) {
    if (!turns(inv_freq)) continue;
    low = std::min(low, wavelength(inv_freq)), high = std::max(high, wavelength(inv_freq));
  }
  return {std::pow(10, std::floor(std::log10(low))), std::pow(10, std::ceil(std::log10(1.2 * high))), top + chart_bottom,
          top + chart_top, true};
}

void draw_length(Svg& svg, const Scale& x, const Scale& y, std::int64_t length, const std::string& words, Tone tone) {
  const auto at = static_cast<double>(length);
  svg.line({x.first, y(at)}, {x.last, y(at)}, tone, 1.3, "5 4");
  svg.text({x.first + 6, y(at) - 6}, words + with_commas(at), 12, tone);
}

std::vector<Point> wavelength_curve(const Rotation& rotation, const Scale& x, const Scale& y) {
  std::vector<Point> points;
  for (std::size_t j = 0; j < rotation.inv_freq().size(); ++j) {
    points.emplace_back(x(static_cast<double>(j)), y(wavelength(rotation.inv_freq()[j])));
  }
  return points;
}

void draw_wavelengths(Svg& svg, const Block& block, double top) {
  const Rotation& rotation = block.rotation;
  const auto last_pair = static_cast<double>(std::max<std::int64_t>(rotation.num_pairs() - 1, 1));
  const Scale x{0, last_pair, left_first + 6, left_last};
  const Scale y = wavelength_scale(block, top);
  svg.text({left_first - 62, top + 76}, "How many positions each pair takes for one turn", 14, Tone::ink, Anchor::start,
           true);
  for (const double value : decades(y.low, y.high)) y_tick(svg, {0, 1, left_first, left_last}, y, value, decade(value));
  const std::int64_t step = std::max<std::int64_t>(1, (rotation.num_pairs() + 7) / 8);
  for (std::int64_t j = 0; j < rotation.num_pairs(); j += step) {
    x_tick(svg, x, y, static_cast<double>(j), std::to_string(j));
  }
  frame(svg, {0, 1, left_first, left_last}, y, "pair", "positions per turn");

  if (block.unscaled) svg.curve(wavelength_curve(*block.unscaled, x, y), Tone::other, 1.6);
  if (block.trained > 0) {
    const bool was_extended = block.extended > block.trained;
    if (was_extended) draw_length(svg, x, y, block.extended, "extended to ", Tone::faint);
    draw_length(svg, x, y, block.trained, was_extended ? "trained on " : "context ", Tone::ink);
  }
  std::int64_t finish = 0, never = 0, still = 0;
  const double radius = rotation.num_pairs() > 80 ? 2.4 : 3.2;
  for (std::size_t j = 0; j < rotation.inv_freq().size(); ++j) {
    const double inv_freq = rotation.inv_freq()[j], at = x(static_cast<double>(j));
    if (!turns(inv_freq)) {
      ++still;
      svg.ring({at, y.last}, radius, Tone::accent);
    } else {
      const bool slow = block.trained > 0 && wavelength(inv_freq) > static_cast<double>(block.trained);
      ++(slow ? never : finish);
      svg.dot({at, y(wavelength(inv_freq))}, radius, slow ? Tone::accent : Tone::main);
    }
  }
  Legend legend(svg, left_first - 62, top + 99);
  legend.dot(Tone::main, std::to_string(finish) + (finish == 1 ? " pair" : " pairs") +
                             (block.trained == 0 ? ""
                              : finish == 1      ? " finishes a turn"
                                                 : " finish a turn"));
  if (never > 0) legend.dot(Tone::accent, std::to_string(never) + (never == 1 ? " never does" : " never do"));
  if (still > 0) legend.ring(Tone::accent, std::to_string(still) + " at rest");
  if (block.unscaled) legend.line(Tone::other, "without the rule");
}

/// The edge of bands on one side, or a curve through them.
template <class Value>
std::vector<Point> along(const std::vector<ScoreBand>& bands, const Scale& x, const Scale& y, Value value) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < bands.size(); ++i) {
    points.emplace_back(x(std::sqrt(bands[i].from * bands[i].to)), y(value(i)));
  }
  return points;
}

void draw_scores(Svg& svg, const Block& block, double top) {
  const double longest = block.extended > 0 ? 2.0 * static_cast<double>(block.extended) : 1e5;
  const Scale x{1, longest, right_first, right_last, true};
  const auto bands = score_bands(block.rotation, longest, 420);
  const double full = std::min(block.rotation.amplitude() * block.rotation.amplitude(), 1e300);
  double lowest = 0;
  for (const ScoreBand& band : bands) lowest = std::max(-full, std::min(lowest, band.low));
  const double step = 0.2 * std::max(1.0, std::ceil(full / 4));  // at most some 40 lines, whatever the amplitude
  const auto first_line = static_cast<int>(std::floor(lowest / step)), last_line = static_cast<int>(std::ceil(full / step));
  const Scale y{step * first_line, step * last_line, top + chart_bottom, top + chart_top};

  svg.text({right_first - 62, top + 76}, "Score of a key that equals its query, by distance", 14, Tone::ink, Anchor::start,
           true);
  for (int line = first_line; line <= last_line; ++line) y_tick(svg, x, y, step * line, share(step * line));
  for (const double value : decades(1, longest)) {
    if (value <= longest) x_tick(svg, x, y, value, decade(value));
  }
  frame(svg, x, y, "positions between query and key", "share of the full score");
  const auto draw_vertical = [&](std::int64_t length, Tone tone) {
    const double at = x(static_cast<double>(length));
    svg.line({at, y.first}, {at, y.last}, tone, 1.3, "5 4");
    svg.text({at - 5, y.last + 4}, with_commas(static_cast<double>(length)), 12, tone, Anchor::end, false, -90);
  };
  if (block.extended > block.trained) draw_vertical(block.extended, Tone::faint);
  if (block.trained > 0) draw_vertical(block.trained, Tone::ink);

  Legend legend(svg, right_first - 62, top + 99);
  legend.line(Tone::main, "mean over pairs");
  legend.line(Tone::accent, "upper envelope");
  if (block.unscaled) {
    const auto plain = score_bands(*block.unscaled, longest, 420);
    const auto envelope = upper_envelope(plain);
    svg.curve(along(plain, x, y, [&](std::size_t i) { return envelope[i]; }), Tone::other, 1.6);
    legend.line(Tone::other, "without the rule");
  }
  const auto upper = along(bands, x, y, [&](std::size_t i) { return bands[i].high; });
  const auto lower = along(bands, x, y, [&](std::size_t i) { return bands[i].low; });
  const auto envelope = upper_envelope(bands);
  svg.band(upper, lower, Tone::main);
  svg.curve(along(bands, x, y, [&](std::size_t i) { return bands[i].mean; }), Tone::main, 1.6);
  svg.curve(along(bands, x, y, [&](std::size_t i) { return envelope[i]; }), Tone::accent, 1.8);
}

void draw_block(Svg& svg, const Block& block, double top) {
  const std::string label = block.sort.layer.label();
  std::string words = slice_words(block.rotation);
  if (const std::string rule = rule_words(block.sort.layer); !rule.empty()) words = rule + "; " + words;
  if (block.rotation.amplitude() != 1)
    words += ", cos and sin times " + shortest(std::round(1e4 * block.rotation.amplitude()) / 1e4);
  svg.line({22, top}, {picture_width - 22, top}, Tone::grid);
  svg.text({22, top + 26}, in_words(block.sort.ranges) + (label.empty() ? "" : ", " + label), 15, Tone::ink, Anchor::start,
           true);
  svg.text({22, top + 46}, words, 12, Tone::faint);
  draw_wavelengths(svg, block, top);
  draw_scores(svg, block, top);
}

std::vector<LayerSort> chosen_sorts(const ModelRotations& model, std::int64_t layer) {
  if (layer >= 0) return {{model.layer(layer), {{layer, layer}}}};
  std::vector<LayerSort> sorts = layers_by_sort(model);
  std::erase_if(sorts, [](const LayerSort& sort) { return !sort.layer.rotates(); });
  if (sorts.empty()) fail_argument("plot", "a layer must rotate, but none of this model's does");
  return sorts;
}

std::string draw(const ModelRotations& model, const PlotOptions& options) {
  const std::vector<LayerSort> sorts = chosen_sorts(model, options.layer);
  const std::size_t count = std::min(sorts.size(), most_sorts);
  const std::string title =
      std::string(model.model_type()) + ": rotary position embeddings, " + std::to_string(model.num_layers()) + " layers";
  Svg svg(picture_width, head_height + block_height * static_cast<double>(count), title);
  svg.text({22, 36}, model.model_type(), 20, Tone::ink, Anchor::start, true);
  std::string words = std::to_string(model.num_layers()) + " layers";
  if (options.length >= 0) words += ", a call of " + with_commas(static_cast<double>(options.length)) + " tokens";
  if (sorts.size() > count)
    words += ", the first " + std::to_string(count) + " of " + std::to_string(sorts.size()) + " sorts";
  svg.text({picture_width - 26, 36}, words, 13, Tone::faint, Anchor::end);
  for (std::size_t i = 0; i < count; ++i) {
    draw_block(svg, block_of(model, sorts[i], options.length), head_height + block_height * static_cast<double>(i));
  }
  return svg.str();
}

}  // namespace

std::vector<char> plot_svg(const ModelRotations& model, const PlotOptions& options) {
  const std::string picture = draw(model, options);
  return {picture.begin(), picture.end()};
}

void write_plot(const char* path, const ModelRotations& model, const PlotOptions& options) {
  const std::string picture = draw(model, options);
  AtomicFile file(path);
  file.write(picture);
  file.commit();
}

}  // namespace rotary
