#include "attention/kv_rows.h"

#include <cstring>
#include <vector>

#include "attention/int8_rows.h"
#include "attention/tensor_rows.h"
#include "base/round_up.h"
#include "rotary/rotate.hpp"
#include "rotation/rotate_tensors.h"
#include "rotation/shift.h"

namespace rotary {
namespace {

constexpr const char* operation = "KvCache";

/// Room for tokens, as "HSD".
class TokenRows {
 public:
  TokenRows(DType dtype, std::int64_t heads, std::int64_t tokens, std::int64_t width)
      : row_bytes_(round_up(width, 2) * bit_size(dtype) / 8),
        bytes_(static_cast<std::size_t>(heads * tokens * row_bytes_)),
        view_(bytes_.data(), dtype, "HSD", {heads, tokens, width}, {tokens * round_up(width, 2), round_up(width, 2), 1}) {}

  const TensorView& view() const noexcept { return view_; }
  std::byte* row(std::int64_t head, std::int64_t token) noexcept {
    return bytes_.data() + (head * view_.size('S') + token) * row_bytes_;
  }

 private:
  std::int64_t row_bytes_;
  std::vector<std::byte> bytes_;
  TensorView view_;
};

/// body(head, token), for all that a run has.
template <class Body>
void for_rows(const KvState& cache, const KvRun& run, const Body& body) {
  for (std::int64_t head = 0; head < cache.options.num_kv_heads; ++head) {
    for (std::int64_t token = 0; token < run.count; ++token) body(head, token);
  }
}

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

void store_keys(const KvState& cache, TokenRows& rows, const KvRun& run) {
  for_rows(cache, run, [&](std::int64_t head, std::int64_t token) {
    cache.blocks.store_key(rows.row(head, token), run.block, head, run.slot + token);
  });
}

void store_keys_as_int8(const KvState& cache, TokenRows& wide, const KvRun& run) {
  std::vector<std::int8_t> row(static_cast<std::size_t>(cache.options.head_dim));
  for_rows(cache, run, [&](std::int64_t head, std::int64_t token) {
    const auto* const key = reinterpret_cast<const float*>(wide.row(head, token));
    *cache.blocks.key_scale(run.block, head, run.slot + token) = to_int8(key, cache.options.head_dim, row.data());
    cache.blocks.store_key(reinterpret_cast<const std::byte*>(row.data()), run.block, head, run.slot + token);
  });
}

void store_values_as_int8(const KvState& cache, TokenRows& wide, const KvRun& run) {
  for_rows(cache, run, [&](std::int64_t head, std::int64_t token) {
    auto* const to = reinterpret_cast<std::int8_t*>(cache.blocks.value(run.block, head, run.slot + token));
    const auto* const value = reinterpret_cast<const float*>(wide.row(head, token));
    *cache.blocks.value_scale(run.block, head, run.slot + token) = to_int8(value, cache.options.value_dim, to);
  });
}

TensorView slots(const TensorView& block, const KvRun& run) { return block.slice('S', run.slot, run.slot + run.count); }

/// By way of rows of their own.
void shift_lanes(const KvState& cache, const KvRun& run, double distance) {
  TokenRows keys(cache.options.dtype, cache.options.num_kv_heads, run.count, cache.options.head_dim);
  for_rows(cache, run, [&](std::int64_t head, std::int64_t token) {
    cache.blocks.load_key(run.block, head, run.slot + token, keys.row(head, token));
  });
  shift(keys.view(), *cache.rotation, distance, {.precision = cache.options.precision});
  store_keys(cache, keys, run);
}

void shift_int8(const KvState& cache, const KvRun& run, double distance) {
  const std::int64_t width = cache.options.head_dim;
  std::vector<std::int8_t> row(static_cast<std::size_t>(width));
  TokenRows keys(DType::f32, cache.options.num_kv_heads, run.count, width);
  for_rows(cache, run, [&](std::int64_t head, std::int64_t token) {
    cache.blocks.load_key(run.block, head, run.slot + token, reinterpret_cast<std::byte*>(row.data()));
    from_int8(row.data(), *cache.blocks.key_scale(run.block, head, run.slot + token), width,
              reinterpret_cast<float*>(keys.row(head, token)));
  });
  shift(keys.view(), *cache.rotation, distance, {.precision = cache.options.precision});
  store_keys_as_int8(cache, keys, run);
}

/// Turns keys where they lie, in rows: all by the same angles, so that blocks with as many tokens are turned together.
void shift_rows(const KvState& cache, const std::vector<std::int32_t>& table, std::int64_t begin, std::int64_t end,
                double distance) {
  constexpr std::size_t blocks_at_once = 16;
  const std::int64_t block_size = cache.options.block_size;
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

}  // namespace

void store_tokens(const KvState& cache, const ConstTensorView& all_k, const ConstTensorView& all_v, const KvRun& run) {
  const KvBlocks& blocks = cache.blocks;
  const ConstTensorView k = all_k.slice('S', run.first, run.first + run.count);
  const ConstTensorView v = all_v.slice('S', run.first, run.first + run.count);
  const bool is_int8 = cache.options.dtype == DType::i8;
  if (!is_int8 && !blocks.keys_are_lanes()) {
    turn_rows(cache, k, slots(blocks.keys(run.block), run), run);
  } else {
    TokenRows keys(is_int8 ? DType::f32 : cache.options.dtype, k.size('H'), run.count, k.size('D'));
    turn_rows(cache, k, keys.view(), run);
    if (is_int8) store_keys_as_int8(cache, keys, run);
    else store_keys(cache, keys, run);
  }
  if (!is_int8) return copy_rows(v, slots(blocks.values(run.block), run));
  TokenRows values(DType::f32, v.size('H'), run.count, v.size('D'));
  copy_rows(v, values.view());
  store_values_as_int8(cache, values, run);
}

void shift_keys(const KvState& cache, const std::vector<std::int32_t>& table, std::int64_t begin, std::int64_t end,
                double distance) {
  const bool is_int8 = cache.options.dtype == DType::i8;
  if (!is_int8 && !cache.blocks.keys_are_lanes()) return shift_rows(cache, table, begin, end, distance);
  constexpr std::int64_t tokens_at_once = 32;
  for_runs(table, cache.options.block_size, begin, end, tokens_at_once, [&](const KvRun& run) {
    if (is_int8) shift_int8(cache, run, distance);
    else shift_lanes(cache, run, distance);
  });
}

}  // namespace rotary
