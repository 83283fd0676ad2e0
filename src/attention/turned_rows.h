// Rows of queries or keys, turned by their position on the way.
#pragma once

#include <cstdint>
#include <optional>

#include "attention/arena.h"
#include "attention/tensor_rows.h"
#include "kernels/rotate.h"
#include "rotation/token_angles.h"

namespace rotary {

/// The rows of q or of k. Scores do not mind in which order channels come, as long as q and k agree: turned channels stay
/// where they are read (half, interleaved), or come first (listed pairs).
template <class T>
class TurnedRows {
 public:
  /// Without angles the rows are as they are. Refers to all its arguments. `as_written`: channels come as rotate() writes
  /// them, to meet keys that it has written.
  TurnedRows(const ConstTensorView& x, const std::optional<TokenAngles>& angles, Arena& arena, bool as_written = false);

  void load(std::int64_t batch, std::int64_t token, std::int64_t head, T* row);

  /// Where it reads.
  const TensorRows<ConstTensorView>& rows() const noexcept { return rows_; }

  /// From a gradient with respect to what load() gives to the one with respect to what it reads, in place. Not `as_written`.
  void turn_back(std::int64_t batch, std::int64_t token, T* gradient);

 private:
  /// cos and sin of one token in the order of the kernel, with the angle's sign or the other one.
  struct Angles {
    T* arranged = nullptr;
    std::int64_t batch = -1, token = -1;  // whose they are
  };

  /// What does not turn stays as it is in `to`.
  void turn(Angles& angles, bool back, std::int64_t batch, std::int64_t token, const T* from, T* to);
  void list_pairs_first(const Rotation& rotation) noexcept;
  void list_written(const Rotation& rotation) noexcept;
  void bring_pairs_forward(T* row) noexcept;
  void bring_pairs_back(T* row) noexcept;
  void bring_as_written(T* row) noexcept;

  TensorRows<ConstTensorView> rows_;
  const TokenAngles* angles_;
  std::int64_t width_;
  T *cos_ = nullptr, *sin_ = nullptr;  // of one token, in the order of the pairs
  Angles forward_, back_;
  T* in_order_ = nullptr;                // a row on its way to another order
  std::int64_t* pairs_first_ = nullptr;  // where pairs are listed: which channel comes where
  std::int64_t* written_ = nullptr;      // where that is another order: the place that rotate() gives to each channel
  RowsToRotate kernel_;
  std::int64_t slice_ = 0;         // the first channel that turns
  bool turns_whole_rows_ = false;  // and writes channels where it reads them
};

}  // namespace rotary
