// Views of tensors that somebody else owns: pointer, element type, shape, strides, and a name for every axis.
//
// Axes are named, never guessed from strides. The letters:
//     B batch   S tokens of one sequence   T tokens of several sequences, packed   H heads   D channels of a head
//     A axes of a position (text has one; images have row and column)   N a plain list   Q, K query and key tokens (masks)
#pragma once

#include <cassert>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "rotary/dtype.hpp"
#include "rotary/export.hpp"

namespace rotary {

inline constexpr int max_rank = 8;

/// Up to max_rank whole numbers: a shape, or strides.
class ROTARY_API Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<std::int64_t> values) : Dims(values.begin(), static_cast<std::int64_t>(values.size())) {}
  Dims(const std::vector<std::int64_t>& values) : Dims(values.data(), static_cast<std::int64_t>(values.size())) {}
  Dims(const std::int64_t* values, std::int64_t count);  ///< throws Error when count > max_rank

  int size() const noexcept { return size_; }
  std::int64_t& operator[](int i) noexcept {
    assert(i >= 0 && i < size_);
    return values_[i];
  }
  std::int64_t operator[](int i) const noexcept {
    assert(i >= 0 && i < size_);
    return values_[i];
  }
  const std::int64_t* begin() const noexcept { return values_; }
  const std::int64_t* end() const noexcept { return values_ + size_; }
  bool operator==(const Dims& other) const noexcept;

 private:
  std::int64_t values_[max_rank] = {};
  int size_ = 0;
};

/// The names of a view's axes, outermost first: "BSHD".
class ROTARY_API Axes {
 public:
  constexpr Axes() = default;
  Axes(const char* letters);  ///< throws Error on an unknown or repeated letter

  int rank() const noexcept { return rank_; }
  char operator[](int i) const noexcept { return letters_[i]; }
  int find(char letter) const noexcept { return places_[place(letter)]; }  ///< index of the axis, or -1
  const char* c_str() const noexcept { return letters_; }

 private:
  static constexpr int num_letters = 9;
  static constexpr int place(char letter) noexcept {
    switch (letter) {
      case 'B': return 0;
      case 'S': return 1;
      case 'T': return 2;
      case 'H': return 3;
      case 'D': return 4;
      case 'A': return 5;
      case 'N': return 6;
      case 'Q': return 7;
      case 'K': return 8;
      default: return num_letters;
    }
  }

  char letters_[max_rank + 1] = {};
  std::int8_t places_[num_letters + 1] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1};  // of each letter; last, of any other
  int rank_ = 0;
};

/// A tensor to read. Default-constructed: "not given".
///
/// Strides count elements; they may be negative (a reversed axis) and, for reading, zero (a broadcast axis).
/// The pointer is that of element [0, 0, …], at a multiple of the size of an element (of its parts, where that is complex):
/// Error (invalid_argument) otherwise, unless there is no element.
class ROTARY_API ConstTensorView {
 public:
  ConstTensorView() = default;
  /// Row-major and without gaps.
  ConstTensorView(const void* data, DType dtype, Axes axes, const Dims& shape);
  ConstTensorView(const void* data, DType dtype, Axes axes, const Dims& shape, const Dims& strides);
  template <class T>
  ConstTensorView(const T* data, Axes axes, const Dims& shape) : ConstTensorView(data, dtype_of<T>, axes, shape) {}

  explicit operator bool() const noexcept { return given_; }
  const void* data() const noexcept { return data_; }
  DType dtype() const noexcept { return dtype_; }
  const Axes& axes() const noexcept { return axes_; }
  int rank() const noexcept { return axes_.rank(); }
  const Dims& shape() const noexcept { return shape_; }
  const Dims& strides() const noexcept { return strides_; }
  std::int64_t num_elements() const noexcept;

  bool has(char axis) const noexcept { return axes_.find(axis) >= 0; }
  /// Length and stride of a named axis; 1 and 0 where the view has no such axis, so that it broadcasts along it.
  std::int64_t size(char axis) const noexcept {
    const int i = axes_.find(axis);
    return i < 0 ? 1 : shape_[i];
  }
  std::int64_t stride(char axis) const noexcept {
    const int i = axes_.find(axis);
    return i < 0 ? 0 : strides_[i];
  }

  /// The elements begin … end-1 along one axis; one position along one axis, which disappears.
  ConstTensorView slice(char axis, std::int64_t begin, std::int64_t end) const;
  ConstTensorView select(char axis, std::int64_t index) const;
  ConstTensorView reversed(char axis) const;
  /// The same elements under another order of the axes: view.permuted("BHSD").
  ConstTensorView permuted(Axes order) const;

 protected:
  const void* data_ = nullptr;
  Dims shape_;
  Dims strides_;
  Axes axes_;
  DType dtype_ = DType::f32;
  bool given_ = false;
};

/// A tensor to write (and read). Operations refuse one whose elements overlap each other.
class ROTARY_API TensorView : public ConstTensorView {
 public:
  TensorView() = default;
  TensorView(void* data, DType dtype, Axes axes, const Dims& shape) : ConstTensorView(data, dtype, axes, shape) {}
  TensorView(void* data, DType dtype, Axes axes, const Dims& shape, const Dims& strides)
      : ConstTensorView(data, dtype, axes, shape, strides) {}
  template <class T>
  TensorView(T* data, Axes axes, const Dims& shape) : ConstTensorView(data, axes, shape) {}

  void* data() const noexcept { return const_cast<void*>(data_); }
  TensorView slice(char axis, std::int64_t begin, std::int64_t end) const {
    return ConstTensorView::slice(axis, begin, end);
  }
  TensorView select(char axis, std::int64_t index) const { return ConstTensorView::select(axis, index); }
  TensorView reversed(char axis) const { return ConstTensorView::reversed(axis); }
  TensorView permuted(Axes order) const { return ConstTensorView::permuted(order); }

 private:
  TensorView(const ConstTensorView& view) : ConstTensorView(view) {}
};

/// Whether two of the view's indices name the same element.
ROTARY_API bool overlaps_itself(const ConstTensorView& view);
/// Whether some byte belongs to both views. Exact for the strides of real tensors; says yes where deciding would take too
/// long.
ROTARY_API bool may_share_memory(const ConstTensorView& a, const ConstTensorView& b);

}  // namespace rotary
