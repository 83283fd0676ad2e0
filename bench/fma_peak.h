// How fast this core multiplies and adds right now.
#pragma once

namespace rotary::bench {

/// Processor time of this thread: other programs on a shared machine do not count.
double thread_seconds() noexcept;

/// float32 operations per second (an FMA counts as two) on the active instruction set, from a run of about a millisecond.
double fma_rate() noexcept;

}  // namespace rotary::bench
