#include "tools/score_band.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rotary {

double mean_score(const Rotation& rotation, double distance) {
  double sum = 0;
  for (const double inv_freq : rotation.inv_freq()) sum += std::cos(inv_freq * distance);
  return rotation.amplitude() * rotation.amplitude() * sum / static_cast<double>(rotation.num_pairs());
}

std::vector<ScoreBand> score_bands(const Rotation& rotation, double longest, int num_bands) {
  constexpr int most_samples = 48;
  std::vector<ScoreBand> bands;
  for (int i = 0; i < num_bands; ++i) {
    const auto edge = [&](int index) { return std::pow(longest, static_cast<double>(index) / num_bands); };
    const double first = std::ceil(edge(i)), end = i + 1 == num_bands ? longest + 1 : edge(i + 1);
    const double count = std::ceil(end) - first;
    if (count < 1) continue;
    ScoreBand band{first, first + count - 1, 0, 0, 0};
    const int samples = static_cast<int>(std::min<double>(count, most_samples));
    for (int k = 0; k < samples; ++k) {
      // Multiples of the golden ratio, modulo 1, fall evenly into any number of parts.
      const double share = std::fmod(k * std::numbers::phi, 1.0);
      const double distance = count <= most_samples ? first + k : first + std::floor(share * count);
      const double score = mean_score(rotation, distance);
      band.low = k == 0 ? score : std::min(band.low, score);
      band.high = k == 0 ? score : std::max(band.high, score);
      band.mean += score / samples;
    }
    bands.push_back(band);
  }
  return bands;
}

std::vector<double> upper_envelope(const std::vector<ScoreBand>& bands) {
  const auto near = [&](std::size_t i, std::size_t j) {
    return bands[i].from <= std::numbers::sqrt2 * bands[j].to && bands[j].from <= std::numbers::sqrt2 * bands[i].to;
  };
  std::vector<double> highest, envelope;
  for (std::size_t i = 0; i < bands.size(); ++i) {
    highest.push_back(bands[i].high);
    for (std::size_t j = 0; j < bands.size(); ++j) {
      if (near(i, j)) highest[i] = std::max(highest[i], bands[j].high);
    }
  }
  for (std::size_t i = 0; i < bands.size(); ++i) {
    double sum = 0, count = 0;
    for (std::size_t j = 0; j < bands.size(); ++j) {
      if (near(i, j)) sum += highest[j], ++count;
    }
    envelope.push_back(sum / count);
  }
  return envelope;
}

}  // namespace rotary
