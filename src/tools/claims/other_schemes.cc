#include "tools/claims/other_schemes.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numbers>

#include "base/uniform_numbers.h"
#include "rotary/xpos.hpp"
#include "tools/claims/plain.h"
#include "tools/claims/rows.h"

namespace rotary::claims {
namespace {

constexpr std::int64_t num_near = 17;  // distances, where all angles are tried
constexpr std::int64_t num_far = 512;  // where those of RoPE are

/// How badly turns by these angles per position follow scores at the distances 0, 1, 2, …: the sum of a cos(angle d) +
/// b sin(angle d), with the best a and b for every angle, leaves this much of the root mean square. So much can turning pairs
/// do, whatever linear maps come before them.
double left_by_turns(const std::vector<double>& angles, const std::vector<double>& scores) {
  std::vector<double> A;
  for (std::size_t d = 0; d < scores.size(); ++d) {
    for (const double angle : angles) {
      A.push_back(std::cos(angle * static_cast<double>(d)));
      A.push_back(std::sin(angle * static_cast<double>(d)));
    }
  }
  const auto x = least_squares(A, scores, 1e-6);
  double left = 0, squares = 0;
  for (std::size_t d = 0; d < scores.size(); ++d) {
    double apart = -scores[d];
    for (std::size_t i = 0; i < x.size(); ++i) apart += A[d * x.size() + i] * x[i];
    left += apart * apart;
    squares += scores[d] * scores[d];
  }
  return std::sqrt(left / squares);
}

/// The same with the best angle for one pair.
double left_by_one_pair(const std::vector<double>& scores) {
  constexpr int num_angles = 1000;
  double smallest = std::numeric_limits<double>::infinity();
  for (int step = 0; step <= num_angles; ++step) {
    smallest = std::min(smallest, left_by_turns({std::numbers::pi * step / num_angles}, scores));
  }
  return smallest;
}

/// A matrix of scores on and below its diagonal, one number per distance.
struct ByDistance {
  std::vector<double> scores;  // of the last query
  double apart = 0;            // the largest difference between two scores at one distance

  explicit ByDistance(const std::vector<double>& matrix) {
    const auto N = static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(matrix.size()))));
    for (std::size_t d = 0; d < N; ++d) {
      scores.push_back(matrix[(N - 1) * N + N - 1 - d]);
      for (std::size_t i = d; i < N; ++i) apart = std::max(apart, std::abs(matrix[i * N + i - d] - scores[d]));
    }
  }
};

/// Of N tokens, all with the query and the key 1, through linear attention, so that they are known to factor; seen through
/// values that are the unit vectors.
ByDistance factored(const Operations& operations, std::int64_t N, LinearAttentionOptions options) {
  Rows ones(N, 1), scores(N, N);
  std::fill(ones.values.begin(), ones.values.end(), 1.0F);
  options.feature_map = {.features = Features::identity};
  options.normalizer = Normalizer::none;
  options.is_causal = true;
  operations.linear_attention(ones, ones, identity_rows(N), scores, places_from(0, N), options);
  return ByDistance({scores.values.begin(), scores.values.end()});
}

ByDistance decayed(const Operations& operations, std::int64_t N, double decay) {
  return factored(operations, N, {.decay = {&decay, "H", {1}}});
}

/// cos(pi / 2 (i - j) / 50).
ByDistance cosformer(const Operations& operations) {
  const Rotation rotation = operations.cosformer_rotation(1, 50);
  return factored(operations, num_near, {.rotation = &rotation, .rotate = Rotate::lifted});
}

/// One query and one key of a pair, which xPos stretches and turns.
ByDistance xpos(const Operations& operations) {
  const Rotation rotation = one_pair(1);
  const Places places = places_from(0, num_near);
  Rows q = repeated(random_rows(1, 2, 72), 0, num_near), k = repeated(random_rows(1, 2, 73), 0, num_near);
  xpos_queries(q, rotation, positions_of(places), {.scale_base = 8});
  xpos_keys(k, rotation, positions_of(places), {.scale_base = 8});
  return ByDistance(operations.scores(q, places, k, places, rotation));
}

}  // namespace

Measured rotation_is_unique(const Operations& operations) {
  double farthest = 0, found = 1;
  UniformNumbers random(71);
  for (int candidate = 0; candidate < 20; ++candidate) {
    const double decay = 0.5 + 0.5 * random.next();
    const double left = left_by_one_pair(decayed(operations, num_near, decay).scores);
    if (left > farthest) farthest = left, found = decay;
  }
  const ByDistance near = decayed(operations, num_near, found), far = decayed(operations, num_far, found);
  const ByDistance stretched = xpos(operations);
  const double apart = std::max({near.apart, far.apart, stretched.apart});
  const double from_rope = left_by_turns(rope(operations, 64).inv_freq(), far.scores);
  const double xpos_from_pair = left_by_one_pair(stretched.scores);
  return {apart < 1e-5 ? std::min({farthest, from_rope, xpos_from_pair}) : 0,
          {{"decay", {found}},
           {"decay_from_one_pair", {farthest}},
           {"decay_from_32_pairs", {from_rope}},
           {"xpos_from_one_pair", {xpos_from_pair}},
           {"cosformer_from_one_pair", {left_by_one_pair(cosformer(operations).scores)}},
           {"difference_at_one_distance", {apart}},
           {"decay_scores", near.scores},
           {"xpos_scores", stretched.scores}}};
}

}  // namespace rotary::claims
