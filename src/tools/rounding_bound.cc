#include "tools/rounding_bound.h"

#include <cmath>

namespace rotary {
namespace {

constexpr double angle_unit = 0x1p-24;

}  // namespace

double rounding_unit(DType dtype) noexcept {
  switch (dtype) {
    case DType::bf16: return 0x1p-8;
    case DType::f16: return 0x1p-11;
    default: return 0x1p-24;  // a capture in float64 may well hold what was computed in float32
  }
}

std::vector<double> pair_rounding(const Rotation& rotation, const double* position, double unit) {
  std::vector<double> bounds;
  bounds.reserve(rotation.inv_freq().size());
  for (std::size_t j = 0; j < rotation.inv_freq().size(); ++j) {
    const double inv_freq = std::abs(rotation.inv_freq()[j]);
    const double angle = std::abs(position[rotation.axis()[j]]) * inv_freq;
    const double angle_error = inv_freq == 0 ? 0 : angle * (8 + std::abs(std::log(inv_freq))) * angle_unit;
    bounds.push_back(rotation.amplitude() * (angle_error + 7 * unit));
  }
  return bounds;
}

HeadNorms with_factor(const HeadNorms& query, double unit) noexcept {
  return {query.length, query.error + (5 * angle_unit + 2 * unit) * query.length};
}

double output_rounding(const HeadNorms& query, const WeightedSums& sums, double out, const ScoreShape& scores,
                       double unit) noexcept {
  const double cap = scores.is_capped ? 6 * angle_unit + 3 * unit : 0;
  const double product = static_cast<double>(scores.head_dim) * angle_unit + 2 * unit + cap;
  const double by_length = query.error + product * query.length;  // what |k| is multiplied by in ds
  const double by_error = query.length;                           // what |E_k| is multiplied by
  const double by_scores = std::abs(scores.scale) * (by_length * (sums.size_times_length + std::abs(out) * sums.length) +
                                                     by_error * (sums.size_times_error + std::abs(out) * sums.error));
  return by_scores + sums.size * ((2 * static_cast<double>(scores.num_keys) + 8) * angle_unit + 3 * unit);
}

}  // namespace rotary
