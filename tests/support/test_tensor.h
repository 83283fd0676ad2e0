// A tensor that owns its memory, laid out as awkwardly as a test wants, with guard bytes around and between its elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "base/element.h"
#include "rotary/tensor.hpp"

namespace rotary {

/// How the elements lie in memory.
struct Layout {
  const char* order = nullptr;  ///< axes from outermost to innermost; nullptr: as named
  std::int64_t step = 1;        ///< stride of the innermost axis
  const char* reversed = "";    ///< axes that run backwards
};

class TestTensor {
 public:
  /// Every byte is `guard`: as a float16, bfloat16, float32 or float64 that is a NaN, so that reading what was never
  /// written shows.
  TestTensor(DType dtype, Axes axes, Dims shape, const Layout& layout = {}) {
    const Axes order(layout.order != nullptr ? layout.order : axes.c_str());
    Dims strides = shape;
    std::int64_t step = layout.step, first = 0;
    for (int i = order.rank() - 1; i >= 0; --i) {
      const int axis = axes.find(order[i]);
      const bool backwards = std::strchr(layout.reversed, order[i]) != nullptr;
      strides[axis] = backwards ? -step : step;
      if (backwards && shape[axis] > 0) first += step * (shape[axis] - 1);
      step *= shape[axis];
    }
    const std::int64_t size = bit_size(dtype) / 8;
    memory_.assign(static_cast<std::size_t>(step * size + 2 * margin), guard);
    view_ = TensorView(memory_.data() + margin + first * size, dtype, axes, shape, strides);
  }
  TestTensor(TestTensor&&) = default;
  TestTensor& operator=(TestTensor&&) = default;

  const TensorView& view() const { return view_; }
  operator const TensorView&() const { return view_; }
  std::int64_t size() const { return view_.num_elements(); }

  /// By logical index, the last axis running fastest, whatever the layout.
  double operator[](std::int64_t i) const { return load_element(view_.dtype(), view_.data(), element(i)); }
  void set(std::int64_t i, double value) { store_element(view_.dtype(), view_.data(), element(i), value); }
  double at(std::initializer_list<std::int64_t> index) const { return (*this)[logical(index)]; }
  void set(std::initializer_list<std::int64_t> index, double value) { set(logical(index), value); }

  TestTensor& fill(double value) {
    for (std::int64_t i = 0; i < size(); ++i) set(i, value);
    return *this;
  }
  /// Numbers from -2 to 2 that depend on the seed and the logical index alone.
  TestTensor& fill_at_random(std::uint64_t seed) {
    for (std::int64_t i = 0; i < size(); ++i) set(i, 4 * random(seed, static_cast<std::uint64_t>(i)) - 2);
    return *this;
  }
  TestTensor& fill_from(const TestTensor& other) {
    for (std::int64_t i = 0; i < size(); ++i) set(i, other[i]);
    return *this;
  }

  std::vector<double> values() const {
    std::vector<double> all;
    for (std::int64_t i = 0; i < size(); ++i) all.push_back((*this)[i]);
    return all;
  }

  /// Whether every byte that belongs to no element still is `guard`.
  bool guards_intact() const {
    std::vector<std::byte> rest = memory_;
    const std::size_t bytes = static_cast<std::size_t>(bit_size(view_.dtype()) / 8);
    const std::byte* const data = static_cast<const std::byte*>(view_.data());
    for (std::int64_t i = 0; i < size(); ++i) {
      const std::byte* const at = data + element(i) * static_cast<std::int64_t>(bytes);
      std::memset(rest.data() + (at - memory_.data()), static_cast<int>(guard), bytes);
    }
    return rest == std::vector<std::byte>(rest.size(), guard);
  }

 private:
  static constexpr std::byte guard{0xff};
  static constexpr std::int64_t margin = 64;

  /// splitmix64 (Steele, Lea and Flood 2014) as a function of seed and counter; in [0, 1).
  static double random(std::uint64_t seed, std::uint64_t i) {
    std::uint64_t z = seed * 0xd1342543de82ef95u + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }

  std::int64_t logical(std::initializer_list<std::int64_t> index) const {
    std::int64_t i = 0;
    int axis = 0;
    for (const std::int64_t x : index) i = i * view_.shape()[axis++] + x;
    return i;
  }

  std::int64_t element(std::int64_t i) const {
    std::int64_t offset = 0;
    for (int axis = view_.rank() - 1; axis >= 0; --axis) {
      offset += i % view_.shape()[axis] * view_.strides()[axis];
      i /= view_.shape()[axis];
    }
    return offset;
  }

  std::vector<std::byte> memory_;
  TensorView view_;
};

}  // namespace rotary
