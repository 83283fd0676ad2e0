// The inner loops of tiled attention.
//
// A row tile is a fixed number of queries ("rows"), one per lane of a few vectors, so that softmax needs no sums across
// lanes:
//
//     queries [head_dim][rows]      scaled, transposed          scores [keys][rows]      then weights, in place
//     keys    [panel][head_dim][p]  p keys side by side         out    [value_dim][rows] transposed; value_dim padded to p
//     values  [panel][tile_keys][p] p channels side by side     max, sum [rows]
//
// Both products are one loop: a p x rows block in registers, p numbers broadcast against the rows at each step.
#pragma once

#include <cstdint>

#include "kernels/rows_ahead.h"

namespace rotary {

/// Keys per tile.
inline constexpr std::int64_t tile_keys = 128;

/// T is float or double; all pointers to vectors of rows are aligned to 64 bytes. num_keys <= tile_keys.
template <class T>
struct AttentionKernels {
  std::int64_t rows;   ///< queries of a row tile
  std::int64_t panel;  ///< p

  /// Puts a row of values, filled up with zeros to a multiple of p, to where a key of a tile has them. Returns whether all of
  /// them are finite.
  bool (*pack_value)(const T* row, std::int64_t value_dim, T* values) noexcept;
  /// scores = keys . queries, for num_keys rounded up to p. Fetches ahead once per panel of keys.
  void (*score)(const T* keys, std::int64_t num_keys, const T* queries, std::int64_t head_dim, T* scores,
                LinesAhead& ahead) noexcept;
  /// scores = cap * tanh(scores / cap)
  void (*softcap)(T* scores, std::int64_t num_keys, T cap) noexcept;
  /// scores += mask [keys][rows]; where mask is -infinity, scores is too, whatever it was.
  void (*add_mask)(T* scores, std::int64_t num_keys, const T* mask) noexcept;
  /// A row sees the keys begin[row] … end[row] - 1 of the tile: the others get the score -infinity.
  void (*hide)(T* scores, std::int64_t num_keys, const T* begin, const T* end) noexcept;
  /// One step of online softmax (Milakov and Gimelshein 2018): raises max to include the scores, rescales sum and out to
  /// the new max, turns scores into weights exp(score - max) and adds them to sum. A row with max = -infinity has seen
  /// nothing.
  void (*weigh)(T* scores, std::int64_t num_keys, T* max, T* sum, T* out, std::int64_t value_dim) noexcept;
  /// out += weights . values; value_dim is a multiple of p. Fetches ahead once per panel of channels.
  void (*accumulate)(const T* values, std::int64_t num_keys, const T* weights, T* out, std::int64_t value_dim,
                     LinesAhead& ahead) noexcept;
  /// out /= sum; 0 where sum is 0.
  void (*normalize)(T* out, std::int64_t value_dim, const T* sum) noexcept;
};

/// Those of the active instruction set. exp is within 2 ulp, and 0 below 1e-37 (float) or 1e-306 (double); tanh within 4.
template <class T>
const AttentionKernels<T>& attention_kernels() noexcept;

}  // namespace rotary
