#include "rotary/attention.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "reference/attention.h"
#include "rotary/frequencies.hpp"
#include "rotary/rotate.hpp"
#include "support/attention_case.h"
#include "support/error_sentence.h"
#include "support/test_tensor.h"

namespace rotary {
namespace {

using Case = AttentionCase;
using Sizes = AttentionSizes;

// ---- agreement with the definition ----

TEST(Attention, AgreesWithTheReferenceAtEveryLengthAroundATile_S17) {
  const std::int64_t lanes = attention_kernels<float>().rows, keys = tile_keys;
  for (const std::int64_t num_queries : {std::int64_t{1}, std::int64_t{2}, std::int64_t{7}, lanes - 1, lanes, lanes + 1}) {
    for (const std::int64_t num_keys :
         {std::int64_t{1}, std::int64_t{3}, std::int64_t{31}, std::int64_t{67}, keys - 1, keys, keys + 1, 2 * keys + 5}) {
      for (const Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right}) {
        Case c({.num_queries = num_queries, .num_keys = num_keys, .head_dim = 10, .value_dim = 6});
        c.options.causal = causal;
        expect_agrees_with_reference(c, std::string(name(causal)) + " " + std::to_string(num_queries) + " queries, " +
                                            std::to_string(num_keys) + " keys");
      }
    }
  }
}

TEST(Attention, AgreesWithTheReferenceAtEveryLengthAroundATileOfBfloat16) {
  for (const std::int64_t num_queries : {2, 15, 16, 17, 47, 48, 49, 97}) {
    for (const std::int64_t num_keys : {1, 15, 31, 32, 33, 127, 129, 261}) {
      for (const std::int64_t width : {1, 31, 33, 72}) {
        Case c({.num_queries = num_queries, .num_keys = num_keys, .head_dim = width, .value_dim = (width + 4) / 2},
               DType::bf16);
        c.options.causal = num_keys % 2 == 0 ? Causal::bottom_right : Causal::none;
        expect_agrees_with_reference(
            c, std::to_string(num_queries) + " queries, " + std::to_string(num_keys) + " keys of " + std::to_string(width));
      }
    }
  }
}

TEST(Attention, AgreesWithTheReferenceWhenRowsFillSeveralBlocks) {
  const std::int64_t rows = 8 * attention_kernels<float>().rows;
  for (const Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right}) {
    Case c({.num_q_heads = 2, .num_queries = rows + 3, .num_keys = rows - 10, .head_dim = 6, .value_dim = 3});
    c.options.causal = causal;
    expect_agrees_with_reference(c, name(causal));
  }
}

TEST(Attention, AgreesWithTheReferenceInEveryDtypeAndWidth_S17) {
  for (const DType dtype : dtypes) {
    for (const std::int64_t width : {1, 2, 6, 10, 20, 63, 72, 128}) {
      for (const std::int64_t value_dim : {std::int64_t{1}, std::int64_t{12}, width}) {
        Case c({.batch = 2,
                .num_q_heads = 6,
                .num_kv_heads = 2,
                .num_queries = 5,
                .num_keys = 13,
                .head_dim = width,
                .value_dim = value_dim},
               dtype);
        c.options.causal = Causal::bottom_right;
        expect_agrees_with_reference(
            c, std::string(name(dtype)) + " " + std::to_string(width) + " " + std::to_string(value_dim));
      }
    }
  }
}

TEST(Attention, ComputesInDoubleWhenAnyTensorIs) {
  Case c({.num_queries = 5, .num_keys = 13});
  TestTensor out(DType::f64, "BHSD", c.out.view().shape());
  c.out = std::move(out);
  expect_agrees_with_reference(c, "float32 inputs, float64 result");
}

TEST(Attention, AgreesWithTheReferenceUnderEveryRotation) {
  const Rotation rotations[] = {plain_rotation(20, 20), plain_rotation(20, 20, Pairing::interleaved), plain_rotation(20, 6),
                                Rotation({.head_dim = 20,
                                          .rotary_offset = 12,
                                          .pairing_in = Pairing::interleaved,
                                          .pairing_out = Pairing::half,
                                          .inv_freq = {1, 0.1, 0.01, 0.001},
                                          .amplitude = 1.2,
                                          .direction = -1}),
                                Rotation({.head_dim = 20,
                                          .pairing_in = Pairing::listed,
                                          .inv_freq = {1, 0.3},
                                          .axis = {0, 1},
                                          .pairs_in = {{19, 3}, {4, 5}}})};
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    for (const Rotation& rotation : rotations) {
      Case c({.batch = 2, .num_q_heads = 4, .num_kv_heads = 2, .num_queries = 7, .num_keys = 31, .head_dim = 20}, dtype);
      c.options.rotation = &rotation;
      c.options.q_positions = {.offset = 100000};
      c.options.k_positions = {.offset = 99976};
      c.options.causal = Causal::bottom_right;
      expect_agrees_with_reference(
          c, std::string(name(dtype)) + " " + name(rotation.pairing_in()) + " " + std::to_string(rotation.rotary_dim()));
    }
  }
}

TEST(Attention, TurnsTheKeysOfSingleQueriesStepByStep) {
  const Rotation rotations[] = {plain_rotation(32, 32), plain_rotation(32, 10, Pairing::interleaved),
                                Rotation({.head_dim = 32,
                                          .pairing_in = Pairing::listed,
                                          .inv_freq = {1, 0.3},
                                          .amplitude = 1.2,
                                          .pairs_in = {{31, 3}, {4, 5}}})};
  ThreadPool pool(3);
  for (const char* const order : {"BHSD", "BSHD"}) {  // one head after another, or several at once
    for (const Rotation& rotation : rotations) {
      for (const std::int64_t num_keys : {1, 31, 32, 33, 65, 2500}) {
        Case c({.batch = 2, .num_q_heads = 6, .num_kv_heads = 2, .num_keys = num_keys, .head_dim = 32, .value_dim = 16},
               DType::f32, {.order = order});
        c.options.rotation = &rotation;
        c.options.q_positions = {.offset = 100000};
        c.options.k_positions = {.offset = 100001 - num_keys};
        expect_agrees_with_reference(
            c, std::string(order) + " " + name(rotation.pairing_in()) + " " + std::to_string(num_keys) + " keys");
        const std::vector<double> alone = attended(c);
        c.options.executor = &pool;
        EXPECT_EQ(attended(c), alone) << num_keys << " keys, 3 threads";
      }
    }
  }
}

TEST(Attention, TakesAnyPositionsForQueriesAndKeysSeparately) {
  const Rotation rotation = plain_rotation(8, 8);
  Case c({.batch = 2, .num_queries = 3, .num_keys = 4}, DType::f64);
  const double q_ids[] = {7, 1e6, -2.5, 0, 31, 5};
  const std::int64_t k_starts[] = {3, 1000};
  c.options.rotation = &rotation;
  c.options.q_positions = {.position_ids = ConstTensorView(q_ids, "BS", {2, 3})};
  c.options.k_positions = {.offset = 5, .offsets = ConstTensorView(k_starts, "B", {2})};
  expect_agrees_with_reference(c, "position_ids and offsets");
}

TEST(Attention, TurnsAsRotateDoes) {
  // The same angles, whether computed, replayed or handed in, in front of the same attention. rotate() of float32 rounds
  // nothing that attention does not: equal bit for bit where the pairs keep their places.
  const Rotation rotation = plain_rotation(20, 12, Pairing::interleaved);
  const AngleTable table = AngleTable::build(rotation, 0, 50, Precision::transformers);
  for (const DType dtype : {DType::f64, DType::f32}) {
    for (const Precision precision : {Precision::exact, Precision::transformers}) {
      for (const AngleTable* const given : {static_cast<const AngleTable*>(nullptr), &table}) {
        Case c({.batch = 2, .num_q_heads = 4, .num_kv_heads = 2, .num_queries = 5, .num_keys = 31, .head_dim = 20}, dtype);
        c.options.rotation = &rotation;
        c.options.precision = precision;
        c.options.table = given;
        c.options.q_positions = {.offset = 40};
        c.options.k_positions = {.offset = 10};
        const std::vector<double> inside = attended(c);
        rotate(c.q.view(), rotation, {.offset = 40}, {.precision = precision, .table = given});
        rotate(c.k.view(), rotation, {.offset = 10}, {.precision = precision, .table = given});
        c.options = {};
        const std::vector<double> before = attended(c);
        for (std::size_t i = 0; i < inside.size(); ++i) {
          // transformers rounds every product of the rotation; attention fuses what the instruction set can fuse.
          if (precision == Precision::exact) EXPECT_EQ(inside[i], before[i]) << name(dtype) << " " << i;
          else EXPECT_NEAR(inside[i], before[i], dtype == DType::f64 ? 1e-14 : 2e-6) << name(dtype) << " " << i;
        }
      }
    }
  }
}

TEST(Attention, TakesMasksOfEveryShapeAndDtype) {
  for (const DType dtype : dtypes) {
    for (const char* axes : {"K", "QK", "KQ", "HQK", "BK", "BHQK", "QBKH"}) {
      Case c({.batch = 2, .num_q_heads = 4, .num_kv_heads = 2, .num_queries = 5, .num_keys = 131}, DType::f32);
      std::vector<std::int64_t> shape;
      for (const char* axis = axes; *axis != '\0'; ++axis) {
        shape.push_back(*axis == 'B' ? 2 : *axis == 'H' ? 4 : *axis == 'Q' ? 5 : 131);
      }
      TestTensor mask(dtype, axes, shape, {.step = 2});
      mask.fill_at_random(4);
      for (std::int64_t i = 0; i < mask.size(); i += 3) mask.set(i, -infinity);
      c.options.attn_mask = mask.view();
      expect_agrees_with_reference(c, std::string(name(dtype)) + " " + axes);
    }
  }
}

TEST(Attention, BroadcastsMaskAxesOfLengthOne) {
  Case c({.batch = 2, .num_q_heads = 2, .num_kv_heads = 2, .num_queries = 3, .num_keys = 5});
  TestTensor mask(DType::f32, "BHQK", {1, 1, 3, 5});
  mask.fill_at_random(4);
  c.options.attn_mask = mask.view();
  expect_agrees_with_reference(c, "length 1 along B and H");
}

// ---- layout ----

TEST(Attention, ReadsAndWritesAnyOrderAndStrides_S8) {
  const Sizes sizes = {
      .batch = 2, .num_q_heads = 6, .num_kv_heads = 2, .num_queries = 5, .num_keys = 13, .head_dim = 10, .value_dim = 12};
  for (const DType dtype : dtypes) {
    Case plain(sizes, dtype);
    const std::vector<double> expected = attended(plain);
    std::string order = "BDHS";
    do {
      for (const std::int64_t step : {1, 2}) {
        for (const char* reversed : {"", "D", "BS", "HSD"}) {
          Case c(sizes, dtype, {.order = order.c_str(), .step = step, .reversed = reversed});
          EXPECT_EQ(attended(c), expected) << order << " step " << step << " reversed " << reversed;
          EXPECT_TRUE(c.out.guards_intact()) << order << " step " << step << " reversed " << reversed;
        }
      }
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST(Attention, TakesTheAxesInAnyOrderByName) {
  Case c({.batch = 2, .num_q_heads = 4, .num_kv_heads = 2, .num_queries = 3, .num_keys = 5});
  const std::vector<double> expected = attended(c);
  c.out.fill(nan);
  attention(c.q.view().permuted("SBDH"), c.k.view().permuted("DHSB"), c.v.view().permuted("BSHD"),
            c.out.view().permuted("HDBS"), {});
  EXPECT_EQ(c.out.values(), expected);
}

TEST(Attention, NeedsNeitherBatchNorHeadAxis) {
  Case c({.num_queries = 3, .num_keys = 5});
  const std::vector<double> expected = attended(c);
  c.out.fill(nan);
  const auto one = [](const TestTensor& x) { return x.view().select('B', 0).select('H', 0); };
  attention(one(c.q), one(c.k), one(c.v), one(c.out));
  EXPECT_EQ(c.out.values(), expected);
}

TEST(Attention, TakesBroadcastKeysAndSharedMemoryOfKeysAndValues_S5) {
  Case c({.num_q_heads = 4, .num_kv_heads = 4, .num_queries = 3, .num_keys = 5});
  const TensorView& k = c.k.view();
  const ConstTensorView one_head(k.data(), k.dtype(), k.axes(), k.shape(),
                                 {k.strides()[0], 0, k.strides()[2], k.strides()[3]});
  attention(c.q, one_head, one_head, c.out);
  const std::vector<double> broadcast = c.out.values();
  attention(c.q, k.slice('H', 0, 1), k.slice('H', 0, 1), c.out.fill(nan));
  EXPECT_EQ(c.out.values(), broadcast);
}

TEST(Attention, KeepsBatchRowsApartAtLengthOne_S1) {
  Case c({.batch = 2, .num_q_heads = 3, .num_kv_heads = 3, .num_queries = 1, .num_keys = 1});
  c.attend();
  EXPECT_EQ(c.out.values(), c.v.values()) << "one key: its value";
  for (TestTensor* x : {&c.q, &c.k, &c.v}) {
    for (std::int64_t i = 0; i < x->size() / 2; ++i) x->set(x->size() / 2 + i, (*x)[i]);
  }
  const std::vector<double> out = attended(c);
  EXPECT_TRUE(std::equal(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(out.size() / 2),
                         out.begin() + static_cast<std::ptrdiff_t>(out.size() / 2)))
      << "equal rows in, equal rows out";
}

TEST(Attention, WritesEveryElementOfPoisonedResults_S15) {
  Case c({.batch = 3, .num_q_heads = 4, .num_kv_heads = 2, .num_queries = 1, .num_keys = 9});
  c.attend();
  for (const double x : c.out.values()) EXPECT_TRUE(std::isfinite(x));
  for (const double x : c.lse.values()) EXPECT_TRUE(std::isfinite(x));
}

TEST(Attention, FollowsStridesPast32Bits_S9) {
  const std::int64_t step = (std::int64_t{1} << 32) + 24;  // elements: bytes overflow 32 bits, and so do element counts
  const std::size_t bytes = static_cast<std::size_t>(2 * step + 8) * sizeof(float);
  void* const sparse = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (sparse == MAP_FAILED) GTEST_SKIP() << "no address space";
  Case c({.num_queries = 2, .num_keys = 3});
  const std::vector<double> expected = attended(c);
  c.out.fill(nan);
  const TensorView far(sparse, DType::f32, "BHSD", {1, 1, 3, 8}, {0, 0, step, 1});
  for (std::int64_t j = 0; j < 3; ++j) {
    for (std::int64_t d = 0; d < 8; ++d) store_element(DType::f32, sparse, j * step + d, c.k.at({0, 0, j, d}));
  }
  attention(c.q, far, c.v, c.out);
  EXPECT_EQ(c.out.values(), expected);
  munmap(sparse, bytes);
}

// ---- which key each query sees ----

/// seen[query] as a string of 0 and 1 per key: values are one-hot, so that the output is the weights.
std::vector<std::string> seen_keys(std::int64_t num_queries, std::int64_t num_keys, Causal causal) {
  Case c({.num_queries = num_queries, .num_keys = num_keys, .value_dim = num_keys});
  for (std::int64_t i = 0; i < c.v.size(); ++i) c.v.set(i, i % (num_keys + 1) == 0 ? 1 : 0);
  c.options.causal = causal;
  c.attend();
  std::vector<std::string> seen;
  for (std::int64_t i = 0; i < num_queries; ++i) {
    std::string row;
    for (std::int64_t j = 0; j < num_keys; ++j) row += c.out.at({0, 0, i, j}) != 0 ? '1' : '0';
    seen.push_back(row);
  }
  return seen;
}

TEST(Attention, AlignsTheCausalMaskAsTold_M5) {
  using Rows = std::vector<std::string>;
  EXPECT_EQ(seen_keys(1, 5, Causal::top_left), Rows({"10000"}));
  EXPECT_EQ(seen_keys(1, 5, Causal::bottom_right), Rows({"11111"}));
  EXPECT_EQ(seen_keys(2, 5, Causal::top_left), Rows({"10000", "11000"}));
  EXPECT_EQ(seen_keys(2, 5, Causal::bottom_right), Rows({"11110", "11111"}));
  EXPECT_EQ(seen_keys(5, 2, Causal::top_left), Rows({"10", "11", "11", "11", "11"}));
  EXPECT_EQ(seen_keys(5, 2, Causal::bottom_right), Rows({"00", "00", "00", "10", "11"}));
  EXPECT_EQ(seen_keys(3, 3, Causal::top_left), seen_keys(3, 3, Causal::bottom_right));
  EXPECT_EQ(seen_keys(2, 3, Causal::none), Rows({"111", "111"}));
}

TEST(Attention, MapsQueryHeadsToKvHeadsInRuns_M7) {
  const std::int64_t counts[][2] = {{6, 2}, {28, 4}, {12, 12}, {8, 1}};
  for (const auto& [num_q_heads, num_kv_heads] : counts) {
    Case c({.num_q_heads = num_q_heads, .num_kv_heads = num_kv_heads, .num_queries = 3, .num_keys = 5});
    for (std::int64_t i = 0; i < c.v.size(); ++i) c.v.set(i, static_cast<double>(i / (5 * 8)));  // its KV head
    c.attend();
    for (std::int64_t h = 0; h < num_q_heads; ++h) {
      const auto expected = static_cast<double>(h / (num_q_heads / num_kv_heads));
      EXPECT_NEAR(c.out.at({0, h, 2, 7}), expected, 1e-5) << num_q_heads << " and " << num_kv_heads << ", head " << h;
    }
    expect_agrees_with_reference(c, "groups");
  }
}

TEST(Attention, FutureKeysChangeNothing_M8) {
  for (const bool masked : {false, true}) {
    for (const bool with_lse : {false, true}) {
      for (const DType dtype : dtypes) {
        Case c({.num_q_heads = 2, .num_queries = 150, .num_keys = 150}, dtype);
        c.options.causal = Causal::top_left;
        if (masked) c.options.attn_mask = c.mask.fill_at_random(5).view();
        if (!with_lse) c.options.lse = {};
        const std::vector<double> before = attended(c);
        const std::int64_t j = 70;
        for (std::int64_t d = 0; d < 8; ++d) {
          c.k.set({0, 0, j, d}, 100);
          c.v.set({0, 0, j, d}, 100);
        }
        c.attend();
        bool later_rows_differ = false;
        for (std::int64_t i = 0; i < 150; ++i) {
          for (std::int64_t d = 0; d < 8; ++d) {
            const double was = before[static_cast<std::size_t>(i * 8 + d)], is = c.out.at({0, 0, i, d});
            if (i < j) EXPECT_EQ(is, was) << "row " << i;
            else later_rows_differ = later_rows_differ || is != was;
          }
        }
        EXPECT_TRUE(later_rows_differ);
      }
    }
  }
}

TEST(Attention, AHiddenKeyHasNoWeightWhateverItHolds_M9) {
  for (const DType dtype : dtypes) {
    for (const double content : {60000.0, -60000.0, infinity, -infinity, nan}) {
      Case c({.num_queries = 3, .num_keys = 140}, dtype);
      for (const std::int64_t j : {0, 5, 131}) {
        for (std::int64_t i = 0; i < 3; ++i) c.mask.set({0, 0, i, j}, -infinity);
      }
      c.options.attn_mask = c.mask.view();
      const std::vector<double> before = attended(c), lse = c.lse.values();
      for (const std::int64_t j : {0, 5, 131}) {
        for (std::int64_t d = 0; d < 8; ++d) {
          c.k.set({0, 0, j, d}, content);
          c.v.set({0, 0, j, d}, content);
        }
      }
      EXPECT_EQ(attended(c), before) << name(dtype) << " " << content;
      EXPECT_EQ(c.lse.values(), lse) << name(dtype) << " " << content;
    }
  }
}

TEST(Attention, AKeyHiddenFromSomeRowsStillReachesTheOthers_M12) {
  for (const double content : {infinity, nan}) {
    Case c({.num_queries = 3, .num_keys = 3});
    c.options.causal = Causal::top_left;
    c.v.set({0, 0, 1, 4}, content);  // the value of key 1, one channel: rows 1 and 2 see it
    c.attend();
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t d = 0; d < 8; ++d)
        EXPECT_EQ(std::isfinite(c.out.at({0, 0, i, d})), i == 0 || d != 4) << i << " " << d;
    }
    c.v.fill_at_random(3);
    c.k.set({0, 0, 1, 4}, nan);  // the key itself: rows 1 and 2 are lost, row 0 is not
    c.attend();
    for (std::int64_t i = 0; i < 3; ++i) {
      for (std::int64_t d = 0; d < 8; ++d) EXPECT_EQ(std::isnan(c.out.at({0, 0, i, d})), i != 0) << i << " " << d;
      EXPECT_EQ(std::isnan(c.lse.at({0, 0, i})), i != 0) << i;
    }
  }
}

TEST(Attention, ANanInAFutureValueReachesNoEarlierRow_M8) {
  const std::int64_t length = 300, j = 220;  // several row tiles share the key tile that holds it
  for (const DType dtype : dtypes) {
    Case c({.num_queries = length, .num_keys = length}, dtype);
    c.options.causal = Causal::top_left;
    const std::vector<double> before = attended(c);
    for (std::int64_t d = 0; d < 8; ++d) c.v.set({0, 0, j, d}, nan);
    c.attend();
    for (std::int64_t i = 0; i < length; ++i) {
      const double was = before[static_cast<std::size_t>(i * 8)], is = c.out.at({0, 0, i, 0});
      if (i < j) EXPECT_EQ(is, was) << name(dtype) << " row " << i;
      else EXPECT_TRUE(std::isnan(is)) << name(dtype) << " row " << i;
    }
  }
}

TEST(Attention, RowsWhoseScoresAreAllMinusInfinityAreZeroWhateverTheValues) {
  for (const std::int64_t num_queries : {1, 2}) {  // decode, and blocks of rows
    for (const double content : {1.0, infinity, nan}) {
      Case c({.num_queries = num_queries, .num_keys = 3});
      c.q.fill(0);
      for (std::int64_t i = 0; i < num_queries; ++i) c.q.set({0, 0, i, 0}, 1);
      c.k.fill(0);
      for (std::int64_t j = 0; j < 3; ++j) c.k.set({0, 0, j, 0}, -infinity);
      c.v.fill(content);
      c.options.rotation = nullptr;
      c.attend();
      for (const double x : c.out.values()) EXPECT_EQ(x, 0) << num_queries << " " << content;
      for (const double x : c.lse.values()) EXPECT_EQ(x, -infinity) << num_queries << " " << content;
    }
  }
}

TEST(Attention, ANanInAValueIsSeenEvenWhereItsWeightUnderflows_M12) {
  for (const double content : {infinity, nan}) {
    Case c({.num_queries = 1, .num_keys = 2});
    c.q.fill(10);
    c.k.fill(10);
    for (std::int64_t d = 0; d < 8; ++d) c.k.set({0, 0, 1, d}, -10);
    c.v.set({0, 0, 1, 3}, content);
    c.attend();
    for (std::int64_t d = 0; d < 8; ++d) EXPECT_EQ(std::isfinite(c.out.at({0, 0, 0, d})), d != 3) << d;
  }
}

TEST(Attention, ANanInAQueryGivesItsRowNanAndNoOther_M12) {
  for (const DType dtype : dtypes) {
    Case c({.num_q_heads = 2, .num_kv_heads = 1, .num_queries = 3, .num_keys = 200}, dtype);
    c.q.set({0, 1, 2, 5}, nan);
    c.attend();
    for (std::int64_t i = 0; i < c.out.size(); ++i) EXPECT_EQ(std::isnan(c.out[i]), i / 8 == 5) << name(dtype) << " " << i;
    for (std::int64_t i = 0; i < c.lse.size(); ++i) EXPECT_EQ(std::isnan(c.lse[i]), i == 5) << name(dtype) << " " << i;
  }
}

TEST(Attention, ARowThatSeesNothingIsZeroWithLseMinusInfinity_M1) {
  for (const DType dtype : dtypes) {
    Case c({.num_q_heads = 2, .num_queries = 6, .num_keys = 4}, dtype);
    for (std::int64_t j = 0; j < 4; ++j) c.mask.set({0, 1, 4, j}, -infinity);
    c.options.attn_mask = c.mask.view();
    c.options.causal = Causal::bottom_right;  // rows 0 and 1 see nothing
    for (const std::int64_t j : {1, 2, 3}) c.mask.set({0, 0, 3, j}, -infinity);
    c.mask.set({0, 0, 3, 0}, -infinity);  // with the causal mask, row 3 of head 0 sees nothing
    c.q.set({0, 0, 0, 0}, nan);           // and what such a row holds does not matter
    c.attend();
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t i = 0; i < 6; ++i) {
        const bool empty = i < 2 || (h == 1 && i == 4) || (h == 0 && i == 3);
        for (std::int64_t d = 0; d < 8; ++d) {
          EXPECT_EQ(c.out.at({0, h, i, d}) == 0, empty) << name(dtype) << " head " << h << " row " << i;
        }
        EXPECT_EQ(c.lse.at({0, h, i}) == -infinity, empty) << name(dtype) << " head " << h << " row " << i;
      }
    }
    c.q.fill_at_random(1);
    expect_agrees_with_reference(c, name(dtype));
  }
}

TEST(Attention, TheLowestFiniteNumberIsANumberNotAMask_M3) {
  for (const DType mask_dtype : {DType::f64, DType::f32, DType::bf16}) {
    for (const DType dtype : dtypes) {
      Case c({.num_queries = 2, .num_keys = 4}, dtype);
      TestTensor mask(mask_dtype, "QK", {2, 4});
      const double lowest = mask_dtype == DType::f64   ? std::numeric_limits<double>::lowest()
                            : mask_dtype == DType::f32 ? std::numeric_limits<float>::lowest()
                                                       : -0x1.fep127;
      for (std::int64_t j = 0; j < 4; ++j) {
        mask.set({0, j}, lowest);
        mask.set({1, j}, -infinity);
      }
      c.options.attn_mask = mask.view();
      c.attend();
      for (std::int64_t d = 0; d < 8; ++d) {
        double mean = 0;
        for (std::int64_t j = 0; j < 4; ++j) mean += c.v.at({0, 0, j, d}) / 4;
        EXPECT_NEAR(c.out.at({0, 0, 0, d}), mean, tolerance(c))
            << "uniform weights: the scores are lost in so large a number";
        EXPECT_EQ(c.out.at({0, 0, 1, d}), 0);
      }
    }
  }
}

TEST(Attention, TwoMasksMayHideTheSameKey_M4) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (const double hide : {-infinity, static_cast<double>(std::numeric_limits<float>::lowest())}) {
      Case c({.num_queries = 3, .num_keys = 3}, dtype);
      c.options.causal = Causal::top_left;
      const std::vector<double> expected = attended(c);
      for (std::int64_t i = 0; i < 3; ++i) {
        for (std::int64_t j = i + 1; j < 3; ++j) c.mask.set({0, 0, i, j}, hide);
      }
      c.options.attn_mask = c.mask.view();
      EXPECT_EQ(attended(c), expected);
    }
  }
}

TEST(Attention, TakesEmptySequences_M11) {
  for (const DType dtype : dtypes) {
    Case no_keys({.num_q_heads = 2, .num_queries = 3, .num_keys = 0}, dtype);
    no_keys.attend();
    for (const double x : no_keys.out.values()) EXPECT_EQ(x, 0);
    for (const double x : no_keys.lse.values()) EXPECT_EQ(x, -infinity);

    Case no_queries({.num_queries = 0, .num_keys = 3}, dtype);
    no_queries.attend();
    Case no_rows({.batch = 0, .num_queries = 3, .num_keys = 3}, dtype);
    no_rows.attend();
    Case no_heads({.num_q_heads = 0, .num_kv_heads = 0, .num_queries = 3, .num_keys = 3}, dtype);
    no_heads.attend();
  }
  const Rotation rotation = plain_rotation(8, 8);
  Case c({.num_queries = 0, .num_keys = 0});
  c.options.rotation = &rotation;
  c.attend();
}

// ---- rotation ----

TEST(Attention, OnlyDistancesMatter) {
  const Rotation rotation = plain_rotation(64, 64);
  for (const DType dtype : {DType::f64, DType::f32}) {
    const auto at = [&](std::int64_t offset) {
      Case c({.num_q_heads = 2, .num_queries = 9, .num_keys = 12, .head_dim = 64}, dtype);
      c.options.rotation = &rotation;
      c.options.causal = Causal::bottom_right;
      c.options.q_positions = {.offset = offset + 3};
      c.options.k_positions = {.offset = offset};
      return attended(c);
    };
    // Angles are exact at any position: what differs is the rounding of cos and sin, 2^-24 (2^-53) of each product. A
    // double angle at 10^6 is exact too, so that 1e-13 holds there as well.
    const std::vector<double> here = at(0);
    for (const std::int64_t c : {1, 10, 5000, 100000, 1000000}) {
      const std::vector<double> there = at(c);
      for (std::size_t i = 0; i < here.size(); ++i) {
        EXPECT_NEAR(there[i], here[i], dtype == DType::f64 ? 1e-13 : 1e-5) << c << " " << i;
      }
    }
  }
}

TEST(Attention, TheRotationMatters_S16) {
  const Rotation rotation = plain_rotation(8, 8);
  Case c({.num_queries = 2, .num_keys = 2});
  const std::vector<double> unturned = attended(c);
  c.options.rotation = &rotation;
  const std::vector<double> turned = attended(c);
  EXPECT_NE(turned, unturned);
  c.options.q_positions = {.offset = 1};
  EXPECT_NE(attended(c), turned);
}

TEST(Attention, NeverTurnsValues) {
  const Rotation rotation = plain_rotation(8, 8);
  Case c({.num_queries = 1, .num_keys = 1});
  c.options.rotation = &rotation;
  c.options.q_positions = c.options.k_positions = {.offset = 12345};
  c.attend();
  EXPECT_EQ(c.out.values(), c.v.values()) << "one key: its value";
}

TEST(Attention, TheSeedArticlesTwoChannelsScoreZeroAndOne) {
  // q = [1, 0] at 0 and k = [1, 0] or [0, 1] at 0 and at 1, a quarter turn per position: scores 1, 0 and 0, -1
  // counter-clockwise.
  const Rotation rotation({.head_dim = 2, .pairing_in = Pairing::interleaved, .inv_freq = {std::acos(0.0)}});
  const auto score = [&](double k0, double k1, std::int64_t position) {
    Case c({.num_queries = 1, .num_keys = 1, .head_dim = 2}, DType::f64);
    c.q.set(0, 1);
    c.q.set(1, 0);
    c.k.set(0, k0);
    c.k.set(1, k1);
    c.options = {.rotation = &rotation, .k_positions = {.offset = position}, .scale = 1, .lse = c.lse.view()};
    c.attend();
    return c.lse[0];  // one key: its score
  };
  EXPECT_NEAR(score(1, 0, 0), 1, 1e-15);
  EXPECT_NEAR(score(0, 1, 0), 0, 1e-15);
  EXPECT_NEAR(score(1, 0, 1), 0, 1e-15);
  EXPECT_NEAR(score(0, 1, 1), -1, 1e-15);
}

// ---- numbers ----

TEST(Attention, ScalesByTheRootOfTheWidthUnlessTold) {
  Case c({.num_queries = 3, .num_keys = 5, .head_dim = 10});
  const std::vector<double> by_default = attended(c);
  c.options.scale = 1 / std::sqrt(10.0);
  EXPECT_EQ(attended(c), by_default);
  c.options.scale = -2;
  expect_agrees_with_reference(c, "a negative scale");
}

TEST(Attention, ARowIsTheSameWhateverComesWithIt) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    Case all({.num_q_heads = 2, .num_queries = 300, .num_keys = 300}, dtype);
    all.options.causal = Causal::top_left;
    all.attend();
    for (const std::int64_t i : {0, 1, 127, 128, 200, 299}) {
      TestTensor out(dtype, "BHSD", {1, 2, 1, 8});
      attention(all.q.view().slice('S', i, i + 1), all.k.view().slice('S', 0, i + 1), all.v.view().slice('S', 0, i + 1),
                out);
      for (std::int64_t h = 0; h < 2; ++h) {
        for (std::int64_t d = 0; d < 8; ++d) EXPECT_EQ(out.at({0, h, 0, d}), all.out.at({0, h, i, d})) << "row " << i;
      }
    }
  }
}

TEST(Attention, IsTheSameOnAnyNumberOfThreads) {
  for (const DType dtype : dtypes) {
    Case c({.batch = 2, .num_q_heads = 4, .num_kv_heads = 2, .num_queries = 333, .num_keys = 333}, dtype);
    c.options.causal = Causal::bottom_right;
    c.v.set({1, 0, 150, 3}, infinity);
    for (const std::int64_t window_left : {-1, 40}) {  // blocks see less of the keys that they share, or other ones
      c.options.window_left = window_left;
      c.options.executor = nullptr;
      const std::vector<double> alone = attended(c), lse = c.lse.values();
      for (const int threads : {1, 2, 3, 8}) {
        ThreadPool pool(threads);
        c.options.executor = &pool;
        c.out.fill(nan);
        EXPECT_EQ(attended(c), alone) << threads << " threads, " << window_left;
        EXPECT_EQ(c.lse.values(), lse) << threads << " threads, " << window_left;
      }
    }
  }
}

TEST(Attention, HasTheSameBitsWhetherQueriesAndKeysShareTheirAnglesOrNot) {
  const std::int64_t length = 250;
  ThreadPool pool(2);  // several blocks of rows
  std::vector<std::int64_t> counted(static_cast<std::size_t>(length));
  std::iota(counted.begin(), counted.end(), 0);
  const Rotation rotation = plain_rotation(20, 16);
  for (const DType dtype : dtypes) {
    Case c({.batch = 2, .num_q_heads = 6, .num_kv_heads = 3, .num_queries = length, .num_keys = length, .head_dim = 20},
           dtype);
    c.options.rotation = &rotation;
    c.options.causal = Causal::top_left;
    c.options.executor = &pool;
    const std::vector<double> shared = attended(c);
    c.options.q_positions.position_ids = c.options.k_positions.position_ids =
        ConstTensorView(counted.data(), DType::i64, "S", {length});
    EXPECT_EQ(attended(c), shared) << name(dtype);
    for (std::int64_t& position : counted) ++position;  // or nothing was turned
    c.options.k_positions = {};
    EXPECT_NE(attended(c), shared) << name(dtype);
    for (std::int64_t& position : counted) --position;
  }
}

TEST(Attention, TellsEveryPieceOfItsProgressOnAnyNumberOfThreads) {
  Case many({.batch = 3, .num_q_heads = 4, .num_kv_heads = 2, .num_queries = 333, .num_keys = 20});
  Case decode({.num_q_heads = 4, .num_kv_heads = 2, .num_queries = 1, .num_keys = 20, .head_dim = 64, .value_dim = 64});
  Case empty({.num_queries = 0, .num_keys = 20});
  struct Report {
    std::int64_t done, total;
    bool operator==(const Report&) const = default;
  };
  const auto reported = [](Case& c) {
    std::vector<Report> reports;
    c.options.progress = {[](void* context, std::int64_t done, std::int64_t total) {
                            static_cast<std::vector<Report>*>(context)->push_back({done, total});
                          },
                          &reports};
    c.attend();
    c.options.progress = {};
    return reports;
  };
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (Case* c : {&many, &decode}) {
      c->options.executor = &pool;
      const std::vector<Report> reports = reported(*c);
      const auto total = static_cast<std::int64_t>(reports.size());
      ASSERT_GE(total, c == &many ? 6 : 1);
      for (std::int64_t i = 0; i < total; ++i) EXPECT_EQ(reports[static_cast<std::size_t>(i)], (Report{i + 1, total}));
    }
    EXPECT_EQ(reported(empty), std::vector<Report>{});
  }
}

TEST(Attention, FollowsScoresThatRiseAndFall) {
  // Rows whose largest score so far is exceeded again and again, within tiles and from one to the next; up to scores so large
  // that they are weighed another way.
  for (const DType dtype : {DType::f64, DType::f32}) {
    for (const double rise : {0.04, 0.5, 6.0, -0.5, 1000.0, -1000.0}) {
      Case c({.num_q_heads = 2, .num_queries = 60, .num_keys = 300, .head_dim = 2, .value_dim = 3}, dtype);
      c.options.scale = 1;
      for (std::int64_t i = 0; i < 120; ++i) {  // one row climbs, the next falls, at different slopes
        c.q.set(2 * i, (i % 2 == 0 ? 1 : -1) * (1 + 0.01 * static_cast<double>(i)));
        c.q.set(2 * i + 1, 0);
      }
      for (std::int64_t j = 0; j < 300; ++j) c.k.set(2 * j, rise * static_cast<double>(j));
      expect_agrees_with_reference(c, std::string(name(dtype)) + ", rising by " + std::to_string(rise));
    }
  }
}

TEST(Attention, ASingleQueryFollowsScoresThatRiseAndFall) {
  // Rows are whole lines, so that keys are taken step by step.
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const double rise : {0.04, 0.5, 6.0, -0.5}) {
      Case c({.num_q_heads = 4, .num_queries = 1, .num_keys = 300, .head_dim = 32, .value_dim = 32}, dtype);
      c.options.scale = 1;
      c.q.fill(0);
      c.k.fill(0);
      for (std::int64_t h = 0; h < 4; ++h) c.q.set(32 * h, (h % 2 == 0 ? 1 : -1) * (1 + 0.25 * static_cast<double>(h)));
      for (std::int64_t j = 0; j < 300; ++j) c.k.set(32 * j, rise * static_cast<double>(j));
      expect_agrees_with_reference(c, std::string(name(dtype)) + ", rising by " + std::to_string(rise));
    }
  }
}

TEST(Attention, ValuesNearTheLargestNumberStayFinite) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    const double large = dtype == DType::f64 ? 0x1p1023 : 0x1p127;
    for (const std::int64_t width : {2, 32}) {  // in tiles; and where rows are whole lines, step by step
      for (const double share : {0.9, 0.2, 1.0 / 32, 1.0 / 128}) {
        Case c({.num_queries = 1, .num_keys = 150, .head_dim = width, .value_dim = width}, dtype);
        c.options.scale = 1;
        c.options.lse = {};  // in products of pairs, where there are any
        c.q.fill(0);
        c.q.set(0, 2);
        c.k.fill(-64);
        c.v.fill(0);
        c.k.set(width * 140, -64 + 1.25);  // above the largest before it, by less than raises a reference
        c.v.set(width * 140, share * large);
        const double weight = std::exp(2.5) / (149 + std::exp(2.5));
        c.attend();
        EXPECT_NEAR(c.out[0] / large, weight * share, dtype == DType::bf16 ? 2e-2 * share : 1e-5 * share)
            << name(dtype) << " " << width << " " << share;
        EXPECT_EQ(c.out[1], 0);
      }
    }
  }
}

TEST(Attention, HasTheSameBitsWhetherScoresPassThroughMemoryOrNot) {
  for (const DType dtype : dtypes) {
    for (const std::int64_t num_keys : {1, 7, 8, 9, 127, 128, 131, 300}) {
      Case c({.num_q_heads = 6, .num_kv_heads = 2, .num_queries = 61, .num_keys = num_keys, .head_dim = 20}, dtype);
      const std::vector<double> k = c.k.values();
      TestTensor mask(DType::f32, "K", {num_keys});
      for (std::int64_t i = 0; i < num_keys; ++i) mask.set(i, 0);
      c.options.causal = Causal::bottom_right;
      for (const double factor : {4, 30000}) {  // scores that differ by more than 4; and that are very large
        for (std::size_t i = 0; i < k.size(); ++i) c.k.set(static_cast<std::int64_t>(i), factor * k[i]);
        c.options.attn_mask = {};
        const std::vector<double> plain = attended(c);
        c.options.attn_mask = mask.view();
        EXPECT_EQ(attended(c), plain) << name(dtype) << ", " << num_keys << " keys";
      }
    }
  }
}

TEST(Attention, ARowHasTheSameBitsBesideRowsOfLargeOrRisingScores) {
  // They share its vectors, and what is done for their sake must not change it.
  for (const DType dtype : dtypes) {
    Case c({.num_q_heads = 2, .num_queries = 60, .num_keys = 300, .head_dim = 4, .value_dim = 4}, dtype);
    c.options.scale = 1;
    const auto even_rows = [&] {
      const std::vector<double> out = attended(c);
      std::vector<double> even;
      for (std::size_t i = 0; i < out.size(); i += 8) even.insert(even.end(), &out[i], &out[i] + 4);
      return even;
    };
    for (std::int64_t j = 0; j < 300; ++j) c.k.set(4 * j, 0);
    for (std::int64_t i = 0; i < 120; i += 2) c.q.set(4 * i, 0);
    const std::vector<double> calm = even_rows();
    for (const double rise : {0.1, 4.0, 30000.0}) {  // of the first channel, which even rows do not look at
      for (std::int64_t j = 0; j < 300; ++j) c.k.set(4 * j, std::min(rise * static_cast<double>(j), 60000.0));
      EXPECT_EQ(even_rows(), calm) << name(dtype) << ", rising by " << rise;
    }
  }
}

TEST(Attention, WeightsAreExpWithin2UlpAndTheRoundingOfAScore) {
  const auto check = [](auto zero, double from, double smallest, double half_unit) {
    using T = decltype(zero);
    const AttentionKernels<T>& kernels = attention_kernels<T>();
    const auto rows = static_cast<std::size_t>(kernels.rows);
    alignas(64) static T scores[8 * 64], reference[64], sum[64], out[64];  // room for what fills up a panel
    ASSERT_LE(rows, 64u);
    ASSERT_LE(kernels.key_panel, 8);
    double worst = 0;  // of what is allowed
    const int steps = 400000;
    for (int i = 0; i < steps; i += static_cast<int>(rows)) {
      std::vector<double> x(rows);
      for (std::size_t r = 0; r < rows; ++r) {
        const T score = static_cast<T>(std::min(3.0, from + (3 - from) * (i + static_cast<double>(r)) / steps));
        x[r] = static_cast<double>(score);
        scores[r] = 0;
        scores[rows + r] = score;
        reference[r] = sum[r] = 0;
      }
      kernels.weigh(scores, 2, {.reference = reference, .sum = sum, .out = out, .value_dim = 0});
      for (std::size_t r = 0; r < rows; ++r) {
        const double weight = static_cast<double>(scores[rows + r]) / weight_of_reference;
        EXPECT_EQ(scores[r], weight_of_reference);
        EXPECT_EQ(reference[r], 0) << "of scores up to 3 above it";
        EXPECT_EQ(sum[r], scores[r] + scores[rows + r]);
        if (x[r] < smallest) {
          EXPECT_LT(weight, 1.01 * std::exp(smallest));
        } else {
          const auto error = static_cast<double>(std::abs(weight / std::exp(static_cast<long double>(x[r])) - 1));
          worst = std::max(worst, error / (half_unit * (4 + 2.6 * (6 + std::abs(x[r])))));
        }
      }
    }
    EXPECT_LE(worst, 1);
    EXPECT_GE(worst, 0.1) << "or nothing was compared";
  };
  check(0.0f, -120, -82, 0x1p-24);
  check(0.0, -800, -701, 0x1p-53);
}

// ---- refusals ----

TEST(Attention, NamesTheRuleThatIsBroken) {
  const auto sentence = [](const std::function<void(Case&)>& spoil) {
    Case c(
        {.batch = 2, .num_q_heads = 6, .num_kv_heads = 2, .num_queries = 3, .num_keys = 5, .head_dim = 8, .value_dim = 4});
    const std::string said = error_sentence(ErrorCode::invalid_argument, [&] {
      spoil(c);
      c.attend();
    });
    for (const double x : c.out.values()) EXPECT_TRUE(std::isnan(x)) << "nothing is written: " << said;
    return said;
  };
  const auto attend_with = [](Case& c, const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v) {
    attention(q, k, v, c.out, c.options);
  };
  const std::vector<std::int64_t> integers(1000);
  const auto whole = [&](Axes axes, Dims shape) { return ConstTensorView(integers.data(), DType::i64, axes, shape); };

  EXPECT_EQ(sentence([&](Case& c) { attend_with(c, {}, c.k, c.v); }), "attention: q must be given");
  EXPECT_EQ(sentence([&](Case& c) {
              attend_with(c, whole("BHSD", {2, 6, 3, 8}), c.k, c.v);
            }),
            "attention: q must be float64, float32, float16 or bfloat16, got int64");
  EXPECT_EQ(sentence([&](Case& c) { attend_with(c, c.q.view().select('S', 0), c.k, c.v); }),
            "attention: q must have the axis S, got \"BHD\"");
  EXPECT_EQ(sentence([&](Case& c) {
              attend_with(c, c.q, TestTensor(DType::f32, "THD", {5, 2, 8}), c.v);
            }),
            "attention: packed tokens (axis T) need cu_seqlens");
  EXPECT_EQ(sentence([&](Case& c) {
              attend_with(c, c.q, TestTensor(DType::f32, "BKSD", {2, 2, 5, 8}), c.v);
            }),
            "attention: k must have axes among BSHD, got \"BKSD\"");
  EXPECT_EQ(sentence([&](Case& c) { attend_with(c, c.q.view().slice('D', 0, 7), c.k, c.v); }),
            "attention: k must be as long as q along D, got 8 and 7");
  EXPECT_EQ(sentence([&](Case& c) { attend_with(c, c.q.view().slice('D', 0, 0), c.k, c.v); }),
            "attention: the width of q must be 1 to 65536, got 0");
  EXPECT_EQ(sentence([&](Case& c) { attend_with(c, c.q, c.k.view().slice('B', 0, 1), c.v); }),
            "attention: k must be as long as q along B, got 1 and 2");
  EXPECT_EQ(sentence([&](Case& c) { attend_with(c, c.q, c.k, c.v.view().slice('S', 0, 4)); }),
            "attention: v must be as long as k along S, got 4 and 5");
  EXPECT_EQ(sentence([&](Case& c) { attend_with(c, c.q, c.k, c.v.view().slice('H', 0, 1)); }),
            "attention: v must be as long as k along H, got 1 and 2");
  EXPECT_EQ(sentence([&](Case& c) { attend_with(c, c.q, c.k, c.v.view().slice('D', 0, 3)); }),
            "attention: out must be as long as v along D, got 4 and 3");
  EXPECT_EQ(sentence([&](Case& c) { attention(c.q.view().slice('H', 0, 5), c.k, c.v, c.out.view().slice('H', 0, 5), {}); }),
            "attention: the number of query heads must be a multiple of the number of KV heads, got 5 and 2");
  EXPECT_EQ(sentence([&](Case& c) { c.options.scale = nan; }), "attention: scale must be finite, got nan");

  EXPECT_EQ(sentence([&](Case& c) { c.options.attn_mask = whole("K", {5}); }),
            "attention: attn_mask must be float64, float32, float16, bfloat16 or boolean, got int64");
  EXPECT_EQ(sentence([&](Case& c) { c.options.attn_mask = c.mask.view().permuted("BHKQ").slice('K', 0, 4); }),
            "attention: attn_mask must have the length 5 or 1 along K, got 4");
  EXPECT_EQ(sentence([&](Case& c) { c.options.attn_mask = c.q.view(); }),
            "attention: attn_mask must have axes among BHQK, got \"BHSD\"");

  EXPECT_EQ(sentence([&](Case& c) {
              c.options.lse = TensorView(c.lse.view().data(), DType::f16, "BHS", {2, 6, 3});
            }),
            "attention: lse must be float32 or float64, got float16");
  EXPECT_EQ(sentence([&](Case& c) { c.options.lse = c.lse.view().slice('S', 0, 2); }),
            "attention: lse must be as long as q along S, got 2 and 3");
  EXPECT_EQ(sentence([&](Case& c) {
              c.options.lse = TensorView(c.lse.view().data(), DType::f64, "BHS", {2, 6, 3}, {0, 3, 1});
            }),
            "attention: the elements of lse must not overlap each other");

  const Rotation other = plain_rotation(10, 10), fitting = plain_rotation(8, 8);
  const AngleTable table = AngleTable::build(fitting, 0, 4);
  EXPECT_EQ(sentence([&](Case& c) { c.options.q_positions = {.offset = 1}; }),
            "attention: q_positions and k_positions need a rotation, chunk_size or a bias");
  EXPECT_EQ(sentence([&](Case& c) { c.options.k_positions = {.position_ids = whole("S", {5})}; }),
            "attention: q_positions and k_positions need a rotation, chunk_size or a bias");
  EXPECT_EQ(sentence([&](Case& c) { c.options.table = &table; }), "attention: precision and table need a rotation");
  EXPECT_EQ(sentence([&](Case& c) { c.options.precision = Precision::ggml; }),
            "attention: precision and table need a rotation");
  EXPECT_EQ(sentence([&](Case& c) { c.options.rotation = &other; }),
            "attention: the width of q and k must be the rotation's head_dim, got 8 and 10");
  EXPECT_EQ(sentence([&](Case& c) {
              c.options.rotation = &fitting;
              c.options.k_positions = {.position_ids = whole("S", {4})};
            }),
            "attention, k_positions: position_ids must have one entry per token, got 4 for 5 tokens");
  EXPECT_EQ(sentence([&](Case& c) {
              c.options.rotation = &fitting;
              c.options.table = &table;
            }),
            "attention, k_positions: the table must have a row for every position, got position 4 of token 4 in row 0 and "
            "rows 0 to 3");
  EXPECT_EQ(sentence([&](Case& c) {
              c.options.rotation = &fitting;
              c.options.q_positions = {.cu_seqlens = whole("N", {2})};
            }),
            "attention, q_positions: cu_seqlens needs packed tokens (axis T)");
}

TEST(Attention, RefusesToWriteOverItsInputs) {
  Case c({.num_queries = 5, .num_keys = 5});
  const auto said = [&](const TensorView& out) {
    return error_sentence(ErrorCode::invalid_argument, [&] { attention(c.q, c.k, c.v, out, c.options); });
  };
  EXPECT_EQ(said(c.q), "attention: out must not overlap q");
  EXPECT_EQ(said(c.k), "attention: out must not overlap k");
  EXPECT_EQ(said(c.v), "attention: out must not overlap v");
  const TensorView& o = c.out.view();
  EXPECT_EQ(said(TensorView(o.data(), o.dtype(), o.axes(), o.shape(), {0, 0, 0, 1})),
            "attention: the elements of out must not overlap each other");
  c.options.lse = TensorView(o.data(), DType::f32, "S", {5});
  EXPECT_EQ(said(c.out), "attention: lse must not overlap out");
}

}  // namespace
}  // namespace rotary
