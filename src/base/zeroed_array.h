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

/// Where memory is read far and wide, fewer and larger pages mean less waiting for addresses.
inline constexpr std::size_t large_page = 2 << 20;

/// Asks for large pages; `first` is at a multiple of one. Refused or not, the memory is the same.
inline void prefer_large_pages([[maybe_unused]] void* first, [[maybe_unused]] std::size_t num_bytes) noexcept {
#if defined(MADV_HUGEPAGE)
  madvise(first, num_bytes / large_page * large_page, MADV_HUGEPAGE);
#endif
}

/// `length` zeros at a multiple of 64 bytes. T is a number, or std::byte.
template <class T>
class ZeroedArray {
 public:
  ZeroedArray() = default;
  /// The length in bytes must be representable. Throws std::bad_alloc.
  explicit ZeroedArray(std::int64_t length) {
    const std::size_t num_bytes = static_cast<std::size_t>(length) * sizeof(T);
    const bool is_large = num_bytes >= 4 * large_page;
    const std::size_t alignment = is_large ? large_page : 64;
    std::size_t space = num_bytes + alignment;
    memory_.reset(std::calloc(space, 1));
    if (!memory_) throw std::bad_alloc();
    void* first = memory_.get();
    first_ = static_cast<T*>(std::align(alignment, num_bytes, first, space));
    if (is_large) prefer_large_pages(first_, num_bytes);
  }

  T* get() const noexcept { return first_; }

 private:
  struct Free {
    void operator()(void* memory) const noexcept { std::free(memory); }
  };
  std::unique_ptr<void, Free> memory_;
  T* first_ = nullptr;
};

}  // namespace rotary
