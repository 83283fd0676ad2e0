// Feature maps of turned queries and keys: random features, cosFormer, Taylor.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "rotary/feature_map.hpp"
#include "tools/claims/plain.h"
#include "tools/claims/rows.h"
#include "tools/claims/statement.h"

namespace rotary::claims {
namespace {

constexpr std::int64_t width = 16;

/// Rows scaled so that |x|^2 / sqrt(width) is `squares`, over and over.
Rows with_squares(Rows rows, const std::vector<double>& squares) {
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const double square = squares[static_cast<std::size_t>(i) % squares.size()];
    const double factor = std::sqrt(square * std::sqrt(static_cast<double>(rows.width))) / norm(rows, i);
    for (std::int64_t c = 0; c < rows.width; ++c) rows.at(i, c) *= static_cast<float>(factor);
  }
  return rows;
}

/// Root mean square over draws of the projection, relative to the softmax attention of turned queries and keys.
double favor_error(const Operations& operations, std::int64_t num_features, const Rows& q, const Rows& k, const Rows& v,
                   const Rotation& rotation) {
  constexpr std::uint64_t num_draws = 16;
  const Places places = places_from(0, q.count);
  Rows exact(q.count, v.width), approximate(q.count, v.width);
  operations.attention(q, k, v, exact, places, {.rotation = &rotation});
  double sum = 0;
  for (std::uint64_t draw = 0; draw < num_draws; ++draw) {
    const auto projection = favor_projection(num_features, q.width, 100 + draw);
    const FeatureMap map{.features = Features::favor_plus,
                         .projection = {projection.data(), "ND", {num_features, q.width}}};
    operations.linear_attention(q, k, v, approximate, places,
                                {.feature_map = map, .rotation = &rotation, .rotate = Rotate::before_map});
    const double error = relative_change(approximate, exact);
    sum += error * error;
  }
  return std::sqrt(sum / static_cast<double>(num_draws));
}

Measured favor_approaches_softmax(const Operations& operations) {
  constexpr std::int64_t N = 64;
  const Rotation rotation = rope(operations, width);
  // |q'|^2 = 1, for keys in the mean. Keys of different lengths, so that leaving out their norms would show.
  const Rows q = with_squares(random_rows(N, width, 50), {1});
  const Rows k = with_squares(random_rows(N, width, 51), {0.25, 0.5, 1.25, 2});
  const Rows v = random_rows(N, width, 52);
  const std::vector<double> features{32, 128, 512};
  std::vector<double> errors;
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const double m : features) {
    errors.push_back(favor_error(operations, static_cast<std::int64_t>(m), q, k, v, rotation));
    const double u = std::log(m), w = std::log(errors.back());
    x += u, y += w, xx += u * u, xy += u * w;
  }
  const auto n = static_cast<double>(features.size());
  return {(n * xy - x * y) / (n * xx - x * x), {{"features", features}, {"error", errors}}};
}

/// cosFormer with M = 48: relu features, turned by pi / 2 over M positions.
LinearAttentionOptions cosformer(const Rotation& rotation) {
  return {.feature_map = {.features = Features::relu},
          .rotation = &rotation,
          .rotate = Rotate::lifted,
          .normalizer = Normalizer::rotated};
}
constexpr std::int64_t M = 48;

Measured cosformer_factors(const Operations& operations) {
  const Rotation rotation = operations.cosformer_rotation(width, M);
  const Rows q = random_rows(M, width, 53), k = random_rows(M, width, 54), v = random_rows(M, width, 55);
  Rows out(M, width);
  operations.linear_attention(q, k, v, out, places_from(0, M), cosformer(rotation));
  std::vector<double> weights;
  for (std::int64_t i = 0; i < M; ++i) {
    for (std::int64_t j = 0; j < M; ++j) {
      double product = 0;
      for (std::int64_t c = 0; c < width; ++c) product += std::max(q.at(i, c), 0.0) * std::max(k.at(j, c), 0.0);
      weights.push_back(product * std::cos(std::numbers::pi / 2 * static_cast<double>(i - j) / static_cast<double>(M)));
    }
  }
  return {largest_difference(out.values, weighted_values(weights, weights, v)) / largest_size(out.values)};
}

double lowest_cosformer_weight(const Operations& operations, std::int64_t num_tokens) {
  const Rotation rotation = operations.cosformer_rotation(width, M);
  const Rows q = random_rows(num_tokens, width, 56), k = random_rows(num_tokens, width, 57);
  return operations.linear_weights(q, k, {}, places_from(0, num_tokens), cosformer(rotation)).lowest;
}

Measured cosformer_stays_non_negative(const Operations& operations) {
  return {lowest_cosformer_weight(operations, M), {{"lowest_weight_at_3_M", {lowest_cosformer_weight(operations, 3 * M)}}}};
}

Measured taylor_keeps_probabilities(const Operations& operations) {
  constexpr std::int64_t N = 64;
  const Rotation rotation = rope(operations, width);
  const LinearAttentionOptions options{
      .feature_map = {.features = Features::taylor2}, .rotation = &rotation, .rotate = Rotate::before_map};
  const Rows q = random_rows(N, width, 58), k = random_rows(N, width, 59), unit_vectors = identity_rows(N);
  Rows here(N, N), there(N, N);  // weights
  operations.linear_attention(q, k, unit_vectors, here, places_from(0, N), options);
  operations.linear_attention(q, k, unit_vectors, there, places_from(1000, N), options);
  std::vector<double> polynomials, row_sums;
  for (std::int64_t i = 0; i < N; ++i) {
    row_sums.push_back(0);
    for (std::int64_t j = 0; j < N; ++j) {
      const double distance = static_cast<double>(j - i);
      const double s = plain_score(q, i, k, j, rotation, distance) / std::sqrt(static_cast<double>(width));
      polynomials.push_back(1 + s + s * s / 2);
      row_sums.back() += std::as_const(here).at(i, j);
    }
  }
  const double largest = largest_size(here.values);
  const double error = largest_difference(here.values, weighted_values(polynomials, polynomials, unit_vectors)) / largest;
  const double change = largest_difference(here.values, there.values) / largest;
  const double lowest = static_cast<double>(*std::min_element(here.values.begin(), here.values.end()));
  const auto [low, high] = std::minmax_element(row_sums.begin(), row_sums.end());
  return {largest_size(std::vector{error, change, std::min(lowest, 0.0), *low - 1, *high - 1}),
          {{"difference_from_formula", {error}},
           {"change", {change}},
           {"lowest_weight", {lowest}},
           {"lowest_and_highest_row_sum", {*low, *high}}}};
}

}  // namespace

Group feature_map_claims() {
  return {
      "feature maps",
      "特征映射",
      {{"favor-approaches-softmax", ClaimKind::holds,
        "For short queries and keys, q'·q' = 1, Performer's random features of turned ones approach softmax attention with "
        "rotation as 1/√features.",
        "查询与键较短（q'·q' = 1）时，对旋转后的查询与键取 Performer 随机特征，误差按 1/√特征数 趋于带旋转的 softmax "
        "注意力。",
        "slope of log error over log features, 32 to 512 features, q' = q / width^(1/4), 16 draws each",
        "log 误差对 log 特征数的斜率，32 至 512 个特征，q' = q / 宽度^(1/4)，各 16 次抽样", within(-0.475, 0.125),
        favor_approaches_softmax},
       {"cosformer-factors", ClaimKind::holds,
        "cosFormer's weight relu(q)·relu(k) cos(π/2 (i - j) / M) factors into twice as many features.",
        "cosFormer 的权重 relu(q)·relu(k) cos(π/2 (i-j)/M) 可以分解为两倍数量的特征。",
        "largest difference from the N² formula in double, in units of the largest output",
        "与双精度 N² 公式的最大差，以最大输出为单位", at_most(1e-5), cosformer_factors},
       {"cosformer-stays-non-negative", ClaimKind::holds, "cosFormer's weights are not negative up to the distance M.",
        "在距离 M 以内，cosFormer 的权重不为负。", "lowest weight of 48 tokens, M = 48", "48 个词中最小的权重，M = 48",
        at_least(0), cosformer_stays_non_negative},
       {"taylor-keeps-probabilities", ClaimKind::holds,
        "The second Taylor polynomial of exp, of turned queries and keys, is relative and keeps weights that are "
        "probabilities.",
        "对旋转后的查询与键取 exp 的二阶泰勒多项式：只依赖距离，且权重仍是概率。",
        "largest of: a weight's difference from (1 + s + s²/2) / sum in double, and its change by a shift of 1,000, in "
        "units "
        "of the largest weight; how far a weight is below 0; how far a row's sum is from 1",
        "四者中最大的：权重与双精度 (1 + s + s²/2) / 和 之差、平移 1000 时权重的变化（以最大权重为单位）；权重低于 0 "
        "的程度；"
        "行和偏离 1 的程度",
        at_most(1e-5), taylor_keeps_probabilities}}};
}

}  // namespace rotary::claims
