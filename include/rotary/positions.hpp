// Where the tokens of a tensor stand. Exactly one way is used per call:
//
//     {}                              0, 1, 2, …
//     {.offset = 100}                 100, 101, …                             (decode with a cache of 100 tokens)
//     {.offsets = view}               one start per batch row                 "B", or per packed sequence "N" with
//     cu_seqlens
//     {.position_ids = view}          any position per token                  "S", "BS" or "T"; several axes: "AS", "ABS",
//     "AT"
//     {.cu_seqlens = view}            packed sequences, each counts from 0    "N": 0, end of the first, end of the second,
//     …
#pragma once

#include <cstdint>

#include "rotary/tensor.hpp"

namespace rotary {

struct Positions {
  std::int64_t offset = 0;            ///< added where positions are counted, not to position_ids
  ConstTensorView offsets = {};       ///< i32 or i64
  ConstTensorView position_ids = {};  ///< i32, i64 or f64 (fractions and negatives are fine); finite, at most 2^53 in size
  ConstTensorView cu_seqlens = {};    ///< i32 or i64; starts at 0, never falls, ends at the number of packed tokens
};

}  // namespace rotary
