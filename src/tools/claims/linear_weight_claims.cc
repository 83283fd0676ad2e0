// What RoFormer's linear attention gives up: weights that are probabilities. Features are given as they are and a step is a
// quarter turn, so that the numbers can be worked out by hand.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "tools/claims/rows.h"
#include "tools/claims/statement.h"

namespace rotary::claims {
namespace {

Rotation quarter() { return one_pair(std::numbers::pi / 2); }

LinearAttentionOptions features_as_given(const Rotation& rotation, Normalizer normalizer) {
  return {.feature_map = {.features = Features::identity}, .rotation = &rotation, .normalizer = normalizer};
}

// Three tokens with ordinary, positive features. Products of turned ones, query by query, and of the unturned ones, summed:
//     8   3/2    -8       18
//     4   5/2     0       39/2
//   -10  -11/4    8       20
Rows three_queries() {
  Rows q(3, 2);
  q.values = {1, 2, 2, 1, 0.5F, 3};
  return q;
}
Rows three_keys() {
  Rows k(3, 2);
  k.values = {2, 3, 1, 0.5F, 4, 2};
  return k;
}

LinearWeights roformer_weights(const Operations& operations) {
  const Rotation rotation = quarter();
  return operations.linear_weights(three_queries(), three_keys(), {}, {0, 1, 2},
                                   features_as_given(rotation, Normalizer::features));
}

Measured weights_can_be_negative(const Operations& operations) {
  const LinearWeights weights = roformer_weights(operations);
  return {weights.lowest, {{"negative_of_9", {static_cast<double>(weights.num_negative)}}}};
}

Measured weights_do_not_sum_to_one(const Operations& operations) {
  const LinearWeights weights = roformer_weights(operations);
  return {weights.lowest_row_sum, {{"lowest_and_highest_row_sum", {weights.lowest_row_sum, weights.highest_row_sum}}}};
}

Measured weights_have_no_bound(const Operations& operations) {
  // phi(q) = (1, e), phi(k) = (e, 1): the second query weighs the first key (1 - e^2) / (4 e).
  constexpr float e = 0.001F;
  Rows q(2, 2), k(2, 2);
  q.values = {1, e, 1, e};
  k.values = {e, 1, e, 1};
  const Rotation rotation = quarter();
  LinearAttentionOptions options = features_as_given(rotation, Normalizer::features);
  options.is_causal = true;
  return {operations.linear_weights(q, k, {}, {0, 1}, options).highest};
}

Measured rotated_normalizer_crosses_zero(const Operations& operations) {
  const Rotation rotation = quarter();
  LinearAttentionOptions options = features_as_given(rotation, Normalizer::rotated);
  // The sums of the table above: 3/2, 13/2 and -19/4.
  Rows out(3, 2);
  const auto negative = operations.linear_attention(three_queries(), three_keys(), three_keys(), out, {0, 1, 2}, options);
  // Features (1, 1), half a turn apart: 2 - 2.
  Rows ones(2, 2), zeros(2, 2);
  ones.values = {1, 1, 1, 1};
  options.is_causal = true;
  const auto zero = operations.linear_attention(ones, ones, ones, zeros, {0, 2}, options);
  const auto num_negative = static_cast<double>(negative.num_negative_denominators);
  const auto num_zero = static_cast<double>(zero.num_zero_rows);
  return {num_negative + num_zero, {{"negative", {num_negative}}, {"zero", {num_zero}}}};
}

Measured pair_norms_bound_weights(const Operations& operations) {
  constexpr std::int64_t N = 64, width = 16;
  const Rotation rotation = rope(operations, width);
  LinearAttentionOptions options = features_as_given(rotation, Normalizer::pair_norms);
  options.is_causal = true;  // the first row, of one key that equals its query, reaches the bound
  const Rows x = random_rows(N, width, 61);
  std::vector<double> weights(static_cast<std::size_t>(N * N));
  operations.linear_weights(x, x, {weights.data(), "QK", {N, N}}, places_from(0, N), options);
  double largest = 0;
  for (auto row = weights.begin(); row != weights.end(); row += N) {
    double sum = 0;
    std::for_each(row, row + N, [&sum](double weight) { sum += std::abs(weight); });
    largest = std::max(largest, sum);
  }
  return {largest};
}

}  // namespace

Group linear_weight_claims() {
  return {"weights of linear attention",
          "线性注意力的权重",
          {{"roformer-weights-can-be-negative", ClaimKind::holds,
            "RoFormer's linear attention has negative weights, even where all features are positive.",
            "RoFormer 的线性注意力即使特征全为正，也会出现负权重。", "lowest of the nine weights of three tokens: -10/20",
            "三个词的九个权重中最小的：-10/20", within(-0.5, 1e-6), weights_can_be_negative},
           {"roformer-weights-do-not-sum-to-one", ClaimKind::holds, "Its weights do not sum to 1.",
            "它的权重之和不等于 1。", "lowest sum of a row of the same weights: -19/80", "同一组权重中最小的行和：-19/80",
            within(-0.2375, 1e-6), weights_do_not_sum_to_one},
           {"roformer-weights-have-no-bound", ClaimKind::holds,
            "One of its weights can be as large as one likes: (1 - ε²) / 4ε for features (1, ε) and two keys (ε, 1).",
            "它的单个权重可以任意大：查询特征为 (1, ε)、两个键的特征都为 (ε, 1) 时是 (1 - ε²) / 4ε。",
            "highest weight of two tokens, ε = 1/1000", "两个词的最大权重，ε = 1/1000", within(249.99975, 1e-3),
            weights_have_no_bound},
           {"rotated-normalizer-crosses-zero", ClaimKind::holds,
            "If the normalizer turns, too, it can be negative or 0 with ordinary, positive features.",
            "若分母也旋转，即使特征都是普通的正数，分母也可能为负或为零。",
            "rows with a negative denominator, of three, and with a zero one, of two",
            "三行中分母为负的与两行中分母为零的，合计行数", exactly(2), rotated_normalizer_crosses_zero},
           {"pair-norms-bound-weights", ClaimKind::holds,
            "Divided by the lengths of pairs instead, the sizes of a row's weights sum to at most 1.",
            "改用各对特征的长度作分母，每行权重的绝对值之和不超过 1。",
            "largest sum over 64 causal rows of random, signed features", "64 个因果行、随机带符号特征时最大的和",
            at_most(1 + 1e-9), pair_norms_bound_weights}}};
}

}  // namespace rotary::claims
