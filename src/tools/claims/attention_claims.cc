// Rotation inside softmax attention: what it touches, and what it costs.
#include <algorithm>
#include <chrono>
#include <cmath>

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

/// How many weights are not 0, seen through values that are the unit vectors.
double num_weights(const Operations& operations, std::int64_t N, const Rotation* rotation) {
  const Rows q = random_rows(N, width, 37), k = random_rows(N, width, 38);
  Rows weights(N, N);
  operations.attention(q, k, identity_rows(N), weights, places_from(0, N), {.rotation = rotation});
  return static_cast<double>(std::count_if(weights.values.begin(), weights.values.end(), [](float w) { return w > 0; }));
}

/// The fastest of three.
double seconds(const Operations& operations, std::int64_t N, const Rotation* rotation) {
  const Rows q = random_rows(N, width, 37), k = random_rows(N, width, 38), v = random_rows(N, width, 39);
  const Places places = places_from(0, N);
  Rows out(N, width);
  double fastest = std::numeric_limits<double>::infinity();
  for (int run = 0; run < 3; ++run) {
    const auto start = std::chrono::steady_clock::now();
    operations.attention(q, k, v, out, places, {.rotation = rotation});
    fastest = std::min(fastest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return fastest;
}

Measured cost_stays_quadratic(const Operations& operations) {
  const Rotation rotation = rope(operations, width);
  const double once = num_weights(operations, 128, &rotation), twice = num_weights(operations, 256, &rotation);
  const double seconds_once = seconds(operations, 256, &rotation), seconds_twice = seconds(operations, 512, &rotation);
  return {std::log2(twice / once),
          {{"weights_at_128_and_256", {once, twice}},
           {"seconds_at_256_and_512", {seconds_once, seconds_twice}},
           {"exponent_of_time", {std::log2(seconds_twice / seconds_once)}}}};
}

Measured lower_complexity(const Operations& operations) {
  constexpr std::int64_t N = 128;
  const Rotation rotation = rope(operations, width);
  const double rotated = num_weights(operations, N, &rotation);
  return {rotated / static_cast<double>(N * N),
          {{"tokens", {static_cast<double>(N)}},
           {"weights", {rotated}},
           {"seconds_with_and_without", {seconds(operations, 256, &rotation), seconds(operations, 256, nullptr)}}}};
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
        "Softmax attention with rotation still weighs every key for every query: twice the tokens, four times the weights.",
        "旋转之后，softmax 注意力仍要为每个查询计算每个键的权重：词数加倍，权重变为四倍。",
        "exponent of the length in the number of weights, 128 to 256 tokens", "权重个数对长度的指数，128 到 256 个词",
        exactly(2), cost_stays_quadratic},
       {"lower-complexity", ClaimKind::does_not_follow, "Rotation makes softmax attention cheaper than N².",
        "旋转使 softmax 注意力的复杂度低于 N²。",
        "share of the N² weights that attention with rotation still computes, N = 128",
        "带旋转的注意力仍须计算的权重占 N² 的比例，N = 128", exactly(1), lower_complexity}}};
}

}  // namespace rotary::claims
