// The sequences of a cache that a call attends to: where keys and values come from in place of two tensors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "attention/int8_rows.h"
#include "attention/key_lanes.h"
#include "attention/kv_state.h"
#include "attention/tensor_rows.h"

namespace rotary {

/// Sequence `n` of the call is ids[n] of the cache. Both must outlive this.
class CachedSequences {
 public:
  CachedSequences(KvState& cache, const std::vector<std::int64_t>& ids) noexcept : cache_(cache), ids_(ids) {}

  const KvState& cache() const noexcept { return cache_; }
  std::int64_t size() const noexcept { return static_cast<std::int64_t>(ids_.size()); }
  const KvSequence& at(std::int64_t n) const noexcept {
    return cache_.sequences[static_cast<std::size_t>(ids_[static_cast<std::size_t>(n)])];
  }

  /// One head's key or value of a token, widened; keys are turned already.
  template <class T>
  void load_key(std::int64_t n, std::int64_t token, std::int64_t head, T* row) const noexcept {
    const auto [block, slot] = place(n, token);
    const float* const scale = is_int8() ? cache_.blocks.key_scale(block, head, slot) : nullptr;
    const std::int64_t width = cache_.options.head_dim;
    if (!cache_.blocks.keys_are_lanes()) return load(cache_.blocks.key(block, head, slot), scale, width, row);
    constexpr std::int64_t at_once = 64;
    alignas(float) std::byte some[at_once * sizeof(float)];
    const std::int64_t lane = slot % key_lanes, channel_bytes = key_lanes * bit_size(cache_.options.dtype) / 8;
    const std::byte* const group = cache_.blocks.key(block, head, slot - lane);
    for (std::int64_t d = 0; d < width; d += at_once) {
      const std::int64_t count = std::min(at_once, width - d);
      load_lane(cache_.options.dtype, count, group + d * channel_bytes, lane, some);
      load(some, scale, count, row + d);
    }
  }
  template <class T>
  void load_value(std::int64_t n, std::int64_t token, std::int64_t head, T* row) const noexcept {
    const auto [block, slot] = place(n, token);
    load(cache_.blocks.value(block, head, slot), is_int8() ? cache_.blocks.value_scale(block, head, slot) : nullptr,
         cache_.options.value_dim, row);
  }
  /// num_axes numbers.
  const double* position(std::int64_t n, std::int64_t token) const noexcept {
    const auto [block, slot] = place(n, token);
    return cache_.blocks.position(block, slot);
  }

 private:
  struct Place {
    std::int32_t block;
    std::int64_t slot;
  };
  Place place(std::int64_t n, std::int64_t token) const noexcept {
    const std::int64_t size = cache_.options.block_size;
    return {at(n).blocks[static_cast<std::size_t>(token / size)], token % size};
  }

  /// `scale`: of int8.
  template <class T>
  void load(const std::byte* from, const float* scale, std::int64_t width, T* row) const noexcept {
    if (scale == nullptr) load_row(cache_.options.dtype, from, 0, 1, width, row);
    else from_int8(reinterpret_cast<const std::int8_t*>(from), *scale, width, row);
  }

  bool is_int8() const noexcept { return cache_.options.dtype == DType::i8; }

  KvState& cache_;
  const std::vector<std::int64_t>& ids_;
};

}  // namespace rotary
