#include "rotary/attention_backward.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention_backward.h"
#include "reference/attention_backward.h"
#include "rotary/position_bias.hpp"
#include "rotary/rotate.hpp"
#include "support/allocation_watch.h"
#include "support/backward_case.h"
#include "support/error_sentence.h"

namespace rotary {
namespace {

using Case = BackwardCase;
using Sizes = AttentionSizes;

ConstTensorView list(const std::vector<std::int64_t>& numbers, Axes axis) {
  return ConstTensorView(numbers.data(), axis, {static_cast<std::int64_t>(numbers.size())});
}

// ---- the plain version against the definition ----

/// What the gradients are gradients of, by the plain forward pass.
double loss(const Case& c) {
  TestTensor out = doubles_like(c.out), lse = doubles_like(c.lse);
  AttentionOptions options = c.options;
  options.lse = lse;
  reference::attention(c.q, c.k, c.v, out, options);
  double sum = 0;
  for (std::int64_t i = 0; i < out.size(); ++i) sum += out[i] * c.dout[i];
  for (std::int64_t i = 0; i < lse.size(); ++i) {
    if (lse[i] != -infinity) sum += lse[i] * c.dlse[i];
  }
  return sum;
}

/// Central differences of second order: off by h^2 times a third derivative, and by 2^-53 loss / h.
void expect_slopes_of_the_loss(Case& c, const std::string& what) {
  reference::attention_backward(c.q, c.k, c.v, c.dout, c.gradients(), c.options, c.dlse);
  const struct {
    TestTensor& x;
    const TestTensor& dx;
    const char* name;
  } all[] = {{c.q, c.dq, "dq"}, {c.k, c.dk, "dk"}, {c.v, c.dv, "dv"}};
  constexpr double h = 1e-5;
  for (const auto& [x, dx, name] : all) {
    for (std::int64_t i = 0; i < x.size(); ++i) {
      const double at = x[i];
      x.set(i, at + h);
      const double above = loss(c);
      x.set(i, at - h);
      const double below = loss(c);
      x.set(i, at);
      EXPECT_NEAR(dx[i], (above - below) / (2 * h), 1e-7) << name << " " << i << ": " << what;
    }
  }
}

TEST(AttentionBackwardReference, HasTheSlopesOfTheLoss) {
  for (const Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right}) {
    Case c(
        {.batch = 2, .num_q_heads = 4, .num_kv_heads = 2, .num_queries = 3, .num_keys = 5, .head_dim = 4, .value_dim = 3},
        DType::f64);
    c.options.causal = causal;
    c.options.scale = 0.3;
    expect_slopes_of_the_loss(c, name(causal));
  }
  const Rotation rotation({.head_dim = 6,
                           .rotary_offset = 2,
                           .pairing_in = Pairing::interleaved,
                           .pairing_out = Pairing::half,
                           .inv_freq = {1, 0.1},
                           .amplitude = 1.3,
                           .direction = -1});
  Case c({.num_q_heads = 2, .num_queries = 3, .num_keys = 4, .head_dim = 6, .value_dim = 2}, DType::f64);
  c.options.rotation = &rotation;
  c.options.q_positions = {.offset = 100000};
  c.options.k_positions = {.offset = 99990};
  c.options.attn_mask = c.mask.fill_at_random(6).view();
  c.mask.set({0, 0, 1, 2}, -infinity);
  for (std::int64_t j = 0; j < 4; ++j) c.mask.set({0, 1, 2, j}, -infinity);
  expect_slopes_of_the_loss(c, "a rotation with an amplitude, a mask");

  const PositionBias alibi = PositionBias::alibi({0.5, 0.25});
  const double sinks[] = {0.3, -infinity}, temperatures[] = {0.5, 2, 1.5};
  c.options = {.rotation = &rotation,
               .temperatures = ConstTensorView(temperatures, "S", {3}),
               .softcap = 1.5,
               .bias = &alibi,
               .sinks = ConstTensorView(sinks, "H", {2})};
  expect_slopes_of_the_loss(c, "everything that is done to scores");
}

TEST(AttentionBackwardReference, HasTheSlopesOfTheLossInSinks) {
  Case c({.batch = 2, .num_q_heads = 4, .num_kv_heads = 2, .num_queries = 5, .num_keys = 3}, DType::f64);
  c.options.causal = Causal::bottom_right;  // queries 0 and 1 see nothing but their sink
  double sinks[] = {0.3, -infinity, -2, 1.5};
  c.options.sinks = ConstTensorView(sinks, "H", {4});
  const TestTensor dsinks(DType::f64, "H", {4});
  reference::attention_backward(c.q, c.k, c.v, c.dout, {.sinks = dsinks}, c.options, c.dlse);
  constexpr double h = 1e-5;
  for (const std::int64_t head : {0, 2, 3}) {
    const double at = sinks[head];
    sinks[head] = at + h;
    const double above = loss(c);
    sinks[head] = at - h;
    const double below = loss(c);
    sinks[head] = at;
    EXPECT_NEAR(dsinks[head], (above - below) / (2 * h), 1e-7) << head;
  }
  EXPECT_EQ(dsinks[1], 0);
}

// ---- agreement with the plain version ----

TEST(AttentionBackward, AgreesWithTheReferenceAtEveryLengthAroundATile_S17) {
  const std::int64_t w = attention_backward_kernels<float>().keys;
  for (const std::int64_t num_queries :
       {std::int64_t{1}, std::int64_t{2}, std::int64_t{7}, std::int64_t{31}, row_tile - 1, row_tile, row_tile + 1}) {
    for (const std::int64_t num_keys : {std::int64_t{1}, std::int64_t{3}, w - 1, w, w + 1, 2 * w + 5}) {
      for (const Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right}) {
        Case c({.num_queries = num_queries, .num_keys = num_keys, .head_dim = 10, .value_dim = 6});
        c.options.causal = causal;
        expect_agrees_with_reference(c, std::string(name(causal)) + " " + std::to_string(num_queries) + " queries, " +
                                            std::to_string(num_keys) + " keys");
      }
    }
  }
}

TEST(AttentionBackward, AgreesWithTheReferenceWhenKeysFillSeveralBlocks) {
  for (const Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right}) {
    Case c({.num_queries = 101, .num_keys = 401, .head_dim = 6, .value_dim = 3});
    c.options.causal = causal;
    expect_agrees_with_reference(c, name(causal));
  }
}

TEST(AttentionBackward, AgreesWithTheReferenceWhenQueriesFillSeveralParts_M7) {
  for (const Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right}) {
    Case c({.num_q_heads = 62, .num_kv_heads = 1, .num_queries = 71, .num_keys = 23, .head_dim = 4, .value_dim = 2});
    c.options.causal = causal;
    expect_agrees_with_reference(c, name(causal));
  }
}

TEST(AttentionBackward, AgreesWithTheReferenceInEveryDtypeAndWidth_S17) {
  for (const DType dtype : dtypes) {
    for (const std::int64_t width : {1, 6, 10, 20, 63, 72, 80, 128}) {
      for (const std::int64_t value_dim : {std::int64_t{12}, width}) {
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

TEST(AttentionBackward, ComputesInDoubleWhenAnyTensorIs) {
  const auto exact = [](const std::function<void(Case&)>& widen) {
    Case c({.num_queries = 5, .num_keys = 13});
    c.attend();
    widen(c);
    c.backward();
    TestTensor dk = doubles_like(c.dk);
    reference::attention_backward(c.q, c.k, c.v, c.dout, {.k = dk}, c.options, c.dlse);
    return largest_gap(c.dk, dk.values());
  };
  const auto to_double = [](TestTensor& x) {
    TestTensor wide = doubles_like(x);
    wide.fill_from(x);
    x = std::move(wide);
  };
  // out was rounded to float32, which delta feels; the result is exact to that.
  EXPECT_LE(exact([&](Case& c) { to_double(c.dk); }), 1e-5);
  EXPECT_LE(exact([&](Case& c) {
              to_double(c.dk);
              to_double(c.out);
              c.attend();
            }),
            1e-13);
}

TEST(AttentionBackward, AgreesWithTheReferenceUnderEveryRotation) {
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
                                          .amplitude = 0.7,
                                          .pairs_in = {{19, 3}, {4, 5}}})};
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    for (const Rotation& rotation : rotations) {
      for (const std::int64_t position : {1, 100000, 1000000}) {
        Case c({.batch = 2, .num_q_heads = 4, .num_kv_heads = 2, .num_queries = 7, .num_keys = 31, .head_dim = 20}, dtype);
        c.options.rotation = &rotation;
        c.options.q_positions = {.offset = position + 24};
        c.options.k_positions = {.offset = position};
        c.options.causal = Causal::bottom_right;
        expect_agrees_with_reference(c, std::string(name(dtype)) + " " + name(rotation.pairing_in()) + " " +
                                            std::to_string(rotation.rotary_dim()) + " at " + std::to_string(position));
      }
    }
  }
}

TEST(AttentionBackward, MultipliesAnAmplitudeInOnceMore) {
  // Scores are those of an amplitude of 1 times 4: the gradients with respect to q and k are too, and not a quarter.
  const auto rotation = [](double amplitude) {
    return Rotation({.head_dim = 8, .pairing_in = Pairing::half, .inv_freq = {1, 0.1, 0.01, 0}, .amplitude = amplitude});
  };
  const Rotation one = rotation(1), two = rotation(2);
  Case with_scale({.num_queries = 5, .num_keys = 7}, DType::f64),
      with_amplitude({.num_queries = 5, .num_keys = 7}, DType::f64);
  with_scale.options.rotation = &one;
  with_scale.options.scale = 4 * 0.25;
  with_amplitude.options.rotation = &two;
  with_amplitude.options.scale = 0.25;
  const std::vector<double> expected = with_scale.computed(), actual = with_amplitude.computed();
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-12) << i;
}

TEST(AttentionBackward, TurnsAsRotateDoes) {
  const Rotation rotation = plain_rotation(20, 12, Pairing::interleaved);
  const AngleTable table = AngleTable::build(rotation, 0, 50, Precision::transformers);
  for (const Precision precision : {Precision::exact, Precision::transformers}) {
    for (const AngleTable* const given : {static_cast<const AngleTable*>(nullptr), &table}) {
      Case c({.batch = 2, .num_q_heads = 4, .num_kv_heads = 2, .num_queries = 5, .num_keys = 31, .head_dim = 20},
             DType::f64);
      c.options.rotation = &rotation;
      c.options.precision = precision;
      c.options.table = given;
      c.options.q_positions = {.offset = 40};
      c.options.k_positions = {.offset = 10};
      const std::vector<double> inside = c.computed();
      const RotateOptions how{.precision = precision, .table = given};
      rotate(c.q.view(), rotation, {.offset = 40}, how);
      rotate(c.k.view(), rotation, {.offset = 10}, how);
      c.options = {.lse = c.lse};
      c.computed();
      rotate_backward(c.dq.view(), rotation, {.offset = 40}, how);
      rotate_backward(c.dk.view(), rotation, {.offset = 10}, how);
      const std::vector<double> around = c.all_gradients();
      for (std::size_t i = 0; i < inside.size(); ++i) EXPECT_NEAR(inside[i], around[i], 1e-12) << i;
    }
  }
}

TEST(AttentionBackward, AgreesWithTheReferenceUnderEveryRule) {
  const std::int64_t n = 61;
  std::vector<std::int64_t> in_order, scattered, prefixes = {40, 3};
  for (std::int64_t i = 0; i < n; ++i) {
    in_order.push_back(i / 23);
    scattered.push_back(i % 3);
  }
  bool padding[2 * n];
  for (std::int64_t i = 0; i < 2 * n; ++i) padding[i] = i < n ? i >= 17 : i % 13 != 5;
  bool seen[n * n];
  for (std::int64_t i = 0; i < n * n; ++i) seen[i] = i * 7 % 5 != 0;
  const AttentionOptions rules[] = {
      {.causal = Causal::top_left, .window_left = 20},
      {.window_left = 3, .window_right = 5},
      {.causal = Causal::top_left, .chunk_size = 37},
      {.causal = Causal::top_left, .prefix_lengths = list(prefixes, "B")},
      {.q_document_ids = list(in_order, "S"), .k_document_ids = list(in_order, "S")},
      {.causal = Causal::top_left, .q_document_ids = list(scattered, "S"), .k_document_ids = list(scattered, "S")},
      {.key_padding_mask = ConstTensorView(padding, DType::boolean, "BS", {2, n})},
      {.attn_mask = ConstTensorView(seen, DType::boolean, "QK", {n, n})},
      {.causal = Causal::bottom_right,
       .window_left = 45,
       .chunk_size = 50,
       .prefix_lengths = list(prefixes, "B"),
       .q_document_ids = list(in_order, "S"),
       .k_document_ids = list(in_order, "S"),
       .key_padding_mask = ConstTensorView(padding, DType::boolean, "BS", {2, n}),
       .attn_mask = ConstTensorView(seen, DType::boolean, "QK", {n, n})}};
  const Rotation rotation = plain_rotation(8, 8);
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    int number = 0;
    for (const AttentionOptions& rule : rules) {
      Case c({.batch = 2, .num_q_heads = 2, .num_kv_heads = 1, .num_queries = n, .num_keys = n}, dtype);
      c.options = rule;
      c.options.rotation = &rotation;
      c.options.lse = c.lse;
      expect_agrees_with_reference(c, std::string(name(dtype)) + " rule " + std::to_string(number++));
    }
  }
}

TEST(AttentionBackward, TakesMasksOfEveryShapeAndDtype) {
  for (const DType dtype : dtypes) {
    for (const char* axes : {"K", "QK", "KQ", "HQK", "BK", "BHQK", "QBKH"}) {
      Case c({.batch = 2, .num_q_heads = 4, .num_kv_heads = 2, .num_queries = 5, .num_keys = 67});
      std::vector<std::int64_t> shape;
      for (const char* axis = axes; *axis != '\0'; ++axis) {
        shape.push_back(*axis == 'B' ? 2 : *axis == 'H' ? 4 : *axis == 'Q' ? 5 : 67);
      }
      TestTensor mask(dtype, axes, shape, {.step = 2});
      mask.fill_at_random(4);
      for (std::int64_t i = 0; i < mask.size(); i += 3) mask.set(i, -infinity);
      c.options.attn_mask = mask.view();
      expect_agrees_with_reference(c, std::string(name(dtype)) + " " + axes);
    }
  }
}

TEST(AttentionBackward, AgreesWithTheReferenceWhateverIsDoneToScores) {
  const std::int64_t n = 50;
  const PositionBias alibi = PositionBias::alibi({0.5, 0.25});
  TestTensor temperatures(DType::f32, "BS", {2, n}), table(DType::f32, "NH", {21, 2});
  temperatures.fill_at_random(8);
  const PositionBias clipped = PositionBias::clipped(table.fill_at_random(9).view());
  const double sinks[] = {3, -infinity};
  const auto plus_head = [](const void*, std::int64_t head, double q, double k) {
    return q == 3 && k == 1 ? -infinity : std::cos(static_cast<double>(head) + q - 2 * k);
  };
  const AttentionOptions changes[] = {{.softcap = 0.8},
                                      {.causal = Causal::top_left, .softcap = 30},
                                      {.temperatures = temperatures.view()},
                                      {.bias = &alibi},
                                      {.bias = &clipped},
                                      {.bias_function = {plus_head}},
                                      {.sinks = ConstTensorView(sinks, "H", {2})},
                                      {.causal = Causal::bottom_right,
                                       .window_left = 40,
                                       .temperatures = temperatures.view(),
                                       .softcap = 5,
                                       .bias = &clipped,
                                       .bias_function = {plus_head},
                                       .sinks = ConstTensorView(sinks, "H", {2})}};
  const Rotation rotation = plain_rotation(8, 8);
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    int number = 0;
    for (const AttentionOptions& change : changes) {
      Case c({.batch = 2, .num_q_heads = 2, .num_kv_heads = 1, .num_queries = n, .num_keys = n}, dtype);
      c.options = change;
      c.options.rotation = &rotation;
      c.options.lse = c.lse;
      c.largest_added = change.bias == &alibi ? 0.5 * static_cast<double>(n) : 3;
      expect_agrees_with_reference(c, std::string(name(dtype)) + " change " + std::to_string(number++));
    }
  }
}

/// Of all sinks; nothing else is asked for.
TestTensor gradients_of_sinks(Case& c, DType dtype) {
  TestTensor dsinks(dtype, "H", {c.sizes.num_q_heads});
  dsinks.fill(nan);
  c.attend();
  attention_backward(c.q, c.k, c.v, c.out, c.dout, {.sinks = dsinks}, c.options, c.dlse);
  EXPECT_TRUE(dsinks.guards_intact());
  return dsinks;
}

/// A row adds weight * delta, which is off by what gradient_bounds() says of them; errors of rows have no sign in common.
TEST(AttentionBackward, AgreesWithTheReferenceInSinks) {
  const Rotation rotation = plain_rotation(8, 8);
  const double sinks[] = {0.5, -infinity, 3, -2, 0, 1};
  for (const DType dtype : dtypes) {
    for (const Sizes& sizes :
         {Sizes{.batch = 2, .num_q_heads = 6, .num_kv_heads = 2, .num_queries = 1, .num_keys = 1},
          Sizes{.batch = 2, .num_q_heads = 6, .num_kv_heads = 2, .num_queries = 105, .num_keys = 61},
          Sizes{.num_q_heads = 6, .num_kv_heads = 1, .num_queries = 701, .num_keys = 20}}) {  // several parts
      Case c(sizes, dtype);
      c.options.rotation = &rotation;
      c.options.causal = Causal::bottom_right;
      c.options.sinks = ConstTensorView(sinks, "H", {6});
      TestTensor expected(DType::f64, "H", {6});
      reference::attention_backward(c.q, c.k, c.v, c.dout, {.sinks = expected}, c.options, c.dlse);
      const TestTensor found = gradients_of_sinks(c, dtype);

      const double u = dtype == DType::f64 ? 0x1p-53 : 0x1p-24, r = bit_size(dtype) == 16 ? unit_roundoff(dtype) : 0;
      const double delta = static_cast<double>(sizes.value_dim) * 2 * 2 / 2 + 2,
                   weight = u * (4 * (1 + 2 * largest_score(c) + 3));
      const double rows = static_cast<double>(sizes.batch * sizes.num_queries);
      EXPECT_LE(largest_gap(found, expected.values()),
                delta * (weight + r) * std::sqrt(rows) + r * largest_size(expected.values()))
          << name(dtype) << ", " << sizes.num_queries << " queries";
      EXPECT_EQ(found[1], 0) << "a sink of -infinity";
    }
  }
}

TEST(AttentionBackward, SinksHaveTheSameGradientsBesideOthersAndOnAnyNumberOfThreads) {
  const double sinks[] = {0.5, -1};
  Case c({.batch = 3, .num_q_heads = 2, .num_kv_heads = 1, .num_queries = 2500, .num_keys = 7});
  c.options.sinks = ConstTensorView(sinks, "H", {2});
  const std::vector<double> alone = gradients_of_sinks(c, DType::f64).values();
  for (const int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    c.options.executor = &pool;
    const TestTensor dsinks(DType::f64, "H", {2});
    AttentionGradients all = c.gradients();
    all.sinks = dsinks;
    attention_backward(c.q, c.k, c.v, c.out, c.dout, all, c.options, c.dlse);
    EXPECT_EQ(dsinks.values(), alone) << threads << " threads";
  }
}

TEST(AttentionBackward, ANanReachesTheSinkOfItsHeadAlone) {
  const double sinks[] = {0.5, -1, -infinity};
  for (const bool in_dout : {false, true}) {
    Case c({.num_q_heads = 3, .num_kv_heads = 1, .num_queries = 5, .num_keys = 7});
    c.options.sinks = ConstTensorView(sinks, "H", {3});
    const TestTensor plain = gradients_of_sinks(c, DType::f32);
    for (const std::int64_t head : {1, 2}) (in_dout ? c.dout : c.q).set({0, head, 4, 3}, nan);
    const TestTensor found = gradients_of_sinks(c, DType::f32);
    EXPECT_EQ(found[0], plain[0]);
    EXPECT_TRUE(std::isnan(found[1]));
    EXPECT_EQ(found[2], 0);
  }
}

TEST(AttentionBackward, AnExceptionOfABiasFunctionPassesThrough) {
  const auto thrower = [](const void*, std::int64_t, double q, double) -> double {
    if (q > 20) throw std::runtime_error("no");
    return 0;
  };
  for (const int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    Case c({.num_q_heads = 200, .num_kv_heads = 1, .num_queries = 60, .num_keys = 60, .head_dim = 2, .value_dim = 2});
    c.attend();
    c.options.bias_function = {thrower};
    c.options.executor = &pool;
    EXPECT_THROW(c.backward(), std::runtime_error) << threads << " threads";
  }
}

TEST(AttentionBackward, PackedSequencesAreAsIfEachWereAlone_M11) {
  const Rotation rotation = plain_rotation(8, 8);
  const std::vector<std::int64_t> q_ends = {0, 7, 8, 8, 61}, k_ends = {0, 9, 10, 13, 67};
  for (const DType dtype : dtypes) {
    for (const Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right}) {
      Case c({.num_q_heads = 4, .num_kv_heads = 2, .num_queries = 61, .num_keys = 67, .packed = true}, dtype);
      c.options = {.rotation = &rotation,
                   .causal = causal,
                   .cu_seqlens = list(q_ends, "N"),
                   .k_cu_seqlens = list(k_ends, "N"),
                   .lse = c.lse};
      expect_agrees_with_reference(c, std::string(name(dtype)) + " " + name(causal));
      const std::vector<double> together = c.all_gradients();
      for (TestTensor* x : {&c.dq, &c.dk, &c.dv}) x->fill(nan);
      for (std::size_t n = 0; n + 1 < q_ends.size(); ++n) {
        const std::vector<std::int64_t> q_own = {0, q_ends[n + 1] - q_ends[n]}, k_own = {0, k_ends[n + 1] - k_ends[n]};
        const auto queries = [&](const auto& x) { return x.view().slice('T', q_ends[n], q_ends[n + 1]); };
        const auto keys = [&](const auto& x) { return x.view().slice('T', k_ends[n], k_ends[n + 1]); };
        AttentionOptions own = c.options;
        own.cu_seqlens = list(q_own, "N");
        own.k_cu_seqlens = list(k_own, "N");
        own.lse = queries(c.lse);
        attention_backward(queries(c.q), keys(c.k), keys(c.v), queries(c.out), queries(c.dout),
                           {queries(c.dq), keys(c.dk), keys(c.dv)}, own, queries(c.dlse));
      }
      EXPECT_EQ(c.all_gradients(), together) << name(dtype) << " " << name(causal);
    }
  }
}

// ---- layout ----

TEST(AttentionBackward, ReadsAndWritesAnyOrderAndStrides_S8_M14) {
  const Sizes sizes = {
      .batch = 2, .num_q_heads = 6, .num_kv_heads = 2, .num_queries = 5, .num_keys = 13, .head_dim = 10, .value_dim = 12};
  for (const DType dtype : dtypes) {
    const std::vector<double> expected = Case(sizes, dtype).computed();
    std::string order = "BDHS";
    do {
      for (const std::int64_t step : {1, 2}) {
        for (const char* reversed : {"", "D", "HSD"}) {
          Case c(sizes, dtype, {.order = order.c_str(), .step = step, .reversed = reversed});
          EXPECT_EQ(c.computed(), expected) << order << " step " << step << " reversed " << reversed;
          for (const TestTensor* x : {&c.dq, &c.dk, &c.dv}) EXPECT_TRUE(x->guards_intact()) << order;
        }
      }
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST(AttentionBackward, TakesTheAxesInAnyOrderByNameAndNeedsNoBatchOrHeads) {
  Case c({.num_queries = 3, .num_keys = 5});
  const std::vector<double> expected = c.computed();
  for (TestTensor* x : {&c.dq, &c.dk, &c.dv}) x->fill(nan);
  attention_backward(c.q.view().permuted("SBDH"), c.k.view().permuted("DHSB"), c.v.view().permuted("BSHD"),
                     c.out.view().permuted("HDBS"), c.dout.view().permuted("DSHB"),
                     {c.dq.view().permuted("HSBD"), c.dk.view().permuted("DBSH"), c.dv.view().permuted("SHDB")}, c.options,
                     c.dlse.view().permuted("SHB"));
  EXPECT_EQ(c.all_gradients(), expected);
  for (TestTensor* x : {&c.dq, &c.dk, &c.dv}) x->fill(nan);
  const auto one = [](const TestTensor& x) { return x.view().select('B', 0).select('H', 0); };
  attention_backward(one(c.q), one(c.k), one(c.v), one(c.out), one(c.dout), {one(c.dq), one(c.dk), one(c.dv)},
                     {.lse = one(c.lse)}, one(c.dlse));
  EXPECT_EQ(c.all_gradients(), expected);
}

TEST(AttentionBackward, KeepsBatchRowsApartAtLengthOne_S1) {
  Case c({.batch = 2, .num_q_heads = 3, .num_kv_heads = 3, .num_queries = 1, .num_keys = 1});
  c.dlse.fill(0);
  c.computed();
  EXPECT_EQ(c.dv.values(), c.dout.values()) << "one key: the weight is 1";
  // dout . v - delta is the difference of the same sum taken in two orders.
  for (const TestTensor* x : {&c.dq, &c.dk}) EXPECT_LE(largest_size(x->values()), 1e-5);
  expect_agrees_with_reference(c, "batch 2, length 1");
}

TEST(AttentionBackward, ComputesTheGradientsThatAreAskedForAlone) {
  for (const DType dtype : dtypes) {
    Case c({.num_q_heads = 4, .num_kv_heads = 2, .num_queries = 31, .num_keys = 67}, dtype);
    c.options.causal = Causal::bottom_right;
    c.computed();
    const std::vector<double> dq = c.dq.values(), dk = c.dk.values(), dv = c.dv.values();
    for (const int asked : {0, 1, 2, 3, 4, 5, 6}) {
      for (TestTensor* x : {&c.dq, &c.dk, &c.dv}) x->fill(nan);
      AttentionGradients some;
      if (asked & 1) some.q = c.dq;
      if (asked & 2) some.k = c.dk;
      if (asked & 4) some.v = c.dv;
      attention_backward(c.q, c.k, c.v, c.out, c.dout, some, c.options, c.dlse);
      if (asked & 1) {
        EXPECT_EQ(c.dq.values(), dq) << asked;
      }
      if (asked & 2) {
        EXPECT_EQ(c.dk.values(), dk) << asked;
      }
      if (asked & 4) {
        EXPECT_EQ(c.dv.values(), dv) << asked;
      }
    }
  }
}

TEST(AttentionBackward, TakesNoGradientOfLseAsZeros) {
  Case c({.num_queries = 5, .num_keys = 9});
  c.dlse.fill(0);
  const std::vector<double> zeros = c.computed();
  attention_backward(c.q, c.k, c.v, c.out, c.dout, c.gradients(), c.options);
  EXPECT_EQ(c.all_gradients(), zeros);
}

TEST(AttentionBackward, TakesAnLseOfFloat32) {
  Case c({.num_queries = 5, .num_keys = 9});
  const std::vector<double> expected = c.computed();
  TestTensor lse(DType::f32, "BHS", c.lse.view().shape());
  lse.fill_from(c.lse);
  c.options.lse = lse;
  c.backward();
  EXPECT_EQ(c.all_gradients(), expected) << "float32 is what a float32 call makes";
}

// ---- what is not seen ----

TEST(AttentionBackward, WhatSeesNothingAndWhatNobodySeesGetsZeros_M1_S15) {
  for (const DType dtype : dtypes) {
    Case c({.num_q_heads = 2, .num_queries = 6, .num_keys = 4}, dtype);
    c.options.causal = Causal::bottom_right;  // queries 0 and 1 see nothing
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t i = 0; i < 6; ++i) c.mask.set({0, h, i, 2}, -infinity);  // nobody sees key 2
      for (std::int64_t d = 0; d < 8; ++d) {
        for (const std::int64_t i : {0, 1}) {
          c.q.set({0, h, i, d}, nan);
          c.dout.set({0, h, i, d}, infinity);
          c.dlse.set({0, h, i}, nan);
        }
      }
    }
    for (std::int64_t d = 0; d < 8; ++d) {
      c.k.set({0, 0, 2, d}, nan);
      c.v.set({0, 0, 2, d}, infinity);
    }
    c.options.attn_mask = c.mask.view();
    for (const double x : c.computed()) EXPECT_TRUE(std::isfinite(x)) << name(dtype);
    for (std::int64_t d = 0; d < 8; ++d) {
      for (const std::int64_t i : {0, 1}) EXPECT_EQ(c.dq.at({0, 1, i, d}), 0) << name(dtype);
      EXPECT_EQ(c.dk.at({0, 0, 2, d}), 0) << name(dtype);
      EXPECT_EQ(c.dv.at({0, 0, 2, d}), 0) << name(dtype);
      EXPECT_NE(c.dv.at({0, 0, 3, d}), 0) << name(dtype);
    }
  }
}

TEST(AttentionBackward, ZerosReachKeysOutsideOfEveryWindow) {
  Case c({.num_queries = 3, .num_keys = 1000});
  c.options.window_left = 2;
  c.options.window_right = 2;
  c.computed();
  for (std::int64_t j = 0; j < 1000; ++j) {
    for (std::int64_t d = 0; d < 8; ++d) {
      EXPECT_EQ(c.dk.at({0, 0, j, d}) == 0, j > 4) << j;
      EXPECT_EQ(c.dv.at({0, 0, j, d}) == 0, j > 4) << j;
    }
  }
}

TEST(AttentionBackward, NoQueriesGiveKeysZeros) {
  Case c({.num_queries = 0, .num_keys = 5});
  c.computed();
  EXPECT_EQ(c.dk.values(), std::vector<double>(40, 0));
  EXPECT_EQ(c.dv.values(), std::vector<double>(40, 0));
  Case none({.num_queries = 5, .num_keys = 0});
  none.computed();
  EXPECT_EQ(none.dq.values(), std::vector<double>(40, 0));
}

TEST(AttentionBackward, WhatIsHiddenMayHoldAnything_M9_S15) {
  const double sinks[] = {0.5, -1};
  for (const DType dtype : dtypes) {
    for (const double content : {60000.0, infinity, nan}) {
      Case c({.num_q_heads = 2, .num_kv_heads = 1, .num_queries = 100, .num_keys = 140}, dtype);
      c.options.causal = Causal::bottom_right;
      for (std::int64_t h = 0; h < 2; ++h) {
        for (std::int64_t i = 0; i < 100; ++i) c.mask.set({0, h, i, 60}, -infinity);
      }
      c.options.attn_mask = c.mask.view();
      c.options.sinks = ConstTensorView(sinks, "H", {2});
      const std::vector<double> before = c.computed(), dsinks = gradients_of_sinks(c, DType::f64).values();
      for (std::int64_t d = 0; d < 8; ++d) {
        c.k.set({0, 0, 60, d}, content);
        c.v.set({0, 0, 60, d}, content);
      }
      EXPECT_EQ(c.computed(), before) << name(dtype) << " " << content;
      EXPECT_EQ(gradients_of_sinks(c, DType::f64).values(), dsinks) << name(dtype) << " " << content;
    }
  }
}

TEST(AttentionBackward, ANanReachesWhatSeesItAndNothingElse_M8_M12) {
  const std::int64_t n = 130, at = 70;
  const auto computed = [&](DType dtype, const std::function<void(Case&)>& spoil) {
    Case c({.num_queries = n, .num_keys = n}, dtype);
    c.options.causal = Causal::top_left;
    spoil(c);
    c.computed();
    return c;
  };
  for (const DType dtype : dtypes) {
    const Case plain = computed(dtype, [](Case&) {});
    // Query `at` sees keys 0 … at; key `at` is seen by queries at … n - 1.
    for (const double content : {nan, infinity}) {
      for (const bool in_dout : {false, true}) {
        const Case c = computed(dtype, [&](Case& x) { (in_dout ? x.dout : x.q).set({0, 0, at, 3}, content); });
        for (std::int64_t i = 0; i < n; ++i) {
          EXPECT_EQ(std::isnan(c.dq.at({0, 0, i, 0})), i == at) << name(dtype) << " query " << i;
          if (i != at) {
            EXPECT_EQ(c.dq.at({0, 0, i, 0}), plain.dq.at({0, 0, i, 0}));
          }
          EXPECT_EQ(std::isnan(c.dk.at({0, 0, i, 0})), i <= at) << name(dtype) << " key " << i;
          EXPECT_EQ(std::isnan(c.dv.at({0, 0, i, 0})), i <= at) << name(dtype) << " key " << i;
          if (i > at) {
            EXPECT_EQ(c.dk.at({0, 0, i, 0}), plain.dk.at({0, 0, i, 0}));
          }
          if (i > at) {
            EXPECT_EQ(c.dv.at({0, 0, i, 0}), plain.dv.at({0, 0, i, 0}));
          }
        }
      }
    }
    for (const bool in_value : {false, true}) {
      const Case c = computed(dtype, [&](Case& x) { (in_value ? x.v : x.k).set({0, 0, at, 3}, nan); });
      for (std::int64_t i = 0; i < n; ++i) {
        EXPECT_EQ(std::isnan(c.dq.at({0, 0, i, 0})), i >= at) << name(dtype) << " query " << i;
        if (i < at) {
          EXPECT_EQ(c.dq.at({0, 0, i, 0}), plain.dq.at({0, 0, i, 0}));
        }
        EXPECT_TRUE(std::isnan(c.dk.at({0, 0, i, 0}))) << "the last query sees every key";
      }
    }
  }
}

TEST(AttentionBackward, HugeScoresAndTheLowestNumberStayFinite_M3) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    for (const double size : {1.0, 100.0, 1000.0}) {
      Case c({.num_queries = 9, .num_keys = 20}, dtype);
      for (std::int64_t i = 0; i < c.q.size(); ++i) c.q.set(i, size * c.q[i]);
      for (std::int64_t j = 0; j < 20; ++j) c.mask.set({0, 0, 3, j}, std::numeric_limits<float>::lowest());
      c.options.attn_mask = c.mask.view();
      for (const double x : c.computed()) EXPECT_LT(std::abs(x), 1e7) << name(dtype) << " " << size;
    }
  }
}

// ---- always the same ----

TEST(AttentionBackward, IsTheSameOnAnyNumberOfThreadsAndFromRunToRun) {
  const Rotation rotation = plain_rotation(8, 8);
  const Sizes heads_and_rows = {.batch = 2, .num_q_heads = 4, .num_kv_heads = 2, .num_queries = 155, .num_keys = 155};
  const Sizes parts = {.num_q_heads = 32, .num_kv_heads = 1, .num_queries = 300, .num_keys = 400};
  const std::pair<Sizes, DType> cases[] = {
      {heads_and_rows, DType::f32}, {heads_and_rows, DType::bf16}, {parts, DType::f32}};
  for (const auto& [sizes, dtype] : cases) {
    Case c(sizes, dtype);
    c.options.rotation = &rotation;
    c.options.causal = Causal::bottom_right;
    const std::vector<double> alone = c.computed();
    c.backward();
    EXPECT_EQ(c.all_gradients(), alone);
    for (const int threads : {1, 2, 3}) {
      ThreadPool pool(threads);
      c.options.executor = &pool;
      for (TestTensor* x : {&c.dq, &c.dk, &c.dv}) x->fill(nan);
      c.backward();
      EXPECT_EQ(c.all_gradients(), alone) << threads << " threads";
    }
  }
}

TEST(AttentionBackward, NeedsNoMemoryThatGrowsWithTheSquareOfTheLength) {
  const auto needed = [](std::int64_t length) {
    Case c({.num_queries = length, .num_keys = length});
    c.options.causal = Causal::top_left;
    c.attend();
    largest_allocation = 0;
    c.backward();
    return static_cast<double>(largest_allocation.load());
  };
  const double at_1024 = needed(1024), at_2048 = needed(2048);
  EXPECT_LE(at_2048, 2.1 * at_1024);
  EXPECT_LE(at_2048, 8.0 * (1 << 20));
}

TEST(AttentionBackward, AllocatesNothingWhenItIsGivenAWorkspace) {
  const Rotation rotation = plain_rotation(8, 8);
  const double sinks[] = {0.5, -1};
  ThreadPool pool(2);
  for (const DType dtype : {DType::f64, DType::bf16}) {
    for (Executor* const executor : {static_cast<Executor*>(nullptr), static_cast<Executor*>(&pool)}) {
      Case c({.batch = 2, .num_q_heads = 2, .num_kv_heads = 1, .num_queries = 700, .num_keys = 70}, dtype);
      c.options.rotation = &rotation;
      c.options.softcap = 5;
      c.options.sinks = ConstTensorView(sinks, "H", {2});
      c.options.executor = executor;
      const TestTensor dsinks(DType::f64, "H", {2});
      AttentionGradients gradients = c.gradients();
      gradients.sinks = dsinks;
      const auto backward = [&] { attention_backward(c.q, c.k, c.v, c.out, c.dout, gradients, c.options, c.dlse); };
      c.attend();
      backward();
      const std::vector<double> expected = c.all_gradients(), expected_of_sinks = dsinks.values();
      const std::int64_t bytes =
          attention_backward_workspace_bytes(c.q, c.k, c.v, c.out, c.dout, gradients, c.options, c.dlse);
      std::vector<char> memory(static_cast<std::size_t>(bytes + 1), 'x');
      c.options.workspace = memory.data() + 1;  // any address will do
      c.options.workspace_bytes = bytes;
      const ConstTensorView q = c.q, k = c.k, v = c.v, out = c.out, dout = c.dout, dlse = c.dlse;
      largest_allocation = 0;
      attention_backward(q, k, v, out, dout, gradients, c.options, dlse);
      EXPECT_EQ(largest_allocation, 0u) << name(dtype);
      EXPECT_EQ(c.all_gradients(), expected);
      EXPECT_EQ(dsinks.values(), expected_of_sinks);
    }
  }
}

// ---- refusals ----

TEST(AttentionBackward, NamesTheRuleThatAWorkspaceBreaks) {
  Case c({.num_queries = 5, .num_keys = 5});
  c.attend();
  const auto needed = [&] {
    return attention_backward_workspace_bytes(c.q, c.k, c.v, c.out, c.dout, c.gradients(), c.options, c.dlse);
  };
  const std::int64_t bytes = needed();
  std::vector<char> memory(static_cast<std::size_t>(bytes));
  const auto said = [&](void* workspace, std::int64_t size) {
    c.options.workspace = workspace;
    c.options.workspace_bytes = size;
    return error_sentence(ErrorCode::invalid_argument, [&] { c.backward(); });
  };
  EXPECT_EQ(said(memory.data(), bytes - 65), "attention_backward: workspace must have " + std::to_string(bytes) +
                                                 " bytes, got " + std::to_string(bytes - 65));
  EXPECT_EQ(said(c.q.view().data(), 8), "attention_backward: workspace must not overlap q");
  EXPECT_EQ(said(c.dout.view().data(), 8), "attention_backward: workspace must not overlap dout");
  EXPECT_EQ(said(c.dk.view().data(), 8), "attention_backward: dk must not overlap workspace");
  c.options.workspace = memory.data();
  c.options.workspace_bytes = bytes;
  c.backward();
}

TEST(AttentionBackward, NamesTheRuleThatIsBroken) {
  const auto sentence = [](const std::function<void(Case&)>& call) {
    Case c({.batch = 2, .num_q_heads = 6, .num_kv_heads = 2, .num_queries = 3, .num_keys = 5, .value_dim = 4});
    c.attend();
    const std::string said = error_sentence(ErrorCode::invalid_argument, [&] { call(c); });
    for (const double x : c.all_gradients()) EXPECT_TRUE(std::isnan(x)) << "nothing is written: " << said;
    return said;
  };
  const auto with = [](const Case& c, const ConstTensorView& dout, const AttentionGradients& gradients,
                       const ConstTensorView& dlse = {}) {
    attention_backward(c.q, c.k, c.v, c.out, dout, gradients, c.options, dlse);
  };
  EXPECT_EQ(sentence([&](Case& c) {
              c.options.lse = {};
              with(c, c.dout, c.gradients());
            }),
            "attention_backward: lse must be given, as attention() wrote it");
  EXPECT_EQ(sentence([&](Case& c) { with(c, {}, c.gradients()); }), "attention_backward: dout must be given");
  EXPECT_EQ(sentence([&](Case& c) { with(c, c.q, c.gradients()); }),
            "attention_backward: dout must be as long as v along D, got 8 and 4");
  EXPECT_EQ(sentence([&](Case& c) { with(c, c.dout.view().slice('S', 0, 2), c.gradients()); }),
            "attention_backward: dout must be as long as q along S, got 2 and 3");
  EXPECT_EQ(sentence([&](Case& c) { with(c, c.dout, {.q = c.dk}); }),
            "attention_backward: dq must be as long as q along S, got 5 and 3");
  EXPECT_EQ(sentence([&](Case& c) { with(c, c.dout, {.k = c.dv}); }),
            "attention_backward: dk must be as long as k along D, got 4 and 8");
  EXPECT_EQ(sentence([&](Case& c) { with(c, c.dout, {.v = c.dout}); }),
            "attention_backward: dv must be as long as v along S, got 3 and 5");
  EXPECT_EQ(sentence([&](Case& c) { with(c, c.dout, c.gradients(), c.dlse.view().slice('H', 0, 2)); }),
            "attention_backward: dlse must be as long as q along H, got 2 and 6");
  EXPECT_EQ(sentence([&](Case& c) {
              with(c, c.dout, c.gradients(), ConstTensorView(c.lse.view().data(), DType::f16, "BHS", {2, 6, 3}));
            }),
            "attention_backward: dlse must be float32 or float64, got float16");
}

TEST(AttentionBackward, NamesTheRuleThatGradientsOfSinksBreak) {
  Case c({.num_q_heads = 2, .num_queries = 3, .num_keys = 5});
  c.attend();
  const auto said = [&](const TensorView& dsinks) {
    return error_sentence(ErrorCode::invalid_argument,
                          [&] { attention_backward(c.q, c.k, c.v, c.out, c.dout, {.sinks = dsinks}, c.options); });
  };
  float sinks[3] = {};
  EXPECT_EQ(said(TensorView(sinks, DType::f32, "H", {2})), "attention_backward: dsinks need sinks");
  c.options.sinks = ConstTensorView(sinks, "H", {2});
  EXPECT_EQ(said(TensorView(sinks, DType::f32, "H", {2})), "attention_backward: dsinks must not overlap sinks");
  EXPECT_EQ(said(TensorView(c.dq.view().data(), DType::f32, "H", {3})),
            "attention_backward: dsinks must be as long as q along H, got 3 and 2");
  EXPECT_EQ(said(TensorView(c.dq.view().data(), DType::f32, "S", {2})),
            "attention_backward: dsinks must have the axis H alone, got \"S\"");
}

TEST(AttentionBackward, RefusesToWriteOverWhatItReads) {
  Case c({.num_queries = 5, .num_keys = 5});
  c.attend();
  const auto said = [&](const AttentionGradients& gradients) {
    return error_sentence(ErrorCode::invalid_argument,
                          [&] { attention_backward(c.q, c.k, c.v, c.out, c.dout, gradients, c.options, c.dlse); });
  };
  EXPECT_EQ(said({.q = c.q}), "attention_backward: dq must not overlap q");
  EXPECT_EQ(said({.k = c.v}), "attention_backward: dk must not overlap v");
  EXPECT_EQ(said({.q = c.out}), "attention_backward: dq must not overlap out");
  EXPECT_EQ(said({.v = c.dout}), "attention_backward: dv must not overlap dout");
  EXPECT_EQ(said({.k = c.dk, .v = c.dk}), "attention_backward: dk must not overlap dv");
  EXPECT_EQ(said({.q = TensorView(c.lse.view().data(), DType::f32, "SD", {5, 8}, {1, 1})}),
            "attention_backward: the elements of dq must not overlap each other");
  const TensorView& o = c.dq.view();
  EXPECT_EQ(said({.q = TensorView(o.data(), o.dtype(), o.axes(), o.shape(), {0, 0, 0, 1})}),
            "attention_backward: the elements of dq must not overlap each other");
}

}  // namespace
}  // namespace rotary
