// Sums over the queries of a sequence, which several threads compute in parts.
#pragma once

#include <atomic>
#include <cstdint>

namespace rotary {

/// dk and dv of one sequence and KV head, as one part of the queries adds to them. Parts add in their order, block of keys by
/// block of keys: the sums have the same bits whoever computes them. A part waits for the one before it, so parts must be
/// begun in their order.
template <class T>
struct KeySums {
  std::int64_t part, num_parts;
  T *dkeys, *dvalues;               // of all keys [num_keys][width]; not used where one part is all
  std::atomic<std::int64_t>* done;  // by each part: how many blocks it has added

  bool is_first() const noexcept { return part == 0; }
  bool is_last() const noexcept { return part == num_parts - 1; }

  void wait_for_turn(std::int64_t block) const noexcept {
    if (is_first()) return;
    const std::atomic<std::int64_t>& before = done[part - 1];
    for (std::int64_t blocks; (blocks = before.load(std::memory_order_acquire)) <= block;) before.wait(blocks);
  }
  void pass_turn(std::int64_t block) const noexcept {
    if (is_last()) return;
    done[part].store(block + 1, std::memory_order_release);
    done[part].notify_one();
  }
};

}  // namespace rotary
