// The memory of a cache: a pool of blocks, and how many sequences hold each of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/zeroed_array.h"
#include "kernels/decode.h"
#include "rotary/kv_cache.hpp"

namespace rotary {

class KvBlocks {
 public:
  /// Options that have been checked. Throws Error (invalid_argument) where the size of the pool is not representable.
  KvBlocks(const char* operation, const KvCacheOptions& options, int num_axes);

  std::int64_t num_free() const noexcept { return static_cast<std::int64_t>(free_.size()); }
  /// One of the free blocks, now held once. There must be one.
  std::int32_t take() noexcept;
  void hold(std::int32_t block) noexcept { ++holders_[static_cast<std::size_t>(block)]; }
  void release(std::int32_t block) noexcept;
  bool is_shared(std::int32_t block) const noexcept { return holders_[static_cast<std::size_t>(block)] > 1; }

  // What one KV head has in a slot. Scales are those of int8. Where keys are lanes, a group of them takes the memory of as many
  // rows, from that of its first slot on.
  std::byte* key(std::int32_t block, std::int64_t head, std::int64_t slot) const noexcept {
    return keys_.get() + row(block, head, slot) * key_bytes_;
  }
  std::byte* value(std::int32_t block, std::int64_t head, std::int64_t slot) const noexcept {
    return values_.get() + row(block, head, slot) * value_bytes_;
  }
  float* key_scale(std::int32_t block, std::int64_t head, std::int64_t slot) const noexcept {
    return key_scales_.get() + row(block, head, slot);
  }
  float* value_scale(std::int32_t block, std::int64_t head, std::int64_t slot) const noexcept {
    return value_scales_.get() + row(block, head, slot);
  }
  /// num_axes numbers.
  double* position(std::int32_t block, std::int64_t slot) const noexcept {
    return positions_.get() + (block * block_size_ + slot) * num_axes_;
  }
  int num_axes() const noexcept { return num_axes_; }
  std::int64_t key_bytes() const noexcept { return key_bytes_; }  ///< from slot to slot
  std::int64_t value_bytes() const noexcept { return value_bytes_; }

  bool keys_are_lanes() const noexcept { return keys_are_lanes_; }
  /// A key from or to a row as it is, wherever its numbers lie. The row has room for an even number of them.
  void store_key(const std::byte* from, std::int32_t block, std::int64_t head, std::int64_t slot) const noexcept;
  void load_key(std::int32_t block, std::int64_t head, std::int64_t slot, std::byte* to) const noexcept;

  TensorView keys(std::int32_t block) const;    ///< "HSD"; where keys are lanes, with a row for each group of slots
  TensorView values(std::int32_t block) const;  ///< "HSD"

  /// All that `count` slots hold, from one block to another, or towards the beginning of the same: then the ranges may overlap.
  void copy_tokens(std::int32_t from, std::int64_t from_slot, std::int32_t to, std::int64_t to_slot,
                   std::int64_t count) noexcept;

  std::int64_t num_bytes() const noexcept { return num_bytes_; }

 private:
  /// The group of a slot, where keys are lanes.
  std::byte* group(std::int32_t block, std::int64_t head, std::int64_t slot) const noexcept {
    return key(block, head, slot / key_lanes * key_lanes);
  }
  void copy_keys(std::int32_t from, std::int64_t from_slot, std::int32_t to, std::int64_t to_slot, std::int64_t count,
                 std::int64_t head) noexcept;
  std::int64_t row(std::int32_t block, std::int64_t head, std::int64_t slot) const noexcept {
    return (block * num_heads_ + head) * block_size_ + slot;
  }

  std::int64_t num_heads_, block_size_, head_dim_, value_dim_;
  int num_axes_;
  DType dtype_;
  bool keys_are_lanes_;
  std::int64_t key_bytes_, value_bytes_;  // of a row
  std::int64_t num_bytes_ = 0;
  ZeroedArray<std::byte> keys_, values_;
  ZeroedArray<float> key_scales_, value_scales_;
  ZeroedArray<double> positions_;
  std::vector<std::int32_t> holders_;
  std::vector<std::int32_t> free_;  // taken from the end
};

}  // namespace rotary
