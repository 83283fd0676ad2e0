// How fast this core moves memory right now.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

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
  /// Pieces of memory, one after the other: they must stay, and are only written in_place. What is left of a piece after
  /// the last 512 bytes that are whole is neither moved nor counted.
  MemoryRate(Traffic traffic, const std::vector<std::pair<void*, std::size_t>>& pieces);

  /// Bytes per second, from a run of about a millisecond or one pass.
  double measure() const noexcept;

 private:
  double rate(int loop, int passes) const noexcept;

  Traffic traffic_;
  std::vector<std::pair<void*, std::size_t>> pieces_;
  int loop_ = 0, passes_ = 1;
};

}  // namespace rotary::bench
