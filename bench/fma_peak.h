// How fast this core computes, and changes numbers in place, right now.
#pragma once

#include <cstdint>

namespace rotary::bench {

/// Processor time of this thread: other programs on a shared machine do not count.
double thread_seconds() noexcept;

/// float32 operations per second (an FMA counts as two) on the active instruction set, from a run of about a millisecond.
double fma_rate() noexcept;

/// Seconds to change `count` numbers in place once: read, one operation, written. The best of some passes over them, one
/// after another: they stay in the nearest cache that holds them all.
double in_place_seconds(float* numbers, std::int64_t count) noexcept;

}  // namespace rotary::bench
