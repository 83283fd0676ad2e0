// Turning the pairs of many rows by given cosines and sines: the inner loop of rotate.
//
// The rows of one tensor lie at a fixed step, the channels of a row side by side. One row of cos and sin serves all rows of a
// group (the heads of a token), or each row has its own (the tokens of a head). Arithmetic is in the lane type: double for
// float64, float for the others.
#pragma once

#include <cstdint>

#include "rotary/dtype.hpp"

namespace rotary {

/// How products and sums are rounded, in u c - v s and v c + u s.
enum class Rounding : std::uint8_t {
  fused,          ///< fma(u, c, -(v s)) and fma(u, s, v c) where the instruction set has it, else like `separate`
  always_fused,   ///< the same with fma everywhere: ggml's CPU code, bit for bit
  separate,       ///< every product and the sum, to the lane type: transformers on float32, bit for bit
  separate_bf16,  ///< every product and the sum, to bfloat16: transformers on bfloat16
  separate_f16,   ///< the same for float16
};

/// What decides the order in which a kernel wants cos and sin.
struct PairFormat {
  DType dtype = DType::f32;
  bool interleaved = false;  ///< pairs (2j, 2j + 1), not (j, j + num_pairs)
  std::int64_t num_pairs = 0;

  bool operator==(const PairFormat&) const = default;
};

/// How many lane values arranged cos and sin of one token take together.
std::int64_t arranged_size(const PairFormat& format) noexcept;

/// Of tokens: num_pairs lane values each, in the order of the pairs.
struct AnglesToArrange {
  const void* cos = nullptr;
  const void* sin = nullptr;
  std::int64_t count = 1;
  std::int64_t step = 0;  ///< lane values from token to token
};

/// Brings cos and sin into the order of the kernel, arranged_size() from token to token. They may lie where `arranged` has the
/// first and the second half of each token.
void arrange(const PairFormat& format, const AnglesToArrange& angles, void* arranged) noexcept;

/// Turns them around: as if every sine had been given with the other sign. Not bfloat16.
void reverse(const PairFormat& format, std::int64_t count, void* arranged) noexcept;

inline constexpr std::int64_t line_bytes = 64;  ///< of what is fetched at once

/// What is fetched while rows are turned: with row i as many lines as it has itself, from x + first + i * row_step on,
/// line_step apart. In bytes; a first of 0: nothing.
struct LinesToFetch {
  std::int64_t first = 0;
  std::int64_t row_step = 0;
  std::int64_t line_step = 0;
};

/// From row to row or from group to group: elements of x and out, lane values of arranged.
struct RowSteps {
  std::int64_t x = 0, out = 0, arranged = 0;
};

struct RowsToRotate {
  PairFormat format = {};
  Rounding rounding = Rounding::fused;
  DType widened_from = DType::f32;  ///< f16 or bf16: x holds that, and out is float32 as the format says, fused
  std::int64_t num_rows = 0;
  const void* x = nullptr;  ///< the first channel of the first row
  void* out = nullptr;      ///< the same pointer as x, or elsewhere altogether
  const void* arranged = nullptr;
  RowSteps row_step = {};       ///< arranged: 0 where all rows of a group share cos and sin
  LinesToFetch ahead = {};      ///< of each group
  std::int64_t num_groups = 1;  ///< of so many rows each
  RowSteps group_step = {};
};

/// float32 rows take any rounding, float64 ones none of the last two; 16-bit ones are fused, or rounded to their own dtype.
void rotate_rows(const RowsToRotate& rows) noexcept;

}  // namespace rotary
