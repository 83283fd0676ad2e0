// What rotation does to a score, and what added positions do.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "rotary/sinusoidal.hpp"
#include "tools/claims/plain.h"
#include "tools/claims/rows.h"
#include "tools/claims/statement.h"

namespace rotary::claims {
namespace {

constexpr std::int64_t width = 64;

/// The largest difference between two entries of an N x N matrix that are equally far from its diagonal.
double spread_along_diagonals(const std::vector<double>& matrix, std::int64_t N) {
  double largest = 0;
  for (std::int64_t distance = 1 - N; distance < N; ++distance) {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (std::int64_t m = std::max<std::int64_t>(0, -distance); m < N && m + distance < N; ++m) {
      const double entry = matrix[static_cast<std::size_t>(m * N + m + distance)];
      low = std::min(low, entry), high = std::max(high, entry);
    }
    largest = std::max(largest, high - low);
  }
  return largest;
}

Measured score_depends_on_distance(const Operations& operations) {
  constexpr std::int64_t N = 64;
  const Rotation rotation = rope(operations, width);
  const Places places = places_from(5000, N);
  const Rows q = random_rows(4, width, 11), k = random_rows(4, width, 12);
  double largest = 0;
  for (std::int64_t i = 0; i < q.count; ++i) {
    const auto scores = operations.scores(repeated(q, i, N), places, repeated(k, i, N), places, rotation);
    largest = std::max(largest, spread_along_diagonals(scores, N) / (norm(q, i) * norm(k, i)));
  }
  return {largest};
}

Measured common_shift_cancels(const Operations& operations) {
  constexpr std::int64_t N = 64;
  const Rotation rotation = rope(operations, width);
  const Rows q = random_rows(N, width, 13), k = random_rows(N, width, 14), v = random_rows(N, width, 15);
  Rows here(N, width), there(N, width);
  operations.attention(q, k, v, here, places_from(0, N), {.rotation = &rotation});
  double largest = 0;
  for (const double shift : {1.0, 1e3, 1e6}) {
    operations.attention(q, k, v, there, places_from(shift, N), {.rotation = &rotation});
    largest = std::max(largest, largest_difference(here.values, there.values));
  }
  return {largest};
}

Measured a1_b2_table(const Operations& operations) {
  // q of A is (2, 1), k of B is (3, 1), and a step is a quarter turn.
  const Rotation quarter = one_pair(std::numbers::pi / 2);
  Rows A(2, 2), B(2, 2);
  A.values = {2, 1, 2, 1};
  B.values = {3, 1, 3, 1};
  const auto cells = operations.scores(A, {1, 2}, B, {1, 2}, quarter);
  const double plain = dot(A, 0, B, 0);
  return {cells[1] - cells[2],
          {{"a1_b1", {cells[0]}},
           {"a1_b2", {cells[1]}},
           {"a2_b1", {cells[2]}},
           {"a2_b2", {cells[3]}},
           {"each_without_positions", {plain}}}};
}

Measured zero_score_becomes_nonzero(const Operations& operations) {
  Rows q(1, 2), k(1, 2);
  q.values = {1, 0};
  k.values = {0, 1};
  const auto score = operations.scores(q, {0}, k, {1}, one_pair(1));
  return {score[0], {{"without_rotation", {dot(q, 0, k, 0)}}}};
}

Measured score_is_sum_of_cosines_and_sines(const Operations& operations) {
  const Rotation rotation = rope(operations, width);
  const Rows q = random_rows(24, width, 16), k = random_rows(24, width, 17);
  const Places q_places = places_from(300, 24), k_places = places_from(290, 24);
  const auto scores = operations.scores(q, q_places, k, k_places, rotation);
  double largest = 0;
  for (std::int64_t i = 0; i < q.count; ++i) {
    for (std::int64_t j = 0; j < k.count; ++j) {
      const double distance = k_places[static_cast<std::size_t>(j)] - q_places[static_cast<std::size_t>(i)];
      const double apart = scores[static_cast<std::size_t>(i * k.count + j)] - plain_score(q, i, k, j, rotation, distance);
      largest = std::max(largest, std::abs(apart) / (norm(q, i) * norm(k, j)));
    }
  }
  return {largest};
}

Measured additive_leaves_three_terms(const Operations& operations) {
  constexpr std::int64_t N = 48, embedding = 32, head = 16;
  const Rows x = random_rows(N, embedding, 18);
  Rows p(N, embedding);
  operations.sinusoidal(p, sinusoidal_rotation(Sinusoidal::interleaved, embedding), places_from(0, N));
  const Rows w_q = random_rows(embedding, head, 19), w_k = random_rows(embedding, head, 20);
  const Dims shape{embedding, head};
  const ScoreTerms terms = operations.score_terms(x, p, {w_q.values.data(), "ND", shape}, {w_k.values.data(), "ND", shape});
  std::vector<double> beyond, shares;
  std::int64_t count = 0;
  for (const ScoreTerm& term : {terms.content_position, terms.position_content, terms.position_position}) {
    beyond.push_back(term.beyond_distance);
    shares.push_back(term.share);
    if (term.beyond_distance > 0.01) ++count;
  }
  return {static_cast<double>(count), {{"beyond_distance", beyond}, {"share", shares}}};
}

Measured both_must_turn(const Operations& operations) {
  constexpr std::int64_t N = 64;
  const Rows q = random_rows(1, width, 21), k = random_rows(1, width, 22);
  const Rows queries = repeated(q, 0, N);
  Rows keys = repeated(k, 0, N);
  operations.rotate_keys(keys, rope(operations, width), places_from(0, N));
  std::vector<double> scores;
  for (std::int64_t m = 0; m < N; ++m) {
    for (std::int64_t n = 0; n < N; ++n) scores.push_back(dot(queries, m, keys, n));
  }
  return {spread_along_diagonals(scores, N) / (norm(q, 0) * norm(k, 0))};
}

/// Of a query's scores with a key 0 to 63 after it and before it, the largest difference at one distance, in units of |q| |k|.
double difference_of_sides(const Operations& operations, const Rows& q, const Rows& k) {
  constexpr std::int64_t N = 64;
  const Rotation rotation = rope(operations, width);
  Places before = places_from(-N + 1, N);
  std::reverse(before.begin(), before.end());  // 0, -1, …
  const auto after_query = operations.scores(q, {0}, repeated(k, 0, N), places_from(0, N), rotation);
  const auto before_query = operations.scores(q, {0}, repeated(k, 0, N), before, rotation);
  return largest_difference(after_query, before_query) / (norm(q, 0) * norm(k, 0));
}

Measured order_matters(const Operations& operations) {
  const Rows q = random_rows(1, width, 23), k = random_rows(1, width, 24);
  return {difference_of_sides(operations, q, k), {{"key_equal_to_query", {difference_of_sides(operations, q, q)}}}};
}

}  // namespace

Group score_claims() {
  return {
      "scores",
      "分数",
      {{"score-depends-on-distance", ClaimKind::holds,
        "The score of a turned query and a turned key depends on positions through their difference alone.",
        "旋转后的查询与键的分数，只通过位置之差依赖于位置。",
        "largest difference of two scores at the same distance, in units of |q| |k|",
        "相同距离上两个分数的最大差，以 |q| |k| 为单位", at_most(1e-6), score_depends_on_distance},
       {"common-shift-cancels", ClaimKind::holds,
        "Moving all tokens by the same distance leaves the output of attention as it is.",
        "所有词一起平移同样的距离，注意力的输出不变。", "largest change of the output, shifts of 1, 10^3 and 10^6",
        "平移 1、10^3、10^6 时输出的最大变化", at_most(1e-5), common_shift_cancels},
       {"a1-b2-table", ClaimKind::holds,
        "A1·B2 and A2·B1 score alike without positions, and differently with them: so A before B is told from B before A.",
        "没有位置时 A1·B2 = A2·B1；旋转之后两者不同，于是能分辨先后。",
        "score of A at 1 and B at 2 minus that of A at 2 and B at 1, for q = (2, 1), k = (3, 1), a quarter turn per step",
        "A 在 1、B 在 2 的分数减去 A 在 2、B 在 1 的分数；q = (2, 1)，k = (3, 1)，每步转四分之一圈", within(2, 1e-6),
        a1_b2_table},
       {"zero-score-becomes-nonzero", ClaimKind::holds,
        "A score of 0 becomes -sin 1 by turning, which no weight W in S∘W can do, for W times 0 is 0.",
        "分数 0 经旋转变成 -sin 1；S∘W 中逐元素的权重 W 做不到，因为 0 乘任何数都是 0。",
        "score of (1, 0) at 0 and (0, 1) at 1, one radian per step", "(1, 0) 在 0、(0, 1) 在 1 的分数，每步一弧度",
        within(-std::sin(1.0), 1e-6), zero_score_becomes_nonzero},
       {"score-is-sum-of-cosines-and-sines", ClaimKind::holds,
        "The score is A cos(Δθ) + B sin(Δθ), summed over pairs: A is the pair's inner product, B its "
        "determinant.",
        "分数等于各对的 A cos(Δθ) + B sin(Δθ) 之和：A 是这一对的内积，B 是它的行列式。",
        "largest difference from the sum in double, in units of |q| |k|", "与双精度求和的最大差，以 |q| |k| 为单位",
        at_most(1e-6), score_is_sum_of_cosines_and_sines},
       {"order-matters", ClaimKind::holds,
        "A key as far before a query as after it can score differently: distance has a sign.",
        "键在查询之前与之后同样远，分数可以不同：距离带有方向。",
        "largest difference between a distance and its opposite, random query and key, in units of |q| |k|",
        "随机的查询与键，距离 d 与 -d 的分数的最大差，以 |q| |k| 为单位", at_least(0.1), order_matters},
       {"additive-leaves-three-terms", ClaimKind::holds,
        "Positions added before learned projections leave three more terms in a score, and none of them depends on the "
        "distance alone.",
        "把位置加到词向量上，再经过学习得到的投影，分数会多出三项，没有一项只依赖于距离。",
        "terms beside content-content that vary by more than 1 % at one distance (score_terms)",
        "除内容·内容之外，在同一距离上变化超过 1% 的项数（score_terms）", exactly(3), additive_leaves_three_terms},
       {"both-must-turn", ClaimKind::holds,
        "Queries and keys must both turn: with turned keys alone, a score depends on where the key stands.",
        "查询和键都要旋转：只旋转键，分数就依赖于键的绝对位置。",
        "largest difference of two scores at the same distance, in units of |q| |k|",
        "相同距离上两个分数的最大差，以 |q| |k| 为单位", at_least(0.1), both_must_turn}}};
}

}  // namespace rotary::claims
