#include "attention/aligned_array.h"

#include <new>

namespace rotary {

// From plain operator new, whose small blocks are at hand at once, where those of the aligned one are sought: a step of a stream
// asks for a dozen. What new gave is noted just before the address.
void* allocate_aligned(std::size_t num_bytes) {
  constexpr std::size_t line = 64;
  void* const memory = ::operator new(num_bytes + line + sizeof(void*));
  const auto first = reinterpret_cast<std::uintptr_t>(memory) + sizeof(void*);
  void* const aligned = static_cast<char*>(memory) + sizeof(void*) + (line - first % line) % line;
  static_cast<void**>(aligned)[-1] = memory;
  return aligned;
}

void free_aligned(void* memory) noexcept {
  if (memory != nullptr) ::operator delete(static_cast<void**>(memory)[-1]);
}

}  // namespace rotary
