// What does not follow: statements that are often heard, and for each a counter-example.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/uniform_numbers.h"
#include "tools/claims/other_schemes.h"
#include "tools/claims/plain.h"
#include "tools/claims/rows.h"
#include "tools/claims/statement.h"

namespace rotary::claims {
namespace {

constexpr std::int64_t width = 64;

/// Scores of a query at 0 and the same key at 0, 1, 2, …
std::vector<double> scores_by_distance(const Operations& operations, const ConstTensorView& q, const Rows& k,
                                       std::int64_t num_distances) {
  return operations.scores(q, {0}, repeated(k, 0, num_distances), places_from(0, num_distances), rope(operations, width));
}

// ---- near and far --------------------------------------------------------------------------------------------------------

Measured score_falls_with_distance(const Operations& operations) {
  constexpr std::int64_t num_distances = 256;
  Rows x(1, width);
  std::fill(x.values.begin(), x.values.end(), 1.0F);
  auto scores = scores_by_distance(operations, x, x, num_distances);
  for (double& score : scores) score /= static_cast<double>(width);
  // The largest rise from any distance to any larger one.
  double rise = 0;
  std::size_t lowest = 0, near = 0, far = 0;
  for (std::size_t d = 0; d < scores.size(); ++d) {
    if (scores[d] < scores[lowest]) lowest = d;
    if (scores[d] - scores[lowest] > rise) rise = scores[d] - scores[lowest], near = lowest, far = d;
  }
  return {rise,
          {{"near", {static_cast<double>(near)}},
           {"far", {static_cast<double>(far)}},
           {"score_near", {scores[near]}},
           {"score_far", {scores[far]}},
           {"scores", scores}}};
}

Measured near_tokens_are_preferred(const Operations& operations) {
  constexpr std::int64_t num_distances = 256, num_tries = 200;
  std::int64_t prefer_far = 0;
  double best_of_first = 0;
  std::vector<double> query, key;
  for (std::int64_t i = 0; i < num_tries; ++i) {
    const auto seed = static_cast<std::uint64_t>(1000 + 2 * i);
    const Rows q = random_rows(1, width, seed), k = random_rows(1, width, seed + 1);
    const auto scores = scores_by_distance(operations, q, k, num_distances);
    const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
    if (best < num_distances / 2) continue;
    if (prefer_far++ > 0) continue;
    best_of_first = static_cast<double>(best);
    query.assign(q.values.begin(), q.values.end());
    key.assign(k.values.begin(), k.values.end());
  }
  return {static_cast<double>(prefer_far) / static_cast<double>(num_tries),
          {{"best_distance_of_first", {best_of_first}}, {"its_query", query}, {"its_key", key}}};
}

// ---- length --------------------------------------------------------------------------------------------------------------

/// What the scores shall be: 1 for a key at the query, falling evenly to 0 at the trained length, and 0 beyond.
double wanted(std::int64_t distance, std::int64_t trained) {
  return std::max(0.0, 1 - static_cast<double>(distance) / static_cast<double>(trained));
}

Measured lengths_extrapolate(const Operations& operations) {
  constexpr std::int64_t trained = 64, tested = 256;
  // With the key (1, 0) in every pair, the score is linear in the query: u cos + v sin, pair by pair.
  const Rotation rotation = rope(operations, width);
  std::vector<double> A, b;
  for (std::int64_t d = 0; d < trained; ++d) {
    for (const double inv_freq : rotation.inv_freq()) {
      A.push_back(std::cos(static_cast<double>(d) * inv_freq));
      A.push_back(std::sin(static_cast<double>(d) * inv_freq));
    }
    b.push_back(wanted(d, trained));
  }
  const auto fitted = least_squares(A, b, 1e-3);
  Rows q(1, width), k(1, width);
  for (std::int64_t j = 0; j < width / 2; ++j) {
    k.at(0, j) = 1;
    q.at(0, j) = static_cast<float>(fitted[static_cast<std::size_t>(2 * j)]);
    q.at(0, j + width / 2) = static_cast<float>(fitted[static_cast<std::size_t>(2 * j + 1)]);
  }
  const auto scores = scores_by_distance(operations, q, k, tested);
  double inside = 0, beyond = 0;
  for (std::int64_t d = 0; d < tested; ++d) {
    double& largest = d < trained ? inside : beyond;
    largest = std::max(largest, std::abs(scores[static_cast<std::size_t>(d)] - wanted(d, trained)));
  }
  return {inside < 0.01 ? beyond : 0,
          {{"trained_length", {static_cast<double>(trained)}},
           {"largest_error_within", {inside}},
           {"largest_error_beyond", {beyond}},
           {"query", {q.values.begin(), q.values.end()}},
           {"key", {k.values.begin(), k.values.end()}},
           {"scores", scores}}};
}

// ---- sums before the query comes -------------------------------------------------------------------------------------

/// exp(bias) of N tokens, row by row.
std::vector<double> factors(const Operations& operations, const PositionBias& bias, std::int64_t N) {
  std::vector<double> matrix(static_cast<std::size_t>(N * N));
  operations.position_bias({matrix.data(), "HQK", {1, N, N}}, bias);
  for (double& value : matrix) value = std::exp(value);
  return matrix;
}

Measured biases_can_be_summed_first(const Operations& operations) {
  constexpr std::int64_t N = 64;
  // T5's table: any number per bucket.
  UniformNumbers random(83);
  std::vector<double> table(32);
  for (double& number : table) number = 2 * random.next() - 1;
  constexpr double slope = 0.5;
  const auto alibi = PositionBias::alibi({slope});
  const auto t5 = PositionBias::t5({table.data(), "NH", {32, 1}}, T5Buckets());
  std::vector<double> ranks;
  for (const PositionBias* bias : {&alibi, &t5}) {
    for (const std::int64_t length : {N, 2 * N})
      ranks.push_back(static_cast<double>(rank(factors(operations, *bias, length))));
  }
  return {std::min(ranks[1], ranks[3]),
          {{"alibi_rank_at_64_and_128", {ranks[0], ranks[1]}},
           {"t5_rank_at_64_and_128", {ranks[2], ranks[3]}},
           {"alibi_slope", {slope}},
           {"t5_table", table}}};
}

Measured weights_can_be_summed_first(const Operations& operations) {
  constexpr std::int64_t N = 128, num_features = 4;
  const Rows q = random_rows(N, num_features, 84), k = random_rows(N, num_features, 85);
  constexpr double slope = 0.5;
  std::vector<double> scores, weighted = factors(operations, PositionBias::alibi({slope}), N);
  for (std::int64_t i = 0; i < N; ++i) {
    for (std::int64_t j = 0; j < N; ++j) scores.push_back(dot(q, i, k, j));
  }
  for (std::size_t i = 0; i < scores.size(); ++i) weighted[i] *= scores[i];
  const auto without = static_cast<double>(rank(scores)), with = static_cast<double>(rank(weighted));
  return {with,
          {{"rank_of_S", {without}},
           {"rank_of_S_o_W", {with}},
           {"alibi_slope", {slope}},
           {"queries", {q.values.begin(), q.values.end()}},
           {"keys", {k.values.begin(), k.values.end()}}}};
}

}  // namespace

Group limit_claims() {
  return {
      "what does not follow",
      "推不出的说法",
      {{"rotation-is-unique", ClaimKind::does_not_follow,
        "Rotation is the only scheme that depends on distance alone and still factors into a query's and a key's part.",
        "只有旋转才能既只依赖距离，又能分解成查询与键各自的部分。",
        "smallest of what is left: of a decay, found among 20, and of xPos by the best rotation of a pair, 17 distances; "
        "of "
        "that decay by the best queries and keys of RoPE's 32 pairs, 512 distances",
        "三种剩余中最小的：20 个衰减中找到的一个，以及 xPos，减去一对通道的最佳旋转（17 个距离）；该衰减减去 RoPE 的 32 "
        "对通道"
        "以最佳查询与键给出的分数（512 个距离）",
        at_least(0.1), rotation_is_unique},
       {"score-falls-with-distance", ClaimKind::does_not_follow, "The score falls as the distance grows.",
        "距离越大，分数越小。",
        "largest rise from a distance to a larger one, for equal query and key, relative to the score at 0",
        "查询等于键时，从某距离到更大距离分数的最大上升，相对于距离 0 的分数", at_least(0.1), score_falls_with_distance},
       {"near-tokens-are-preferred", ClaimKind::does_not_follow, "Rotation prefers near keys to far ones.",
        "旋转偏好近处的键。", "share of 200 random queries and keys whose best distance of 256 lies in the farther half",
        "200 对随机查询与键中，256 个距离里最佳距离落在较远一半的比例", within(0.5, 0.15), near_tokens_are_preferred},
       {"lengths-extrapolate", ClaimKind::does_not_follow,
        "What is right up to the trained length stays right beyond it, since every angle can be computed.",
        "在训练长度以内正确，超出之后也会正确，因为任何角度都能算出来。",
        "largest error up to 4 times the length, of scores that are right to 0.01 within it (1 at distance 0, 0 from the "
        "length on)",
        "长度以内误差不超过 0.01 的分数，到 4 倍长度时的最大误差（距离 0 处应为 1，从该长度起应为 0）", at_least(0.1),
        lengths_extrapolate},
       {"biases-can-be-summed-first", ClaimKind::does_not_follow,
        "A bias by distance, too, can be summed before the query comes, as linear attention does.",
        "按距离的偏置也能像线性注意力那样在查询到来之前先求和。",
        "features needed for 128 tokens without a causal rule: the lower rank of exp(bias) of ALiBi and T5",
        "无因果限制的 128 个词所需的特征数：ALiBi 与 T5 的 exp(偏置) 的秩中较小者", at_least(64),
        biases_can_be_summed_first},
       {"weights-can-be-summed-first", ClaimKind::does_not_follow,
        "A weight W by distance in S∘W can be summed first, too.", "S∘W 中按距离的权重 W 也能先求和。",
        "features needed for S∘W at 128 tokens, where S has 4", "S 只有 4 个特征时，128 个词的 S∘W 所需的特征数",
        at_least(64), weights_can_be_summed_first}}};
}

}  // namespace rotary::claims
