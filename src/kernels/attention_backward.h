// The inner loops of the gradients of tiled attention.
//
// A group is a fixed number w of keys, one per lane of a few vectors (in the forward pass it is the queries): then rows of
// queries are used as they lie, and no sum goes across lanes.
//
//     queries, dout   [rows][step]     the rows of a row tile, `step` numbers apart
//     keys, values    [width][w]       of a group, transposed; their gradients too
//     weights, dscore [rows][w]        of a row tile and a group
//
//     weights = exp(queries . keys - lse)             dscore     = weights (dout . values - delta)
//     dvalues += dout^T weights                       dkeys      += queries^T dscore
//     dqueries += dscore key_rows                     key_rows [w][step], of several groups one after the other
//
// All five products are one loop: a block in registers, single numbers broadcast against vectors at each step.
#pragma once

#include <cstdint>

#include "kernels/rows_ahead.h"

namespace rotary {

/// Rows of a row tile at most; a multiple of everything that rows are counted in.
inline constexpr std::int64_t row_tile = 96;

/// Queries against keys, or dout against values, of one group. num_rows is a multiple of p.
template <class T>
struct RowsByKeys {
  const T* rows;
  std::int64_t step, num_rows;
  const T* columns;  ///< [width][w]
  std::int64_t width;
  LinesAhead* ahead;  ///< fetched from once per p rows
};

/// What happens to the scores of a group beside the products. Row i sees the keys begin[i] … end[i] - 1, where what is added
/// is not -infinity.
template <class T>
struct ScoreRules {
  const T *begin, *end;
  const T* added;  ///< [rows][w]; nullptr: nothing
  T softcap;       ///< 0: none. Before anything is added
  T* slopes;       ///< of softcap, [rows][w], receives its derivative; not used where there is none
};

/// T is float or double. Groups, and rows along keys or dqueries, are aligned to 64 bytes.
template <class T>
struct AttentionBackwardKernels {
  std::int64_t keys;   ///< w
  std::int64_t panel;  ///< p: num_rows and widths are multiples of it
  std::int64_t lanes;  ///< the step of key_rows and dqueries is a multiple of it

  bool (*all_finite)(const T* numbers, std::int64_t length) noexcept;
  T (*dot)(const T* a, const T* b, std::int64_t length) noexcept;
  void (*weigh)(const RowsByKeys<T>& scores, const T* lse, T* weights) noexcept;
  /// The same; what a row does not see gets the weight 0, whatever its score is.
  void (*weigh_by_rules)(const RowsByKeys<T>& scores, const T* lse, const ScoreRules<T>& rules, T* weights) noexcept;
  /// A weight of 0 gives 0, whatever it is multiplied by. `slopes` and `end` as above, or nullptr: all keys are seen.
  void (*differentiate)(const RowsByKeys<T>& products, const T* delta, const T* weights, const T* slopes, const T* end,
                        T* dscore) noexcept;
  /// sums [width][w] += rows^T weights. `end` as above, or nullptr. Fetches ahead once per p channels.
  void (*add_to_keys)(const T* rows, std::int64_t step, std::int64_t num_rows, const T* weights, const T* end, T* sums,
                      std::int64_t width, LinesAhead& ahead) noexcept;
  /// Of several groups: dscore [groups][row_tile][w], key_rows [groups][w][step], dqueries [row_tile][step]. Row i sees no key
  /// from end[i] on, row_tile of them. Rows after num_rows may be worked on, too.
  void (*add_to_queries)(const T* dscore, std::int64_t num_rows, const std::int64_t* end, const T* key_rows, T* dqueries,
                         std::int64_t step) noexcept;
};

/// To an odd multiple: rows that are a power of two apart would share few sets of the first cache.
constexpr std::int64_t round_up_to_odd(std::int64_t n, std::int64_t unit) noexcept {
  return ((n + unit - 1) / unit | 1) * unit;
}

/// Those of the active instruction set.
template <class T>
const AttentionBackwardKernels<T>& attention_backward_kernels() noexcept;

}  // namespace rotary
