// Two clocks.
#pragma once

#include <time.h>

namespace rotary::bench {

inline double seconds_of(clockid_t clock) noexcept {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Processor time of this thread: other programs on a shared machine do not count.
inline double thread_seconds() noexcept { return seconds_of(CLOCK_THREAD_CPUTIME_ID); }

inline double wall_seconds() noexcept { return seconds_of(CLOCK_MONOTONIC); }

}  // namespace rotary::bench
