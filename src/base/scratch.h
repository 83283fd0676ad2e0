// Working memory of a task.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "base/round_up.h"

namespace rotary {

/// Handed out in pieces, which begin at multiples of 64 bytes and are not set to anything: from the stack, which costs nothing,
/// and from the heap where there is not enough.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// `count` numbers. Throws std::bad_alloc.
  template <class T>
  T* take(std::int64_t count) {
    const std::int64_t num_bytes = round_up(count * static_cast<std::int64_t>(sizeof(T)), alignment);
    if (num_bytes > stack_bytes - used_) return static_cast<T*>(from_heap(num_bytes));
    void* const piece = on_stack_ + used_;
    used_ += num_bytes;
    return static_cast<T*>(piece);
  }

 private:
  static constexpr std::int64_t alignment = 64, stack_bytes = 24 << 10;

  struct Free {
    void operator()(void* memory) const noexcept { ::operator delete(memory, std::align_val_t(alignment)); }
  };

  void* from_heap(std::int64_t num_bytes);

  alignas(alignment) std::byte on_stack_[stack_bytes];
  std::int64_t used_ = 0;
  std::vector<std::unique_ptr<void, Free>> heap_;
};

}  // namespace rotary
