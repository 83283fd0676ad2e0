// Memory for benchmarks: a tensor of its own, with numbers from -1 to 1 or given ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <vector>

#include "base/element.h"
#include "rotary/tensor.hpp"

namespace rotary::bench {

/// Begins on a cache line. The same seed gives the same numbers.
class Filled {
 public:
  Filled(DType dtype, const char* axes, std::initializer_list<std::int64_t> shape, unsigned seed)
      : Filled(dtype, axes, shape) {
    for (std::int64_t i = 0; i < view_.num_elements(); ++i) {
      seed = seed * 1664525u + 1013904223u;
      store_element(dtype, data(), i, static_cast<double>(seed >> 8) * 0x1p-23 - 1);
    }
  }
  /// With these numbers, as many as the shape says.
  Filled(DType dtype, const char* axes, std::initializer_list<std::int64_t> shape, const std::vector<float>& numbers)
      : Filled(dtype, axes, shape) {
    for (std::int64_t i = 0; i < view_.num_elements(); ++i)
      store_element(dtype, data(), i, numbers[static_cast<std::size_t>(i)]);
  }

  operator const TensorView&() const { return view_; }
  operator ConstTensorView() const { return view_; }
  void* data() const { return memory_.get(); }
  std::size_t num_bytes() const { return num_bytes_; }

 private:
  Filled(DType dtype, const char* axes, std::initializer_list<std::int64_t> shape) {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    num_bytes_ = static_cast<std::size_t>(count * bit_size(dtype) / 8);
    memory_.reset(std::aligned_alloc(64, (num_bytes_ + 63) / 64 * 64));
    view_ = TensorView(memory_.get(), dtype, axes, shape);
  }

  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  std::size_t num_bytes_ = 0;
  TensorView view_;
};

}  // namespace rotary::bench
