#include "rotary/position_bias.hpp"

#include <bit>
#include <cmath>
#include <utility>

#include "attention/bias_values.h"
#include "attention/bias_view.h"
#include "base/element.h"
#include "base/fail.h"
#include "base/float_view.h"
#include "base/parallel.h"

namespace rotary {
namespace {

constexpr std::int64_t max_heads = 1 << 16;

void check_num_heads(const char* operation, std::int64_t num_heads) {
  if (num_heads < 1 || num_heads > max_heads) {
    fail_argument(operation, "the number of heads must be 1 to ", max_heads, ", got ", num_heads);
  }
}

void check_finite(const char* operation, const char* what, double x) {
  if (!std::isfinite(x)) fail_argument(operation, what, " must be finite, got ", x);
}

/// The numbers of a table "NH", heads running fastest.
std::vector<double> table_numbers(const char* operation, const ConstTensorView& table) {
  check_float_view(operation, "table", table, "NH", "NH");
  check_num_heads(operation, table.size('H'));
  std::vector<double> numbers;
  for (std::int64_t n = 0; n < table.size('N'); ++n) {
    for (std::int64_t h = 0; h < table.size('H'); ++h) {
      numbers.push_back(load_element(table.dtype(), table.data(), n * table.stride('N') + h * table.stride('H')));
      check_finite(operation, "every number of the table", numbers.back());
    }
  }
  return numbers;
}

void check_position(const char* operation, BiasKind kind, double position) {
  if (!(std::abs(position) <= 0x1p53)) {
    fail_argument(operation, "positions must be finite and at most 2^53 in size, got ", position);
  }
  if (kind != BiasKind::alibi && position != std::nearbyint(position)) {
    fail_argument(operation, "positions must be whole numbers, to find a distance in a table, got ", position);
  }
}

}  // namespace

const char* name(BiasKind kind) noexcept {
  switch (kind) {
    case BiasKind::alibi: return "alibi";
    case BiasKind::t5: return "t5";
    case BiasKind::clipped: return "clipped";
  }
  return "unknown";
}

std::vector<double> alibi_slopes(std::int64_t num_heads) {
  check_num_heads("alibi_slopes", num_heads);
  const auto slope = [](std::int64_t h, std::int64_t n) {  // 2^(-8 (h + 1) / n)
    return std::exp2(-8 * static_cast<double>(h + 1) / static_cast<double>(n));
  };
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(num_heads)));
  std::vector<double> slopes;
  for (std::int64_t h = 0; h < power; ++h) slopes.push_back(slope(h, power));
  for (std::int64_t h = 0; h < num_heads - power; ++h) slopes.push_back(slope(2 * h, 2 * power));
  return slopes;
}

PositionBias::PositionBias(BiasKind kind, std::int64_t num_heads, std::vector<double> numbers)
    : kind_(kind), num_heads_(num_heads), numbers_(std::move(numbers)) {}

PositionBias PositionBias::alibi(std::vector<double> slopes) {
  check_num_heads("PositionBias::alibi", static_cast<std::int64_t>(slopes.size()));
  for (const double slope : slopes) check_finite("PositionBias::alibi", "every slope", slope);
  const auto num_heads = static_cast<std::int64_t>(slopes.size());
  return {BiasKind::alibi, num_heads, std::move(slopes)};
}

PositionBias PositionBias::t5(const ConstTensorView& table, const T5Buckets& buckets) {
  std::vector<double> numbers = table_numbers("PositionBias::t5", table);
  if (table.size('N') != buckets.rule().num_buckets) {
    fail_argument("PositionBias::t5", "table must have a row per bucket, got ", table.size('N'), " for ",
                  buckets.rule().num_buckets, " buckets");
  }
  PositionBias bias(BiasKind::t5, table.size('H'), std::move(numbers));
  bias.buckets_ = buckets;
  return bias;
}

PositionBias PositionBias::clipped(const ConstTensorView& table) {
  std::vector<double> numbers = table_numbers("PositionBias::clipped", table);
  if (table.size('N') % 2 == 0) {
    fail_argument("PositionBias::clipped",
                  "table must have a row for each distance from -reach to reach, an odd number, got ", table.size('N'));
  }
  return {BiasKind::clipped, table.size('H'), std::move(numbers)};
}

double PositionBias::at(std::int64_t head, double q_position, double k_position) const {
  constexpr const char* operation = "PositionBias::at";
  if (head < 0 || head >= num_heads_) {
    fail_argument(operation, "head must be 0 to ", num_heads_ - 1, ", got ", head);
  }
  check_position(operation, kind_, q_position);
  check_position(operation, kind_, k_position);
  const BiasValues values{*this};
  return values.value(head, values.step(k_position - q_position));
}

void position_bias(const TensorView& out, const PositionBias& bias, const PositionBiasOptions& options) {
  check_bias_view("position_bias", out, bias.num_heads(), options.q_positions, options.k_positions);
  const std::int64_t batch = out.size('B'), num_queries = out.size('Q'), num_keys = out.size('K');
  const PositionNumbers numbers = bias.kind() == BiasKind::alibi ? PositionNumbers::any : PositionNumbers::whole;
  const SidePositions queries("position_bias, q_positions", options.q_positions, batch, num_queries, numbers);
  const SidePositions keys("position_bias, k_positions", options.k_positions, batch, num_keys, numbers);

  const BiasValues values{bias};
  parallel_for(options.executor, batch * num_queries, [&](std::int64_t task) {
    const std::int64_t b = task / num_queries, i = task % num_queries;
    const double query = queries.at(b, i);
    std::vector<double> steps;
    for (std::int64_t j = 0; j < num_keys; ++j) steps.push_back(values.step(keys.at(b, j) - query));
    for (std::int64_t h = 0; h < bias.num_heads(); ++h) {
      const std::int64_t at = b * out.stride('B') + h * out.stride('H') + i * out.stride('Q');
      for (std::int64_t j = 0; j < num_keys; ++j) {
        const double value = values.value(h, steps[static_cast<std::size_t>(j)]);
        store_element(out.dtype(), out.data(), at + j * out.stride('K'), value);
      }
    }
  });
}

}  // namespace rotary
