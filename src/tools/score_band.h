// What a rotation does to the score of a key that equals its query, by distance.
#pragma once

#include <vector>

#include "rotary/rotation.hpp"

namespace rotary {

/// The mean of amplitude^2 cos(inv_freq * distance) over all pairs; on every axis the same distance.
double mean_score(const Rotation& rotation, double distance);

/// mean_score over the whole distances from `from` up to `to`, of which there is at least one.
struct ScoreBand {
  double from, to;
  double low, mean, high;
};

/// From distance 1 to `longest`, in at most `num_bands` bands of equal width on a logarithmic axis. Of bands with many
/// distances, a sample that no period of a pair falls in step with.
std::vector<ScoreBand> score_bands(const Rotation& rotation, double longest, int num_bands);

/// A smooth curve that no band rises above: of the highest mean score from half an octave before to half an octave after,
/// the average over the same stretch.
std::vector<double> upper_envelope(const std::vector<ScoreBand>& bands);

}  // namespace rotary
