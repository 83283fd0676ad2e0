#include "attention/kv_rows.h"

#include <cstring>
#include <vector>

#include "attention/int8_rows.h"
#include "attention/tensor_rows.h"
#include "rotary/rotate.hpp"
#include "rotation/rotate_tensors.h"
#include "rotation/shift.h"

namespace rotary {
namespace {

constexpr const char* operation = "KvCache";

/// Room for tokens in float32, as "HSD".
class WideTokens {
 public:
  WideTokens(std::int64_t heads, std::int64_t tokens, std::int64_t width)
      : numbers_(static_cast<std::size_t>(heads * tokens * width)),
        view_(numbers_.data(), DType::f32, "HSD", {heads, tokens, width}) {}

  const TensorView& view() const noexcept { return view_; }
  float* row(std::int64_t head, std::int64_t token) noexcept {
    return numbers_.data() + head * view_.stride('H') + token * view_.stride('S');
  }

 private:
  std::vector<float> numbers_;
  TensorView view_;
};

std::int64_t element(const ConstTensorView& x, std::int64_t head, std::int64_t token) noexcept {
  return head * x.stride('H') + token * x.stride('S');
}

/// The same numbers, rounded once.
void copy_rows(const ConstTensorView& from, const TensorView& to) {
  const std::int64_t width = to.size('D'), step = from.stride('D'), size = bit_size(to.dtype()) / 8;
  const bool as_they_are = from.dtype() == to.dtype() && (step == 1 || width == 1);
  std::vector<double> doubles(from.dtype() == DType::f64 ? static_cast<std::size_t>(width) : 0);
  std::vector<float> floats(from.dtype() == DType::f64 ? 0 : static_cast<std::size_t>(width));
  for (std::int64_t head = 0; head < to.size('H'); ++head) {
    for (std::int64_t token = 0; token < to.size('S'); ++token) {
      const std::int64_t source = element(from, head, token), target = element(to, head, token);
      if (as_they_are) {
        std::memcpy(static_cast<std::byte*>(to.data()) + target * size,
                    static_cast<const std::byte*>(from.data()) + source * size, static_cast<std::size_t>(width * size));
      } else if (from.dtype() == DType::f64) {
        load_row(from.dtype(), from.data(), source, step, width, doubles.data());
        store_row(doubles.data(), width, to.dtype(), to.data(), target, 1);
      } else {
        load_row(from.dtype(), from.data(), source, step, width, floats.data());
        store_row(floats.data(), width, to.dtype(), to.data(), target, 1);
      }
    }
  }
}

void turn_rows(const KvState& cache, const ConstTensorView& k, const TensorView& to, const KvRun& run) {
  if (!cache.rotation) return copy_rows(k, to);
  const int num_axes = cache.blocks.num_axes();
  const ConstTensorView positions(cache.blocks.position(run.block, run.slot), DType::f64, "SA", {run.count, num_axes});
  rotate_to(k, to, *cache.rotation, {.position_ids = positions}, {.precision = cache.options.precision});
}

using RowOf = std::byte* (KvBlocks::*)(std::int32_t, std::int64_t, std::int64_t) const noexcept;
using ScaleOf = float* (KvBlocks::*)(std::int32_t, std::int64_t, std::int64_t) const noexcept;

void store_as_int8(const KvBlocks& blocks, WideTokens& wide, const KvRun& run, RowOf row_of, ScaleOf scale_of) {
  for (std::int64_t head = 0; head < wide.view().size('H'); ++head) {
    for (std::int64_t token = 0; token < run.count; ++token) {
      auto* const row = reinterpret_cast<std::int8_t*>((blocks.*row_of)(run.block, head, run.slot + token));
      *(blocks.*scale_of)(run.block, head, run.slot + token) = to_int8(wide.row(head, token), wide.view().size('D'), row);
    }
  }
}

TensorView slots(const TensorView& block, const KvRun& run) { return block.slice('S', run.slot, run.slot + run.count); }

void shift_int8(const KvState& cache, const KvRun& run, double distance) {
  const KvBlocks& blocks = cache.blocks;
  WideTokens keys(cache.options.num_kv_heads, run.count, cache.options.head_dim);
  for (std::int64_t head = 0; head < cache.options.num_kv_heads; ++head) {
    for (std::int64_t token = 0; token < run.count; ++token) {
      const auto* const row = reinterpret_cast<const std::int8_t*>(blocks.key(run.block, head, run.slot + token));
      from_int8(row, *blocks.key_scale(run.block, head, run.slot + token), cache.options.head_dim, keys.row(head, token));
    }
  }
  shift(keys.view(), *cache.rotation, distance, {.precision = cache.options.precision});
  store_as_int8(blocks, keys, run, &KvBlocks::key, &KvBlocks::key_scale);
}

}  // namespace

void store_tokens(const KvState& cache, const ConstTensorView& all_k, const ConstTensorView& all_v, const KvRun& run) {
  const KvBlocks& blocks = cache.blocks;
  const ConstTensorView k = all_k.slice('S', run.first, run.first + run.count);
  const ConstTensorView v = all_v.slice('S', run.first, run.first + run.count);
  if (cache.options.dtype != DType::i8) {
    turn_rows(cache, k, slots(blocks.keys(run.block), run), run);
    copy_rows(v, slots(blocks.values(run.block), run));
    return;
  }
  WideTokens keys(k.size('H'), run.count, k.size('D')), values(v.size('H'), run.count, v.size('D'));
  turn_rows(cache, k, keys.view(), run);
  copy_rows(v, values.view());
  store_as_int8(blocks, keys, run, &KvBlocks::key, &KvBlocks::key_scale);
  store_as_int8(blocks, values, run, &KvBlocks::value, &KvBlocks::value_scale);
}

void shift_keys(const KvState& cache, const std::vector<std::int32_t>& table, std::int64_t begin, std::int64_t end,
                double distance) {
  const std::int64_t block_size = cache.options.block_size;
  if (cache.options.dtype == DType::i8) {
    constexpr std::int64_t tokens_at_once = 32;
    for_runs(table, block_size, begin, end, tokens_at_once, [&](const KvRun& run) { shift_int8(cache, run, distance); });
    return;
  }
  // All have the same angles: blocks with as many tokens are turned together.
  constexpr std::size_t blocks_at_once = 16;
  const ConstTensorView one(&distance, DType::f64, "", {});
  const Tokens token{.batch = 1, .length = 1};
  const TokenPositions distances = TokenPositions::listed(operation, "distance", one, token, cache.blocks.num_axes());
  const TokenAngles angles = shift_angles(operation, *cache.rotation, distances, token, cache.options.precision);
  std::vector<TensorToRotate> together;
  together.reserve(blocks_at_once);
  std::int64_t count = 0;
  const auto turn = [&] {
    rotate_tensors(together, {.length = count}, PairMap::rotated(*cache.rotation), angles, nullptr);
    together.clear();
  };
  for_runs(table, block_size, begin, end, block_size, [&](const KvRun& run) {
    if (together.size() == blocks_at_once || (!together.empty() && run.count != count)) turn();
    count = run.count;
    const TensorView keys = slots(cache.blocks.keys(run.block), run);
    together.push_back({keys, keys});
  });
  turn();
}

}  // namespace rotary
