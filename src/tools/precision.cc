#include "rotary/precision.hpp"

#include <algorithm>
#include <cmath>

#include "reference/angles.h"
#include "rotary/angles.hpp"
#include "rotary/dtype.hpp"
#include "rotary/error.hpp"
#include "rotary/isa.hpp"

namespace rotary {
namespace {

constexpr TableRecipe all_recipes[] = {TableRecipe::exact, TableRecipe::transformers, TableRecipe::ggml,
                                       TableRecipe::bfloat16};

Precision precision_of(TableRecipe recipe) noexcept {
  switch (recipe) {
    case TableRecipe::exact: return Precision::exact;
    case TableRecipe::ggml: return Precision::ggml;
    default: return Precision::transformers;
  }
}

/// The distance between floats around `value`; values below 2^-30 are measured against those of 2^-30.
double float_ulp(double value) noexcept {
  const int exponent = std::ilogb(std::max(std::abs(value), 0x1p-30));
  return std::ldexp(1.0, exponent - 23);
}

PairError error_of(float cos, float sin, double amplitude, const reference::CosSin& exact) noexcept {
  // Differences first, in more than double: the errors are far smaller than the values.
  const DoubleDouble scale{amplitude, 0};
  const double cos_error = (DoubleDouble{cos, 0} - exact.cos * scale).hi;
  const double sin_error = (DoubleDouble{sin, 0} - exact.sin * scale).hi;
  const double across = sin_error * exact.cos.hi - cos_error * exact.sin.hi;
  const double along = amplitude + cos_error * exact.cos.hi + sin_error * exact.sin.hi;
  return {.angle = std::abs(std::atan2(across, along)),
          .value = std::max(std::abs(cos_error), std::abs(sin_error)),
          .ulp = std::max(std::abs(cos_error) / float_ulp(exact.cos.hi * amplitude),
                          std::abs(sin_error) / float_ulp(exact.sin.hi * amplitude))};
}

PrecisionRow measure(const Rotation& rotation, double position, TableRecipe recipe) {
  const auto num_pairs = static_cast<std::size_t>(rotation.num_pairs());
  PrecisionRow row{.position = position, .recipe = recipe};
  std::vector<float> cos(num_pairs), sin(num_pairs);
  const std::vector<double> on_all_axes(max_position_axes, position);
  try {
    angles(rotation, on_all_axes.data(), cos.data(), sin.data(), precision_of(recipe));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    row.supported = false;
    return row;
  }
  for (std::size_t j = 0; j < num_pairs; ++j) {
    if (recipe == TableRecipe::bfloat16) {
      cos[j] = to_float(to_bfloat16(cos[j]));
      sin[j] = to_float(to_bfloat16(sin[j]));
    }
    const PairError error =
        error_of(cos[j], sin[j], rotation.amplitude(), reference::cos_sin(position, rotation.inv_freq()[j]));
    if (error.angle > row.worst.angle) row.worst_pair = static_cast<std::int64_t>(j);
    row.worst.angle = std::max(row.worst.angle, error.angle);
    row.worst.value = std::max(row.worst.value, error.value);
    row.worst.ulp = std::max(row.worst.ulp, error.ulp);
    row.pairs.push_back(error);
  }
  return row;
}

}  // namespace

const char* name(TableRecipe recipe) noexcept {
  switch (recipe) {
    case TableRecipe::exact: return "exact";
    case TableRecipe::transformers: return "transformers";
    case TableRecipe::ggml: return "ggml";
    case TableRecipe::bfloat16: return "bfloat16";
  }
  return "unknown";
}

std::vector<PrecisionRow> precision_report(const Rotation& rotation, const std::vector<double>& positions) {
  active_isa();  // here, where a wrong ROTARY_ISA is not taken for a recipe that is not supported
  std::vector<PrecisionRow> rows;
  for (const double position : positions) {
    for (const TableRecipe recipe : all_recipes) rows.push_back(measure(rotation, position, recipe));
  }
  return rows;
}

}  // namespace rotary
