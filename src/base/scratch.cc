#include "base/scratch.h"

#include <utility>

namespace rotary {

void* Scratch::from_heap(std::int64_t num_bytes) {
  std::unique_ptr<void, Free> piece(::operator new(static_cast<std::size_t>(num_bytes), std::align_val_t(alignment)));
  heap_.push_back(std::move(piece));
  return heap_.back().get();
}

}  // namespace rotary
