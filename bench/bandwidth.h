// How fast this core reads memory right now.
#pragma once

#include <cstddef>

namespace rotary::bench {

/// Bytes per second of one pass over the memory: plain vector loads of the active instruction set, one after the other, each
/// used once.
double read_rate(const void* memory, std::size_t num_bytes) noexcept;

}  // namespace rotary::bench
