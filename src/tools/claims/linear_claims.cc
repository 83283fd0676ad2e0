// Rotation inside linear attention: sums that are taken first, and where the rotation goes.
#include <algorithm>
#include <cmath>

#include "rotary/feature_map.hpp"
#include "tools/claims/plain.h"
#include "tools/claims/rows.h"
#include "tools/claims/statement.h"

namespace rotary::claims {
namespace {

constexpr std::int64_t width = 16;

/// elu + 1.
Rows mapped(const Rows& rows) {
  Rows features = rows;
  for (float& x : features.values) x = x > 0 ? x + 1 : std::exp(x);
  return features;
}

Measured sums_can_be_reordered(const Operations& operations) {
  constexpr std::int64_t N = 96;
  const Rotation rotation = rope(operations, width);
  const Rows q = random_rows(N, width, 41), k = random_rows(N, width, 42), v = random_rows(N, width, 43);
  Rows out(N, width);
  operations.linear_attention(q, k, v, out, places_from(0, N), {.rotation = &rotation});
  const Rows features_q = mapped(q), features_k = mapped(k);
  std::vector<double> weights, divisors;
  for (std::int64_t i = 0; i < N; ++i) {
    for (std::int64_t j = 0; j < N; ++j) {
      weights.push_back(plain_score(features_q, i, features_k, j, rotation, static_cast<double>(j - i)));
      divisors.push_back(dot(features_q, i, features_k, j));
    }
  }
  return {largest_difference(out.values, weighted_values(weights, divisors, v)) / largest_size(out.values)};
}

/// |change| / |output| where all tokens move by 1,000.
double change_by_shift(const Operations& operations, const LinearAttentionOptions& options) {
  constexpr std::int64_t N = 64;
  const Rows q = random_rows(N, width, 44), k = random_rows(N, width, 45), v = random_rows(N, width, 46);
  Rows here(N, width), there(N, width);
  operations.linear_attention(q, k, v, here, places_from(0, N), options);
  operations.linear_attention(q, k, v, there, places_from(1000, N), options);
  return relative_change(there, here);
}

Measured map_then_rotate_is_relative(const Operations& operations) {
  const Rotation rotation = rope(operations, width);
  const auto numbers = favor_projection(width, width, 7);
  const ConstTensorView projection(numbers.data(), "ND", {width, width});
  const FeatureMap maps[] = {{.features = Features::elu_plus_1},
                             {.features = Features::relu},
                             {.features = Features::favor_plus, .projection = projection},
                             {.features = Features::favor_relu, .projection = projection, .epsilon = 1e-3},
                             {.features = Features::identity}};
  std::vector<double> changes;
  std::vector<ClaimFigure> figures;
  for (const FeatureMap& map : maps) {
    // identity's features may be negative: pair_norms keeps the denominator away from 0.
    changes.push_back(
        change_by_shift(operations, {.feature_map = map, .rotation = &rotation, .normalizer = Normalizer::pair_norms}));
    figures.push_back({name(map.features), {changes.back()}});
  }
  return {largest_size(changes), figures};
}

Measured rotate_then_map_is_not_relative(const Operations& operations) {
  const Rotation rotation = rope(operations, width);
  return {change_by_shift(operations, {.rotation = &rotation, .rotate = Rotate::before_map})};
}

Measured streams_are_whole(const Operations& operations) {
  constexpr std::int64_t N = 40;
  const Rotation rotation = rope(operations, width);
  const Rows q = random_rows(N, width, 47), k = random_rows(N, width, 48), v = random_rows(N, width, 49);
  Rows whole(N, width), parts(N, width);
  LinearAttentionOptions options{.rotation = &rotation, .is_causal = true};
  operations.linear_attention(q, k, v, whole, places_from(0, N), options);
  const ConstTensorView qs = q, ks = k, vs = v;
  const TensorView out = parts;
  std::vector<double> differences;
  for (std::int64_t cut = 1; cut < N; ++cut) {
    LinearState state;
    options.state = &state;
    for (const auto& [begin, end] : {std::pair{std::int64_t{0}, cut}, std::pair{cut, N}}) {
      operations.linear_attention(qs.slice('S', begin, end), ks.slice('S', begin, end), vs.slice('S', begin, end),
                                  out.slice('S', begin, end), places_from(static_cast<double>(begin), end - begin),
                                  options);
    }
    differences.push_back(largest_difference(whole.values, parts.values));
  }
  return {largest_size(differences) / largest_size(whole.values)};
}

Measured future_cannot_leak(const Operations& operations) {
  constexpr std::int64_t N = 64, known = 40;
  const Rotation rotation = rope(operations, width);
  const auto projection = favor_projection(64, width, 7);
  const LinearAttentionOptions options{
      .feature_map = {.features = Features::favor_plus, .projection = {projection.data(), "ND", {64, width}}},
      .rotation = &rotation,
      .rotate = Rotate::before_map,
      .is_causal = true};
  const Rows q = random_rows(N, width, 63), k = random_rows(N, width, 64), v = random_rows(N, width, 65);
  Rows other = k, before(N, width), after(N, width);
  for (std::int64_t i = known; i < N; ++i) {
    for (std::int64_t c = 0; c < width; ++c) other.at(i, c) *= 5;  // becomes the largest exponent of all
  }
  operations.linear_attention(q, k, v, before, places_from(0, N), options);
  operations.linear_attention(q, other, v, after, places_from(0, N), options);
  std::int64_t changed = 0;
  for (std::int64_t i = 0; i < known * width; ++i) {
    changed += before.values[static_cast<std::size_t>(i)] != after.values[static_cast<std::size_t>(i)];
  }
  return {static_cast<double>(changed)};
}

Measured rotation_has_a_fixed_rank(const Operations& operations) {
  constexpr std::int64_t N = 64, narrow = 8;
  const Rows q = random_rows(1, narrow, 81), k = random_rows(1, narrow, 82);
  const auto rank_at = [&](std::int64_t length) {
    return static_cast<double>(
        rank(operations.scores(repeated(q, 0, length), places_from(0, length), repeated(k, 0, length),
                               places_from(0, length), rope(operations, narrow, 100))));
  };
  const double once = rank_at(N), twice = rank_at(2 * N);
  return {twice, {{"rank_at_64_and_128", {once, twice}}}};
}

}  // namespace

Group linear_claims() {
  return {
      "linear attention",
      "线性注意力",
      {{"sums-can-be-reordered", ClaimKind::holds,
        "(QKᵀ)V = Q(KᵀV) with turned features: keys and values are summed once, exactly, before any query comes.",
        "特征旋转之后仍有 (QKᵀ)V = Q(KᵀV)：键与值先求一次和，结果严格相同。",
        "largest difference from the N² formula in double, in units of the largest output (RoFormer, equation 19)",
        "与双精度 N² 公式的最大差，以最大输出为单位（RoFormer 式 19）", at_most(1e-5), sums_can_be_reordered},
       {"map-then-rotate-is-relative", ClaimKind::holds,
        "Features that are turned after the map depend on distances alone, whatever the map.",
        "先映射后旋转：无论用什么映射，都只依赖于距离。",
        "largest |change| / |output| of five maps when all tokens move by 1,000",
        "全部词平移 1000 时五种映射中最大的 |变化| / |输出|", at_most(1e-5), map_then_rotate_is_relative},
       {"rotate-then-elu-is-not-relative", ClaimKind::holds,
        "Queries and keys that are turned before elu + 1 do not: moving all tokens moves the output.",
        "先旋转后做 elu + 1 就不行：词一起平移，输出也会变。", "|change| / |output| when all tokens move by 1,000",
        "全部词平移 1000 时 |变化| / |输出|", at_least(0.01), rotate_then_map_is_not_relative},
       {"streams-are-whole", ClaimKind::holds,
        "A stream that is cut anywhere goes on from its state as if it had not been cut.",
        "数据流在任意处切开，凭状态接着算，与不切开时一样。",
        "largest difference between one call of 40 tokens and two, cut at each of 39 places, in units of the largest "
        "output",
        "一次算 40 个词与分两次算（39 个切口逐一试过）的最大差，以最大输出为单位", at_most(1e-5), streams_are_whole},
       {"future-cannot-leak", ClaimKind::holds,
        "Causal linear attention, running maximum included: what later keys are changes no earlier row, not a single bit.",
        "因果线性注意力（包括滚动最大值）：以后的键无论是什么，都不改变之前任何一行，一个比特也不变。",
        "numbers that change in the first 40 rows of 64 when the last 24 keys become 5 times as long (random features)",
        "64 行中后 24 个键放大 5 倍时，前 40 行里发生变化的数的个数（随机特征）", exactly(0), future_cannot_leak},
       {"rotation-has-a-fixed-rank", ClaimKind::holds,
        "The scores of one query and one key under rotation have as many independent rows as channels, at any length.",
        "在旋转之下，同一查询与同一键的分数矩阵，秩等于通道数，与长度无关。", "rank at 128 tokens, 8 channels",
        "128 个词、8 个通道时的秩", exactly(8), rotation_has_a_fixed_rank}}};
}

}  // namespace rotary::claims
