// How far the tables of cos and sin that systems use are from the truth, by position and pair.
//
// The truth is cos and sin of the exact product position * inv_freq, to 97 bits.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/export.hpp"
#include "rotary/rotation.hpp"

namespace rotary {

enum class TableRecipe : std::uint8_t {
  exact,         ///< Precision::exact
  transformers,  ///< Precision::transformers: float32 all through
  ggml,          ///< Precision::ggml: the angle multiplied from pair to pair in float32
  bfloat16,      ///< the table of `transformers` stored as bfloat16, which its models in bfloat16 do
};

ROTARY_API const char* name(TableRecipe recipe) noexcept;

/// Errors of one pair. Those of cos and sin count the amplitude in.
struct PairError {
  double angle = 0;  ///< radians, between the direction of (cos, sin) and the exact angle; at most pi
  double value = 0;  ///< the larger of |error of cos| and |error of sin|
  double ulp = 0;    ///< the same in units in the last place of float32 of the exact value (of 2^-30 at least)
};

/// One recipe at one position.
struct PrecisionRow {
  double position = 0;
  TableRecipe recipe = TableRecipe::exact;
  bool supported = true;  ///< false: the recipe cannot express this rotation, and `pairs` is empty
  std::vector<PairError> pairs = {};
  std::int64_t worst_pair = 0;  ///< the one with the largest error of the angle
  PairError worst = {};         ///< the largest of each error over all pairs
};

/// Four rows per position, in the order of TableRecipe. The position stands on all axes alike.
/// Errors: Error (invalid_argument) for positions that angles() refuses.
ROTARY_API std::vector<PrecisionRow> precision_report(const Rotation& rotation, const std::vector<double>& positions);

}  // namespace rotary
