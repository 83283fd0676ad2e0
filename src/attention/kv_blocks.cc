#include "attention/kv_blocks.h"

#include <cassert>
#include <cstring>
#include <initializer_list>

#include "attention/key_lanes.h"
#include "base/checked.h"
#include "base/fail.h"
#include "base/round_up.h"

namespace rotary {
namespace {

constexpr std::int64_t line = 64;  // bytes: rows begin at such multiples, and end with zeros

std::int64_t row_bytes(std::int64_t width, DType dtype) { return (width * (bit_size(dtype) / 8) + line - 1) / line * line; }

void move_bytes(void* to, const void* from, std::int64_t num_bytes) noexcept {
  std::memmove(to, from, static_cast<std::size_t>(num_bytes));
}

}  // namespace

KvBlocks::KvBlocks(const char* operation, const KvCacheOptions& options, int num_axes)
    : num_heads_(options.num_kv_heads),
      block_size_(options.block_size),
      head_dim_(options.head_dim),
      value_dim_(options.value_dim),
      num_axes_(num_axes),
      dtype_(options.dtype),
      keys_are_lanes_(options.key_layout == KeyLayout::lanes),
      key_bytes_(row_bytes(head_dim_, dtype_)),
      value_bytes_(row_bytes(value_dim_, dtype_)) {
  const auto size = [&](std::initializer_list<std::int64_t> factors) {
    const auto product = checked_product(factors), all = checked_add(num_bytes_, product.value_or(0));
    if (!product || !all || *all > PTRDIFF_MAX / 2) {
      fail_argument(operation, "the pool must be addressable, got ", options.num_blocks, " blocks of ", block_size_,
                    " tokens, ", num_heads_, " heads of ", head_dim_, " and ", value_dim_);
    }
    num_bytes_ = *all;
    return *product;
  };
  const std::int64_t scale_bytes = dtype_ == DType::i8 ? sizeof(float) : 0;
  const auto number = static_cast<std::int64_t>(sizeof(double));
  const std::int64_t keys = size({options.num_blocks, num_heads_, block_size_, key_bytes_});
  const std::int64_t values = size({options.num_blocks, num_heads_, block_size_, value_bytes_});
  const std::int64_t scales = size({options.num_blocks, num_heads_, block_size_, 2 * scale_bytes});
  const std::int64_t positions = size({options.num_blocks, block_size_, num_axes_, number});

  keys_ = ZeroedArray<std::byte>(keys);
  values_ = ZeroedArray<std::byte>(values);
  key_scales_ = ZeroedArray<float>(scales / 2 / static_cast<std::int64_t>(sizeof(float)));
  value_scales_ = ZeroedArray<float>(scales / 2 / static_cast<std::int64_t>(sizeof(float)));
  positions_ = ZeroedArray<double>(positions / number);
  holders_.resize(static_cast<std::size_t>(options.num_blocks));
  free_.reserve(holders_.size());
  for (std::int64_t block = options.num_blocks; block-- > 0;) free_.push_back(static_cast<std::int32_t>(block));
}

std::int32_t KvBlocks::take() noexcept {
  assert(!free_.empty());
  const std::int32_t block = free_.back();
  free_.pop_back();
  hold(block);
  return block;
}

void KvBlocks::release(std::int32_t block) noexcept {
  std::int32_t& holders = holders_[static_cast<std::size_t>(block)];
  assert(holders > 0);
  if (--holders == 0) free_.push_back(block);
}

void KvBlocks::store_key(const std::byte* from, std::int32_t block, std::int64_t head, std::int64_t slot) const noexcept {
  if (keys_are_lanes_) store_lane(dtype_, head_dim_, from, group(block, head, slot), slot % key_lanes);
  else move_bytes(key(block, head, slot), from, head_dim_ * bit_size(dtype_) / 8);
}

void KvBlocks::load_key(std::int32_t block, std::int64_t head, std::int64_t slot, std::byte* to) const noexcept {
  if (keys_are_lanes_) load_lane(dtype_, head_dim_, group(block, head, slot), slot % key_lanes, to);
  else move_bytes(to, key(block, head, slot), head_dim_ * bit_size(dtype_) / 8);
}

TensorView KvBlocks::keys(std::int32_t block) const {
  const std::int64_t step = key_bytes_ / (bit_size(dtype_) / 8);
  if (keys_are_lanes_) {
    const std::int64_t groups = block_size_ / key_lanes, width = round_up(head_dim_, numbers_together(dtype_)) * key_lanes;
    return {key(block, 0, 0), dtype_, "HSD", {num_heads_, groups, width}, {block_size_ * step, key_lanes * step, 1}};
  }
  return {key(block, 0, 0), dtype_, "HSD", {num_heads_, block_size_, head_dim_}, {block_size_ * step, step, 1}};
}

TensorView KvBlocks::values(std::int32_t block) const {
  const std::int64_t step = value_bytes_ / (bit_size(dtype_) / 8);
  return {value(block, 0, 0), dtype_, "HSD", {num_heads_, block_size_, value_dim_}, {block_size_ * step, step, 1}};
}

/// Of one head.
void KvBlocks::copy_keys(std::int32_t from, std::int64_t from_slot, std::int32_t to, std::int64_t to_slot,
                         std::int64_t count, std::int64_t head) noexcept {
  const bool are_groups = from_slot % key_lanes == 0 && to_slot % key_lanes == 0 && count % key_lanes == 0;
  if (!keys_are_lanes_ || are_groups) {
    return move_bytes(key(to, head, to_slot), key(from, head, from_slot), count * key_bytes_);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    copy_lane(dtype_, head_dim_, group(from, head, from_slot + i), (from_slot + i) % key_lanes,
              group(to, head, to_slot + i), (to_slot + i) % key_lanes);
  }
}

void KvBlocks::copy_tokens(std::int32_t from, std::int64_t from_slot, std::int32_t to, std::int64_t to_slot,
                           std::int64_t count) noexcept {
  for (std::int64_t head = 0; head < num_heads_; ++head) {
    copy_keys(from, from_slot, to, to_slot, count, head);
    move_bytes(value(to, head, to_slot), value(from, head, from_slot), count * value_bytes_);
    if (dtype_ != DType::i8) continue;
    const auto bytes = count * static_cast<std::int64_t>(sizeof(float));
    move_bytes(key_scale(to, head, to_slot), key_scale(from, head, from_slot), bytes);
    move_bytes(value_scale(to, head, to_slot), value_scale(from, head, from_slot), bytes);
  }
  move_bytes(position(to, to_slot), position(from, from_slot),
             count * num_axes_ * static_cast<std::int64_t>(sizeof(double)));
}

}  // namespace rotary
