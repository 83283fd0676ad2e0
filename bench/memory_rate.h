// How fast this core moves memory right now.
#pragma once

#include <cstddef>

namespace rotary::bench {

enum class Traffic {
  read,      ///< every byte is loaded once
  in_place,  ///< every byte is loaded, and stored where it was, unchanged; both count
};

/// The fastest known loop over some memory that does nothing else, with vectors of the active instruction set. Which loop that
/// is depends on the machine and on where the memory lies: several are tried at the start (one, two or four places at a time,
/// with and without prefetching).
class MemoryRate {
 public:
  /// `memory` must stay, and is only written in_place.
  MemoryRate(Traffic traffic, void* memory, std::size_t num_bytes);
  MemoryRate(const void* memory, std::size_t num_bytes);  ///< read

  /// Bytes per second, from a run of about a millisecond or one pass.
  double measure() const noexcept;

 private:
  double rate(int loop, int passes) const noexcept;

  Traffic traffic_;
  void* memory_;
  std::size_t num_bytes_;
  int loop_ = 0, passes_ = 1;
};

}  // namespace rotary::bench
