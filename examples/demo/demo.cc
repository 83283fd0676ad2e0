// Draws what the rotation does to one head of a real model:
//
//     demo tests/data/smollm2 build/demo/rotary.svg
//
// Left: the scores of one head against the distance between query and key, with and without the rotation. Right: how many
// tokens each pair takes for one turn, against the context length of the model.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <numbers>
#include <string>
#include <vector>

#include <rotary/rotary.hpp>

#include "svg.h"

namespace demo {
namespace {

constexpr const char* ink = "#1f2937";
constexpr const char* faint = "#6b7280";
constexpr const char* grid = "#e5e7eb";
constexpr const char* blue = "#2563eb";
constexpr const char* orange = "#ea580c";

constexpr int layer = 0;
constexpr std::int64_t head = 3;
constexpr std::int64_t longest_distance = 128;

/// The queries of one head and the keys they meet.
struct HeadPair {
  std::vector<float> q, k;
  std::int64_t num_tokens, head_dim;

  float score(std::int64_t i, std::int64_t j) const {
    float sum = 0;
    for (std::int64_t c = 0; c < head_dim; ++c) sum += q[i * head_dim + c] * k[j * head_dim + c];
    return sum;
  }
};

HeadPair read_head(const rotary::TensorFile& file, const rotary::LayerRotation& shape) {
  const rotary::StoredTensor& q = file.at("q");
  const rotary::StoredTensor& k = file.at("k");
  const std::int64_t num_tokens = q.shape[2], head_dim = q.shape[3], size = num_tokens * head_dim;
  const auto* q_first = static_cast<const float*>(q.data) + head * size;
  const auto* k_first = static_cast<const float*>(k.data) + head / (shape.num_q_heads() / shape.num_kv_heads()) * size;
  return {{q_first, q_first + size}, {k_first, k_first + size}, num_tokens, head_dim};
}

/// The mean score of all queries with the key that stands `distance` tokens before them.
std::vector<double> mean_scores(const HeadPair& heads, double scale) {
  std::vector<double> means;
  for (std::int64_t distance = 0; distance <= longest_distance; ++distance) {
    double sum = 0;
    // The first token is left out: models park attention there, whatever it says.
    for (std::int64_t i = distance + 1; i < heads.num_tokens; ++i) sum += scale * heads.score(i, i - distance);
    means.push_back(sum / static_cast<double>(heads.num_tokens - distance - 1));
  }
  return means;
}

std::vector<Point> curve_of(const std::vector<double>& values, const Scale& x, const Scale& y) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < values.size(); ++i) points.emplace_back(x(static_cast<double>(i)), y(values[i]));
  return points;
}

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

void x_axis(Svg& svg, const Scale& x, const Scale& y, const std::vector<double>& ticks, const std::string& label) {
  svg.line({x.first, y.first}, {x.last, y.first}, faint);
  for (const double tick : ticks) {
    svg.line({x(tick), y.first}, {x(tick), y.first + 4}, faint);
    svg.text({x(tick), y.first + 19}, with_commas(tick), 13, faint, Anchor::middle);
  }
  svg.text({(x.first + x.last) / 2, y.first + 42}, label, 14, ink, Anchor::middle);
}

void y_axis(Svg& svg, const Scale& x, const Scale& y, const std::vector<double>& ticks, const std::string& label,
            double room) {
  for (const double tick : ticks) {
    svg.line({x.first, y(tick)}, {x.last, y(tick)}, grid);
    const bool negative = tick < 0;
    svg.text({x.first - 8, y(tick) + 4.5}, (negative ? "−" : "") + with_commas(std::abs(tick)), 13, faint, Anchor::end);
  }
  svg.text({x.first - room, (y.first + y.last) / 2}, label, 14, ink, Anchor::middle, false, -90);
}

void draw_scores(Svg& svg, const std::vector<double>& plain, const std::vector<double>& rotated) {
  const Scale x{0, longest_distance, 66, 430};
  double low = 0, high = 0;
  for (const auto* values : {&plain, &rotated}) {
    low = std::min(low, *std::min_element(values->begin(), values->end()));
    high = std::max(high, *std::max_element(values->begin(), values->end()));
  }
  const double step = high - low > 40 ? 20 : high - low > 16 ? 10 : high - low > 8 ? 4 : 2;
  low = step * std::floor(low / step), high = step * std::ceil(high / step);
  const Scale y{low, high, 330, 84};
  std::vector<double> ticks;
  for (double tick = low; tick <= high; tick += step) ticks.push_back(tick);

  svg.text({x.first - 44, 30}, "One real head, with and without rotation", 17, ink, Anchor::start, true);
  svg.text({x.first - 44, 52}, "SmolLM2-135M, layer 0, head 3; mean over all pairs of tokens", 13, faint);
  y_axis(svg, x, y, ticks, "score  q·k / 8", 40);
  x_axis(svg, x, y, {0, 32, 64, 96, 128}, "tokens between query and key");
  svg.curve(curve_of(plain, x, y), orange, 2.2);
  svg.curve(curve_of(rotated, x, y), blue, 2.2);
  svg.text({x.last, y(plain.back()) - 10}, "without rotation", 14, orange, Anchor::end, true);
  svg.text({x(18), y(rotated[8]) - 10}, "with rotation", 14, blue, Anchor::start, true);
}

void draw_wavelengths(Svg& svg, const rotary::Rotation& rotation, double context) {
  const auto last_pair = static_cast<double>(rotation.num_pairs() - 1);
  const Scale x{0, last_pair, 546, 868};
  const Scale y{1, 1e6, 330, 84, true};
  svg.text({x.first - 76, 30}, "How long each pair takes for one turn", 17, ink, Anchor::start, true);
  svg.text({x.first - 76, 52}, "two channels turn together; later pairs turn more slowly", 13, faint);
  y_axis(svg, x, y, {1, 10, 100, 1e3, 1e4, 1e5, 1e6}, "tokens per turn", 70);
  x_axis(svg, x, y, {0, 8, 16, 24, 31}, "pair");

  svg.line({x.first, y(context)}, {x.last, y(context)}, ink, 1.4, "5 4");
  svg.text({x.first + 6, y(context) - 8}, "context length, " + with_commas(context) + " tokens", 13, ink);
  std::int64_t slow = 0;
  for (std::int64_t j = 0; j < rotation.num_pairs(); ++j) {
    const double wavelength = 2 * std::numbers::pi / rotation.inv_freq()[static_cast<std::size_t>(j)];
    const bool never_finishes = wavelength > context;
    slow += never_finishes ? 1 : 0;
    svg.dot({x(static_cast<double>(j)), y(wavelength)}, 4, never_finishes ? orange : blue);
  }
  svg.text({x.last, y(30)}, "fast pairs tell neighbours apart", 13, blue, Anchor::end);
  svg.text({x(20), y(4e5)}, std::to_string(slow) + " pairs never finish a turn", 13, orange, Anchor::end);
}

void draw(const std::string& data, const std::string& out) {
  const auto model = rotary::read_model((data + "/config.json").c_str());
  const auto& shape = model.layer(layer);
  const rotary::TensorFile file((data + "/layer-00.safetensors").c_str());

  HeadPair heads = read_head(file, shape);
  const auto plain = mean_scores(heads, shape.softmax_scale());
  rotary::rotate({heads.q.data(), "SD", {heads.num_tokens, heads.head_dim}},
                 {heads.k.data(), "SD", {heads.num_tokens, heads.head_dim}}, shape.rotation());
  const auto rotated = mean_scores(heads, shape.softmax_scale());

  Svg svg(900, 390);
  draw_scores(svg, plain, rotated);
  draw_wavelengths(svg, shape.rotation(), static_cast<double>(model.max_position_embeddings()));
  std::ofstream file_out(out);
  file_out << svg.str();
  if (!file_out.flush()) throw rotary::Error(rotary::ErrorCode::invalid_file, (out + ": cannot be written").c_str());
}

}  // namespace
}  // namespace demo

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: demo FOLDER OUT.svg\n";
    return 2;
  }
  try {
    demo::draw(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::cerr << "demo: " << error.what() << '\n';
    return 3;
  }
}
