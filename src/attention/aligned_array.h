// Memory for vectors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace rotary {

struct AlignedDelete {
  static constexpr std::align_val_t alignment{64};
  void operator()(void* memory) const noexcept { ::operator delete(memory, alignment); }
};

/// At an address that every vector load accepts.
template <class T>
using AlignedArray = std::unique_ptr<T[], AlignedDelete>;

/// `length` numbers that are not set to anything.
template <class T>
AlignedArray<T> unset_array(std::int64_t length) {
  void* const memory = ::operator new(static_cast<std::size_t>(length) * sizeof(T), AlignedDelete::alignment);
  return AlignedArray<T>(static_cast<T*>(memory));
}

/// `length` zeros.
template <class T>
AlignedArray<T> aligned_array(std::int64_t length) {
  AlignedArray<T> array = unset_array<T>(length);
  std::fill_n(array.get(), length, T{0});
  return array;
}

}  // namespace rotary
