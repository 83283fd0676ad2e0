#include "tools/pair_turns.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <set>
#include <tuple>
#include <utility>

namespace rotary {
namespace {

using Channels = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;  // in, in, out, out

struct PlacedTurn {
  PairTurn turn;
  std::int64_t index;
};

PairTurn turn_of(const Rotation& rotation, std::size_t pair) {
  return {rotation.direction() * rotation.inv_freq()[pair], rotation.amplitude(), rotation.axis()[pair]};
}

/// By channels, the smaller one first: (v, u) turned one way is (u, v) turned the other.
std::map<Channels, PlacedTurn> by_channels(const Rotation* rotation) {
  std::map<Channels, PlacedTurn> turns;
  if (rotation == nullptr) return turns;
  for (std::size_t j = 0; j < rotation->inv_freq().size(); ++j) {
    Pair in = rotation->pairs_in()[j], out = rotation->pairs_out()[j];
    PairTurn turn = turn_of(*rotation, j);
    if (in.first > in.second) {
      std::swap(in.first, in.second);
      std::swap(out.first, out.second);
      turn.turn = -turn.turn;
    }
    turns[{in.first, in.second, out.first, out.second}] = {turn, static_cast<std::int64_t>(j)};
  }
  return turns;
}

/// Whether some channel of these pairs is in or out of one of those.
bool touch(const std::vector<Channels>& these, const std::map<Channels, PlacedTurn>& those) {
  std::set<std::int64_t> in, out;
  for (const auto& [channels, turn] : those) {
    in.insert({std::get<0>(channels), std::get<1>(channels)});
    out.insert({std::get<2>(channels), std::get<3>(channels)});
  }
  return std::any_of(these.begin(), these.end(), [&](const Channels& channels) {
    return in.contains(std::get<0>(channels)) || in.contains(std::get<1>(channels)) ||
           out.contains(std::get<2>(channels)) || out.contains(std::get<3>(channels));
  });
}

std::vector<Channels> keys_missing_in(const std::map<Channels, PlacedTurn>& all,
                                      const std::map<Channels, PlacedTurn>& other) {
  std::vector<Channels> missing;
  for (const auto& [channels, turn] : all) {
    if (!other.contains(channels)) missing.push_back(channels);
  }
  return missing;
}

bool stays_in_place(const Channels& channels) {
  return std::get<0>(channels) == std::get<2>(channels) && std::get<1>(channels) == std::get<3>(channels);
}

std::optional<MatchedPairs> match_by_channels(const Rotation* a, const Rotation* b) {
  const auto in_a = by_channels(a), in_b = by_channels(b);
  const auto only_a = keys_missing_in(in_a, in_b), only_b = keys_missing_in(in_b, in_a);
  if (touch(only_a, in_b) || touch(only_b, in_a)) return {};
  for (const auto* only : {&only_a, &only_b}) {
    if (!std::all_of(only->begin(), only->end(), stays_in_place)) return {};
  }
  MatchedPairs matched{{}, true};
  for (const auto& [channels, placed] : in_a) {
    const auto partner = in_b.find(channels);
    matched.pairs.push_back(
        {placed.turn, partner == in_b.end() ? PairTurn{} : partner->second.turn, placed.index, partner == in_b.end()});
  }
  for (const Channels& channels : only_b) {
    const PlacedTurn& placed = in_b.at(channels);
    matched.pairs.push_back({PairTurn{}, placed.turn, placed.index, true});
  }
  std::stable_sort(matched.pairs.begin(), matched.pairs.end(),
                   [](const MatchedPair& x, const MatchedPair& y) { return x.index < y.index; });
  return matched;
}

/// Half the turn by which two unit vectors with these lengths part by exactly a step.
double angle_of_a_step(double amplitude_a, double amplitude_b) {
  const double step = bfloat16_step * std::max(amplitude_a, amplitude_b), stretch = amplitude_a - amplitude_b;
  // |A e^(ix) - B e^(iy)|^2 = (A - B)^2 + 4 A B sin^2((x - y) / 2)
  return 2 * std::asin(std::sqrt((step * step - stretch * stretch) / (4 * amplitude_a * amplitude_b)));
}

}  // namespace

std::optional<MatchedPairs> match_pairs(const Rotation* a, const Rotation* b) {
  const bool same_head = a == nullptr || b == nullptr || a->head_dim() == b->head_dim();
  if (same_head) {
    if (auto matched = match_by_channels(a, b)) return matched;
  }
  if (a == nullptr || b == nullptr || a->num_pairs() != b->num_pairs()) return {};
  MatchedPairs matched{{}, false};
  for (std::size_t j = 0; j < a->inv_freq().size(); ++j) {
    matched.pairs.push_back({turn_of(*a, j), turn_of(*b, j), static_cast<std::int64_t>(j)});
  }
  return matched;
}

std::int64_t first_position_apart(const PairTurn& a, const PairTurn& b) {
  if (a.axis != b.axis && a.turn != 0 && b.turn != 0) {
    const std::int64_t along_a = first_position_apart({a.turn, a.amplitude, 0}, {0, b.amplitude, 0});
    const std::int64_t along_b = first_position_apart({0, a.amplitude, 0}, {b.turn, b.amplitude, 0});
    return along_a < 0 || (along_b >= 0 && along_b < along_a) ? along_b : along_a;
  }
  if (std::abs(a.amplitude - b.amplitude) > bfloat16_step * std::max(a.amplitude, b.amplitude)) return 0;
  const double per_position = std::abs(std::remainder(a.turn - b.turn, 2 * std::numbers::pi));
  // From 0 on the angle between them grows by at most pi, so the first multiple beyond the step cannot leap over it.
  const double before = std::floor(angle_of_a_step(a.amplitude, b.amplitude) / per_position);
  return before < 0x1p53 ? static_cast<std::int64_t>(before) + 1 : -1;
}

}  // namespace rotary
