#include <cstddef>
#include <vector>

#include "base/fail.h"
#include "rotary/angles.hpp"
#include "rotary/rotate.hpp"

namespace rotary {

std::vector<double> rotation_matrix(const Rotation& rotation, const std::vector<double>& position) {
  if (position.size() != static_cast<std::size_t>(rotation.num_axes())) {
    fail_argument("rotation_matrix", "position must have one number per axis of the rotation, got ", position.size(),
                  " for ", rotation.num_axes());
  }
  const auto num_pairs = static_cast<std::size_t>(rotation.num_pairs());
  std::vector<double> cos(num_pairs), sin(num_pairs);
  angles(rotation, position.data(), cos.data(), sin.data());

  const auto width = static_cast<std::size_t>(rotation.head_dim());
  std::vector<double> matrix(width * width);
  const auto at = [&](std::int64_t row, std::int64_t column) -> double& {
    return matrix[static_cast<std::size_t>(row) * width + static_cast<std::size_t>(column)];
  };
  for (std::size_t channel = 0; channel < width; ++channel) matrix[channel * width + channel] = 1;
  for (const Pair& pair : rotation.pairs_out()) at(pair.first, pair.first) = at(pair.second, pair.second) = 0;
  for (std::size_t j = 0; j < num_pairs; ++j) {
    const Pair in = rotation.pairs_in()[j], out = rotation.pairs_out()[j];
    const double s = rotation.direction() * sin[j];
    at(out.first, in.first) = cos[j];
    at(out.first, in.second) = -s;
    at(out.second, in.first) = s;
    at(out.second, in.second) = cos[j];
  }
  return matrix;
}

}  // namespace rotary
