#include "rotary/position_bias.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "reference/attention.h"
#include "reference/position_bias.h"
#include "rotary/tensor_file.hpp"
#include "support/error_sentence.h"
#include "support/test_tensor.h"

namespace rotary {
namespace {

constexpr DType dtypes[] = {DType::f64, DType::f32, DType::f16, DType::bf16};
const std::string data = ROTARY_TEST_DATA "/attention/";

TestTensor random_table(std::int64_t rows, std::int64_t heads, DType dtype = DType::f32) {
  TestTensor table(dtype, "NH", {rows, heads}, {.order = "HN"});
  return std::move(table.fill_at_random(5));
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::quiet_NaN();
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    if (!(difference <= worst)) worst = difference;
  }
  return worst;
}

std::vector<double> doubles(const TensorFile& file, const char* tensor) {
  const StoredTensor& stored = file.at(tensor);
  std::vector<double> all;
  for (std::int64_t i = 0; i < stored.num_bytes / (bit_size(stored.dtype) / 8); ++i) {
    all.push_back(load_element(stored.dtype, stored.data, i));
  }
  return all;
}

// ---- ALiBi ----

TEST(PositionBias, HasThePublishedSlopesWhereHeadsAreAPowerOfTwo) {
  EXPECT_EQ(alibi_slopes(1), std::vector<double>{0x1p-8});
  EXPECT_EQ(alibi_slopes(8), (std::vector<double>{0x1p-1, 0x1p-2, 0x1p-3, 0x1p-4, 0x1p-5, 0x1p-6, 0x1p-7, 0x1p-8}));
  const std::vector<double> sixteen = alibi_slopes(16);
  for (std::size_t h = 0; h < 16; ++h) EXPECT_EQ(sixteen[h], std::exp2(-0.5 * static_cast<double>(h + 1))) << h;
}

TEST(PositionBias, TakesEverySecondSlopeOfTheNextPowerOfTwoForTheRest) {
  // The authors' rule by hand: 12 heads are 8 and the first, third, fifth and seventh of 16.
  const double root = std::sqrt(0.5);
  EXPECT_EQ(alibi_slopes(12), (std::vector<double>{0x1p-1, 0x1p-2, 0x1p-3, 0x1p-4, 0x1p-5, 0x1p-6, 0x1p-7, 0x1p-8, root,
                                                   root / 2, root / 4, root / 8}));
  EXPECT_EQ(alibi_slopes(6), (std::vector<double>{0x1p-2, 0x1p-4, 0x1p-6, 0x1p-8, 0x1p-1, 0x1p-3}));
  EXPECT_EQ(alibi_slopes(3), (std::vector<double>{0x1p-4, 0x1p-8, 0x1p-2}));
}

TEST(PositionBias, AgreesWithTheReferenceForEveryNumberOfHeads) {
  for (std::int64_t heads = 1; heads <= 72; ++heads) {
    const PositionBias bias = PositionBias::alibi(alibi_slopes(heads));
    for (std::int64_t h = 0; h < heads; ++h) {
      for (const auto& [q, k] : {std::pair{0.0, 0.0}, {10.0, 1.0}, {5.0, 100000.0}, {1e6, 0.5}}) {
        const double expected = reference::alibi(heads, h, q, k);
        EXPECT_NEAR(bias.at(h, q, k), expected, std::abs(expected) * 0x1p-51) << heads << " " << h;
      }
    }
  }
}

// ---- T5 ----

TEST(PositionBias, BeginsItsBucketsWhereArithmeticByHandDoes) {
  // One side of 16: 8 distances of their own, then 8 * 16^(t/8) = 8 * 2^(t/2) for t = 0 … 7, rounded up:
  // 8, 11.3, 16, 22.6, 32, 45.3, 64, 90.5.
  const T5Buckets encoder({.num_buckets = 32, .max_distance = 128, .bidirectional = true});
  EXPECT_EQ(encoder.first_distances(), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91}));
  // 32: 16 of their own, then 16 * 8^(t/16) = 16 * 2^(3t/16) for t = 0 … 15, rounded up:
  // 16, 18.2, 20.7, 23.6, 26.9, 30.6, 34.9, 39.7, 45.3, 51.5, 58.7, 66.8, 76.1, 86.7, 98.7, 112.4.
  const T5Buckets decoder({.num_buckets = 32, .max_distance = 128, .bidirectional = false});
  std::vector<std::int64_t> edges = {16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113};
  for (std::int64_t d = 0; d < 16; ++d) edges.insert(edges.begin() + d, d);
  EXPECT_EQ(decoder.first_distances(), edges);
}

TEST(PositionBias, KeepsAnEdgeThatIsAWholeNumberInItsPlace) {
  // 2 e buckets up to the distance e * 3^e: an edge at e * 3^t, exactly, for every t.
  std::int64_t moved_in_float32 = 0;
  for (std::int64_t e = 1; e <= 16; ++e) {
    std::int64_t max_distance = e;
    for (std::int64_t t = 0; t < e; ++t) max_distance *= 3;
    const T5Buckets buckets({.num_buckets = 2 * e, .max_distance = max_distance, .bidirectional = false});
    std::int64_t distance = e;
    for (std::int64_t t = 0; t < e; ++t, distance *= 3) {
      EXPECT_EQ(buckets.bucket(-distance), e + t) << e;
      EXPECT_EQ(buckets.bucket(1 - distance), e + t - 1) << e;
      const auto n = static_cast<float>(e);
      const float way = std::log(static_cast<float>(distance) / n) / std::log(static_cast<float>(max_distance) / n);
      moved_in_float32 += static_cast<std::int64_t>(way * n) != t;
    }
  }
  EXPECT_GT(moved_in_float32, 0) << "what the whole numbers are for";
  EXPECT_EQ(T5Buckets({.num_buckets = 20, .max_distance = 100000, .bidirectional = false}).bucket(-1000), 15);
  EXPECT_EQ(T5Buckets({.num_buckets = 20, .max_distance = 100000, .bidirectional = false}).bucket(-999), 14);
}

TEST(PositionBias, HasTheBucketsOfExactArithmetic) {
  const TensorFile file((data + "t5_buckets.npz").c_str());
  const auto numbers = [&](const std::string& tensor) {
    const StoredTensor& stored = file.at(tensor.c_str());
    const auto* first = static_cast<const std::int64_t*>(stored.data);
    return std::vector<std::int64_t>(first, first + stored.shape[0]);
  };
  const std::vector<std::int64_t> distances = numbers("relative_position");
  ASSERT_EQ(distances.size(), 601u);
  for (const bool bidirectional : {true, false}) {
    for (const auto& [num_buckets, max_distance] : {std::pair{32, 128}, {16, 64}}) {
      const std::string rule =
          (bidirectional ? "bidirectional_" : "causal_") + std::to_string(num_buckets) + "_" + std::to_string(max_distance);
      const T5Buckets buckets({num_buckets, max_distance, bidirectional});
      const std::vector<std::int64_t> expected = numbers(rule);
      for (std::size_t i = 0; i < distances.size(); ++i) {
        EXPECT_EQ(buckets.bucket(distances[i]), expected[i]) << rule << " " << distances[i];
      }
    }
  }
}

TEST(PositionBias, AgreesWithTheReferenceOnEveryBucket) {
  for (const bool bidirectional : {true, false}) {
    for (const std::int64_t num_buckets : {2, 3, 4, 5, 6, 7, 20, 32, 64}) {
      if (bidirectional && num_buckets % 2 == 1) continue;
      if (bidirectional && num_buckets < 4) continue;
      for (const std::int64_t max_distance : {33, 64, 100, 128, 243, 1000}) {
        const T5Rule rule{num_buckets, max_distance, bidirectional};
        const T5Buckets buckets(rule);
        for (std::int64_t d = -1100; d <= 1100; ++d) {
          ASSERT_EQ(buckets.bucket(d), reference::t5_bucket(rule, d)) << num_buckets << " " << max_distance << " " << d;
        }
      }
    }
  }
}

TEST(PositionBias, PutsAnyDistanceIntoABucketThatExists) {
  constexpr std::int64_t far = std::numeric_limits<std::int64_t>::max();
  const T5Buckets both({.num_buckets = 32}), causal({.num_buckets = 32, .bidirectional = false});
  EXPECT_EQ(both.bucket(far), 31);
  EXPECT_EQ(both.bucket(-far - 1), 15);
  EXPECT_EQ(causal.bucket(far), 0);
  EXPECT_EQ(causal.bucket(-far - 1), 31);
  const T5Buckets many({.num_buckets = 1024, .max_distance = 2147483647, .bidirectional = false});
  EXPECT_EQ(many.bucket(-2147483647), 1023);
  EXPECT_EQ(many.first_distances().size(), 1024u);
}

// ---- as a tensor ----

TEST(PositionBias, WritesEveryHeadQueryAndKeyInEveryDtypeAndLayout) {
  const TestTensor t5_table = random_table(32, 6), clipped_table = random_table(9, 6, DType::bf16);
  const T5Rule rule{.bidirectional = true};
  const std::int64_t q_ids[] = {0, 7, 100000, 1000000, 3};
  const std::int32_t k_starts[] = {0, 99990};
  const PositionBiasOptions options{.q_positions = {.position_ids = ConstTensorView(q_ids, "S", {5})},
                                    .k_positions = {.offset = 2, .offsets = ConstTensorView(k_starts, "B", {2})}};
  for (const BiasKind kind : {BiasKind::alibi, BiasKind::t5, BiasKind::clipped}) {
    const PositionBias bias = kind == BiasKind::alibi ? PositionBias::alibi(alibi_slopes(6))
                              : kind == BiasKind::t5  ? PositionBias::t5(t5_table, T5Buckets(rule))
                                                      : PositionBias::clipped(clipped_table);
    EXPECT_EQ(bias.kind(), kind);
    for (const DType dtype : dtypes) {
      for (const Layout& layout : {Layout{}, Layout{.order = "KBQH", .step = 3, .reversed = "QK"}}) {
        TestTensor out(dtype, "BHQK", {2, 6, 5, 31}, layout);
        position_bias(out, bias, options);
        for (std::int64_t b = 0; b < 2; ++b) {
          for (std::int64_t h = 0; h < 6; ++h) {
            for (std::int64_t i = 0; i < 5; ++i) {
              for (std::int64_t j = 0; j < 31; ++j) {
                const std::int64_t q = q_ids[i], k = k_starts[b] + 2 + j;
                const double exact = kind == BiasKind::alibi
                                         ? reference::alibi(6, h, static_cast<double>(q), static_cast<double>(k))
                                     : kind == BiasKind::t5 ? reference::t5(t5_table.view(), rule, h, q, k)
                                                            : reference::clipped(clipped_table.view(), h, q, k);
                double rounded = 0;
                store_element(dtype, &rounded, 0, exact);
                ASSERT_EQ(out.at({b, h, i, j}), load_element(dtype, &rounded, 0))
                    << name(kind) << " " << name(dtype) << " " << h << " " << i << " " << j;
              }
            }
          }
        }
        EXPECT_TRUE(out.guards_intact());
      }
    }
    EXPECT_EQ(bias.at(3, 7, 9), kind == BiasKind::alibi ? reference::alibi(6, 3, 7, 9)
                                : kind == BiasKind::t5  ? reference::t5(t5_table.view(), rule, 3, 7, 9)
                                                        : reference::clipped(clipped_table.view(), 3, 7, 9));
  }
}

TEST(PositionBias, WritesTheSameOnThreadsAndNothingForTensorsWithoutElements) {
  ThreadPool pool(3);
  const PositionBias bias = PositionBias::alibi(alibi_slopes(3));
  TestTensor alone(DType::f32, "HQK", {3, 61, 67}), threads(DType::f32, "HQK", {3, 61, 67}),
      empty(DType::f32, "HQK", {3, 0, 67});
  position_bias(alone, bias);
  position_bias(threads, bias, {.executor = &pool});
  position_bias(empty, bias);
  EXPECT_EQ(alone.values(), threads.values());
  EXPECT_EQ(alone.at({0, 0, 0}), 0);
}

TEST(PositionBias, IsRoundedOnceAsTheHeaderSays) {
  const PositionBias bias = PositionBias::alibi({1});
  TestTensor half(DType::f16, "K", {1});
  position_bias(half, bias, {.q_positions = {.offset = 65519}});
  EXPECT_EQ(half[0], -65504);
  position_bias(half, bias, {.q_positions = {.offset = 65520}});
  EXPECT_EQ(half[0], -std::numeric_limits<double>::infinity());
  TestTensor shared(DType::bf16, "QK", {2, 1});
  position_bias(shared, bias, {.q_positions = {.offset = 256}});
  EXPECT_EQ(shared[0], shared[1]) << "256 and 257";
}

// ---- through attention() ----

TEST(PositionBias, AddsToTheScoresOfAttentionWhatOtherImplementationsAdd) {
  for (const char* name : {"alibi_causal", "alibi_6_heads_full", "t5_encoder", "t5_decoder"}) {
    const TensorFile file((data + name + ".npz").c_str());
    const bool is_t5 = file.find("t5_table") != nullptr;
    const bool causal = std::string(name) == "alibi_causal" || std::string(name) == "t5_decoder";
    const ConstTensorView q = file.at("q").view("BHSD"), k = file.at("k").view("BHSD"), v = file.at("v").view("BHSD");
    const std::int64_t heads = q.size('H'), length = q.size('S');
    const PositionBias bias = is_t5
                                  ? PositionBias::t5(file.at("t5_table").view("NH"), T5Buckets({.bidirectional = !causal}))
                                  : PositionBias::alibi(alibi_slopes(heads));
    TestTensor mask(DType::f64, "HQK", {heads, length, length});
    position_bias(mask, bias);
    TestTensor out(DType::f64, "BHSD", {1, heads, length, v.size('D')}), lse(DType::f64, "BHS", {1, heads, length});
    AttentionOptions options{.causal = causal ? Causal::top_left : Causal::none,
                             .scale = is_t5 ? 1.0 : 1 / std::sqrt(static_cast<double>(q.size('D'))),
                             .attn_mask = mask.view(),
                             .lse = lse};
    attention(q, k, v, out, options);
    // ALiBi's slopes in the file are float32: off by 2^-25 of at most 18 * 0.71.
    const double bound = is_t5 || heads == 4 ? 1e-12 : 1e-6;
    EXPECT_LE(largest_difference(out.values(), doubles(file, "out")), bound) << name;
    EXPECT_LE(largest_difference(lse.values(), doubles(file, "lse")), bound) << name;

    TestTensor plain(DType::f64, "BHSD", out.view().shape());
    options.lse = {};
    reference::attention(q, k, v, plain, options);
    EXPECT_LE(largest_difference(out.values(), plain.values()), 1e-14 * 4) << name;
  }
}

TEST(PositionBias, FollowsTheCacheWhenDecoding) {
  // The last row of a whole causal pass, and one query after 40 keys, are the same.
  const TestTensor table = random_table(32, 2);
  const PositionBias bias = PositionBias::t5(table, T5Buckets({.bidirectional = false}));
  TestTensor whole(DType::f64, "HQK", {2, 41, 41}), last(DType::f64, "HQK", {2, 1, 41});
  position_bias(whole, bias);
  position_bias(last, bias, {.q_positions = {.offset = 40}});
  for (std::int64_t h = 0; h < 2; ++h) {
    for (std::int64_t j = 0; j < 41; ++j) EXPECT_EQ(last.at({h, 0, j}), whole.at({h, 40, j}));
  }
}

// ---- linear attention ----

/// The rank of a matrix, by elimination with full pivoting.
std::int64_t rank(std::vector<std::vector<double>> a) {
  std::int64_t found = 0;
  std::vector<bool> used(a.size());
  for (;;) {
    std::size_t row = a.size(), column = 0;
    double largest = 1e-9;
    for (std::size_t i = 0; i < a.size(); ++i) {
      for (std::size_t j = 0; !used[i] && j < a[i].size(); ++j) {
        if (std::abs(a[i][j]) > largest) largest = std::abs(a[i][j]), row = i, column = j;
      }
    }
    if (row == a.size()) return found;
    used[row] = true;
    ++found;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (used[i]) continue;
      const double factor = a[i][column] / a[row][column];
      for (std::size_t j = 0; j < a[i].size(); ++j) a[i][j] -= factor * a[row][j];
    }
  }
}

/// exp(bias) of `num_queries` queries from position `start` on and `num_keys` keys.
std::int64_t rank_of_factor(const PositionBias& bias, double start, int num_queries, int num_keys) {
  std::vector<std::vector<double>> a(static_cast<std::size_t>(num_queries));
  for (int i = 0; i < num_queries; ++i) {
    for (int j = 0; j < num_keys; ++j) a[static_cast<std::size_t>(i)].push_back(std::exp(bias.at(0, start + i, j)));
  }
  return rank(std::move(a));
}

TEST(PositionBias, FactorsWhereItIsADecayAndWhereItIsConstant) {
  const PositionBias alibi = PositionBias::alibi({0.25, 0.5});
  EXPECT_NO_THROW(require_factorable(alibi, Causal::top_left));
  EXPECT_NO_THROW(require_factorable(alibi, Causal::bottom_right));
  EXPECT_EQ(rank_of_factor(alibi, 20, 12, 21), 1) << "queries after all keys";

  TestTensor constant(DType::f32, "NH", {9, 2});
  constant.fill(0.5);
  EXPECT_NO_THROW(require_factorable(PositionBias::clipped(constant), Causal::none));
  constant.set({8, 0}, 2);  // after the query alone
  EXPECT_NO_THROW(require_factorable(PositionBias::clipped(constant), Causal::top_left));
  EXPECT_NO_THROW(require_factorable(PositionBias::alibi({0}), Causal::none));
}

TEST(PositionBias, SaysWhyItCannotBePreSummed) {
  const auto sentence = [](const PositionBias& bias, Causal causal) {
    return error_sentence(ErrorCode::unsupported, [&] { require_factorable(bias, causal); });
  };
  const std::string both_sides = sentence(PositionBias::alibi({0.25}), Causal::none);
  EXPECT_NE(both_sides.find("grows with N"), std::string::npos) << both_sides;
  EXPECT_NE(both_sides.find("adds up its keys before it meets a query"), std::string::npos) << both_sides;
  for (const int n : {5, 11, 20}) EXPECT_EQ(rank_of_factor(PositionBias::alibi({0.25}), 0, n, n), n);

  const TestTensor random = random_table(9, 1);
  const std::string table = sentence(PositionBias::clipped(random), Causal::top_left);
  EXPECT_NE(table.find("still changes at distance 4, so that exp(bias) takes at least 5 products"), std::string::npos)
      << table;
  EXPECT_EQ(rank_of_factor(PositionBias::clipped(random), 20, 12, 21), 5) << "queries from the last key on";

  const TestTensor buckets = random_table(32, 1);
  const PositionBias t5 = PositionBias::t5(buckets, T5Buckets({.bidirectional = false}));
  EXPECT_NE(sentence(t5, Causal::bottom_right).find("at distance 113, so that exp(bias) takes at least 114"),
            std::string::npos);
  EXPECT_NE(sentence(t5, Causal::none).find("head 0 (t5)"), std::string::npos);

  TestTensor after(DType::f32, "NH", {32, 1});  // a row for keys before the query, another for those after
  for (std::int64_t n = 0; n < 32; ++n) after.set(n, n < 16 ? 0 : 1);
  const PositionBias step = PositionBias::t5(after, T5Buckets());
  EXPECT_NO_THROW(require_factorable(step, Causal::top_left));
  EXPECT_NE(sentence(step, Causal::none), "");
  EXPECT_EQ(rank_of_factor(step, 0, 20, 20), 20);
}

// ---- errors ----

TEST(PositionBias, RefusesDescriptionsThatBreakARule) {
  expect_refused([] { alibi_slopes(0); }, "the number of heads must be 1 to 65536, got 0");
  expect_refused([] { PositionBias::alibi({}); }, "got 0");
  expect_refused([] { PositionBias::alibi({1, NAN}); }, "every slope must be finite, got nan");
  expect_refused([] { T5Buckets({.num_buckets = 2}); }, "num_buckets must be 4 to 1024, got 2");
  expect_refused([] { T5Buckets({.num_buckets = 1025, .bidirectional = false}); }, "2 to 1024, got 1025");
  expect_refused([] { T5Buckets({.num_buckets = 31}); }, "even where it is bidirectional, got 31");
  expect_refused([] { T5Buckets({.max_distance = 8}); }, "more than the 8 distances that have their own bucket");
  expect_refused([] { T5Buckets({.max_distance = std::int64_t{1} << 31}); }, "at most 2147483647, got 2147483648");

  TestTensor even = random_table(8, 2), ints(DType::i32, "NH", {9, 2}), other(DType::f32, "NK", {9, 2}),
             endless = random_table(9, 2);
  endless.set(3, std::numeric_limits<double>::infinity());
  expect_refused([&] { PositionBias::clipped(even); }, "an odd number, got 8");
  expect_refused([&] { PositionBias::clipped(ints); }, "got int32");
  expect_refused([&] { PositionBias::clipped(other); }, "table must have the axes NH and no others, got \"NK\"");
  expect_refused([&] { PositionBias::clipped(endless); }, "every number of the table must be finite, got inf");
  expect_refused([&] { PositionBias::clipped({}); }, "table must be given");
  expect_refused([&] { PositionBias::t5(even, T5Buckets()); }, "a row per bucket, got 8 for 32 buckets");
}

TEST(PositionBias, RefusesTensorsAndPositionsThatDoNotFitAndWritesNothing) {
  const TestTensor table = random_table(9, 2);
  const PositionBias bias = PositionBias::clipped(table);
  TestTensor out(DType::f32, "HQK", {2, 3, 4}), heads(DType::f32, "HQK", {3, 3, 4}), axes(DType::f32, "HSK", {2, 3, 4});
  const double ids[] = {0, 1.5, 2};
  std::int32_t whole[24] = {};
  float shared[24] = {};
  expect_refused([&] { position_bias({}, bias); }, "out must be given");
  expect_refused([&] { position_bias(heads, bias); }, "out must have 2 heads along H, got 3");
  expect_refused([&] { position_bias(axes, bias); }, "axes among BHQK, got \"HSK\"");
  expect_refused([&] { position_bias(TensorView(whole, "HQK", {2, 3, 4}), bias); }, "got int32");
  expect_refused(
      [&] {
        position_bias(TensorView(shared, DType::f32, "HQK", {2, 3, 4}, {0, 4, 1}), bias);
      },
      "overlap each other");
  expect_refused(
      [&] { position_bias(out, bias, {.q_positions = {.position_ids = ConstTensorView(ids, "S", {3})}}); },
      "position_bias, q_positions: positions must be whole numbers, to find a distance in a table, got 1.5 for token 1");
  expect_refused([&] { position_bias(out, bias, {.k_positions = {.position_ids = ConstTensorView(ids, "S", {3})}}); },
                 "position_bias, k_positions: position_ids must have one entry per token");
  expect_refused(
      [&] {
        double memory[24] = {};
        position_bias(TensorView(memory, "HQK", {2, 3, 4}), bias,
                      {.q_positions = {.position_ids = ConstTensorView(memory + 2, "S", {3})}});
      },
      "out must not overlap the positions");
  expect_refused([&] { bias.at(2, 0, 0); }, "head must be 0 to 1, got 2");
  expect_refused([&] { bias.at(0, 0.5, 0); }, "whole numbers");
  expect_refused([&] { bias.at(0, 0, 0x1p54); }, "at most 2^53");
  for (std::int64_t i = 0; i < out.size(); ++i) EXPECT_TRUE(std::isnan(out[i]));
}

}  // namespace
}  // namespace rotary
