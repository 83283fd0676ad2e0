#include "support/allocation_watch.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace rotary {

std::atomic<std::size_t> largest_allocation = 0;

}  // namespace rotary

void* operator new(std::size_t size) {
  rotary::largest_allocation = std::max(rotary::largest_allocation.load(), size);
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void* operator new[](std::size_t size) { return operator new(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
