#include "support/allocation_watch.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace rotary {

std::atomic<std::size_t> largest_allocation = 0;

}  // namespace rotary

void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  rotary::largest_allocation = std::max(rotary::largest_allocation.load(), size);
  return std::malloc(size);
}
void* operator new(std::size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  rotary::largest_allocation = std::max(rotary::largest_allocation.load(), size);
  const auto multiple = static_cast<std::size_t>(alignment);
  if (void* memory = std::aligned_alloc(multiple, (size + multiple - 1) / multiple * multiple)) return memory;
  throw std::bad_alloc();
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return operator new(size, std::nothrow); }
void* operator new[](std::size_t size) { return operator new(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
