// The inner loops of tiled attention.
//
// A row tile is a fixed number of queries ("rows"), one per lane of a few vectors, so that softmax needs no sums across
// lanes:
//
//     scores [keys][rows], then weights, in place        out [value_dim][rows], transposed        reference, sum [rows]
//
// Queries, keys and values are packed once for many uses, each kind of kernel in its own way. Keys and values of a tile are
// packed in panels: numbers of keys are rounded up to key_panel, and a part of a tile begins with a whole panel; value_dim is
// rounded up to value_panel.
#pragma once

#include <cstdint>

#include "kernels/rows_ahead.h"

namespace rotary {

/// Keys per tile.
inline constexpr std::int64_t tile_keys = 128;

/// The online softmax of a row tile (Milakov and Gimelshein 2018): weights are weight_of_reference exp(score - reference),
/// reference a number that no score so far lies far above. sum and out are those of the weights so far.
template <class T>
struct SoftmaxOfRows {
  T *reference, *sum;      ///< [rows]; a reference of -infinity has seen nothing
  T* out;                  ///< [value_dim][rows]
  std::int64_t value_dim;  ///< 0 while nothing has been added to out
};

/// Brings what scores above the reference weigh below 1, so that no value becomes infinite; a power of 2, which rounds no number
/// but the smallest (below 2^-120 in float32).
inline constexpr int log2_weight_of_reference = -6;
inline constexpr double weight_of_reference = 1.0 / (1 << -log2_weight_of_reference);
/// A panel may weigh so much, as one score does that lies 3.4 above its reference: hardly any after the first raises one.
inline constexpr double most_of_panel = 32 * weight_of_reference;

/// Keys of a part of a tile against the queries of a row tile.
template <class T>
struct KeysAndQueries {
  const T* keys;  ///< packed, of the whole tile
  std::int64_t first, num_keys;
  const T* queries;  ///< packed
  std::int64_t head_dim;
};

/// Values of a part of a tile, and the weights that they have for the queries of a row tile.
template <class T>
struct ValuesAndWeights {
  const T* values;  ///< packed, of the whole tile
  std::int64_t first, num_keys;
  T* weights;              ///< may be gone afterwards
  T* out;                  ///< [value_dim][rows]
  std::int64_t value_dim;  ///< rounded up
  bool adds;               ///< to what out holds
};

/// A row sees the keys begin[row] … end[row] - 1 of a part, and all rows see those from all_begin to all_end. Where these are
/// all there are, with what fills up the last panel, begin and end are not read.
template <class T>
struct SeenKeys {
  const T *begin, *end;
  std::int64_t all_begin, all_end;
};

/// T is float or double; all pointers to vectors of rows are aligned to 64 bytes. A part of a tile has the keys first …
/// first + num_keys - 1 of the tile_keys; what is packed is given as a whole.
template <class T>
struct AttentionKernels {
  std::int64_t rows;  ///< queries of a row tile
  std::int64_t key_panel, value_panel;
  std::int64_t step;  ///< score() fetches ahead once per so many keys, accumulate() per so many channels

  /// How many T a packed query or key takes, and all values of a tile.
  std::int64_t (*packed_width)(std::int64_t head_dim) noexcept;
  std::int64_t (*packed_values)(std::int64_t value_dim) noexcept;
  /// x is [rows][head_dim], each row to be multiplied by its scale.
  void (*pack_queries)(const T* x, const T* scales, std::int64_t head_dim, T* queries) noexcept;
  /// One panel; x is [key_panel][head_dim].
  void (*pack_keys)(const T* x, std::int64_t head_dim, std::int64_t first, T* keys) noexcept;
  /// A panel, or the `count` keys that there are of it; rows of x are `step` apart. Returns whether all values are finite.
  bool (*pack_values)(const T* x, std::int64_t step, std::int64_t count, std::int64_t value_dim, std::int64_t first,
                      T* values) noexcept;

  /// scores = keys . queries; keys that fill up the last panel get scores, too. Fetches ahead.
  void (*score)(const KeysAndQueries<T>& product, T* scores, LinesAhead& ahead) noexcept;
  /// score(), hide() and weigh() at once, in registers; the bits are the same. nullptr where there is none.
  void (*score_and_weigh)(const KeysAndQueries<T>& product, const SeenKeys<T>& seen, T* weights,
                          const SoftmaxOfRows<T>& softmax, LinesAhead& ahead) noexcept;
  /// scores = cap * tanh(scores / cap)
  void (*softcap)(T* scores, std::int64_t num_keys, T cap) noexcept;
  /// scores += mask [keys][rows]; where mask is -infinity, scores is too, whatever it was.
  void (*add_mask)(T* scores, std::int64_t num_keys, const T* mask) noexcept;
  /// What a row does not see gets the score -infinity.
  void (*hide)(T* scores, std::int64_t num_keys, const SeenKeys<T>& seen) noexcept;
  /// Turns scores into weights and adds them to the sum. A reference is raised to the largest score of a panel that weighs too
  /// much beside it, and what there is so far is rescaled: seldom, so that most panels are gone through once.
  void (*weigh)(T* scores, std::int64_t num_keys, const SoftmaxOfRows<T>& softmax) noexcept;
  /// out = weights . values, added to what it holds or not. Fetches ahead.
  void (*accumulate)(const ValuesAndWeights<T>& product, LinesAhead& ahead) noexcept;
  /// to[row] = out / sum, a row of value_dim numbers for each of the tile; 0 where sum is 0.
  void (*write_rows)(const T* out, std::int64_t value_dim, const T* sum, T* const* to) noexcept;
};

/// Those of the active instruction set. tanh is within 4 ulp; weights: see exp_of_score().
template <class T>
const AttentionKernels<T>& attention_kernels() noexcept;

}  // namespace rotary
