#include "rotary/tensor.hpp"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/component.h"
#include "base/fail.h"
#include "base/strides.h"

namespace rotary {

Dims::Dims(const std::int64_t* values, std::int64_t count) {
  if (count < 0 || count > max_rank) fail_argument("shape", "must have at most ", max_rank, " axes, got ", count);
  std::copy_n(values, count, values_);
  size_ = static_cast<int>(count);
}

bool Dims::operator==(const Dims& other) const noexcept { return std::equal(begin(), end(), other.begin(), other.end()); }

Axes::Axes(const char* letters) {
  if (std::strlen(letters) > max_rank) fail_argument("axes", "must be at most ", max_rank, ", got \"", letters, "\"");
  for (const char* letter = letters; *letter != '\0'; ++letter) {
    if (place(*letter) == num_letters) {
      fail_argument("axes", "must be letters among B, S, T, H, D, A, N, Q and K, got \"", letters, "\"");
    }
    if (find(*letter) >= 0) fail_argument("axes", "must name every axis once, got \"", letters, "\"");
    places_[place(*letter)] = static_cast<std::int8_t>(rank_);
    letters_[rank_++] = *letter;
  }
}

ConstTensorView::ConstTensorView(const void* data, DType dtype, Axes axes, const Dims& shape)
    : ConstTensorView(data, dtype, axes, shape, dense_strides(shape, true)) {}

ConstTensorView::ConstTensorView(const void* data, DType dtype, Axes axes, const Dims& shape, const Dims& strides)
    : data_(data), shape_(shape), strides_(strides), axes_(axes), dtype_(dtype), given_(true) {
  if (shape.size() != axes.rank() || strides.size() != axes.rank()) {
    fail_argument("view", "must have one length and one stride per axis of \"", axes.c_str(), "\", got ", shape.size(),
                  " and ", strides.size());
  }
  const auto count = checked_product(shape);
  if (!count) fail_argument("view", "the number of elements must be representable and no length negative");
  if (data == nullptr && *count > 0) fail_argument("view", "must not be a null pointer with ", *count, " elements");

  if (*count > 0 && !is_aligned(data, dtype)) {
    fail_argument("view", "data must be at a multiple of ", component_size(dtype), " bytes for ", name(dtype), ", got ",
                  reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(component_size(dtype)),
                  " bytes past one");
  }

  // Every offset that an index can reach, in bits, must be representable, so that kernels need not check.
  std::int64_t lowest = 0, highest = 0;
  for (int i = 0; i < shape.size() && *count > 0; ++i) {
    const auto reach = checked_mul(strides[i], shape[i] - 1);
    const auto bound = reach ? checked_add(*reach < 0 ? lowest : highest, *reach) : std::nullopt;
    if (!bound || !checked_mul(*bound, bit_size(dtype)))
      fail_argument("view", "strides must reach representable offsets only");
    (*reach < 0 ? lowest : highest) = *bound;
  }
}

std::int64_t ConstTensorView::num_elements() const noexcept { return checked_product(shape_).value_or(0); }

namespace {

int existing_axis(const ConstTensorView& view, char axis) {
  const int i = view.axes().find(axis);
  if (i < 0) fail_argument("view", "must have the axis ", axis, ", got \"", view.axes().c_str(), "\"");
  return i;
}

/// The element that lies `index` steps from the first one along an axis.
const void* element_along(const ConstTensorView& view, int axis, std::int64_t index) {
  const std::int64_t bits = index * view.strides()[axis] * bit_size(view.dtype());
  if (bits % 8 != 0)
    fail_argument("view", "must start at a whole byte, which element ", index, " of ", name(view.dtype()), " does not");
  return static_cast<const char*>(view.data()) + bits / 8;
}

}  // namespace

ConstTensorView ConstTensorView::slice(char axis, std::int64_t begin, std::int64_t end) const {
  const int i = existing_axis(*this, axis);
  if (begin < 0 || end < begin || end > shape_[i]) {
    fail_argument("slice", "needs 0 <= begin <= end <= ", shape_[i], " along ", axis, ", got ", begin, " and ", end);
  }
  ConstTensorView part = *this;
  part.shape_[i] = end - begin;
  if (part.num_elements() > 0) part.data_ = element_along(*this, i, begin);
  return part;
}

ConstTensorView ConstTensorView::select(char axis, std::int64_t index) const {
  const int dropped = existing_axis(*this, axis);
  if (index < 0 || index >= shape_[dropped]) {
    fail_argument("select", "needs 0 <= index < ", shape_[dropped], " along ", axis, ", got ", index);
  }
  const ConstTensorView part = slice(axis, index, index + 1);
  char letters[max_rank + 1] = {};
  std::int64_t lengths[max_rank] = {}, steps[max_rank] = {};
  int rank = 0;
  for (int i = 0; i < part.rank(); ++i) {
    if (i == dropped) continue;
    letters[rank] = part.axes_[i];
    lengths[rank] = part.shape_[i];
    steps[rank++] = part.strides_[i];
  }
  return {part.data_, dtype_, Axes(letters), Dims(lengths, rank), Dims(steps, rank)};
}

ConstTensorView ConstTensorView::reversed(char axis) const {
  const int i = existing_axis(*this, axis);
  ConstTensorView turned = *this;
  if (num_elements() > 0 && shape_[i] > 1) {  // only then is the stride followed, and known to have an opposite
    turned.data_ = element_along(*this, i, shape_[i] - 1);
    turned.strides_[i] = -strides_[i];
  }
  return turned;
}

ConstTensorView ConstTensorView::permuted(Axes order) const {
  if (order.rank() != rank()) {
    fail_argument("permuted", "must name the axes of \"", axes_.c_str(), "\", got \"", order.c_str(), "\"");
  }
  ConstTensorView same = *this;
  same.axes_ = order;
  for (int i = 0; i < rank(); ++i) {
    const int from = existing_axis(*this, order[i]);
    same.shape_[i] = shape_[from];
    same.strides_[i] = strides_[from];
  }
  return same;
}

}  // namespace rotary
