// The elements of a view as a file holds them: row by row, without gaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "rotary/tensor.hpp"

namespace rotary {

/// Hands out the bytes piece by piece: where they lie, if the view has long runs without gaps; gathered otherwise.
class ElementStream {
 public:
  /// Throws Error (unsupported) for elements below a byte that do not lie densely.
  explicit ElementStream(const ConstTensorView& view);

  std::int64_t num_bytes() const noexcept { return num_blocks_ * block_size_; }
  /// Back to the first element.
  void rewind() noexcept;
  /// The next piece, until the next call; empty at the end.
  std::string_view next() noexcept;

 private:
  void step() noexcept;

  struct Axis {
    std::int64_t length, stride;  // in bytes
  };
  const char* first_;
  std::int64_t block_size_;  // bytes that lie without gaps: the innermost axes, as far as they are dense
  std::int64_t num_blocks_;
  std::vector<Axis> outer_;  // innermost first

  const char* at_ = nullptr;
  std::int64_t blocks_left_ = 0;
  std::vector<std::int64_t> index_;
  std::vector<char> gathered_;
};

}  // namespace rotary
