// Rotation inside softmax attention: what it touches, and what it costs.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "tools/claims/plain.h"
#include "tools/claims/rows.h"
#include "tools/claims/statement.h"

namespace rotary::claims {
namespace {

constexpr std::int64_t width = 64;

Measured values_are_not_rotated(const Operations& operations) {
  constexpr std::int64_t N = 48;
  const Rotation rotation = rope(operations, width);
  const Rows q = random_rows(N, width, 31), k = random_rows(N, width, 32), v = random_rows(N, width, 33);
  Rows out(N, width);
  operations.attention(q, k, v, out, places_from(0, N), {.rotation = &rotation});
  std::vector<double> weights;
  for (std::int64_t i = 0; i < N; ++i) {
    for (std::int64_t j = 0; j < N; ++j) {
      const double score = plain_score(q, i, k, j, rotation, static_cast<double>(j - i));
      weights.push_back(std::exp(score / std::sqrt(static_cast<double>(width))));
    }
  }
  return {largest_difference(out.values, weighted_values(weights, weights, v))};
}

/// Rows in reverse.
Rows reversed(const Rows& rows) {
  Rows other(rows.count, rows.width);
  for (std::int64_t i = 0; i < rows.count; ++i) {
    for (std::int64_t c = 0; c < rows.width; ++c) other.at(i, c) = static_cast<float>(rows.at(rows.count - 1 - i, c));
  }
  return other;
}

Measured attention_alone_is_blind_to_order(const Operations& operations) {
  constexpr std::int64_t N = 48;
  const Places places = places_from(0, N);
  const Rotation rotation = rope(operations, width);
  const Rows q = random_rows(N, width, 34), k = random_rows(N, width, 35), v = random_rows(N, width, 36);
  Rows out(N, width), out_of_reversed(N, width);
  const auto change = [&](const AttentionOptions& options) {
    operations.attention(q, k, v, out, places, options);
    operations.attention(reversed(q), reversed(k), reversed(v), out_of_reversed, places, options);
    return largest_difference(out.values, reversed(out_of_reversed).values);
  };
  return {change({}), {{"with_rotation", {change({.rotation = &rotation})}}}};
}

// Of 8 channels, so that a kernel that can be summed first shows: the second power of an inner product takes 45 features.
constexpr std::int64_t narrow = 8;
Rows narrow_queries(std::int64_t N) { return random_rows(N, narrow, 37); }
Rows narrow_keys(std::int64_t N) { return random_rows(N, narrow, 38); }

/// What N tokens need.
struct Need {
  double weights = 0;   // that are not 0
  double features = 0;  // if keys and values were summed before the queries come: the rank of the weights, at least
};

Need need_of(const Operations& operations, std::int64_t N, const Rotation* rotation) {
  Rows weights(N, N);  // seen through values that are the unit vectors
  operations.attention(narrow_queries(N), narrow_keys(N), identity_rows(N), weights, places_from(0, N),
                       {.rotation = rotation});
  const auto num_weights = std::count_if(weights.values.begin(), weights.values.end(), [](float w) { return w > 0; });
  // Rounding to float32 leaves pivots of 2e-7 where there should be none; the smallest that softmax has is 2e-3.
  return {static_cast<double>(num_weights),
          static_cast<double>(rank({weights.values.begin(), weights.values.end()}, 1e-5))};
}

/// Products of weights and values, or of features and sums, whichever are fewer.
double fewest_products(const Need& need, std::int64_t N) {
  return std::min(need.weights, need.features * static_cast<double>(N));
}

/// The fastest of three.
double seconds(const Operations& operations, std::int64_t N, const Rotation* rotation) {
  const Rows q = narrow_queries(N), k = narrow_keys(N), v = random_rows(N, narrow, 39);
  const Places places = places_from(0, N);
  Rows out(N, narrow);
  double fastest = std::numeric_limits<double>::infinity();
  for (int run = 0; run < 3; ++run) {
    const auto start = std::chrono::steady_clock::now();
    operations.attention(q, k, v, out, places, {.rotation = rotation});
    fastest = std::min(fastest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return fastest;
}

Measured cost_stays_quadratic(const Operations& operations) {
  constexpr std::int64_t N = 64;
  const Rotation rotation = rope(operations, narrow);
  const Need once = need_of(operations, N, &rotation), twice = need_of(operations, 2 * N, &rotation);
  const double seconds_once = seconds(operations, 512, &rotation), seconds_twice = seconds(operations, 1024, &rotation);
  return {std::log2(fewest_products(twice, 2 * N) / fewest_products(once, N)),
          {{"weights_at_64_and_128", {once.weights, twice.weights}},
           {"features_at_64_and_128", {once.features, twice.features}},
           {"seconds_at_512_and_1024", {seconds_once, seconds_twice}},
           {"exponent_of_time", {std::log2(seconds_twice / seconds_once)}}}};
}

Measured lower_complexity(const Operations& operations) {
  constexpr std::int64_t N = 128;
  const Rotation rotation = rope(operations, narrow);
  const double with = need_of(operations, N, &rotation).features;
  const double without = need_of(operations, N, nullptr).features;
  const Rows q = narrow_queries(N), k = narrow_keys(N);
  return {with,
          {{"features_with_and_without", {with, without}},
           {"seconds_with_and_without", {seconds(operations, 256, &rotation), seconds(operations, 256, nullptr)}},
           {"queries", {q.values.begin(), q.values.end()}},
           {"keys", {k.values.begin(), k.values.end()}}}};
}

}  // namespace

Group attention_claims() {
  return {
      "attention",
      "注意力",
      {{"values-are-not-rotated", ClaimKind::holds,
        "Positions enter through the weights alone: the values that are summed are not rotated.",
        "位置只进入权重：被加权求和的值向量不旋转。",
        "largest difference from softmax weights of turned scores times the values as they are, in double",
        "与双精度下（旋转分数的 softmax 权重）×（未旋转的值）的最大差", at_most(1e-5), values_are_not_rotated},
       {"attention-alone-is-blind-to-order", ClaimKind::holds,
        "Without positions, attention over tokens in another order gives the same outputs in that order.",
        "没有位置信息时，打乱词的次序，注意力的输出只是跟着换次序。",
        "largest change of an output when the tokens are reversed, without rotation",
        "不旋转时，把词序颠倒后输出的最大变化", at_most(1e-5), attention_alone_is_blind_to_order},
       {"cost-stays-quadratic", ClaimKind::holds,
        "Softmax attention with rotation still weighs every key for every query: twice the tokens, four times the work.",
        "旋转之后，softmax 注意力仍要为每个查询计算每个键的权重：词数加倍，计算量变为四倍。",
        "exponent of the length in the fewest products, 64 to 128 tokens: one for every weight that is not 0, or one for "
        "every token and feature where keys are summed first (features: the rank of the weights)",
        "最少乘积个数对长度的指数，64 到 128 "
        "个词：每个非零权重一个，或者先对键求和，每个词、每个特征一个（特征数：权重矩阵的秩）",
        exactly(2), cost_stays_quadratic},
       {"lower-complexity", ClaimKind::does_not_follow, "Rotation makes softmax attention cheaper than N².",
        "旋转使 softmax 注意力的复杂度低于 N²。",
        "features that 128 tokens would need if keys were summed before the query comes: the rank of the weights",
        "若在查询到来之前先对键求和，128 个词所需的特征数：权重矩阵的秩", exactly(128), lower_complexity}}};
}

}  // namespace rotary::claims
