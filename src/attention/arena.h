// One block of memory, handed out in pieces.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/aligned_array.h"
#include "base/round_up.h"

namespace rotary {

/// Pieces begin at multiples of 64 bytes, which every vector load accepts. Without memory an arena only counts: what asks
/// for its pieces in one place says how much it needs, and takes them, in the same words.
class Arena {
 public:
  Arena() = default;
  /// `first` is the first byte, at a multiple of 64, of as many as were counted.
  explicit Arena(std::byte& first) noexcept : memory_(&first) {}

  /// `count` numbers, not set to anything; nullptr where it only counts.
  template <class T>
  T* take(std::int64_t count) noexcept {
    std::byte* const piece = memory_ == nullptr ? nullptr : memory_ + num_bytes_;
    num_bytes_ += round_up(count * static_cast<std::int64_t>(sizeof(T)), alignment);
    return reinterpret_cast<T*>(piece);
  }

  bool only_counts() const noexcept { return memory_ == nullptr; }
  std::int64_t num_bytes() const noexcept { return num_bytes_; }

  static constexpr std::int64_t alignment = 64;

 private:
  std::byte* memory_ = nullptr;
  std::int64_t num_bytes_ = 0;
};

/// Memory for all that lay_out(arena) takes, and returns how many bytes those are: it is called to count, and then to take.
template <class LayOut>
AlignedArray<std::byte> laid_out(const LayOut& lay_out) {
  AlignedArray<std::byte> memory = unset_array<std::byte>(lay_out(Arena()));
  lay_out(Arena(memory[0]));
  return memory;
}

}  // namespace rotary
