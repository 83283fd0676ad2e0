// The caller's memory for a call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "attention/aligned_array.h"
#include "attention/arena.h"
#include "base/apart.h"
#include "base/fail.h"
#include "rotary/attention.hpp"

namespace rotary {

/// The workspace as something to be checked; not given where the call has none.
inline ConstTensorView workspace_view(const AttentionOptions& options) {
  if (options.workspace == nullptr) return {};
  return {options.workspace, DType::u8, "N", {std::max<std::int64_t>(options.workspace_bytes, 0)}};
}

/// Its bytes.
inline MemoryRange workspace_range(const AttentionOptions& options) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(options.workspace);
  return {begin, begin + static_cast<std::uintptr_t>(std::max<std::int64_t>(options.workspace_bytes, 0))};
}

/// body(first of `num_bytes` bytes, at a multiple of Arena::alignment), in the workspace or in memory for the call alone.
/// Throws Error (invalid_argument), in the name of `operation`, where the workspace is too small.
template <class Body>
void with_workspace(const char* operation, const AttentionOptions& options, std::int64_t num_bytes, const Body& body) {
  if (options.workspace == nullptr) {
    const AlignedArray<std::byte> memory = unset_array<std::byte>(num_bytes);
    return body(memory[0]);
  }
  void* at = options.workspace;
  auto left = static_cast<std::size_t>(std::max<std::int64_t>(options.workspace_bytes, 0));
  if (std::align(Arena::alignment, static_cast<std::size_t>(num_bytes), at, left) == nullptr) {
    fail_argument(operation, "workspace must have ", num_bytes + Arena::alignment, " bytes, got ", options.workspace_bytes);
  }
  body(*static_cast<std::byte*>(at));
}

}  // namespace rotary
