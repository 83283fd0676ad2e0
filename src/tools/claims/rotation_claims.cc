// What a rotation is: angles, norms, inverses, sums of angles.
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "rotary/dtype.hpp"
#include "rotary/sinusoidal.hpp"
#include "tools/claims/rows.h"
#include "tools/claims/statement.h"

namespace rotary::claims {
namespace {

constexpr std::int64_t width = 64;

/// Near, far and beyond every trained length.
Places some_places(std::int64_t count) {
  Places places = places_from(0, count);
  for (std::size_t i = 1; i < places.size(); i += 2) places[i] *= 997;
  places.back() = 1e6;
  return places;
}

Measured same_angles_as_sinusoidal(const Operations& operations) {
  const Rotation rotation = rope(operations, width, 10000, Pairing::interleaved);
  const Places places = some_places(256);
  Rows turned(256, width), table(256, width);
  for (std::int64_t i = 0; i < turned.count; ++i) {
    for (std::int64_t j = 0; j < width; j += 2) turned.at(i, j) = 1;  // (1, 0) becomes (cos, sin)
  }
  operations.rotate_queries(turned, rotation, places);
  operations.sinusoidal(table, sinusoidal_rotation(Sinusoidal::interleaved, width), places);
  for (std::int64_t i = 0; i < table.count; ++i) {
    for (std::int64_t j = 0; j < width; j += 2) std::swap(table.at(i, j), table.at(i, j + 1));  // (sin, cos) there
  }
  std::vector<double> plain;
  for (const double place : places) {
    for (std::int64_t j = 0; j < width; j += 2) {
      const double angle = place * std::pow(10000.0, -static_cast<double>(j) / static_cast<double>(width));
      plain.push_back(std::cos(angle));
      plain.push_back(std::sin(angle));
    }
  }
  return {std::max(largest_difference(turned.values, table.values), largest_difference(table.values, plain))};
}

Measured keeps_norms(const Operations& operations) {
  const Rows x = random_rows(256, width, 1);
  Rows turned = x;
  operations.rotate_queries(turned, rope(operations, width), some_places(x.count));
  double largest = 0;
  for (std::int64_t i = 0; i < x.count; ++i) largest = std::max(largest, std::abs(norm(turned, i) / norm(x, i) - 1));
  return {largest};
}

Measured transpose_is_opposite_rotation(const Operations& operations) {
  const Rotation rotation = rope(operations, width);
  const Places places = some_places(64);
  Places opposite = places;
  for (double& place : opposite) place = -place;
  const Rows x = random_rows(64, width, 2), y = random_rows(64, width, 3);
  Rows turned_x = x, transposed_y = y, opposite_y = y;
  operations.rotate_queries(turned_x, rotation, places);
  operations.rotate_backward(transposed_y, rotation, places);
  operations.rotate_queries(opposite_y, rotation, opposite);
  double largest = largest_difference(transposed_y.values, opposite_y.values);
  for (std::int64_t i = 0; i < x.count; ++i) {
    const double apart = dot(turned_x, i, y, i) - dot(x, i, transposed_y, i);
    largest = std::max(largest, std::abs(apart) / (norm(x, i) * norm(y, i)));
  }
  return {largest};
}

Measured angles_add(const Operations& operations) {
  const Rotation rotation = rope(operations, width);
  const Places a = some_places(64);
  Places b = a, sum = a;
  std::reverse(b.begin(), b.end());
  for (std::size_t i = 0; i < a.size(); ++i) sum[i] = a[i] + b[i];
  Rows twice = random_rows(64, width, 4), once = twice;
  operations.rotate_queries(twice, rotation, a);
  operations.rotate_queries(twice, rotation, b);
  operations.rotate_queries(once, rotation, sum);
  return {largest_difference(twice.values, once.values)};
}

Measured cached_keys_can_move(const Operations& operations) {
  const Rotation rotation = rope(operations, width);
  Rows moved = random_rows(64, width, 5), anew = moved;
  operations.rotate_keys(moved, rotation, places_from(1000, 64));
  operations.shift(moved, rotation, -900);
  operations.rotate_keys(anew, rotation, places_from(100, 64));
  return {largest_difference(moved.values, anew.values)};
}

Measured position_zero_is_identity(const Operations& operations) {
  const Rows x = random_rows(16, width, 6);
  Rows turned = x;
  operations.rotate_queries(turned, rope(operations, width), Places(16, 0.0));
  std::int64_t changed = 0;
  for (std::size_t i = 0; i < x.values.size(); ++i) changed += turned.values[i] != x.values[i];
  return {static_cast<double>(changed)};
}

/// From neighbours to halves.
Rows halves(const Rows& rows) {
  Rows permuted(rows.count, rows.width);
  for (std::int64_t i = 0; i < rows.count; ++i) {
    for (std::int64_t c = 0; c < rows.width; ++c) {
      permuted.at(i, c / 2 + (c % 2) * rows.width / 2) = static_cast<float>(rows.at(i, c));
    }
  }
  return permuted;
}

Measured pairings_are_permutations(const Operations& operations) {
  const Rows q = random_rows(32, width, 7), k = random_rows(32, width, 8);
  const Places places = places_from(0, 32);
  const Rotation neighbours = rope(operations, width, 10000, Pairing::interleaved);
  const Rotation half = rope(operations, width, 10000, Pairing::half);
  const auto scores = operations.scores(q, places, k, places, neighbours);
  const auto permuted = operations.scores(halves(q), places, halves(k), places, half);
  const auto unpermuted = operations.scores(q, places, k, places, half);
  const double size = largest_size(scores);
  return {largest_difference(scores, permuted) / size,
          {{"without_permuting", {largest_difference(scores, unpermuted) / size}}}};
}

/// Radians that a pair turns by from one position to the next.
double turn_of(const Operations& operations, std::int64_t pair, double base) {
  Rows x(1, width);
  x.at(0, pair) = 1;
  operations.rotate_queries(x, rope(operations, width, base), {1});
  return std::atan2(x.at(0, pair + width / 2), x.at(0, pair));
}

Measured base_slows_the_slowest_pair(const Operations& operations) {
  constexpr std::int64_t last = width / 2 - 1;
  const double first_before = turn_of(operations, 0, 1e4), first_after = turn_of(operations, 0, 5e5);
  const double last_before = turn_of(operations, last, 1e4), last_after = turn_of(operations, last, 5e5);
  return {last_before / last_after / (first_before / first_after),
          {{"first_pair", {first_before, first_after}}, {"last_pair", {last_before, last_after}}}};
}

Measured bfloat16_positions_merge(const Operations& operations) {
  constexpr std::int64_t num_positions = 4096;
  Places places = places_from(0, num_positions);
  for (double& place : places) place = static_cast<double>(to_float(to_bfloat16(place)));
  Rows x(num_positions, 2);
  for (std::int64_t i = 0; i < num_positions; ++i) x.at(i, 0) = 1;
  operations.rotate_keys(x, one_pair(1), places);
  std::set<std::pair<double, double>> different;
  for (std::int64_t i = 0; i < num_positions; ++i) different.emplace(x.at(i, 0), x.at(i, 1));
  return {static_cast<double>(different.size())};
}

}  // namespace

Group rotation_claims() {
  return {
      "rotation",
      "旋转",
      {{"same-angles-as-sinusoidal", ClaimKind::holds,
        "Rotation turns by the very angles, frequencies included, of the sinusoidal encoding of Vaswani et al.",
        "旋转所用的角度和频率，与 Vaswani 等人的正弦位置编码完全相同。",
        "largest difference of cos or sin between the rotation, the encoding and the formula in double, positions up to "
        "10^6",
        "旋转、正弦编码与双精度公式三者之间 cos 或 sin 的最大差，位置至 10^6", at_most(1e-6), same_angles_as_sinusoidal},
       {"keeps-norms", ClaimKind::holds, "A rotation keeps the length of every query and key.",
        "旋转不改变任何查询向量和键向量的长度。", "largest | |R x| / |x| - 1 |, positions up to 10^6",
        "| |R x| / |x| - 1 | 的最大值，位置至 10^6", at_most(1e-6), keeps_norms},
       {"transpose-is-opposite-rotation", ClaimKind::holds,
        "The transpose of a rotation is the rotation by the opposite position.",
        "旋转矩阵的转置，就是按相反位置所作的旋转。",
        "largest difference between the transpose and the opposite rotation, and between R x . y and x . (transpose of "
        "R) y",
        "转置与反向旋转的最大差，以及 R x · y 与 x · Rᵀ y 的最大差", at_most(1e-5), transpose_is_opposite_rotation},
       {"angles-add", ClaimKind::holds, "Turning by a and then by b is turning by a + b.",
        "先转 a 再转 b，等于一次转 a + b。", "largest difference of a channel, a + b up to 10^6",
        "各通道的最大差，a + b 至 10^6", at_most(1e-5), angles_add},
       {"cached-keys-can-move", ClaimKind::holds,
        "A cached key, turned once, can be moved to another position without knowing the key it was.",
        "缓存中已旋转的键可以直接移到新位置，不需要旋转前的键。",
        "largest difference between keys moved from 1000 to 100 and keys turned anew at 100",
        "从位置 1000 移到 100 的键与直接在 100 旋转的键的最大差", at_most(1e-5), cached_keys_can_move},
       {"position-zero-is-identity", ClaimKind::holds, "At position 0 a rotation changes nothing, not a single bit.",
        "在位置 0，旋转不改变任何数，一个比特也不变。", "channels of 1,024 that change", "1024 个通道中发生变化的个数",
        exactly(0), position_zero_is_identity},
       {"pairings-are-permutations", ClaimKind::holds,
        "Pairs of neighbours and pairs of halves give the same scores once the channels are permuted.",
        "相邻配对与前后半配对只差一个通道排列；排列之后分数相同。",
        "largest difference of a score, in units of the largest score", "分数的最大差，以最大分数为单位", at_most(1e-6),
        pairings_are_permutations},
       {"base-slows-the-slowest-pair", ClaimKind::holds,
        "A base 50 times as large slows the slowest of 32 pairs by 50^(62/64) = 44.2, the first not at all.",
        "底数增大到 50 倍，32 对中最慢的一对放慢 50^(62/64) = 44.2 倍，第一对不变。",
        "angle of the last pair at base 10,000 over that at 500,000, in units of the same for the first pair",
        "底数 10000 与 500000 时最后一对的转角之比，以第一对的同一比值为单位", within(std::pow(50, 62.0 / 64), 1e-3),
        base_slows_the_slowest_pair},
       {"bfloat16-positions-merge", ClaimKind::holds,
        "Positions stored in bfloat16 merge: of 4,096 of them, 769 different ones remain.",
        "用 bfloat16 存放位置会使位置合并：4096 个位置只剩 769 个不同的。", "different turned keys among 4,096",
        "4096 个旋转后的键中互不相同的个数", exactly(769), bfloat16_positions_merge}}};
}

}  // namespace rotary::claims
