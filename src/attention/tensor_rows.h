// The rows of a tensor, one per token and head: from any dtype and stride to contiguous numbers, and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/float_rows.h"
#include "kernels/rows_ahead.h"
#include "rotary/tensor.hpp"

namespace rotary {

/// Whether the rows of a tensor along D lie as numbers of T side by side.
template <class T>
bool lie_as(const ConstTensorView& x) noexcept {
  return x.dtype() == dtype_of<T> && (x.stride('D') == 1 || x.size('D') == 1);
}

/// A tensor with axes among B, S (or T), H and D as rows along D. View is ConstTensorView, or TensorView to store too.
template <class View>
class TensorRows {
 public:
  explicit TensorRows(const View& view)
      : dtype_(view.dtype()),
        data_(view.data()),
        batch_(view.stride('B')),
        token_(view.stride(view.has('T') ? 'T' : 'S')),
        head_(view.stride('H')),
        step_(view.stride('D')),
        width_(view.size('D')) {}

  template <class T>
  void load(std::int64_t batch, std::int64_t token, std::int64_t head, T* row) const noexcept {
    load_row(dtype_, data_, batch * batch_ + token * token_ + head * head_, step_, width_, row);
  }
  template <class T>
  void store(const T* row, std::int64_t batch, std::int64_t token, std::int64_t head) const noexcept {
    store_row(row, width_, dtype_, data_, batch * batch_ + token * token_ + head * head_, step_);
  }

  /// Whether rows lie as numbers of T side by side.
  template <class T>
  bool are_in_place() const noexcept {
    return dtype_ == dtype_of<T> && (step_ == 1 || width_ == 1);
  }
  /// A row where it lies, if so; nullptr otherwise.
  template <class T>
  auto* in_place(std::int64_t batch, std::int64_t token, std::int64_t head) const noexcept {
    using Number = std::conditional_t<std::is_const_v<std::remove_pointer_t<Data>>, const T, T>;
    return are_in_place<T>() ? static_cast<Number*>(data_) + batch * batch_ + token * token_ + head * head_ : nullptr;
  }
  /// Its first element, where elements of a row are side by side; nullptr otherwise.
  const void* side_by_side(std::int64_t batch, std::int64_t token, std::int64_t head) const noexcept {
    if (step_ != 1 && width_ != 1) return nullptr;
    const std::int64_t first = batch * batch_ + token * token_ + head * head_;
    return static_cast<const std::byte*>(data_) + first * (bit_size(dtype_) / 8);
  }
  DType dtype() const noexcept { return dtype_; }
  /// Some tokens of a head, or of several, to be fetched before they are read or written; nothing where the rows of a token
  /// are not side by side.
  RowsAhead ahead(std::int64_t batch, std::int64_t token, std::int64_t head, std::int64_t count,
                  std::int64_t num_heads = 1) const noexcept {
    if (step_ != 1 || count <= 0 || width_ == 0 || (num_heads > 1 && head_ != width_)) return {};
    const std::int64_t bytes = bit_size(dtype_) / 8, width = num_heads * width_;
    const std::int64_t first = (batch * batch_ + token * token_ + head * head_) * bytes;
    const bool adjoin = token_ == width;
    return {.first = reinterpret_cast<std::uintptr_t>(data_) + static_cast<std::uintptr_t>(first),
            .rows = adjoin ? 1 : count,
            .row_bytes = (adjoin ? count : 1) * width * bytes,
            .step_bytes = token_ * bytes};
  }
  /// Elements from a token's row to the next one's, and from head to head.
  std::int64_t token_step() const noexcept { return token_; }
  std::int64_t head_step() const noexcept { return head_; }

 private:
  using Data = decltype(std::declval<View>().data());

  DType dtype_;
  Data data_;
  std::int64_t batch_, token_, head_, step_, width_;
};

}  // namespace rotary
