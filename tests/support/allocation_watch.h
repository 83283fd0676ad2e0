// How large the largest piece of memory was that the program asked for. A test that includes this also links
// allocation_watch.cc, which replaces operator new.
#pragma once

#include <atomic>
#include <cstddef>

namespace rotary {

extern std::atomic<std::size_t> largest_allocation;

}  // namespace rotary
