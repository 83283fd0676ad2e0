// Which keys a query sees: windows, chunks, prefixes, documents, padding, boolean masks and packed sequences.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "rotary/attention.hpp"
#include "support/attention_case.h"
#include "support/error_sentence.h"
#include "support/guarded_pages.h"

namespace rotary {
namespace {

using Case = AttentionCase;
using Sizes = AttentionSizes;
using Rows = std::vector<std::string>;

/// Per query of batch row `b`, 0 or 1 per key: values are one-hot, so that the output is the weights.
Rows seen(const Sizes& sizes, const AttentionOptions& options, std::int64_t b = 0) {
  Case c({.batch = sizes.batch, .num_queries = sizes.num_queries, .num_keys = sizes.num_keys, .value_dim = sizes.num_keys});
  for (std::int64_t i = 0; i < c.v.size(); ++i)
    c.v.set(i, i / sizes.num_keys % sizes.num_keys == i % sizes.num_keys ? 1 : 0);
  c.options = options;
  c.attend();
  Rows rows;
  for (std::int64_t i = 0; i < sizes.num_queries; ++i) {
    std::string row;
    for (std::int64_t j = 0; j < sizes.num_keys; ++j) row += c.out.at({b, 0, i, j}) != 0 ? '1' : '0';
    rows.push_back(row);
  }
  return rows;
}

ConstTensorView list(const std::vector<std::int64_t>& numbers, Axes axis) {
  return ConstTensorView(numbers.data(), axis, {static_cast<std::int64_t>(numbers.size())});
}

/// Truth values that a view can point to.
class Truths {
 public:
  Truths(const char* bits, Axes axes, const Dims& shape) : values_(new bool[std::string(bits).size()]) {
    for (std::size_t i = 0; bits[i] != '\0'; ++i) values_[i] = bits[i] == '1';
    view_ = ConstTensorView(values_.get(), DType::boolean, axes, shape);
  }
  operator const ConstTensorView&() const { return view_; }

 private:
  std::unique_ptr<bool[]> values_;
  ConstTensorView view_;
};

// ---- each rule by itself ----

TEST(AttentionVisible, WindowsCountFromTheDiagonal) {
  EXPECT_EQ(seen({.num_queries = 5, .num_keys = 5}, {.causal = Causal::top_left, .window_left = 2}),
            Rows({"10000", "11000", "11100", "01110", "00111"}));
  EXPECT_EQ(seen({.num_queries = 5, .num_keys = 5}, {.window_left = 1, .window_right = 2}),
            Rows({"11100", "11110", "01111", "00111", "00011"}));
  EXPECT_EQ(seen({.num_queries = 3, .num_keys = 3}, {.causal = Causal::top_left, .window_left = 0}),
            Rows({"100", "010", "001"}));
  EXPECT_EQ(seen({.num_queries = 3, .num_keys = 3}, {.window_right = 0}), Rows({"100", "110", "111"}));
  EXPECT_EQ(seen({.num_queries = 2, .num_keys = 5}, {.causal = Causal::bottom_right, .window_left = 1}),
            Rows({"00110", "00011"}));
  EXPECT_EQ(seen({.num_queries = 2, .num_keys = 5}, {.window_left = 1, .window_right = 1}), Rows({"11000", "11100"}))
      << "without a causal rule: from the top left";
  EXPECT_EQ(seen({.num_queries = 5, .num_keys = 2}, {.causal = Causal::top_left, .window_left = 1}),
            Rows({"10", "11", "01", "00", "00"}));
  EXPECT_EQ(seen({.num_queries = 3, .num_keys = 3}, {.causal = Causal::top_left, .window_left = INT64_MAX}),
            seen({.num_queries = 3, .num_keys = 3}, {.causal = Causal::top_left}));
}

TEST(AttentionVisible, ChunksAreOfPositions) {
  EXPECT_EQ(seen({.num_queries = 5, .num_keys = 5}, {.causal = Causal::top_left, .chunk_size = 2}),
            Rows({"10000", "11000", "00100", "00110", "00001"}));
  EXPECT_EQ(seen({.num_queries = 4, .num_keys = 4},
                 {.q_positions = {.offset = 1}, .k_positions = {.offset = 1}, .chunk_size = 2}),
            Rows({"1000", "0110", "0110", "0001"}));
  EXPECT_EQ(seen({.num_queries = 1, .num_keys = 6},
                 {.q_positions = {.offset = 5}, .causal = Causal::bottom_right, .chunk_size = 4}),
            Rows({"000011"}))
      << "decode";
  const std::vector<std::int64_t> scattered = {7, 0, 6, -1, 1};
  EXPECT_EQ(seen({.num_queries = 2, .num_keys = 5},
                 {.q_positions = {.offset = 5}, .k_positions = {.position_ids = list(scattered, "S")}, .chunk_size = 3}),
            Rows({"00000", "10100"}));
  const double ids[] = {-0.5, 0.5, 1.99, 2};
  const Positions halves{.position_ids = ConstTensorView(ids, "S", {4})};
  EXPECT_EQ(seen({.num_queries = 4, .num_keys = 4}, {.q_positions = halves, .k_positions = halves, .chunk_size = 2}),
            Rows({"1000", "0110", "0110", "0001"}));
}

TEST(AttentionVisible, APrefixIsSeenByAll) {
  const std::vector<std::int64_t> lengths = {2, 0, 9};
  const AttentionOptions options{.causal = Causal::top_left, .prefix_lengths = list(lengths, "B")};
  const Sizes sizes{.batch = 3, .num_queries = 4, .num_keys = 4};
  EXPECT_EQ(seen(sizes, options, 0), Rows({"1100", "1100", "1110", "1111"}));
  EXPECT_EQ(seen(sizes, options, 1), Rows({"1000", "1100", "1110", "1111"}));
  EXPECT_EQ(seen(sizes, options, 2), Rows({"1111", "1111", "1111", "1111"}));
  const std::vector<std::int64_t> one = {1};
  EXPECT_EQ(seen({.num_queries = 4, .num_keys = 2}, {.causal = Causal::bottom_right, .prefix_lengths = list(one, "B")}),
            Rows({"10", "10", "10", "11"}));
  const std::vector<std::int64_t> three = {3};
  EXPECT_EQ(seen({.num_queries = 5, .num_keys = 5},
                 {.causal = Causal::top_left, .window_left = 1, .prefix_lengths = list(three, "B")}),
            Rows({"11100", "11100", "01100", "00110", "00011"}))
      << "a window hides what it hides: the prefix lifts the causal rule alone";
}

TEST(AttentionVisible, DocumentsSeeThemselves) {
  const std::vector<std::int64_t> in_order = {3, 3, 8, 8, 8}, scattered = {1, 2, 1, 2, 1};
  EXPECT_EQ(seen({.num_queries = 5, .num_keys = 5},
                 {.q_document_ids = list(in_order, "S"), .k_document_ids = list(in_order, "S")}),
            Rows({"11000", "11000", "00111", "00111", "00111"}));
  EXPECT_EQ(
      seen({.num_queries = 5, .num_keys = 5},
           {.causal = Causal::top_left, .q_document_ids = list(scattered, "S"), .k_document_ids = list(scattered, "S")}),
      Rows({"10000", "01000", "10100", "01010", "10101"}));
  const std::int32_t of_rows[] = {0, 0, 1, 1, 0, -1};
  const ConstTensorView ids(of_rows, "BS", {2, 3});
  for (const std::int64_t b : {0, 1}) {
    EXPECT_EQ(seen({.batch = 2, .num_queries = 3, .num_keys = 3}, {.q_document_ids = ids, .k_document_ids = ids}, b),
              b == 0 ? Rows({"110", "110", "001"}) : Rows({"100", "010", "001"}));
  }
  const std::vector<std::int64_t> nobodys = {7};
  EXPECT_EQ(seen({.num_queries = 1, .num_keys = 5},
                 {.q_document_ids = list(nobodys, "S"), .k_document_ids = list(in_order, "S")}),
            Rows({"00000"}));
}

TEST(AttentionVisible, PaddingIsSeenByNobody) {
  const Truths padding("001110101010000", "BS", {3, 5});
  const AttentionOptions options{.key_padding_mask = padding};
  const Sizes sizes{.batch = 3, .num_queries = 1, .num_keys = 5};
  EXPECT_EQ(seen(sizes, options, 0), Rows({"00111"}));
  EXPECT_EQ(seen(sizes, options, 1), Rows({"01010"}));
  EXPECT_EQ(seen(sizes, options, 2), Rows({"10000"}));
  const Truths none("0000000000", "BS", {2, 5});
  EXPECT_EQ(seen({.batch = 2, .num_queries = 2, .num_keys = 5}, {.key_padding_mask = none}, 1), Rows({"00000", "00000"}));
  const Truths alike("10001", "S", {5});
  EXPECT_EQ(seen({.batch = 2, .num_queries = 1, .num_keys = 5}, {.key_padding_mask = alike}, 1), Rows({"10001"}));
}

TEST(AttentionVisible, PaddingAtTheLeftIsAsIfItWereNotThere_P1) {
  // Three tokens, alone and after two of padding whose positions do not count: the same bits.
  const Rotation rotation = plain_rotation(8, 8);
  Case alone({.num_queries = 3, .num_keys = 3}), padded({.num_queries = 5, .num_keys = 5});
  for (std::int64_t s = 0; s < 5; ++s) {
    for (std::int64_t d = 0; d < 8; ++d) {
      padded.q.set({0, 0, s, d}, s < 2 ? nan : alone.q.at({0, 0, s - 2, d}));
      padded.k.set({0, 0, s, d}, s < 2 ? nan : alone.k.at({0, 0, s - 2, d}));
      padded.v.set({0, 0, s, d}, s < 2 ? nan : alone.v.at({0, 0, s - 2, d}));
    }
  }
  const Truths tokens("00111", "S", {5});
  alone.options = {.rotation = &rotation, .causal = Causal::top_left};
  padded.options = {.rotation = &rotation,
                    .q_positions = {.offset = -2},
                    .k_positions = {.offset = -2},
                    .causal = Causal::top_left,
                    .key_padding_mask = tokens};
  const std::vector<double> expected = attended(alone), all = attended(padded);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), all.end() - static_cast<std::ptrdiff_t>(expected.size())));
}

TEST(AttentionVisible, ABooleanMaskIsAnAdditiveOneOfZeroAndMinusInfinity_M1) {
  const Sizes sizes{.batch = 2, .num_q_heads = 2, .num_kv_heads = 1, .num_queries = 3, .num_keys = 4};
  const char* const bits =
      "101011110000110000101111"
      "111100000101101001011110";
  const Truths mask(bits, "BHQK", {2, 2, 3, 4});
  for (const DType dtype : dtypes) {
    for (const Causal causal : {Causal::none, Causal::bottom_right}) {
      Case boolean(sizes, dtype), additive(sizes, dtype);
      for (std::int64_t i = 0; i < additive.mask.size(); ++i) additive.mask.set(i, bits[i] == '1' ? 0 : -infinity);
      boolean.options.attn_mask = mask;
      additive.options.attn_mask = additive.mask.view();
      boolean.options.causal = additive.options.causal = causal;
      EXPECT_EQ(attended(boolean), attended(additive));
      EXPECT_EQ(boolean.lse.values(), additive.lse.values());
      expect_agrees_with_reference(boolean, name(dtype));
    }
  }
  const Truths short_mask("01", "KQ", {2, 1});
  EXPECT_EQ(seen({.num_queries = 3, .num_keys = 2}, {.attn_mask = short_mask}), Rows({"01", "01", "01"}));
}

// ---- packed sequences ----

/// What every sequence gives by itself.
void expect_packed_equals_apart(Case& packed, const std::vector<std::int64_t>& q_ends,
                                const std::vector<std::int64_t>& k_ends, const std::string& what) {
  packed.attend();
  for (std::size_t n = 0; n + 1 < q_ends.size(); ++n) {
    const std::int64_t num_queries = q_ends[n + 1] - q_ends[n], num_keys = k_ends[n + 1] - k_ends[n];
    Case alone({.num_q_heads = packed.sizes.num_q_heads,
                .num_kv_heads = packed.sizes.num_kv_heads,
                .num_queries = num_queries,
                .num_keys = num_keys},
               packed.q.view().dtype());
    const auto copy = [](TestTensor& to, const TestTensor& from, std::int64_t first, std::int64_t heads,
                         std::int64_t count) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t s = 0; s < count; ++s) {
          for (std::int64_t d = 0; d < 8; ++d) to.set({0, h, s, d}, from.at({h, first + s, d}));
        }
      }
    };
    copy(alone.q, packed.q, q_ends[n], packed.sizes.num_q_heads, num_queries);
    copy(alone.k, packed.k, k_ends[n], packed.sizes.num_kv_heads, num_keys);
    copy(alone.v, packed.v, k_ends[n], packed.sizes.num_kv_heads, num_keys);
    alone.options = packed.options;
    alone.options.cu_seqlens = alone.options.k_cu_seqlens = {};
    alone.options.lse = alone.lse;
    alone.attend();
    for (std::int64_t h = 0; h < packed.sizes.num_q_heads; ++h) {
      for (std::int64_t s = 0; s < num_queries; ++s) {
        EXPECT_EQ(packed.lse.at({h, q_ends[n] + s}), alone.lse.at({0, h, s})) << what << " sequence " << n;
        for (std::int64_t d = 0; d < 8; ++d) {
          EXPECT_EQ(packed.out.at({h, q_ends[n] + s, d}), alone.out.at({0, h, s, d})) << what << " sequence " << n;
        }
      }
    }
  }
  EXPECT_TRUE(packed.out.guards_intact());
}

TEST(AttentionVisible, PackedSequencesAreAsIfEachWereAlone_M11_P3) {
  const Rotation rotation = plain_rotation(8, 8);
  const std::vector<std::vector<std::int64_t>> packings = {{0, 7, 8, 20}, {0, 0, 1, 1, 2},    {0, 0},         {0, 3, 3},
                                                           {0},           {0, 130, 131, 300}, {0, 1, 2, 3, 4}};
  for (const DType dtype : dtypes) {
    for (const auto& ends : packings) {
      for (const Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right}) {
        Case c({.num_q_heads = 4, .num_kv_heads = 2, .num_queries = ends.back(), .num_keys = ends.back(), .packed = true},
               dtype);
        c.options.rotation = &rotation;
        c.options.causal = causal;
        c.options.cu_seqlens = list(ends, "N");
        expect_packed_equals_apart(c, ends, ends, std::string(name(dtype)) + " " + name(causal));
      }
    }
  }
}

TEST(AttentionVisible, PackedSequencesMayHaveMoreKeysThanQueries) {
  const Rotation rotation = plain_rotation(8, 8);
  const std::vector<std::int64_t> q_ends = {0, 2, 2, 3, 8}, k_ends = {0, 5, 9, 9, 10};
  for (const Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right}) {
    Case c({.num_q_heads = 2, .num_kv_heads = 1, .num_queries = 8, .num_keys = 10, .packed = true});
    c.options.rotation = &rotation;
    c.options.causal = causal;
    c.options.window_left = 2;
    c.options.cu_seqlens = list(q_ends, "N");
    c.options.k_cu_seqlens = list(k_ends, "N");
    expect_packed_equals_apart(c, q_ends, k_ends, name(causal));
    expect_agrees_with_reference(c, name(causal));
  }
}

TEST(AttentionVisible, EveryRuleHoldsWithinPackedSequences) {
  const Rotation rotation = plain_rotation(8, 8);
  const std::vector<std::int64_t> ends = {0, 9, 9, 10, 150}, prefixes = {3, 5, 0, 60}, offsets = {7, 0, 100, 1};
  std::vector<std::int64_t> documents;
  std::string padding;
  for (std::int64_t t = 0; t < 150; ++t) {
    documents.push_back(t / 7 % 3);
    padding += t % 11 == 4 ? '0' : '1';
  }
  const Truths tokens(padding.c_str(), "T", {150});
  for (const DType dtype : dtypes) {
    Case c({.num_q_heads = 2, .num_kv_heads = 1, .num_queries = 150, .num_keys = 150, .packed = true}, dtype);
    c.options = {.rotation = &rotation,
                 .q_positions = {.offsets = list(offsets, "N")},
                 .k_positions = {.offset = 1, .offsets = list(offsets, "N")},
                 .causal = Causal::bottom_right,
                 .window_left = 70,
                 .chunk_size = 50,
                 .prefix_lengths = list(prefixes, "N"),
                 .q_document_ids = list(documents, "T"),
                 .k_document_ids = list(documents, "T"),
                 .key_padding_mask = tokens,
                 .cu_seqlens = list(ends, "N"),
                 .lse = c.lse};
    TestTensor mask(DType::f32, "HQK", {2, 150, 150});
    c.options.attn_mask = mask.fill_at_random(9).view();
    expect_agrees_with_reference(c, name(dtype));
  }
}

// ---- all together ----

/// Options number `n` of 256: every rule there or not, in numbers that depend on n.
struct Rules {
  Rules(std::uint64_t n, const Sizes& sizes) {
    const auto q = sizes.num_queries, k = sizes.num_keys;
    options.causal = n % 4 == 0 ? Causal::none : n % 4 == 1 ? Causal::top_left : Causal::bottom_right;
    if (n & 4) options.window_left = static_cast<std::int64_t>(n % 50);
    if (n & 8) options.window_right = static_cast<std::int64_t>(n % 5);
    if (n & 16) {
      options.chunk_size = 37;
      options.q_positions.offset = std::max<std::int64_t>(k - q, 0);
    }
    prefixes.assign(static_cast<std::size_t>(sizes.batch), k / 3);
    if ((n & 32) != 0 && options.causal != Causal::none) options.prefix_lengths = list(prefixes, "B");
    for (std::int64_t i = 0; i < std::max(q, k); ++i) documents.push_back(n & 1 ? i / 41 : i % 3);
    if (n & 64) {
      options.q_document_ids = ConstTensorView(documents.data(), "S", {q});
      options.k_document_ids = ConstTensorView(documents.data(), "S", {k});
    }
    std::string bits;
    for (std::int64_t i = 0; i < sizes.batch * k; ++i)
      bits += (n & 2) != 0 ? (i % 13 != 5 ? '1' : '0') : (i % k >= 3 ? '1' : '0');
    padding = std::make_unique<Truths>(bits.c_str(), "BS", Dims{sizes.batch, k});
    if (n & 128) options.key_padding_mask = *padding;
  }
  AttentionOptions options;
  std::vector<std::int64_t> prefixes, documents;
  std::unique_ptr<Truths> padding;
};

TEST(AttentionVisible, EveryCombinationOfRulesAgreesWithTheReference) {
  const std::int64_t lanes = attention_kernels<float>().rows;
  const Sizes all_sizes[] = {
      {.batch = 2, .num_q_heads = 6, .num_kv_heads = 2, .num_queries = 31, .num_keys = 67, .head_dim = 6, .value_dim = 3},
      {.batch = 2, .num_queries = 1, .num_keys = tile_keys + 1, .head_dim = 10, .value_dim = 5},
      {.num_q_heads = 2, .num_kv_heads = 1, .num_queries = lanes + 1, .num_keys = 2 * tile_keys + 5, .head_dim = 20},
      {.num_queries = 8 * lanes + 3, .num_keys = tile_keys - 1, .head_dim = 2, .value_dim = 1}};
  int s = 0;
  for (const Sizes& sizes : all_sizes) {
    ++s;
    for (std::uint64_t n = 0; n < 256; n += s == 1 ? 1 : 7) {
      const DType dtype = dtypes[(n + n / 4 + n / 16) % 4];
      Case c(sizes, dtype);
      const Rules rules(n, sizes);
      c.options = rules.options;
      c.options.lse = c.lse;
      expect_agrees_with_reference(c, "sizes " + std::to_string(s) + ", rules " + std::to_string(n));
    }
  }
}

TEST(AttentionVisible, WhatIsHiddenMayHoldAnything_M9_S15) {
  const Sizes sizes{.num_queries = 1, .num_keys = 300};
  for (const DType dtype : dtypes) {
    for (std::uint64_t n = 0; n < 256; n += 3) {
      const Rules rules(n, {.num_queries = 1, .num_keys = 300});
      Case weights({.num_queries = 1, .num_keys = 300, .value_dim = 300}, DType::f32);
      for (std::int64_t i = 0; i < weights.v.size(); ++i) weights.v.set(i, i % 301 == 0 ? 1 : 0);
      weights.options = rules.options;
      weights.attend();
      Case c(sizes, dtype);
      c.options = rules.options;
      c.options.lse = c.lse;
      const std::vector<double> before = attended(c), lse = c.lse.values();
      bool any = false;
      for (std::int64_t j = 0; j < 300; ++j) {
        if (weights.out.at({0, 0, 0, j}) != 0) continue;
        any = true;
        for (std::int64_t d = 0; d < 8; ++d) {
          c.k.set({0, 0, j, d}, j % 2 == 0 ? nan : infinity);
          c.v.set({0, 0, j, d}, nan);
        }
      }
      EXPECT_EQ(attended(c), before) << name(dtype) << " rules " << n;
      EXPECT_EQ(c.lse.values(), lse) << name(dtype) << " rules " << n;
      EXPECT_TRUE(any || n % 4 != 1);
    }
  }
}

TEST(AttentionVisible, NeverReadsTilesOutsideOfTheWindow) {
  // Keys and values before the window lie in memory that cannot be read.
  const std::int64_t width = 64, num_keys = 1024, readable = 240;
  const GuardedPages pages(static_cast<std::size_t>(readable * width) * sizeof(float));
  auto* const last = static_cast<float*>(pages.at_begin());
  for (std::int64_t i = 0; i < readable * width; ++i) last[i] = 0.25f;
  const TensorView keys(last - (num_keys - readable) * width, "SD", {num_keys, width});
  std::vector<float> q(static_cast<std::size_t>(2 * width), 1), out(q);
  for (const std::int64_t window : {0, 100, 238}) {
    attention(ConstTensorView(q.data(), "SD", {2, width}), keys, keys, TensorView(out.data(), "SD", {2, width}),
              {.causal = Causal::bottom_right, .window_left = window});
    for (const float x : out) EXPECT_EQ(x, 0.25f);
  }
  std::vector<std::int64_t> documents(static_cast<std::size_t>(num_keys), 3);
  std::fill_n(documents.begin(), num_keys - 200, 2);
  const std::vector<std::int64_t> third = {3, 3};
  attention(ConstTensorView(q.data(), "SD", {2, width}), keys, keys, TensorView(out.data(), "SD", {2, width}),
            {.q_document_ids = list(third, "S"), .k_document_ids = list(documents, "S")});
  for (const float x : out) EXPECT_EQ(x, 0.25f);
}

TEST(AttentionVisible, ARowIsTheSameWhateverComesWithIt) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    Case all({.num_q_heads = 2, .num_queries = 300, .num_keys = 300}, dtype);
    all.options.causal = Causal::top_left;
    all.options.window_left = 130;
    all.attend();
    for (const std::int64_t i : {0, 1, 127, 128, 200, 299}) {
      TestTensor out(dtype, "BHSD", {1, 2, 1, 8});
      attention(all.q.view().slice('S', i, i + 1), all.k.view().slice('S', 0, i + 1), all.v.view().slice('S', 0, i + 1),
                out, {.causal = Causal::bottom_right, .window_left = 130});
      for (std::int64_t h = 0; h < 2; ++h) {
        for (std::int64_t d = 0; d < 8; ++d) EXPECT_EQ(out.at({0, h, 0, d}), all.out.at({0, h, i, d})) << "row " << i;
      }
    }
  }
}

TEST(AttentionVisible, IsTheSameOnAnyNumberOfThreads) {
  for (const std::uint64_t n : {5, 21, 70, 135, 250}) {
    const Sizes sizes{.batch = 2, .num_q_heads = 4, .num_kv_heads = 2, .num_queries = 333, .num_keys = 333};
    Case c(sizes);
    const Rules rules(n, sizes);
    c.options = rules.options;
    c.options.lse = c.lse;
    const std::vector<double> alone = attended(c), lse = c.lse.values();
    for (const int threads : {1, 2, 3}) {
      ThreadPool pool(threads);
      c.options.executor = &pool;
      c.out.fill(nan);
      EXPECT_EQ(attended(c), alone) << threads << " threads";
      EXPECT_EQ(c.lse.values(), lse) << threads << " threads";
    }
  }
}

// ---- refusals ----

TEST(AttentionVisible, NamesTheRuleThatIsBroken) {
  const auto sentence = [](const std::function<void(AttentionOptions&)>& spoil, bool packed = false) {
    Case c({.batch = packed ? 1 : 2, .num_queries = 3, .num_keys = packed ? 3 : 5, .packed = packed});
    const std::string said = error_sentence(ErrorCode::invalid_argument, [&] {
      spoil(c.options);
      c.attend();
    });
    for (const double x : c.out.values()) EXPECT_TRUE(std::isnan(x)) << "nothing is written: " << said;
    return said;
  };
  using O = AttentionOptions;
  const std::vector<std::int64_t> two = {1, 1}, three = {0, 1, 3}, five = {0, 0, 0, 0, 0}, bad = {-1, 2};
  const float numbers[5] = {};

  EXPECT_EQ(sentence([](O& o) { o.window_left = -2; }),
            "attention: window_left must be at least 0, or -1 for no limit, got -2");
  EXPECT_EQ(sentence([](O& o) { o.window_right = INT64_MIN; }),
            "attention: window_right must be at least 0, or -1 for no limit, got -9223372036854775808");
  EXPECT_EQ(sentence([](O& o) { o.chunk_size = -1; }), "attention: chunk_size must be at least 0, got -1");
  EXPECT_EQ(sentence([&](O& o) { o.prefix_lengths = list(two, "B"); }),
            "attention: prefix_lengths need a causal rule: they say which keys it does not hide");
  const auto causal = [](const std::function<void(O&)>& spoil) {
    return [spoil](O& o) {
      o.causal = Causal::top_left;
      spoil(o);
    };
  };
  EXPECT_EQ(sentence(causal([&](O& o) { o.prefix_lengths = list(bad, "B"); })),
            "attention: prefix_lengths must be at least 0, got -1");
  EXPECT_EQ(sentence(causal([&](O& o) { o.prefix_lengths = list(three, "B"); })),
            "attention: prefix_lengths must have one entry per batch row, got 3 for 2");
  EXPECT_EQ(sentence(causal([&](O& o) { o.prefix_lengths = list(two, "S"); })),
            "attention: prefix_lengths must have the axis B alone, got \"S\"");
  EXPECT_EQ(sentence(causal([&](O& o) { o.prefix_lengths = ConstTensorView(numbers, "B", {2}); })),
            "attention: prefix_lengths must be int32 or int64, got float32");

  EXPECT_EQ(sentence([&](O& o) { o.q_document_ids = list(three, "S"); }),
            "attention: q_document_ids and k_document_ids need each other");
  EXPECT_EQ(sentence([&](O& o) {
              o.q_document_ids = list(three, "S");
              o.k_document_ids = list(three, "S");
            }),
            "attention: k_document_ids must have an entry per key, got 3 for 5");
  EXPECT_EQ(sentence([&](O& o) {
              o.q_document_ids = list(three, "N");
              o.k_document_ids = list(five, "S");
            }),
            "attention: q_document_ids must have axes among BS, got \"N\"");
  EXPECT_EQ(sentence([&](O& o) { o.key_padding_mask = list(five, "S"); }),
            "attention: key_padding_mask must be boolean, true for a token, got int64");
  const Truths per_row("111111111111111", "BS", {3, 5});
  EXPECT_EQ(sentence([&](O& o) { o.key_padding_mask = per_row; }),
            "attention: key_padding_mask must be as long as q along B, got 3 and 2");
  EXPECT_EQ(sentence([&](O& o) { o.k_cu_seqlens = list(three, "N"); }), "attention: k_cu_seqlens need cu_seqlens");
  EXPECT_EQ(sentence([&](O& o) { o.cu_seqlens = list(three, "N"); }),
            "attention: q must have axes among THD, got \"BHSD\"");

  EXPECT_EQ(sentence([](O&) {}, true), "attention: packed tokens (axis T) need cu_seqlens");
  EXPECT_EQ(sentence([&](O& o) { o.cu_seqlens = list(two, "N"); }, true), "attention: cu_seqlens must start at 0, got 1");
  EXPECT_EQ(sentence([&](O& o) { o.cu_seqlens = list(five, "N"); }, true),
            "attention: cu_seqlens must end at the number of packed tokens, got 0 for 3");
  EXPECT_EQ(sentence(
                [&](O& o) {
                  o.cu_seqlens = list(three, "N");
                  o.k_cu_seqlens = list(three, "B");
                },
                true),
            "attention: k_cu_seqlens must have the axis N alone, got \"B\"");
  const std::vector<std::int64_t> whole = {0, 3};
  EXPECT_EQ(sentence(
                [&](O& o) {
                  o.cu_seqlens = list(three, "N");
                  o.k_cu_seqlens = list(whole, "N");
                },
                true),
            "attention: k_cu_seqlens must be as long as cu_seqlens, got 2 and 3");
  const std::int64_t grid[] = {0, 1, 2, 0, 1, 2};
  EXPECT_EQ(sentence(
                [&](O& o) {
                  o.cu_seqlens = list(whole, "N");
                  o.chunk_size = 2;
                  o.q_positions = {.position_ids = ConstTensorView(grid, "AT", {2, 3})};
                },
                true),
            "attention: chunk_size and biases need positions of one axis: a distance along several is not one number");
}

TEST(AttentionVisible, RefusesToWriteOverItsRules) {
  Case c({.num_queries = 3, .num_keys = 3}, DType::f64);
  const auto said = [&](const AttentionOptions& options) {
    return error_sentence(ErrorCode::invalid_argument, [&] { attention(c.q, c.k, c.v, c.out, options); });
  };
  const ConstTensorView ids(c.out.view().data(), DType::i64, "S", {3});
  EXPECT_EQ(said({.q_document_ids = ids, .k_document_ids = ids}), "attention: out must not overlap q_document_ids");
  const ConstTensorView tokens(c.out.view().data(), DType::boolean, "S", {3});
  EXPECT_EQ(said({.key_padding_mask = tokens}), "attention: out must not overlap key_padding_mask");
}

}  // namespace
}  // namespace rotary
