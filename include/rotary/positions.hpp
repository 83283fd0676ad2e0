// Where the tokens of a tensor stand. One way is used per call:
//
//     {}                         0, 1, 2, …             of every batch row
//     {.offset = 100}            100, 101, …            decode with a cache of 100 tokens
//     {.offsets = view}          one start per batch row "B", or per packed sequence "N" together with cu_seqlens
//     {.position_ids = view}     any position per token "S", "BS" or "T"; with several axes "AS", "ABS" or "AT"
//     {.cu_seqlens = view}       packed sequences, each counts from 0: "N" = 0, end of the first, end of the second, …
//
// Rules. The views' axes may come in any order. position_ids have one column per token, always; a batch axis of length 1,
// or none, serves every batch row. Where a rotation has several axes, axis A has exactly that many entries; a position
// given without A, and one that is counted, drives all axes alike (a text token of a model for images). Packed tokens (T)
// are not one sequence: they need position_ids or cu_seqlens. A sequence may be empty.
#pragma once

#include <cstdint>

#include "rotary/export.hpp"
#include "rotary/tensor.hpp"

namespace rotary {

struct Positions {
  std::int64_t offset = 0;            ///< added to every position that is counted; 0 with position_ids
  ConstTensorView offsets = {};       ///< i32 or i64
  ConstTensorView position_ids = {};  ///< i32, i64 or f64 (fractions and negatives are fine); finite, at most 2^53 in size
  ConstTensorView cu_seqlens = {};    ///< i32 or i64; starts at 0, never falls, ends at the number of packed tokens
};

/// The smallest and the largest position of a call; 0 and -1 where it has no token.
struct PositionRange {
  double lowest = 0;
  double highest = -1;

  /// What rules that depend on the length take (LayerRotation::rotation): the largest position + 1, and 0 where that is
  /// negative.
  std::int64_t length() const noexcept { return highest < 0 ? 0 : static_cast<std::int64_t>(highest) + 1; }
};

/// Of the tokens of `x` (axes S and perhaps B, or T), over all axes of a position. Errors: Error (invalid_argument) for
/// positions that do not fit the tokens.
ROTARY_API PositionRange position_range(const ConstTensorView& x, const Positions& positions = {});

}  // namespace rotary
