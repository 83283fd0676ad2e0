// Rows of queries or keys, turned by their position on the way.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "attention/tensor_rows.h"
#include "kernels/rotate.h"
#include "rotation/token_angles.h"

namespace rotary {

/// The rows of one batch row of q or of k. Scores do not mind in which order channels come, as long as q and k agree:
/// turned channels stay where they are read (half, interleaved), or come first (listed pairs).
template <class T>
class TurnedRows {
 public:
  /// Without angles the rows are as they are. Refers to all its arguments.
  TurnedRows(const ConstTensorView& x, const std::optional<TokenAngles>& angles, std::int64_t batch);

  void load(std::int64_t token, std::int64_t head, T* row);

 private:
  void read_angles(std::int64_t token);
  void bring_pairs_forward(T* row);

  TensorRows<ConstTensorView> rows_;
  const TokenAngles* angles_;
  std::int64_t batch_;
  std::int64_t token_ = -1;   // the one whose angles are at hand
  std::vector<T> cos_, sin_;  // its angles, in the order of the pairs
  std::vector<T> arranged_;   // and in the order of the kernel
  std::vector<T> in_order_;   // a row as it is read, where pairs are listed
  RowsToRotate kernel_;
  std::int64_t slice_ = 0;                 // the first channel that turns
  std::vector<std::int64_t> pairs_first_;  // where pairs are listed: which channel comes where
};

}  // namespace rotary
