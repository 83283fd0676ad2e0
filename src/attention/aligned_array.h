// Memory for vectors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace rotary {

/// Memory at a multiple of 64 bytes, a cache line. Throws std::bad_alloc.
void* allocate_aligned(std::size_t num_bytes);
void free_aligned(void* memory) noexcept;

inline bool is_aligned(const void* address) noexcept { return reinterpret_cast<std::uintptr_t>(address) % 64 == 0; }

struct AlignedDelete {
  void operator()(void* memory) const noexcept { free_aligned(memory); }
};

/// At an address that every vector load accepts.
template <class T>
using AlignedArray = std::unique_ptr<T[], AlignedDelete>;

/// `length` numbers that are not set to anything.
template <class T>
AlignedArray<T> unset_array(std::int64_t length) {
  return AlignedArray<T>(static_cast<T*>(allocate_aligned(static_cast<std::size_t>(length) * sizeof(T))));
}

/// `length` zeros; nothing at all where that is 0.
template <class T>
AlignedArray<T> aligned_array(std::int64_t length) {
  if (length == 0) return {};
  AlignedArray<T> array = unset_array<T>(length);
  std::fill_n(array.get(), length, T{0});
  return array;
}

}  // namespace rotary
