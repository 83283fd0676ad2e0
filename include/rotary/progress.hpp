// How far a long call has come, told to whoever waits for it.
#pragma once

#include <cstdint>

namespace rotary {

/// Called after each piece of the work, with how many of `total` pieces are done: 1, 2, … total. What a piece is, the
/// operation says. Calls come one at a time, on the thread that has done the piece: the caller's, or one of the executor's.
/// They hold up the others that want to report, so be short; and must not throw.
struct Progress {
  void (*function)(void* context, std::int64_t done, std::int64_t total) = nullptr;
  void* context = nullptr;

  explicit operator bool() const noexcept { return function != nullptr; }
};

}  // namespace rotary
