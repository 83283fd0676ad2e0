// Large arrays of zeros, which the system provides page by page as they are first written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace rotary {

/// Asks for pages of 2 MiB where there is room for some: reading far and wide then waits less for addresses.
inline void prefer_large_pages([[maybe_unused]] std::byte* first, [[maybe_unused]] std::size_t num_bytes) noexcept {
#if defined(MADV_HUGEPAGE)
  constexpr std::size_t page = 2 << 20;
  void* aligned = first;
  std::size_t left = num_bytes;
  if (num_bytes < 4 * page || std::align(page, page, aligned, left) == nullptr) return;
  madvise(aligned, left / page * page, MADV_HUGEPAGE);  // refused or not, the memory is the same
#endif
}

/// `length` zeros at a multiple of 64 bytes. T is a number, or std::byte.
template <class T>
class ZeroedArray {
 public:
  ZeroedArray() = default;
  /// The length in bytes must be representable. Throws std::bad_alloc.
  explicit ZeroedArray(std::int64_t length)
      : memory_(std::calloc(static_cast<std::size_t>(length) * sizeof(T) + alignment, 1)) {
    if (memory_ == nullptr) throw std::bad_alloc();
    prefer_large_pages(static_cast<std::byte*>(memory_.get()), static_cast<std::size_t>(length) * sizeof(T));
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
