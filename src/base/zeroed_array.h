// Large arrays of zeros, which the system provides page by page as they are first written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace rotary {

/// `length` zeros at a multiple of 64 bytes. T is a number, or std::byte.
template <class T>
class ZeroedArray {
 public:
  ZeroedArray() = default;
  /// The length in bytes must be representable. Throws std::bad_alloc.
  explicit ZeroedArray(std::int64_t length)
      : memory_(std::calloc(static_cast<std::size_t>(length) * sizeof(T) + alignment, 1)) {
    if (memory_ == nullptr) throw std::bad_alloc();
    void* first = memory_.get();
    std::size_t space = alignment;
    first_ = static_cast<T*>(std::align(alignment, 0, first, space));
  }

  T* get() const noexcept { return first_; }

 private:
  static constexpr std::size_t alignment = 64;
  struct Free {
    void operator()(void* memory) const noexcept { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  T* first_ = nullptr;
};

}  // namespace rotary
