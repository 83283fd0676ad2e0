#include "base/scratch.h"

namespace rotary {

void* Scratch::from_heap(std::int64_t num_bytes) {
  heap_.emplace_back(::operator new(static_cast<std::size_t>(num_bytes), std::align_val_t(alignment)));
  return heap_.back().get();
}

}  // namespace rotary
