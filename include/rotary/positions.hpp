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

#include "rotary/tensor.hpp"

namespace rotary {

struct Positions {
  std::int64_t offset = 0;            ///< added to every position that is counted; 0 with position_ids
  ConstTensorView offsets = {};       ///< i32 or i64
  ConstTensorView position_ids = {};  ///< i32, i64 or f64 (fractions and negatives are fine); finite, at most 2^53 in size
  ConstTensorView cu_seqlens = {};    ///< i32 or i64; starts at 0, never falls, ends at the number of packed tokens
};

}  // namespace rotary
