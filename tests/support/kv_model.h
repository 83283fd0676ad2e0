// What a KV cache must hold, said plainly: every token as it came, unrotated, with the position where it stands now.
// Everything is recomputed from that in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/rotate.h"
#include "rotary/kv_cache.hpp"
#include "support/plain_rotation.h"
#include "support/test_tensor.h"

namespace rotary {

struct ModelToken {
  std::vector<double> k, v;      ///< [head][channel], as they were given
  std::vector<double> position;  ///< per axis
  int num_shifts = 0;
};

struct KvModel {
  using Sequence = std::vector<ModelToken>;
  std::vector<Sequence> sequences;

  void shift(std::size_t n, std::size_t begin, std::size_t end, double distance) {
    if (distance == 0) return;
    for (std::size_t i = begin; i < end; ++i) {
      for (double& p : sequences[n][i].position) p += distance;
      ++sequences[n][i].num_shifts;
    }
  }
  void drop(std::size_t n, std::size_t begin, std::size_t end, bool close) {
    Sequence& s = sequences[n];
    const double distance = close && end < s.size() ? s[begin].position[0] - s[end].position[0] : 0;
    s.erase(s.begin() + static_cast<std::ptrdiff_t>(begin), s.begin() + static_cast<std::ptrdiff_t>(end));
    if (begin < s.size()) shift(n, begin, s.size(), distance);
  }
  void copy(std::size_t from, std::size_t to, std::size_t begin, std::size_t end) {
    const Sequence tokens(sequences[from].begin() + static_cast<std::ptrdiff_t>(begin),
                          sequences[from].begin() + static_cast<std::ptrdiff_t>(end));
    sequences[to].insert(sequences[to].end(), tokens.begin(), tokens.end());
  }
};

/// The keys of a token turned by its position, in double.
inline std::vector<double> turned(const ModelToken& token, const KvCacheOptions& options) {
  std::vector<double> out = token.k;
  if (options.rotation == nullptr) return out;
  const Dims shape{1, options.num_kv_heads, options.head_dim};
  reference::rotate(ConstTensorView(token.k.data(), "SHD", shape), TensorView(out.data(), "SHD", shape), *options.rotation,
                    [&](std::int64_t, std::int64_t, int axis) { return token.position[static_cast<std::size_t>(axis)]; });
  return out;
}

/// How far a channel of a cached key may be from the exact one. `size` is the length of its pair where it turns, else its own;
/// of int8: the largest such length in the row.
///
/// A rotation is off by 2^-22 of the pair's length in each channel (plain_rotation.h), and rounding by half a unit: together
/// sqrt(2) (2^-22 + u) of the length of the pair, as the length of the error of both channels, which later turns keep. With
/// every shift there comes another such part, of the length with the error so far: ((1 + c)^(shifts + 1) - 1) size.
/// int8 rounds to multiples of (the largest number of the row) / 127.
inline double key_bound(DType dtype, double size, int num_shifts) {
  const double unit = dtype == DType::i8 ? (1 + 0x1p-20) / 254 : half_ulp(dtype, 1);
  const double c = std::sqrt(2.0) * (0x1p-22 + unit);
  const double subnormal = dtype == DType::f16 ? 0x1p-25 : 0x1p-150;
  return std::expm1((num_shifts + 1) * std::log1p(c)) * size + (num_shifts + 1) * 2 * subnormal;
}

inline double value_bound(DType dtype, double size, double largest_of_row) {
  return dtype == DType::i8 ? (1 + 0x1p-20) / 254 * largest_of_row : half_ulp(dtype, size);
}

/// Of each channel: the length of its pair.
inline std::vector<double> pair_lengths(const double* row, const KvCacheOptions& options) {
  std::vector<double> lengths;
  for (std::int64_t d = 0; d < options.head_dim; ++d) lengths.push_back(std::abs(row[d]));
  if (options.rotation == nullptr) return lengths;
  for (const Pair& pair : options.rotation->pairs_out()) {
    lengths[static_cast<std::size_t>(pair.first)] = lengths[static_cast<std::size_t>(pair.second)] =
        std::hypot(row[pair.first], row[pair.second]);
  }
  return lengths;
}

inline double scaled_element(const ConstTensorView& block, std::int64_t element, const ConstTensorView& scales,
                             std::int64_t head, std::int64_t slot) {
  if (block.dtype() != DType::i8) return load_element(block.dtype(), block.data(), element);
  const float scale = static_cast<const float*>(scales.data())[head * scales.stride('H') + slot * scales.stride('S')];
  return static_cast<double>(scale) * static_cast<const std::int8_t*>(block.data())[element];
}

/// Number `d` of the key, or of the value, that a head has in a slot of a block.
inline double cached_value(const KvCache& cache, std::int64_t block, std::int64_t head, std::int64_t slot, std::int64_t d) {
  const ConstTensorView values = cache.values(block);
  const std::int64_t element = head * values.stride('H') + slot * values.stride('S') + d * values.stride('D');
  return scaled_element(values, element, cache.value_scales(block), head, slot);
}
inline double cached_key(const KvCache& cache, std::int64_t block, std::int64_t head, std::int64_t slot, std::int64_t d) {
  const ConstTensorView keys = cache.keys(block);
  std::int64_t row = slot, number = d;
  if (cache.options().key_layout == KeyLayout::lanes) {
    const std::int64_t together = keys.dtype() == DType::bf16 ? 2 : 1;
    row = slot / 16;
    number = (d / together * 16 + slot % 16) * together + d % together;
  }
  const std::int64_t element = head * keys.stride('H') + row * keys.stride('S') + number * keys.stride('D');
  return scaled_element(keys, element, cache.key_scales(block), head, slot);
}

/// The layouts of keys that blocks of this size can have.
inline std::vector<KeyLayout> key_layouts(std::int64_t block_size) {
  if (block_size % 16 != 0) return {KeyLayout::rows};
  return {KeyLayout::rows, KeyLayout::lanes};
}

/// Expects that the cache holds what the model says.
inline void expect_holds(const KvCache& cache, const KvModel& model) {
  const KvCacheOptions& options = cache.options();
  for (std::size_t n = 0; n < model.sequences.size(); ++n) {
    const auto& tokens = model.sequences[n];
    const auto id = static_cast<std::int64_t>(n);
    ASSERT_EQ(cache.num_tokens(id), static_cast<std::int64_t>(tokens.size())) << "sequence " << n;
    const std::vector<std::int32_t> table = cache.block_table(id);
    ASSERT_EQ(static_cast<std::int64_t>(table.size()),
              (cache.num_tokens(id) + options.block_size - 1) / options.block_size);
    std::vector<double> positions;
    for (const ModelToken& token : tokens) positions.insert(positions.end(), token.position.begin(), token.position.end());
    ASSERT_EQ(cache.positions(id), positions) << "sequence " << n;

    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::int64_t block = table[i / static_cast<std::size_t>(options.block_size)];
      const std::int64_t slot = static_cast<std::int64_t>(i) % options.block_size;
      const std::vector<double> keys = turned(tokens[i], options);
      const DType dtype = options.dtype;
      for (std::int64_t h = 0; h < options.num_kv_heads; ++h) {
        const double* const key = keys.data() + h * options.head_dim;
        const double* const value = tokens[i].v.data() + h * options.value_dim;
        std::vector<double> sizes = pair_lengths(key, options);
        const double largest = *std::max_element(sizes.begin(), sizes.end());
        double largest_value = 0;
        for (std::int64_t d = 0; d < options.value_dim; ++d) largest_value = std::max(largest_value, std::abs(value[d]));
        for (std::int64_t d = 0; d < options.head_dim; ++d) {
          const double size = dtype == DType::i8 ? largest : sizes[static_cast<std::size_t>(d)];
          ASSERT_NEAR(cached_key(cache, block, h, slot, d), key[d], key_bound(dtype, size, tokens[i].num_shifts))
              << "key of token " << i << " of sequence " << n << ", head " << h << ", channel " << d << ", after "
              << tokens[i].num_shifts << " shifts";
        }
        for (std::int64_t d = 0; d < options.value_dim; ++d) {
          ASSERT_NEAR(cached_value(cache, block, h, slot, d), value[d],
                      value_bound(dtype, std::abs(value[d]), largest_value))
              << "value of token " << i << " of sequence " << n << ", head " << h << ", channel " << d;
        }
      }
    }
  }
}

/// New tokens, at random, in a cache and in its model.
class KvTokens {
 public:
  KvTokens(const KvCacheOptions& options, std::int64_t count, std::uint64_t seed, DType dtype = DType::f32)
      : k(dtype, "SHD", {count, options.num_kv_heads, options.head_dim}),
        v(dtype, "SHD", {count, options.num_kv_heads, options.value_dim == 0 ? options.head_dim : options.value_dim}) {
    k.fill_at_random(2 * seed);
    v.fill_at_random(2 * seed + 1);
  }

  /// The i-th token at a position that is the same on all axes.
  ModelToken token(std::int64_t i, double position, int num_axes = 1) const {
    ModelToken token;
    const auto width = [](const TestTensor& x) { return x.view().size('H') * x.view().size('D'); };
    for (std::int64_t d = 0; d < width(k); ++d) token.k.push_back(k[i * width(k) + d]);
    for (std::int64_t d = 0; d < width(v); ++d) token.v.push_back(v[i * width(v) + d]);
    token.position.assign(static_cast<std::size_t>(num_axes), position);
    return token;
  }

  TestTensor k, v;
};

}  // namespace rotary
