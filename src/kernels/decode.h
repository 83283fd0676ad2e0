// The inner loop of decode: one query against many keys, for all query heads that share a KV head.
//
// Keys and values are read once, from their own dtype, in steps of up to 32 keys whose rows may lie anywhere. A step computes
// its scores, folds them into a running softmax, and adds its values, while the rows of the next one are fetched.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rotary/dtype.hpp"

namespace rotary {

inline constexpr std::int64_t decode_keys = 32;        ///< of a step
inline constexpr std::int64_t decode_row_bytes = 64;   ///< rows are read in pieces of so many bytes
inline constexpr std::int64_t decode_most_heads = 16;  ///< that share a KV head
inline constexpr std::int64_t key_lanes = 16;          ///< keys of a group, where keys are lanes

/// Where the keys and values of a step lie: whole rows, each a multiple of decode_row_bytes long, wherever they are.
///
/// Where keys are lanes, key_lanes rows that follow each other hold as many keys channel by channel: see KeyLayout. The rows
/// of such a group are side by side, and a step begins with the first of one.
struct DecodeStep {
  std::int64_t count;
  std::int64_t hidden;  ///< the first so many of them are not seen
  const std::byte* keys[decode_keys];
  const std::byte* values[decode_keys];
  // Of int8: what the numbers of a row are multiplied by.
  alignas(64) float key_scales[decode_keys];
  alignas(64) float value_scales[decode_keys];
};

/// The query heads, and their sums so far. All pointers are at multiples of 64 bytes.
struct DecodeSums {
  DType dtype;  ///< of keys and values: f32, f16, bf16 or i8
  bool keys_are_lanes;
  std::int64_t num_heads;
  std::int64_t head_dim, value_dim;  ///< padded: rows of this dtype take a multiple of decode_row_bytes
  const float* queries;              ///< [head][head_dim], scaled, and arranged unless keys are lanes
  float* out;                        ///< [head][value_dim], arranged
  float *reference, *sum;            ///< [head], as SoftmaxOfRows has them
  float* scratch;                    ///< decode_scratch numbers
};
inline constexpr std::int64_t decode_scratch = 8 * decode_keys + 4 * 16 * 16;

/// Adds the keys of a step: reference, sum and out as online softmax has them (Milakov and Gimelshein 2018). `next` is what comes
/// after it, or nullptr.
void decode_step(const DecodeStep& step, const DecodeStep* next, const DecodeSums& sums) noexcept;

/// Multiplies `length` numbers (a multiple of what fits in decode_row_bytes, at a multiple of 64 bytes) by a factor, and brings
/// them into the order in which decode_step has channels, or back, in place.
void arrange_channels(DType dtype, float factor, float* row, std::int64_t length) noexcept;
void restore_channels(DType dtype, float factor, float* row, std::int64_t length) noexcept;

}  // namespace rotary
