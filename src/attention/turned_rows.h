// Rows of queries or keys, turned by their position on the way.
#pragma once

#include <cstdint>
#include <optional>

#include "attention/arena.h"
#include "attention/kept_angles.h"
#include "attention/tensor_rows.h"
#include "kernels/rotate.h"
#include "rotation/angles.h"
#include "rotation/token_angles.h"

namespace rotary {

struct TurnedRowsOptions {
  bool as_written = false;  ///< channels come as rotate() writes them, to meet keys that it has written
  bool in_runs = true;      ///< angles of many tokens are made from those of a few, which takes 384 bytes for each pair
};

/// The rows of q or of k. Scores do not mind in which order channels come, as long as q and k agree: turned channels stay
/// where they are read (half, interleaved), or come first (listed pairs).
template <class T>
class TurnedRows {
 public:
  /// Without angles the rows are as they are. Refers to `x` and `angles`. It can do nothing before lay_out().
  TurnedRows(const ConstTensorView& x, const std::optional<TokenAngles>& angles, const TurnedRowsOptions& options = {});
  /// With angles that are kept elsewhere, unless `kept` is nullptr.
  TurnedRows(const ConstTensorView& x, const std::optional<TokenAngles>& angles, Arena& arena,
             const TurnedRowsOptions& options = {}, KeptAngles<T>* kept = nullptr)
      : TurnedRows(x, angles, options) {
    kept_ = kept;
    lay_out(arena);
  }

  /// Takes its memory, or counts it.
  void lay_out(Arena& arena);

  void load(std::int64_t batch, std::int64_t token, std::int64_t head, T* row) {
    load_heads(batch, token, head, 1, row, width_);
  }
  /// `count` tokens of a head, into rows that are `step` numbers apart.
  void load_run(std::int64_t batch, std::int64_t token, std::int64_t count, std::int64_t head, T* rows, std::int64_t step);
  /// `count` heads of a token.
  void load_heads(std::int64_t batch, std::int64_t token, std::int64_t head, std::int64_t count, T* rows,
                  std::int64_t step);

  /// Where it reads.
  const TensorRows<ConstTensorView>& rows() const noexcept { return rows_; }

  /// From gradients with respect to what load_heads() gives to those with respect to what it reads, in place. Not `as_written`.
  void turn_back(std::int64_t batch, std::int64_t token, std::int64_t count, T* gradients, std::int64_t step);

 private:
  /// Along the tokens of a head, or along the heads of a token.
  enum class Along : std::uint8_t { tokens, heads };
  /// Rows in memory, and how many elements they are apart.
  struct Rows {
    DType dtype;
    const void* first;
    std::int64_t step;
  };

  /// Has cos and sin of a token at hand, with the angle's sign or the other one. Returns how many are, from this token on.
  std::int64_t hold(std::int64_t batch, std::int64_t token, bool back);
  std::int64_t hold_kept(std::int64_t token) noexcept;
  void load_rows(Along along, std::int64_t batch, std::int64_t token, std::int64_t head, std::int64_t count, T* rows,
                 std::int64_t step);
  /// By the angles at hand: the slice that turns.
  void turn(Along along, std::int64_t token, std::int64_t count, const Rows& from, T* to, std::int64_t to_step) noexcept;
  void list_pairs_first(const Rotation& rotation) noexcept;
  void list_written(const Rotation& rotation) noexcept;
  void bring_pairs_forward(T* row) noexcept;
  void bring_pairs_back(T* row) noexcept;
  void bring_as_written(T* row) noexcept;

  TensorRows<ConstTensorView> rows_;
  const TokenAngles* angles_;
  KeptAngles<T>* kept_ = nullptr;
  std::int64_t width_;
  std::int64_t num_tokens_, most_at_hand_ = 1;
  AngleSteps steps_;
  T* arranged_ = nullptr;  // angles at hand: of tokens that follow each other, in the order of the kernel
  std::int64_t arranged_step_ = 0;
  std::int64_t batch_ = -1, first_token_ = 0, num_at_hand_ = 0;  // whose they are
  bool are_back_ = false;                                        // with the other sign
  bool in_runs_ = false, is_listed_ = false, moves_ = false;     // channels move where they come as rotate() writes them
  T* in_order_ = nullptr;                                        // a row on its way to another order
  std::int64_t* pairs_first_ = nullptr;                          // where pairs are listed: which channel comes where
  std::int64_t* written_ = nullptr;  // where that is another order: the place that rotate() gives to each channel
  RowsToRotate kernel_;
  std::int64_t slice_ = 0;         // the first channel that turns
  bool turns_whole_rows_ = false;  // and writes channels where it reads them, which the kernel can
};

}  // namespace rotary
