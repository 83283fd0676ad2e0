#include "rotary/kv_cache.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "rotary/frequencies.hpp"
#include "rotary/rotate.hpp"
#include "support/error_sentence.h"
#include "support/kv_model.h"
#include "support/test_tensor.h"

namespace rotary {
namespace {

constexpr DType dtypes[] = {DType::f32, DType::f16, DType::bf16, DType::i8};
constexpr auto lowest = std::numeric_limits<std::int64_t>::min(), largest = std::numeric_limits<std::int64_t>::max();

/// A slice of 6 of 9 channels, with an amplitude.
RotationSpec yarn_like(Pairing pairing = Pairing::half) {
  return {.head_dim = 9,
          .rotary_offset = 1,
          .pairing_in = pairing,
          .inv_freq = default_frequencies(1e4, 6).inv_freq,
          .amplitude = 1.138629436111989};
}

KvCacheOptions small(const Rotation* rotation, DType dtype = DType::f32) {
  return {.num_kv_heads = 2,
          .head_dim = 9,
          .value_dim = 5,
          .dtype = dtype,
          .rotation = rotation,
          .num_sequences = 3,
          .block_size = 4,
          .num_blocks = 12};
}

/// A cache and its model, to which everything is done alike.
struct Both {
  explicit Both(const KvCacheOptions& options) : cache(options) { model.sequences.resize(3); }

  void append(std::int64_t n, std::int64_t count) {
    const KvTokens tokens(cache.options(), count, ++seed);
    const double next = cache.next_position(n);
    cache.append(n, tokens.k.view(), tokens.v.view());
    for (std::int64_t i = 0; i < count; ++i) {
      model.sequences[static_cast<std::size_t>(n)].push_back(tokens.token(i, next + static_cast<double>(i)));
    }
  }
  void append_at(std::int64_t n, const std::vector<double>& positions) {
    const auto count = static_cast<std::int64_t>(positions.size());
    const KvTokens tokens(cache.options(), count, ++seed);
    cache.append(n, tokens.k.view(), tokens.v.view(), {positions.data(), "S", {count}});
    for (std::int64_t i = 0; i < count; ++i) {
      model.sequences[static_cast<std::size_t>(n)].push_back(tokens.token(i, positions[static_cast<std::size_t>(i)]));
    }
  }
  void expect_alike() const { ASSERT_NO_FATAL_FAILURE(expect_holds(cache, model)); }

  KvCache cache;
  KvModel model;
  std::uint64_t seed = 0;
};

std::vector<double> counted(double first, int count) {
  std::vector<double> positions;
  for (int i = 0; i < count; ++i) positions.push_back(first + i);
  return positions;
}

std::string exhausted(KvCache& cache, const std::function<void()>& call) {
  const std::int64_t free = cache.num_free_blocks();
  std::string sentence = error_sentence(ErrorCode::exhausted, call);
  EXPECT_EQ(cache.num_free_blocks(), free);
  return sentence;
}

// ---- append ----

TEST(KvCache, HoldsKeysBitForBitAsRotateWritesThem_P13) {
  RotationSpec mixed = yarn_like(Pairing::interleaved);
  mixed.pairing_out = Pairing::half;
  RotationSpec listed = yarn_like(Pairing::listed);
  listed.pairs_in = {{8, 0}, {3, 4}, {6, 1}};
  for (const RotationSpec& spec : {yarn_like(Pairing::half), yarn_like(Pairing::interleaved), mixed, listed}) {
    const Rotation rotation(spec);
    for (const Precision precision : {Precision::exact, Precision::transformers}) {
      for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
        for (const DType from : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
          for (const KeyLayout layout : {KeyLayout::rows, KeyLayout::lanes}) {
            KvCacheOptions options = small(&rotation, dtype);
            options.precision = precision;
            options.key_layout = layout;
            if (layout == KeyLayout::lanes) options.block_size = 16;
            KvCache cache(options);
            const KvTokens tokens(options, 37, 1, from);
            cache.append(1, tokens.k.view(), tokens.v.view(), {counted(100000, 37).data(), "S", {37}});

            TestTensor k(dtype, "SHD", {37, 2, 9}), v(dtype, "SHD", {37, 2, 5});
            rotate_to(tokens.k.view(), k, rotation, {.offset = 100000}, {.precision = precision});
            v.fill_from(tokens.v);
            const auto table = cache.block_table(1);
            for (std::int64_t s = 0; s < 37; ++s) {
              const std::int64_t block = table[static_cast<std::size_t>(s / options.block_size)],
                                 slot = s % options.block_size;
              for (std::int64_t h = 0; h < 2; ++h) {
                for (std::int64_t d = 0; d < 9; ++d) {
                  ASSERT_EQ(cached_key(cache, block, h, slot, d), k.at({s, h, d})) << name(dtype) << name(from);
                }
                for (std::int64_t d = 0; d < 5; ++d) ASSERT_EQ(cached_value(cache, block, h, slot, d), v.at({s, h, d}));
              }
            }
          }
        }
      }
    }
  }
}

TEST(KvCache, TakesTokensInAnyLayoutAndFromAnyThreads) {
  const Rotation rotation(yarn_like());
  ThreadPool pool(3);
  for (const DType dtype : dtypes) {
    KvCacheOptions options = small(&rotation, dtype);
    options.num_blocks = 40;
    KvCache plain(options), awkward(options);
    const KvTokens tokens(options, 67, 3);
    TestTensor k(DType::f32, "DHS", {9, 2, 67}, {.order = "SDH", .step = 2, .reversed = "S"});
    TestTensor v(DType::f32, "HSD", {2, 67, 5}, {.order = "DSH", .step = 3, .reversed = "DH"});
    for (std::int64_t s = 0; s < 67; ++s) {
      for (std::int64_t h = 0; h < 2; ++h) {
        for (std::int64_t d = 0; d < 9; ++d) k.set({d, h, s}, tokens.k.at({s, h, d}));
        for (std::int64_t d = 0; d < 5; ++d) v.set({h, s, d}, tokens.v.at({s, h, d}));
      }
    }
    plain.append(0, tokens.k.view(), tokens.v.view());
    awkward.append(0, k.view(), v.view(), {}, &pool);
    for (std::int64_t s = 0; s < 67; ++s) {
      const std::int64_t at = plain.block_table(0)[static_cast<std::size_t>(s / 4)];
      for (std::int64_t h = 0; h < 2; ++h) {
        for (std::int64_t d = 0; d < 9; ++d) {
          ASSERT_EQ(cached_key(plain, at, h, s % 4, d), cached_key(awkward, at, h, s % 4, d));
        }
      }
    }
  }
}

TEST(KvCache, HoldsWhatItWasGivenWithoutARotation) {
  for (const DType dtype : dtypes) {
    Both both(small(nullptr, dtype));
    both.append(0, 6);
    both.cache.shift(0, 1, 6, 10);  // positions alone
    for (std::size_t i = 1; i < 6; ++i) both.model.sequences[0][i].position[0] += 10;
    both.expect_alike();
  }
}

TEST(KvCache, ContinuesAfterTheLargestPosition_P5_P6_P10) {
  const Rotation rotation(yarn_like());
  Both both(small(&rotation));
  EXPECT_EQ(both.cache.next_position(0), 0);
  both.append(0, 5);
  EXPECT_EQ(both.cache.next_position(0), 5);
  for (int i = 0; i < 3; ++i) both.append(0, 1);
  EXPECT_EQ(both.cache.positions(0), counted(0, 8));
  both.append_at(0, {100000, 100001});
  both.append(0, 1);
  EXPECT_EQ(both.cache.positions(0).back(), 100002);
  both.cache.truncate(0, 8);
  both.model.sequences[0].resize(8);
  EXPECT_EQ(both.cache.next_position(0), 8);
  both.expect_alike();
}

TEST(KvCache, KeepsSlotsAndPositionsApart_P7_P22) {
  const Rotation rotation(yarn_like());
  Both both(small(&rotation));
  both.append_at(0, {0, 1, 1, 1, 2});
  EXPECT_EQ(both.cache.num_tokens(0), 5);
  EXPECT_EQ(both.cache.next_position(0), 3);
  both.append_at(1, counted(0, 12));
  for (std::int64_t i = 0; i < 12; ++i) {  // self-extend: p -> floor(p / 4), in as many slots as before
    both.cache.shift(1, i, i + 1, i / 4 - i);
    both.model.shift(1, static_cast<std::size_t>(i), static_cast<std::size_t>(i) + 1, static_cast<double>(i / 4 - i));
  }
  EXPECT_EQ(both.cache.num_tokens(1), 12);
  EXPECT_EQ(both.cache.next_position(1), 3);
  EXPECT_EQ(both.cache.block_table(1).size(), 3u);
  both.expect_alike();
}

TEST(KvCache, TurnsEveryTokenByItsOwnPosition_P1_P3_P12_P23) {
  const Rotation rotation(yarn_like());
  Both both(small(&rotation));
  both.append_at(0, counted(0, 3));
  both.append_at(1, counted(5, 3));
  both.append_at(2, {0, 1, 2, 0, 1, 2});
  both.append_at(0, counted(0, 2));
  both.append_at(1, {0.5, 257, 256, 1e6});
  both.expect_alike();
}

TEST(KvCache, TurnsByEveryAxisOfThePosition) {
  RotationSpec spec = yarn_like();
  spec.axis = {0, 1, 2};
  const Rotation rotation(spec);
  KvCacheOptions options = small(&rotation);
  KvCache cache(options);
  KvModel model;
  model.sequences.resize(3);
  const KvTokens tokens(options, 3, 1), text(options, 1, 2);
  const std::int64_t ids[] = {3, 3, 3, 0, 0, 1, 4, 5, 4};  // time, row, column of three patches
  cache.append(0, tokens.k.view(), tokens.v.view(), {ids, "AS", {3, 3}});
  for (std::int64_t i = 0; i < 3; ++i) {
    model.sequences[0].push_back(tokens.token(i, 0, 3));
    for (std::size_t a = 0; a < 3; ++a) {
      model.sequences[0].back().position[a] = static_cast<double>(ids[a * 3 + static_cast<std::size_t>(i)]);
    }
  }
  EXPECT_EQ(cache.next_position(0), 6);
  cache.append(0, text.k.view(), text.v.view());
  model.sequences[0].push_back(text.token(0, 6, 3));
  expect_holds(cache, model);
}

TEST(KvCache, RefusesTokensThatDoNotFit_P8_K4) {
  const Rotation rotation(yarn_like());
  KvCache cache(small(&rotation));
  TestTensor k(DType::f32, "SHD", {3, 2, 9}), v(DType::f32, "SHD", {3, 2, 5}), one(DType::f32, "SHD", {1, 2, 5});
  k.fill(1);
  v.fill(1);
  const auto append = [&](const ConstTensorView& keys, const ConstTensorView& values, const ConstTensorView& ids = {}) {
    return error_sentence(ErrorCode::invalid_argument, [&] { cache.append(0, keys, values, ids); });
  };
  EXPECT_EQ(append(k.view(), one.view()), "KvCache::append: k and v must have as many tokens, got 3 and 1");
  EXPECT_EQ(append(v.view(), v.view()), "KvCache::append: k must have 2 heads of 9, got 2 of 5");
  EXPECT_EQ(append(k.view(), k.view()), "KvCache::append: v must have 2 heads of 5, got 2 of 9");
  const std::int64_t ids[] = {0, 1, 2, std::numeric_limits<std::int64_t>::max(), lowest, 3, 4};
  EXPECT_NE(append(k.view(), v.view(), {ids, "S", {2}}).find("one entry per token, got 2 for 3"), std::string::npos);
  EXPECT_NE(append(k.view(), v.view(), {ids, "S", {4}}).find("one entry per token, got 4 for 3"), std::string::npos);
  EXPECT_NE(append(k.view(), v.view(), {ids + 2, "S", {3}}).find("at most 2^53"), std::string::npos);
  const double nan[] = {0, std::nan(""), 1};
  EXPECT_NE(append(k.view(), v.view(), {nan, "S", {3}}).find("finite"), std::string::npos);
  EXPECT_NE(append(k.view(), v.view(), {ids, "H", {2}}).find("got \"H\""), std::string::npos);
  EXPECT_NE(append({}, v.view()).find("k must be given"), std::string::npos);
  for (const std::int64_t n : {std::int64_t{-1}, std::int64_t{3}, lowest}) {
    expect_refused([&] { cache.append(n, k.view(), v.view()); }, "a sequence must be 0 to 2, got");
    expect_refused([&] { cache.num_tokens(n); }, "a sequence must be 0 to 2");
  }
  EXPECT_EQ(cache.num_tokens(0), 0);
  EXPECT_EQ(cache.num_free_blocks(), 12);
  cache.append(0, k.view().slice('S', 0, 0), v.view().slice('S', 0, 0));
  EXPECT_EQ(cache.num_tokens(0), 0);
  EXPECT_EQ(cache.num_free_blocks(), 12);
}

// ---- shift and drop ----

TEST(KvCache, ShiftsKeysAsIfTheyHadEnteredThere_P16) {
  for (const DType dtype : dtypes) {
    const Rotation rotation(yarn_like(Pairing::interleaved));
    Both both(small(&rotation, dtype));
    both.append_at(0, counted(100000, 11));
    for (const std::int64_t distance : {7, -7, 1, -100001 + 1, 900000}) {
      both.cache.shift(0, 3, 10, distance);
      both.model.shift(0, 3, 10, static_cast<double>(distance));
      both.expect_alike();
    }
    EXPECT_EQ(both.cache.next_position(0), 900011);
  }
}

TEST(KvCache, AShiftKeepsTheLengthOfYarnsKeys_F21) {
  const Rotation rotation(yarn_like());
  Both both(small(&rotation));
  both.append(0, 4);
  for (int i = 0; i < 5; ++i) {
    both.cache.shift(0, 0, 4, 5);
    both.cache.shift(0, 0, 4, -5);
    both.model.shift(0, 0, 4, 5);
    both.model.shift(0, 0, 4, -5);
  }
  both.expect_alike();
}

TEST(KvCache, DroppingARowLeavesLaterKeysAndTheNextPositionRight_P19) {
  for (const Gap gap : {Gap::keep, Gap::close}) {
    const Rotation rotation(yarn_like());
    Both both(small(&rotation));
    both.append(0, 8);
    both.cache.drop(0, 3, 4, gap);
    both.model.drop(0, 3, 4, gap == Gap::close);
    both.expect_alike();
    EXPECT_EQ(both.cache.num_tokens(0), 7);
    EXPECT_EQ(both.cache.next_position(0), gap == Gap::keep ? 8 : 7);
  }
}

TEST(KvCache, ListsKeptTokensByTheirNewNumbers_P17) {
  const Rotation rotation(yarn_like());
  Both both(small(&rotation));
  both.append(0, 9);  // a b c d e f g h j, of which a b e f h j stay
  for (const auto& [begin, end] : {std::pair(2, 4), std::pair(4, 5)}) {
    both.cache.drop(0, begin, end, Gap::close);
    both.model.drop(0, static_cast<std::size_t>(begin), static_cast<std::size_t>(end), true);
  }
  EXPECT_EQ(both.cache.positions(0), counted(0, 6));
  both.expect_alike();
}

TEST(KvCache, DropsAnyRangeWhateverIsShared) {
  const Rotation rotation(yarn_like());
  for (const Gap gap : {Gap::keep, Gap::close}) {
    for (std::int64_t length : {3, 4, 5, 12, 15}) {
      for (std::int64_t begin = 0; begin <= length; ++begin) {
        for (std::int64_t end = begin; end <= length; ++end) {
          Both both(small(&rotation));
          both.append(0, length);
          both.cache.copy(0, 1, 0, length);
          both.model.copy(0, 1, 0, static_cast<std::size_t>(length));
          both.cache.drop(0, begin, end, gap);
          both.model.drop(0, static_cast<std::size_t>(begin), static_cast<std::size_t>(end), gap == Gap::close);
          ASSERT_NO_FATAL_FAILURE(both.expect_alike()) << length << ' ' << begin << ' ' << end;
          both.cache.clear(0);
          both.cache.clear(1);
          ASSERT_EQ(both.cache.num_free_blocks(), 12);
        }
      }
    }
  }
}

TEST(KvCache, DropsWholeBlocksWithoutMovingTheRest) {
  const Rotation rotation(yarn_like());
  Both both(small(&rotation));
  both.append(0, 24);
  const std::vector<std::int32_t> before = both.cache.block_table(0);
  both.cache.drop(0, 2, 14);  // two sinks stay
  both.model.drop(0, 2, 14, false);
  EXPECT_EQ(both.cache.block_table(0), std::vector<std::int32_t>(before.begin() + 3, before.end()));
  both.expect_alike();
}

TEST(KvCache, RefusesRangesAndDistancesThatAreNone_V12) {
  const Rotation rotation(yarn_like());
  Both both(small(&rotation));
  both.append_at(0, counted(3, 10));
  KvCache& cache = both.cache;
  const std::pair<std::int64_t, std::int64_t> ranges[] = {{-1, 3},     {3, 2},      {0, 11},         {11, 11},
                                                          {lowest, 2}, {0, lowest}, {lowest, lowest}};
  for (const auto& range : ranges) {
    const std::int64_t begin = range.first, end = range.second;
    expect_refused([&] { cache.shift(0, begin, end, 1); }, "0 <= begin <= end <= num_tokens");
    expect_refused([&] { cache.drop(0, begin, end); }, "0 <= begin <= end <= num_tokens");
    expect_refused([&] { cache.copy(0, 1, begin, end); }, "0 <= begin <= end <= num_tokens");
  }
  for (const std::int64_t length : {std::int64_t{-1}, std::int64_t{11}, lowest}) {
    expect_refused([&] { cache.truncate(0, length); }, "0 <= begin <= end <= num_tokens");
  }
  for (const std::int64_t distance : {std::int64_t{-4}, lowest, largest, std::int64_t{1} << 53}) {
    expect_refused([&] { cache.shift(0, 0, 10, distance); }, "positions must stay 0 to 2^53");
  }
  expect_refused([&] { cache.copy(0, 0, 0, 3); }, "two sequences");
  cache.shift(0, 0, 0, lowest);  // no token moves
  both.expect_alike();
}

// ---- sharing ----

TEST(KvCache, ForksShareBlocksUntilOneOfThemWrites) {
  const Rotation rotation(yarn_like());
  for (const DType dtype : dtypes) {
    Both both(small(&rotation, dtype));
    both.append(0, 10);
    both.cache.copy(0, 1, 0, 10);
    both.model.copy(0, 1, 0, 10);
    both.cache.copy(0, 2, 0, 6);
    both.model.copy(0, 2, 0, 6);
    EXPECT_EQ(both.cache.num_free_blocks(), 9);
    EXPECT_EQ(both.cache.block_table(0), both.cache.block_table(1));

    both.append(1, 1);  // the third block, of which it gets a copy
    EXPECT_EQ(both.cache.num_free_blocks(), 8);
    both.append(2, 1);  // the second
    EXPECT_EQ(both.cache.num_free_blocks(), 7);
    both.append(0, 1);  // nobody else holds the third now
    EXPECT_EQ(both.cache.num_free_blocks(), 7);
    both.cache.shift(0, 0, 2, 3);
    both.model.shift(0, 0, 2, 3);
    EXPECT_EQ(both.cache.num_free_blocks(), 6);
    both.expect_alike();
    both.cache.clear(0);
    both.model.sequences[0].clear();
    both.expect_alike();
  }
}

TEST(KvCache, CopiesTokensToAnySlot) {
  const Rotation rotation(yarn_like());
  for (const DType dtype : {DType::bf16, DType::i8}) {
    for (std::int64_t before = 0; before < 6; ++before) {
      for (std::int64_t begin = 0; begin < 6; ++begin) {
        Both both(small(&rotation, dtype));
        both.append(0, 11);
        both.append(1, before);
        both.cache.copy(1, 2, 0, before);
        both.model.copy(1, 2, 0, static_cast<std::size_t>(before));
        both.cache.copy(0, 1, begin, 9);
        both.model.copy(0, 1, static_cast<std::size_t>(begin), 9);
        both.append(1, 1);
        both.append(0, 1);
        both.expect_alike();
      }
    }
  }
}

// ---- the pool ----

TEST(KvCache, AnExhaustedPoolChangesNothing) {
  const Rotation rotation(yarn_like());
  Both both(small(&rotation));
  both.append(0, 20);
  both.append(1, 18);  // two blocks are left, and two slots
  const KvTokens tokens(both.cache.options(), 11, 77);
  EXPECT_EQ(exhausted(both.cache, [&] { both.cache.append(1, tokens.k.view(), tokens.v.view()); }),
            "KvCache::append: needs free blocks, 3 of them, got 2");
  both.cache.copy(0, 2, 0, 19);
  both.model.copy(0, 2, 0, 19);
  EXPECT_EQ(exhausted(both.cache, [&] { both.cache.shift(0, 7, 18, 1); }),
            "KvCache::shift: needs free blocks, 4 of them, got 2");
  EXPECT_EQ(exhausted(both.cache, [&] { both.cache.drop(0, 3, 5); }), "KvCache::drop: needs free blocks, 5 of them, got 2");
  EXPECT_EQ(exhausted(both.cache, [&] { both.cache.drop(0, 3, 7, Gap::close); }),
            "KvCache::drop: needs free blocks, 4 of them, got 2");
  EXPECT_EQ(exhausted(both.cache, [&] { both.cache.copy(1, 2, 0, 18); }),
            "KvCache::copy: needs free blocks, 6 of them, got 2");
  both.expect_alike();
  both.cache.drop(0, 3, 7);  // a joint block alone
  both.model.drop(0, 3, 7, false);
  both.append(1, 2);
  both.append(1, 4);
  EXPECT_EQ(both.cache.num_free_blocks(), 0);
  both.expect_alike();
}

TEST(KvCache, ARingGivesBackBlocksThatHaveLeftTheWindow) {
  const Rotation rotation(yarn_like());
  KvCacheOptions options = small(&rotation);
  options.window_left = 6;
  options.num_blocks = 4;
  Both both(options);
  auto& tokens = both.model.sequences[0];
  for (int step = 0; step < 200; ++step) {
    // A token that enters drops the blocks that it cannot see: those whose last token is more than 6 before it.
    while (static_cast<std::int64_t>(tokens.size()) - 6 >= 4) tokens.erase(tokens.begin(), tokens.begin() + 4);
    both.append(0, 1 + step % 3);
    both.expect_alike();
    ASSERT_GE(both.cache.num_tokens(0), std::min(both.seed, std::uint64_t{7}));
    ASSERT_LE(both.cache.block_table(0).size(), 4u);
  }
  EXPECT_GT(both.cache.next_position(0), 390);
}

TEST(KvCache, ATruncatedDraftLosesNothingThatTheWindowNeeds) {
  const Rotation rotation(yarn_like());
  KvCacheOptions options = small(&rotation);
  options.window_left = 6;
  KvCache cache(options);
  const KvTokens tokens(options, 40, 1);
  const auto append = [&](std::int64_t count) {
    cache.append(0, tokens.k.view().slice('S', 0, count), tokens.v.view().slice('S', 0, count));
  };
  append(13);
  append(9);
  cache.truncate(0, cache.num_tokens(0) - 9);
  EXPECT_GE(cache.num_tokens(0), 6);
  EXPECT_EQ(cache.positions(0).back(), 12);
  EXPECT_EQ(cache.next_position(0), 13);
}

TEST(KvCache, IsContiguousWhereABlockIsAsLongAsTheSequence) {
  const Rotation rotation(yarn_like());
  KvCacheOptions options = small(&rotation);
  options.block_size = 100;
  options.num_blocks = 2;
  Both both(options);
  for (int i = 0; i < 20; ++i) both.append(0, 4);
  both.cache.drop(0, 1, 44, Gap::close);
  both.model.drop(0, 1, 44, true);
  both.expect_alike();
  EXPECT_EQ(both.cache.block_table(0).size(), 1u);
}

TEST(KvCache, ShowsSixteenKeysInARowWhereTheyAreLanes) {
  const Rotation rotation(yarn_like());
  for (const DType dtype : dtypes) {
    KvCacheOptions options = small(&rotation, dtype);
    options.key_layout = KeyLayout::lanes;
    options.block_size = 48;
    Both both(options);
    both.append(0, 70);
    both.expect_alike();
    const ConstTensorView keys = both.cache.keys(0), values = both.cache.values(0);
    EXPECT_EQ(keys.shape(), (Dims{2, 3, dtype == DType::bf16 ? 160 : 144}));
    EXPECT_EQ(values.shape(), (Dims{2, 48, 5}));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(keys.data()) % 64, 0u);
    EXPECT_EQ(keys.stride('S') * (bit_size(dtype) / 8), 16 * 64);
    const auto* const numbers = static_cast<const char*>(keys.data());
    for (std::int64_t i = keys.size('D') * (bit_size(dtype) / 8); i < 16 * 64; ++i) ASSERT_EQ(numbers[i], 0);
  }
}

TEST(KvCache, ShowsItsBlocksWithRowsThatEndInZeros) {
  const Rotation rotation(yarn_like());
  for (const DType dtype : dtypes) {
    Both both(small(&rotation, dtype));
    both.append(0, 9);
    for (std::int64_t block = 0; block < 12; ++block) {
      for (const ConstTensorView& view : {both.cache.keys(block), both.cache.values(block)}) {
        EXPECT_EQ(view.dtype(), dtype);
        EXPECT_EQ(view.size('H'), 2);
        EXPECT_EQ(view.size('S'), 4);
        const std::int64_t size = bit_size(dtype) / 8;
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.data()) % 64, 0u);
        EXPECT_EQ(view.stride('S') * size % 64, 0);
        const auto* const bytes = static_cast<const char*>(view.data());
        for (std::int64_t row = 0; row < 8; ++row) {
          for (std::int64_t i = view.size('D') * size; i < view.stride('S') * size; ++i) {
            ASSERT_EQ(bytes[row * view.stride('S') * size + i], 0);
          }
        }
      }
      EXPECT_EQ(static_cast<bool>(both.cache.key_scales(block)), dtype == DType::i8);
      EXPECT_EQ(static_cast<bool>(both.cache.value_scales(block)), dtype == DType::i8);
    }
    expect_refused([&] { both.cache.keys(12); }, "a block must be 0 to 11, got 12");
    expect_refused([&] { both.cache.values(-1); }, "a block must be 0 to 11, got -1");
  }
}

TEST(KvCache, RefusesOptionsThatAreNone_V6) {
  const Rotation rotation(yarn_like());
  const auto refusal = [&](const auto& change) {
    KvCacheOptions options = small(&rotation);
    change(options);
    return error_sentence(ErrorCode::invalid_argument, [&] { KvCache cache(options); });
  };
  using O = KvCacheOptions;
  EXPECT_EQ(refusal([](O& o) { o.num_kv_heads = 0; }), "KvCache: num_kv_heads must be at least 1, got 0");
  EXPECT_EQ(refusal([](O& o) { o.key_layout = KeyLayout::lanes; }),
            "KvCache: block_size must be a multiple of 16 where keys are lanes, got 4");
  EXPECT_EQ(refusal([](O& o) { o.head_dim = 0; }), "KvCache: head_dim must be at least 1, got 0");
  EXPECT_EQ(refusal([](O& o) { o.head_dim = 8; }), "KvCache: head_dim must be the rotation's, got 8 and 9");
  EXPECT_EQ(refusal([](O& o) { o.value_dim = -1; }), "KvCache: value_dim must be at least 1, got -1");
  EXPECT_EQ(refusal([](O& o) { o.block_size = 0; }), "KvCache: block_size must be at least 1, got 0");
  EXPECT_EQ(refusal([](O& o) { o.num_blocks = 0; }), "KvCache: num_blocks must be at least 1, got 0");
  EXPECT_EQ(refusal([](O& o) { o.num_sequences = 0; }), "KvCache: num_sequences must be at least 1, got 0");
  EXPECT_EQ(refusal([](O& o) { o.window_left = -2; }), "KvCache: window_left must be -1 or at least 0, got -2");
  EXPECT_EQ(refusal([](O& o) { o.dtype = DType::f64; }),
            "KvCache: dtype must be float32, float16, bfloat16 or int8, got float64");
  for (const std::int64_t many : {std::int64_t{1} << 58, largest}) {
    EXPECT_NE(refusal([&](O& o) { o.block_size = many; }).find("the pool must be addressable"), std::string::npos);
    EXPECT_NE(refusal([&](O& o) { o.num_kv_heads = many; }).find("the pool must be addressable"), std::string::npos);
    EXPECT_NE(refusal([&](O& o) { o.num_blocks = many; }).find("num_blocks must be at most"), std::string::npos);
  }
  RotationSpec odd = yarn_like();
  odd.inv_freq = {1, 0.3, 0.2};
  const Rotation no_rule(odd);
  KvCacheOptions options = small(&no_rule);
  options.precision = Precision::ggml;
  error_sentence(ErrorCode::unsupported, [&] { KvCache cache(options); });
}

TEST(KvCache, KeepsItsOwnCopyOfTheRotationAndMoves) {
  KvCacheOptions options;
  {
    const Rotation passing(yarn_like());
    options = small(&passing);
    KvCache first(options);
    options.rotation = nullptr;
    KvCache second(std::move(first));
    KvCache third(options);
    third = std::move(second);
    EXPECT_EQ(third.options().rotation->inv_freq(), passing.inv_freq());
    EXPECT_NE(third.options().rotation, &passing);
    EXPECT_EQ(third.options().value_dim, 5);
    // Keys and values of 12 blocks of 4 slots and 2 heads, in rows of 64 bytes; a position per slot.
    EXPECT_EQ(third.num_bytes(), 12 * 4 * (2 * 64 + 2 * 64 + 8));
  }
}

// ---- int8 ----

TEST(KvCache, RowsThatAreNoNumbersBecomeNaNInInt8) {
  KvCache cache(small(nullptr, DType::i8));
  TestTensor k(DType::f32, "SHD", {4, 2, 9}), v(DType::f32, "SHD", {4, 2, 5});
  k.fill_at_random(1);
  v.fill_at_random(2);
  k.set({1, 0, 3}, std::nan(""));
  k.set({2, 1, 8}, HUGE_VAL);
  for (std::int64_t d = 0; d < 9; ++d) k.set({3, 0, d}, 0);
  for (std::int64_t d = 0; d < 9; ++d) k.set({3, 1, d}, d == 4 ? 3e-44 : 1e-44);  // subnormal: the scale is 0 or one step
  cache.append(0, k.view(), v.view());
  const std::int64_t block = cache.block_table(0)[0];
  const auto key = [&](std::int64_t s, std::int64_t h, std::int64_t d) { return cached_key(cache, block, h, s, d); };
  EXPECT_TRUE(std::isnan(key(1, 0, 0)));
  EXPECT_FALSE(std::isnan(key(1, 1, 0)));
  EXPECT_TRUE(std::isnan(key(2, 1, 0)));
  EXPECT_EQ(key(3, 0, 5), 0);
  EXPECT_NEAR(key(3, 1, 4), 3e-44, 1e-43);
}

}  // namespace
}  // namespace rotary
