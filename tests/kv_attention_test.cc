// Attention over cached keys and values, prefill and decode.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "reference/attention.h"
#include "rotary/frequencies.hpp"
#include "rotary/kv_cache.hpp"
#include "rotary/position_bias.hpp"
#include "support/bf16_pairs.h"
#include "support/error_sentence.h"
#include "support/guarded_pages.h"
#include "support/kv_model.h"
#include "support/test_tensor.h"

namespace rotary {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

Rotation plain_rotation(std::int64_t head_dim, Pairing in = Pairing::half, Pairing out = Pairing::unspecified) {
  return Rotation({.head_dim = head_dim,
                   .pairing_in = in,
                   .pairing_out = out,
                   .inv_freq = default_frequencies(1e4, head_dim / 2 * 2).inv_freq});
}

KvCacheOptions options_for(const Rotation* rotation, std::int64_t heads, std::int64_t head_dim, std::int64_t value_dim,
                           DType dtype, std::int64_t block_size, std::int64_t num_blocks = 64,
                           KeyLayout key_layout = KeyLayout::rows) {
  return {.num_kv_heads = heads,
          .head_dim = head_dim,
          .value_dim = value_dim,
          .dtype = dtype,
          .key_layout = key_layout,
          .rotation = rotation,
          .num_sequences = 8,
          .block_size = block_size,
          .num_blocks = num_blocks};
}

void append(KvCache& cache, std::int64_t sequence, std::int64_t count, std::uint64_t seed) {
  const KvTokens tokens(cache.options(), count, seed);
  cache.append(sequence, tokens.k.view(), tokens.v.view());
}

/// What a sequence of the cache holds, as it is, in double: "SHD".
TestTensor cached_tensor(const KvCache& cache, std::int64_t sequence, bool keys) {
  const KvCacheOptions& o = cache.options();
  const std::int64_t width = keys ? o.head_dim : o.value_dim;
  TestTensor all(DType::f64, "SHD", {cache.num_tokens(sequence), o.num_kv_heads, width});
  const auto table = cache.block_table(sequence);
  for (std::int64_t s = 0; s < cache.num_tokens(sequence); ++s) {
    const std::int64_t block = table[static_cast<std::size_t>(s / o.block_size)], slot = s % o.block_size;
    for (std::int64_t h = 0; h < o.num_kv_heads; ++h) {
      for (std::int64_t d = 0; d < width; ++d) {
        all.set({s, h, d}, keys ? cached_key(cache, block, h, slot, d) : cached_value(cache, block, h, slot, d));
      }
    }
  }
  return all;
}

/// One sequence's queries, "SHD", turned in double by the positions of its last tokens.
TestTensor turned_queries(const KvCache& cache, std::int64_t sequence, const ConstTensorView& q) {
  TestTensor turned(DType::f64, "SHD", {q.size('S'), q.size('H'), q.size('D')});
  const std::int64_t count = q.size('S'),
                     axes = cache.options().rotation != nullptr ? cache.options().rotation->num_axes() : 1;
  const std::vector<double> positions = cache.positions(sequence);
  const std::int64_t first = cache.num_tokens(sequence) - count;
  if (cache.options().rotation == nullptr) {
    for (std::int64_t s = 0; s < count; ++s) {
      for (std::int64_t h = 0; h < q.size('H'); ++h) {
        for (std::int64_t d = 0; d < q.size('D'); ++d) {
          turned.set({s, h, d},
                     load_element(q.dtype(), q.data(), s * q.stride('S') + h * q.stride('H') + d * q.stride('D')));
        }
      }
    }
  } else {
    reference::rotate(q, turned, *cache.options().rotation, [&](std::int64_t, std::int64_t token, int axis) {
      return positions[static_cast<std::size_t>((first + token) * axes + axis)];
    });
  }
  return turned;
}

double largest_of(const TestTensor& x) {
  double size = 0;
  for (const double value : x.values()) {
    if (std::isfinite(value)) size = std::max(size, std::abs(value));
  }
  return size;
}

/// What an element of out may be off, for keys and values as they are cached. With u = 2^-24: a score is a sum of head_dim
/// products of numbers that are off by 2^-22 (turned) and rounded, at most (head_dim + 8) u times `size`, the largest
/// sum of |q k|; a weight by twice that, and the 2 ulp of exp; both sums of the mean by num_keys u each; all of the largest
/// value. In double the same with 2^-53, and the plain version's own.
double out_bound(double u, std::int64_t head_dim, double size, std::int64_t num_keys, double largest_value) {
  const double score = static_cast<double>(head_dim + 8) * u * size;
  return 2 * largest_value * (2 * score + 8 * u + 2 * static_cast<double>(num_keys) * u);
}

struct Case {
  std::int64_t num_q_heads, num_kv_heads, head_dim, value_dim, block_size;
};

/// Compares one sequence of a call, whose queries and results are given as "SHD".
void expect_like_plain(const KvCache& cache, std::int64_t sequence, const ConstTensorView& q, const ConstTensorView& out,
                       AttentionOptions options, const std::string& about, const PositionBias* bias = nullptr) {
  const TestTensor keys = cached_tensor(cache, sequence, true), values = cached_tensor(cache, sequence, false);
  const TestTensor queries = turned_queries(cache, sequence, q);
  TestTensor exact(DType::f64, "SHD", {q.size('S'), q.size('H'), out.size('D')});
  TestTensor exact_lse(DType::f64, "SH", {q.size('S'), q.size('H')});
  const TensorView lse = options.lse;
  options.executor = nullptr;
  options.lse = exact_lse;
  std::vector<double> q_positions, k_positions;
  if (bias != nullptr || options.chunk_size != 0) {
    k_positions = cache.positions(sequence);
    q_positions.assign(k_positions.end() - q.size('S'), k_positions.end());
    options.q_positions.position_ids = ConstTensorView(q_positions.data(), DType::f64, "S", {q.size('S')});
    options.k_positions.position_ids =
        ConstTensorView(k_positions.data(), DType::f64, "S", {static_cast<std::int64_t>(k_positions.size())});
  }
  reference::attention(queries.view(), keys.view(), values.view(), exact, options);

  const double u = q.dtype() == DType::f64 || out.dtype() == DType::f64 ? 0x1p-50 : 0x1p-24;
  const double scale = options.scale != 0 ? std::abs(options.scale) : 1 / std::sqrt(static_cast<double>(q.size('D')));
  const double size = scale * largest_of(queries) * largest_of(keys) * static_cast<double>(q.size('D'));
  // Pairs of bfloat16: what is cached is exact, but turned queries and weights are rounded; errors add up like the root of their
  // number.
  const double root = std::sqrt(static_cast<double>(q.size('D')));
  const double paired = may_multiply_pairs(q.dtype()) ? largest_of(values) * 0x1p-8 * (1 + size / root) : 0;
  const double bound = paired + out_bound(u, q.size('D'), size, cache.num_tokens(sequence), largest_of(values));
  for (std::int64_t s = 0; s < q.size('S'); ++s) {
    for (std::int64_t h = 0; h < q.size('H'); ++h) {
      for (std::int64_t d = 0; d < out.size('D'); ++d) {
        const double value =
            load_element(out.dtype(), out.data(), s * out.stride('S') + h * out.stride('H') + d * out.stride('D'));
        const double expected = exact.at({s, h, d});
        if (std::isnan(expected)) {
          ASSERT_TRUE(std::isnan(value)) << about;
          continue;
        }
        const double rounding = out.dtype() == DType::f64 ? 0 : half_ulp(out.dtype(), std::abs(expected) + bound);
        ASSERT_NEAR(value, expected, bound + rounding)
            << about << ": query " << s << ", head " << h << ", channel " << d << " of sequence " << sequence;
      }
      if (!lse) continue;
      const double value = load_element(lse.dtype(), lse.data(), s * lse.stride('S') + h * lse.stride('H'));
      const double expected = exact_lse.at({s, h});
      if (std::isinf(expected)) ASSERT_EQ(value, expected) << about;
      else
        ASSERT_NEAR(value, expected, 2 * (bound / std::max(largest_of(values), 1e-30) + 1e-6 * std::abs(expected)))
            << about;
    }
  }
}

/// A batch of sequences, of the lengths given, each with its last `num_queries` tokens as queries.
void expect_batch_in_layout_like_plain(KeyLayout layout, const Case& c, DType cache_dtype, DType dtype,
                                       const std::vector<std::int64_t>& lengths, std::int64_t num_queries,
                                       const Rotation* rotation, AttentionOptions options, const std::string& about) {
  std::int64_t num_blocks = 0;
  for (const std::int64_t length : lengths) num_blocks += (length + c.block_size - 1) / c.block_size;
  KvCache cache(
      options_for(rotation, c.num_kv_heads, c.head_dim, c.value_dim, cache_dtype, c.block_size, num_blocks, layout));
  std::vector<std::int64_t> sequences;
  for (std::size_t n = 0; n < lengths.size(); ++n) {
    const auto id = static_cast<std::int64_t>((n * 3 + 1) % 8);
    append(cache, id, lengths[n], 10 + n);
    sequences.push_back(id);
  }
  const auto batch = static_cast<std::int64_t>(lengths.size());
  TestTensor q(dtype, "BSHD", {batch, num_queries, c.num_q_heads, c.head_dim});
  TestTensor out(dtype, "BSHD", {batch, num_queries, c.num_q_heads, c.value_dim});
  TestTensor lse(DType::f64, "BSH", {batch, num_queries, c.num_q_heads});
  q.fill_at_random(99);
  options.lse = lse;
  attention(q.view(), cache, sequences, out, options);
  for (std::int64_t n = 0; n < batch; ++n) {
    AttentionOptions one = options;
    one.lse = lse.view().select('B', n);
    if (options.attn_mask) one.attn_mask = options.attn_mask.slice('K', 0, lengths[static_cast<std::size_t>(n)]);
    if (options.temperatures) one.temperatures = options.temperatures;
    ASSERT_NO_FATAL_FAILURE(expect_like_plain(
        cache, sequences[static_cast<std::size_t>(n)], q.view().select('B', n), out.view().select('B', n), one,
        about + ' ' + name(cache_dtype) + ' ' + name(dtype) + " heads " + std::to_string(c.num_q_heads) + '/' +
            std::to_string(c.num_kv_heads) + " width " + std::to_string(c.head_dim) + " block " +
            std::to_string(c.block_size) + (layout == KeyLayout::lanes ? " lanes" : ""),
        options.bias));
  }
  EXPECT_TRUE(out.guards_intact());
}

/// In every layout that the blocks can have.
void expect_batch_like_plain(const Case& c, DType cache_dtype, DType dtype, const std::vector<std::int64_t>& lengths,
                             std::int64_t num_queries, const Rotation* rotation, const AttentionOptions& options = {},
                             const std::string& about = "") {
  for (const KeyLayout layout : key_layouts(c.block_size)) {
    ASSERT_NO_FATAL_FAILURE(
        expect_batch_in_layout_like_plain(layout, c, cache_dtype, dtype, lengths, num_queries, rotation, options, about));
  }
}

TEST(KvAttention, DecodesLikeThePlainVersionForEveryDtypeAndWidth_S17_M7) {
  for (const DType cache_dtype : {DType::f32, DType::f16, DType::bf16, DType::i8}) {
    for (const Case& c : {Case{6, 2, 6, 10, 16}, Case{1, 1, 10, 3, 1}, Case{3, 1, 20, 20, 7}, Case{8, 1, 64, 64, 16},
                          Case{28, 4, 72, 80, 32}, Case{5, 1, 128, 128, 33}, Case{2, 2, 33, 65, 16}, Case{16, 1, 96, 40, 5},
                          Case{17, 1, 8, 8, 16}, Case{12, 1, 80, 512, 32}}) {
      const Rotation rotation = plain_rotation(c.head_dim);
      ASSERT_NO_FATAL_FAILURE(expect_batch_like_plain(c, cache_dtype, DType::f32, {1, 15, 33, 67}, 1, &rotation));
    }
    for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) {
      const Rotation rotation = plain_rotation(20);
      ASSERT_NO_FATAL_FAILURE(
          expect_batch_like_plain({6, 2, 20, 10, 16}, cache_dtype, dtype, {1, 16, 17, 67}, 1, &rotation));
    }
  }
}

TEST(KvAttention, PrefillsLikeThePlainVersion_M5) {
  for (const DType cache_dtype : {DType::f32, DType::bf16, DType::f16, DType::i8}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      for (const Causal causal : {Causal::none, Causal::bottom_right, Causal::top_left}) {
        const Rotation rotation = plain_rotation(20);
        ASSERT_NO_FATAL_FAILURE(expect_batch_like_plain({6, 2, 20, 10, 16}, cache_dtype, dtype, {5, 16, 131}, 5, &rotation,
                                                        {.causal = causal}));
      }
    }
  }
}

TEST(KvAttention, DoesWithoutARotation) {
  ASSERT_NO_FATAL_FAILURE(expect_batch_like_plain({6, 2, 20, 10, 16}, DType::bf16, DType::f32, {5, 16, 131}, 2, nullptr));
  ASSERT_NO_FATAL_FAILURE(expect_batch_like_plain({6, 2, 20, 10, 16}, DType::bf16, DType::f32, {5, 16, 131}, 1, nullptr));
}

TEST(KvAttention, MeetsKeysAsTheRotationWroteThem) {
  const Rotation listed({.head_dim = 9,
                         .pairing_in = Pairing::listed,
                         .inv_freq = {1, 0.1, 0.01},
                         .amplitude = 1.2,
                         .direction = -1,
                         .pairs_in = {{8, 0}, {3, 4}, {6, 1}},
                         .pairs_out = {{0, 1}, {3, 8}, {6, 4}}});
  const Rotation crossed = plain_rotation(10, Pairing::interleaved, Pairing::half);
  for (const std::int64_t num_queries : {1, 3}) {
    ASSERT_NO_FATAL_FAILURE(expect_batch_like_plain({4, 2, 9, 9, 4}, DType::f32, DType::f32, {5, 16}, num_queries, &listed,
                                                    {.causal = Causal::bottom_right}));
    ASSERT_NO_FATAL_FAILURE(expect_batch_like_plain({4, 2, 10, 9, 4}, DType::bf16, DType::f32, {5, 16}, num_queries,
                                                    &crossed, {.causal = Causal::bottom_right}));
  }
}

TEST(KvAttention, HasEveryOptionThatTensorsHave) {
  const Rotation rotation = plain_rotation(16);
  TestTensor sinks(DType::f32, "H", {4}), temperatures(DType::f32, "S", {3}), mask(DType::boolean, "K", {40});
  sinks.fill_at_random(5);
  temperatures.fill(1.5);
  const PositionBias alibi = PositionBias::alibi(alibi_slopes(4));
  std::vector<char> seen(40);
  for (std::size_t i = 0; i < seen.size(); ++i) seen[i] = i % 3 != 1;
  const ConstTensorView seen_view(seen.data(), DType::boolean, "K", {40});
  const auto try_with = [&](const char* about, const AttentionOptions& options, std::int64_t num_queries) {
    AttentionOptions o = options;
    o.causal = Causal::bottom_right;
    if (o.temperatures) o.temperatures = o.temperatures.slice('S', 0, num_queries);
    for (const DType dtype : {DType::f32, DType::bf16, DType::i8}) {
      ASSERT_NO_FATAL_FAILURE(
          expect_batch_like_plain({4, 2, 16, 16, 8}, dtype, DType::f32, {9, 33, 40}, num_queries, &rotation, o, about));
      ASSERT_NO_FATAL_FAILURE(
          expect_batch_like_plain({4, 2, 16, 16, 16}, dtype, DType::f32, {9, 33, 40}, num_queries, &rotation, o, about));
    }
  };
  for (const std::int64_t num_queries : {1, 3}) {
    try_with("window", {.window_left = 7}, num_queries);
    try_with("window 0", {.window_left = 0}, num_queries);
    try_with("scale", {.scale = -0.7}, num_queries);
    try_with("temperatures", {.temperatures = temperatures.view()}, num_queries);
    try_with("softcap", {.softcap = 3}, num_queries);
    try_with("chunks", {.chunk_size = 16}, num_queries);
    try_with("sinks", {.sinks = sinks.view()}, num_queries);
    try_with("sinks and window", {.window_left = 3, .sinks = sinks.view()}, num_queries);
    try_with("mask", {.attn_mask = seen_view}, num_queries);
    try_with("alibi", {.bias = &alibi}, num_queries);
  }
}

TEST(KvAttention, AttendsToPackedQueriesOfAnyNumber_M11) {
  const Rotation rotation = plain_rotation(20);
  for (const DType cache_dtype : {DType::f32, DType::bf16, DType::i8}) {
    for (const std::vector<std::int64_t>& counts :
         {std::vector<std::int64_t>{0, 1, 0, 1}, {1, 1}, {0}, {3, 0}, {2, 7, 1, 0, 5}}) {
      KvCache cache(options_for(&rotation, 2, 20, 12, cache_dtype, 16));
      std::vector<std::int64_t> ends = {0}, sequences;
      for (std::size_t n = 0; n < counts.size(); ++n) {
        append(cache, static_cast<std::int64_t>(n), counts[n] + static_cast<std::int64_t>(n) * 9, n + 1);
        ends.push_back(ends.back() + counts[n]);
        sequences.push_back(static_cast<std::int64_t>(n));
      }
      TestTensor q(DType::f32, "THD", {ends.back(), 6, 20}), out(DType::f32, "THD", {ends.back(), 6, 12});
      q.fill_at_random(3);
      const AttentionOptions options{
          .causal = Causal::bottom_right,
          .cu_seqlens = ConstTensorView(ends.data(), "N", {static_cast<std::int64_t>(ends.size())})};
      attention(q.view(), cache, sequences, out, options);
      for (std::size_t n = 0; n < counts.size(); ++n) {
        const auto rows = [&](const ConstTensorView& x) {
          const ConstTensorView part = x.slice('T', ends[n], ends[n + 1]);
          return ConstTensorView(part.data(), part.dtype(), "SHD", part.shape(), part.strides());
        };
        ASSERT_NO_FATAL_FAILURE(expect_like_plain(cache, static_cast<std::int64_t>(n), rows(q.view()), rows(out.view()),
                                                  {.causal = Causal::bottom_right}, "packed"));
      }
    }
  }
}

TEST(KvAttention, AnEmptySequenceGivesZeros_M1) {
  const Rotation rotation = plain_rotation(16);
  KvCache cache(options_for(&rotation, 1, 16, 16, DType::f32, 16));
  append(cache, 1, 3, 1);
  TestTensor q(DType::f32, "BSHD", {2, 1, 2, 16}), out(DType::f32, "BSHD", {2, 1, 2, 16}),
      lse(DType::f32, "BSH", {2, 1, 2});
  q.fill_at_random(1);
  attention(q.view(), cache, {0, 1}, out, {.q_positions = {.offset = 3}, .lse = lse});
  for (std::int64_t h = 0; h < 2; ++h) {
    EXPECT_EQ(lse.at({0, 0, h}), -infinity);
    EXPECT_GT(lse.at({1, 0, h}), -infinity);
    for (std::int64_t d = 0; d < 16; ++d) EXPECT_EQ(out.at({0, 0, h, d}), 0);
  }
}

TEST(KvAttention, PrefillingOneMoreIsPrefillingAndDecodingOne_P5_O8) {
  const Rotation rotation = plain_rotation(64);
  KvCache whole(options_for(&rotation, 2, 64, 64, DType::f32, 16)),
      stepwise(options_for(&rotation, 2, 64, 64, DType::f32, 16));
  const KvTokens tokens(whole.options(), 50, 1);
  TestTensor q(DType::f32, "SHD", {50, 4, 64}), at_once(DType::f32, "SHD", {50, 4, 64}),
      one(DType::f32, "SHD", {50, 4, 64});
  q.fill_at_random(2);
  whole.append(0, tokens.k.view(), tokens.v.view());
  attention(q.view(), whole, {0}, at_once, {.causal = Causal::bottom_right});
  const auto some = [](const auto& x, std::int64_t begin, std::int64_t end) { return x.slice('S', begin, end); };
  for (std::int64_t begin = 0, end = 37; begin < 50; begin = end++) {  // 37 tokens, then one at a time
    stepwise.append(0, some(tokens.k.view(), begin, end), some(tokens.v.view(), begin, end));
    attention(some(q.view(), begin, end), stepwise, {0}, some(one.view(), begin, end), {.causal = Causal::bottom_right});
  }
  for (std::int64_t i = 0; i < one.size(); ++i) ASSERT_NEAR(one[i], at_once[i], 1e-5);
}

TEST(KvAttention, KnowsPositionsByTheirDistancesAlone_P1) {
  const Rotation rotation = plain_rotation(64);
  KvCache cache(options_for(&rotation, 1, 64, 64, DType::f32, 16));
  append(cache, 0, 40, 1);
  cache.copy(0, 1, 0, 40);
  cache.shift(1, 0, 40, 131072);
  TestTensor q(DType::f32, "BSHD", {2, 1, 4, 64}), out(DType::f32, "BSHD", {2, 1, 4, 64});
  q.fill_at_random(2);
  for (std::int64_t i = 0; i < 256; ++i) q.set(256 + i, q[i]);
  attention(q.view(), cache, {0, 1}, out);
  for (std::int64_t i = 0; i < 256; ++i) ASSERT_NEAR(out[256 + i], out[i], 2e-5);
}

TEST(KvAttention, HasTheSameBitsOnAnyNumberOfThreads) {
  const Rotation rotation = plain_rotation(16);
  ThreadPool two(2), three(3), many(16);
  for (const DType dtype : {DType::f32, DType::bf16, DType::i8}) {
    for (const KeyLayout layout : key_layouts(16)) {
      KvCache cache(options_for(&rotation, 2, 16, 16, dtype, 16, 400, layout));
      append(cache, 0, 4100, 1);  // four parts, two and one
      append(cache, 1, 2050, 2);
      append(cache, 2, 7, 3);
      for (const std::int64_t num_queries : {1, 3}) {
        TestTensor q(DType::f32, "BSHD", {3, num_queries, 8, 16});
        q.fill_at_random(4);
        std::vector<double> alone;
        for (Executor* executor : {static_cast<Executor*>(nullptr), static_cast<Executor*>(&two),
                                   static_cast<Executor*>(&three), static_cast<Executor*>(&many)}) {
          TestTensor out(DType::f32, "BSHD", {3, num_queries, 8, 16}), lse(DType::f64, "BSH", {3, num_queries, 8});
          attention(q.view(), cache, {0, 1, 2}, out, {.causal = Causal::bottom_right, .lse = lse, .executor = executor});
          std::vector<double> all = out.values();
          for (const double x : lse.values()) all.push_back(x);
          if (alone.empty()) alone = all;
          ASSERT_EQ(all, alone);
          // A row does not depend on the others, either.
          TestTensor single(DType::f32, "BSHD", {1, num_queries, 8, 16});
          attention(q.view().slice('B', 1, 2), cache, {1}, single, {.causal = Causal::bottom_right, .executor = executor});
          for (std::int64_t i = 0; i < single.size(); ++i) ASSERT_EQ(single[i], out[single.size() + i]);
        }
      }
    }
    ASSERT_NO_FATAL_FAILURE(
        expect_batch_like_plain({4, 2, 16, 16, 16}, dtype, DType::f32, {2050}, 1, &rotation, {.executor = &three}));
  }
}

TEST(KvAttention, WhatSlotsHeldBeforeStaysOut_S15) {
  const Rotation rotation = plain_rotation(16);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::i8}) {
    for (const KeyLayout layout : key_layouts(16)) {
      KvCache cache(options_for(&rotation, 1, 16, 16, dtype, 16, 2, layout));
      TestTensor k(DType::f32, "SHD", {32, 1, 16}), v(DType::f32, "SHD", {32, 1, 16});
      k.fill(nan);
      v.fill(infinity);
      cache.append(0, k.view(), v.view());
      cache.clear(0);
      append(cache, 1, 11, 1);
      TestTensor q(DType::f32, "SHD", {1, 2, 16}), out(DType::f32, "SHD", {1, 2, 16});
      q.fill_at_random(2);
      attention(q.view(), cache, {1}, out);
      ASSERT_NO_FATAL_FAILURE(expect_like_plain(cache, 1, q.view(), out.view(), {}, name(dtype)));
      EXPECT_TRUE(std::isfinite(out[0]));
    }
  }
}

TEST(KvAttention, WhatIsSeenShowsAndWhatIsHiddenDoesNot_M12) {
  for (const KeyLayout layout : key_layouts(16)) {
    KvCache cache(options_for(nullptr, 1, 16, 16, DType::f32, 16, 8, layout));
    TestTensor k(DType::f32, "SHD", {20, 1, 16}), v(DType::f32, "SHD", {20, 1, 16});
    k.fill_at_random(1);
    v.fill_at_random(2);
    v.set({3, 0, 5}, nan);
    k.set({2, 0, 1}, nan);
    cache.append(0, k.view(), v.view());
    TestTensor q(DType::f32, "SHD", {1, 1, 16}), out(DType::f32, "SHD", {1, 1, 16});
    q.fill_at_random(3);
    attention(q.view(), cache, {0}, out, {.causal = Causal::bottom_right, .window_left = 15});
    for (const double x : out.values()) EXPECT_TRUE(std::isfinite(x));
    attention(q.view(), cache, {0}, out, {.causal = Causal::bottom_right, .window_left = 16});
    for (std::int64_t d = 0; d < 16; ++d) EXPECT_EQ(std::isnan(out[d]), d == 5);
    attention(q.view(), cache, {0}, out);
    for (const double x : out.values()) EXPECT_TRUE(std::isnan(x));
    q.set(4, nan);
    attention(q.view(), cache, {0}, out, {.causal = Causal::bottom_right, .window_left = 3});
    for (const double x : out.values()) EXPECT_TRUE(std::isnan(x));
  }
}

TEST(KvAttention, TakesHugeScores) {
  KvCache cache(options_for(nullptr, 1, 16, 16, DType::f32, 8, 8));
  TestTensor k(DType::f32, "SHD", {50, 1, 16}), v(DType::f32, "SHD", {50, 1, 16});
  v.fill_at_random(2);
  for (std::int64_t s = 0; s < 50; ++s) {
    for (std::int64_t d = 0; d < 16; ++d) k.set({s, 0, d}, s == 44 ? 300 : s == 7 ? -300 : 0.1 * static_cast<double>(s));
  }
  cache.append(0, k.view(), v.view());
  TestTensor q(DType::f32, "SHD", {1, 1, 16}), out(DType::f32, "SHD", {1, 1, 16});
  q.fill(30);
  attention(q.view(), cache, {0}, out);
  for (std::int64_t d = 0; d < 16; ++d) EXPECT_NEAR(out[d], v.at({44, 0, d}), 1e-6);
}

TEST(KvAttention, ARingDecodesAsTheWholeSequenceWithAWindow) {
  const Rotation rotation = plain_rotation(32);
  KvCacheOptions small = options_for(&rotation, 1, 32, 32, DType::f32, 4, 6);
  small.window_left = 13;
  KvCache ring(small), whole(options_for(&rotation, 1, 32, 32, DType::f32, 16, 64));
  const KvTokens tokens(small, 300, 1);
  TestTensor q(DType::f32, "SHD", {300, 2, 32});
  q.fill_at_random(2);
  for (std::int64_t begin = 0; begin < 300;) {
    const std::int64_t end = std::min<std::int64_t>(begin + 1 + begin % 4, 300);
    const auto some = [&](const TestTensor& x) { return x.view().slice('S', begin, end); };
    TestTensor from_ring(DType::f32, "SHD", {end - begin, 2, 32}), from_whole(DType::f32, "SHD", {end - begin, 2, 32});
    for (KvCache* cache : {&ring, &whole}) {
      cache->append(0, some(tokens.k), some(tokens.v));
      attention(some(q), *cache, {0}, cache == &ring ? from_ring : from_whole,
                {.causal = Causal::bottom_right, .window_left = 13});
    }
    for (std::int64_t i = 0; i < from_ring.size(); ++i) ASSERT_NEAR(from_ring[i], from_whole[i], 1e-5) << begin;
    begin = end;
  }
}

/// With delta = scale * sum |q| * (scale of a key) / 2, how far a score is off at most: a weight is off by a factor of
/// e^(2 delta), the mean by (e^(2 delta) - 1) of the values' spread, and half a scale of the values.
TEST(KvAttention, Int8StaysWithinItsBound) {
  const Rotation rotation = plain_rotation(64);
  KvCache exact(options_for(&rotation, 1, 64, 64, DType::f32, 16)),
      rounded(options_for(&rotation, 1, 64, 64, DType::i8, 16));
  append(exact, 0, 300, 1);
  append(rounded, 0, 300, 1);
  TestTensor q(DType::f32, "SHD", {1, 8, 64}), a(DType::f32, "SHD", {1, 8, 64}), b(DType::f32, "SHD", {1, 8, 64});
  q.fill_at_random(5);
  attention(q.view(), exact, {0}, a);
  attention(q.view(), rounded, {0}, b);
  const double half_scale = 2 * std::sqrt(2.0) / 254 * (1 + 0x1p-20);  // no turned number is above 2 sqrt(2)
  double worst = 0;
  for (std::int64_t h = 0; h < 8; ++h) {
    double sum = 0;
    for (std::int64_t d = 0; d < 64; ++d) sum += std::abs(q.at({0, h, d}));
    const double delta = sum * std::sqrt(2.0) / 8 * half_scale;
    for (std::int64_t d = 0; d < 64; ++d) {
      const double off = std::abs(a.at({0, h, d}) - b.at({0, h, d}));
      worst = std::max(worst, off);
      ASSERT_LE(off, std::expm1(2 * delta) * 4 + 2.0 / 254 + 1e-5);
    }
  }
  EXPECT_LT(worst, 0.01);  // in fact
  EXPECT_GT(worst, 1e-5);
}

TEST(KvAttention, ReadsNoByteBesideItsTensors_S7) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const std::int64_t length = 37, width = 64, size = bit_size(dtype) / 8;
    const GuardedPages pages(static_cast<std::size_t>(length * width * size));
    for (void* const at : {pages.at_begin(), pages.at_end()}) {
      const TensorView k(at, dtype, "SHD", {length, 1, width});
      for (std::int64_t i = 0; i < length * width; ++i) store_element(dtype, at, i, 0.01 * static_cast<double>(i % 100));
      TestTensor q(DType::f32, "SHD", {1, 3, 64}), out(DType::f32, "SHD", {1, 3, 64}), exact(DType::f64, "SHD", {1, 3, 64});
      q.fill_at_random(1);
      attention(q.view(), k, k, out);
      reference::attention(q.view(), k, k, exact);
      for (std::int64_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], exact[i], 1e-5);
    }
  }
}

TEST(KvAttention, RefusesWhatDoesNotFitACache_P8) {
  const Rotation rotation = plain_rotation(16);
  KvCache cache(options_for(&rotation, 2, 16, 8, DType::f32, 8, 8));
  append(cache, 0, 5, 1);
  TestTensor q(DType::f32, "BSHD", {2, 1, 4, 16}), out(DType::f32, "BSHD", {2, 1, 4, 8}),
      wide(DType::f32, "BSHD", {2, 1, 4, 16});
  q.fill_at_random(1);
  out.fill(7);
  const auto refused = [&](const char* words, const std::vector<std::int64_t>& sequences,
                           const AttentionOptions& options = {}) {
    expect_refused([&] { attention(q.view(), cache, sequences, out, options); }, words);
  };
  refused("sequences must name one of the cache for each of q, got 1 for 2", {0});
  refused("a sequence must be 0 to 7, got 8", {0, 8});
  refused("a sequence must be 0 to 7, got -1", {-1, 0});
  refused("must hold the tokens of its queries", {0, 1});
  refused("rotation must not be given with a cache", {0, 0}, {.rotation = &rotation});
  refused("k_positions must not be given with a cache", {0, 0}, {.k_positions = {.offset = 1}});
  const std::int64_t ends[] = {0, 1, 2};
  refused("k_cu_seqlens must not be given", {0, 0}, {.k_cu_seqlens = {ends, "N", {3}}});
  expect_refused([&] { attention(q.view(), cache, {0, 0}, wide); }, "out must be as long as v along D");
  expect_refused(
      [&] {
        attention(wide.view().slice('H', 0, 3), cache, {0, 0}, out.view().slice('H', 0, 3));
      },
      "multiple of the number of KV heads");
  expect_refused([&] { attention(out.view(), cache, {0, 0}, out); }, "k must be as long as q along D");
  for (const double x : out.values()) EXPECT_EQ(x, 7);
}

}  // namespace
}  // namespace rotary
