#include <cmath>
#include <cstdint>
#include <vector>

#include "attention/normal_numbers.h"
#include "base/fail.h"
#include "rotary/feature_map.hpp"

namespace rotary {
namespace {

constexpr const char* operation = "favor_projection";
constexpr std::int64_t max_size = 1 << 16;

double dot(const double* a, const double* b, std::int64_t size) {
  double sum = 0;
  for (std::int64_t i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

/// Takes the directions of `count` earlier rows, all of length 1, out of `row`.
void project_out(const double* earlier, std::int64_t count, double* row, std::int64_t size) {
  for (std::int64_t i = 0; i < count; ++i, earlier += size) {
    const double along = dot(earlier, row, size);
    for (std::int64_t d = 0; d < size; ++d) row[d] -= along * earlier[d];
  }
}

/// Row `row` of a block that begins at `block`: of length 1 and at right angles to the rows before it.
void draw_direction(NormalNumbers& normal, double* block, std::int64_t row, std::int64_t size) {
  double* const direction = block + row * size;
  double length = 0;
  do {
    for (std::int64_t d = 0; d < size; ++d) direction[d] = normal.next();
    const double drawn = std::sqrt(dot(direction, direction, size));
    project_out(block, row, direction, size);
    project_out(block, row, direction, size);  // once more: the first time loses digits where little is left
    length = std::sqrt(dot(direction, direction, size)) / drawn;
  } while (!(length > 1e-8));  // nearly within the earlier rows' space: draw again
  const double norm = std::sqrt(dot(direction, direction, size));
  for (std::int64_t d = 0; d < size; ++d) direction[d] /= norm;
}

double draw_length(NormalNumbers& normal, std::int64_t size) {
  double sum = 0;
  for (std::int64_t d = 0; d < size; ++d) {
    const double x = normal.next();
    sum += x * x;
  }
  return std::sqrt(sum);
}

}  // namespace

std::vector<double> favor_projection(std::int64_t num_features, std::int64_t head_dim, std::uint64_t seed,
                                     bool orthogonal) {
  if (num_features < 1 || num_features > max_size || head_dim < 1 || head_dim > max_size) {
    fail_argument(operation, "num_features and head_dim must be 1 to ", max_size, ", got ", num_features, " and ",
                  head_dim);
  }
  std::vector<double> rows(static_cast<std::size_t>(num_features * head_dim));
  NormalNumbers normal(seed);
  if (!orthogonal) {
    for (double& x : rows) x = normal.next();
    return rows;
  }
  for (std::int64_t row = 0; row < num_features; ++row) {
    const std::int64_t in_block = row % head_dim;
    draw_direction(normal, &rows[static_cast<std::size_t>((row - in_block) * head_dim)], in_block, head_dim);
  }
  for (std::int64_t row = 0; row < num_features; ++row) {
    const double length = draw_length(normal, head_dim);
    for (std::int64_t d = 0; d < head_dim; ++d) rows[static_cast<std::size_t>(row * head_dim + d)] *= length;
  }
  return rows;
}

}  // namespace rotary
