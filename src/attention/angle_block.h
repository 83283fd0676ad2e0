// The angles of a run of tokens, read once for all heads that come by.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "attention/aligned_array.h"
#include "kernels/rotate.h"
#include "rotation/token_angles.h"

namespace rotary {

/// cos and sin of up to `most_tokens` tokens in a row, and in the order of the kernel where it has one. Refers to the angles.
template <class T>
class AngleBlock {
 public:
  AngleBlock(const TokenAngles& angles, const std::optional<PairFormat>& format, std::int64_t most_tokens)
      : angles_(angles),
        format_(format),
        num_pairs_(angles.rotation().num_pairs()),
        step_(format ? arranged_size(*format) : 2 * num_pairs_),
        most_tokens_(most_tokens),
        rows_(aligned_array<T>(most_tokens * step_ + (format ? 2 * num_pairs_ : 0))) {}

  /// Has the tokens at hand: reads them unless they are. At most `most_tokens`.
  void hold(std::int64_t row, std::int64_t first, std::int64_t count) {
    if (row == row_ && first >= first_ && first + count <= end_) return;
    for (std::int64_t i = 0; i < count; ++i) read(row, first + i, rows_.get() + i * step_);
    row_ = row;
    first_ = first;
    end_ = first + count;
  }

  std::int64_t most_tokens() const noexcept { return most_tokens_; }
  /// Of a token at hand: what `arrange` made, or cos and then sin of every pair.
  const T* row(std::int64_t token) const noexcept { return rows_.get() + (token - first_) * step_; }
  std::int64_t step() const noexcept { return step_; }
  /// cos and then sin of every pair of the token that was read last.
  const T* last_pairs() const noexcept { return format_ ? pairs() : row(end_ - 1); }

 private:
  T* pairs() const noexcept { return rows_.get() + most_tokens_ * step_; }
  void read(std::int64_t row, std::int64_t token, T* to) {
    T* const cos = format_ ? pairs() : to;
    angles_.read(row, token, cos, cos + num_pairs_);
    if (format_) arrange(*format_, cos, cos + num_pairs_, to);
  }

  const TokenAngles& angles_;
  std::optional<PairFormat> format_;
  std::int64_t num_pairs_, step_, most_tokens_;
  std::int64_t row_ = -1, first_ = 0, end_ = 0;
  AlignedArray<T> rows_;  // and then the pairs of the token that was read last, where they are arranged
};

}  // namespace rotary
