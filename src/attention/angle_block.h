// The angles of a run of tokens, read once for all heads that come by.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <type_traits>

#include "attention/aligned_array.h"
#include "base/scratch.h"
#include "kernels/angle_runs.h"
#include "kernels/rotate.h"
#include "rotation/token_angles.h"

namespace rotary {

/// cos and sin of up to `most_tokens` tokens in a row, and in the order of the kernel where it has one. Refers to the angles.
/// Its memory is from `scratch`, or of its own without one.
template <class T>
class AngleBlock {
 public:
  AngleBlock(const TokenAngles& angles, const std::optional<PairFormat>& format, std::int64_t most_tokens,
             Scratch* scratch = nullptr)
      : angles_(angles),
        format_(format),
        num_pairs_(angles.rotation().num_pairs()),
        step_(format ? arranged_size(*format) : 2 * num_pairs_),
        most_tokens_(most_tokens) {
    const std::int64_t size = most_tokens * step_ + (format ? 2 * num_pairs_ : 0);
    if (scratch == nullptr) own_rows_ = unset_array<T>(size);
    rows_ = scratch == nullptr ? own_rows_.get() : scratch->take<T>(size);
    std::fill_n(rows_, size, T{0});
    if (!std::is_same_v<T, float> || most_tokens < fewest_tokens_for_runs) return;
    room_for_steps_ = unset_array<double>(angle_steps_size(num_pairs_));
    steps_.numbers = room_for_steps_.get();
  }

  /// Has the tokens at hand: reads them unless they are. At most `most_tokens`.
  void hold(std::int64_t row, std::int64_t first, std::int64_t count) {
    if (row == row_ && first >= first_ && first + count <= end_) return;
    for (std::int64_t i = 0; i < count;) {
      T* const to = rows_ + i * step_;
      const std::int64_t length = read(row, first + i, std::min(count - i, angle_run), to);
      if (format_) arrange_rows(to, length);
      i += length;
    }
    row_ = row;
    first_ = first;
    end_ = first + count;
  }

  /// Of a token at hand: what `arrange` made, or cos and then sin of every pair.
  const T* row(std::int64_t token) const noexcept { return rows_ + (token - first_) * step_; }
  std::int64_t step() const noexcept { return step_; }
  /// cos and then sin of every pair of the token that was read last.
  const T* last_pairs() const noexcept { return format_ ? kept_pairs() : row(end_ - 1); }

 private:
  /// Each row's cos and sin in its two halves. Returns how many of the `count` tokens it has read: those that are cheaper
  /// together.
  std::int64_t read(std::int64_t row, std::int64_t token, std::int64_t count, T* to) {
    T* const sin = to + step_ / 2;
    if constexpr (std::is_same_v<T, float>) {
      return angles_.read_run(row, token, count, steps_, to, sin, step_);
    } else {
      angles_.read(row, token, to, sin);
      return 1;
    }
  }

  void arrange_rows(T* rows, std::int64_t count) noexcept {
    const std::int64_t half = step_ / 2;
    const T* const last = rows + (count - 1) * step_;
    std::copy_n(last, num_pairs_, kept_pairs());
    std::copy_n(last + half, num_pairs_, kept_pairs() + num_pairs_);
    arrange(*format_, {rows, rows + half, count, step_}, rows);
  }

  T* kept_pairs() const noexcept { return rows_ + most_tokens_ * step_; }

  const TokenAngles& angles_;
  std::optional<PairFormat> format_;
  std::int64_t num_pairs_, step_, most_tokens_;
  std::int64_t row_ = -1, first_ = 0, end_ = 0;
  T* rows_;  // and then the pairs of the token that was read last, where they are arranged
  AlignedArray<T> own_rows_;
  AlignedArray<double> room_for_steps_;
  AngleSteps steps_;  // of runs, where tokens are enough
};

}  // namespace rotary
