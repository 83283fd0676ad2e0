#include "tools/compare_rotations.h"

#include <algorithm>
#include <cmath>

#include "tools/pair_turns.h"

namespace rotary {
namespace {

/// So slow that no position up to 2^53 moves a pair by a step: 0, or ggml's divisor of 1e30.
bool at_rest(double turn) { return std::abs(turn) <= bfloat16_step * 0x1p-53; }

double relative_difference(double a, double b) { return a == b ? 0 : std::abs(a - b) / std::max(std::abs(a), std::abs(b)); }

std::optional<Rotation> rotation_of(const LayerRotation& layer, std::int64_t length) {
  if (!layer.rotates()) return {};
  return layer.rotation(length);
}

void count(PairsApart& pairs, const MatchedPair& pair, double a, double b) {
  if (pairs.count++ == 0) pairs.first = pair.index;
  pairs.last = pair.index;
  constexpr double slack = 1 + 0x1p-40;  // of pairs that differ alike, the first
  if (pairs.worst < 0 || relative_difference(a, b) > slack * relative_difference(pairs.a, pairs.b)) {
    pairs.worst = pair.index, pairs.a = a, pairs.b = b;
  }
}

class RotationComparer {
 public:
  RotationComparer(RotationsApart& found, double tolerance) : found_(found), tolerance_(tolerance) {}

  void compare(const Rotation* a, const Rotation* b, std::int64_t length) {
    const auto matched = match_pairs(a, b);
    found_.comparable = matched.has_value();
    if (!matched) {
      found_.by_channels = found_.same_channels = false;
      return;
    }
    found_.by_channels = matched->by_channels;
    found_.num_pairs = static_cast<std::int64_t>(matched->pairs.size());
    if (!found_.turns_differ()) compare_numbers(*matched, a, b, length);
    find_first_position(*matched, length);
  }

  /// Whether another length could tell more.
  bool settled() const {
    return !found_.comparable || (found_.turns_differ() && found_.first_position >= 0 &&
                                  (found_.first_length == 0 || found_.first_position < found_.first_length));
  }

 private:
  bool close(double a, double b) {
    const double difference = relative_difference(a, b);
    if (difference > tolerance_) return false;
    found_.largest_tolerated = std::max(found_.largest_tolerated, difference);
    return true;
  }
  bool close_turns(double a, double b) { return (at_rest(a) && at_rest(b)) || close(a, b); }

  void compare_numbers(const MatchedPairs& matched, const Rotation* a, const Rotation* b, std::int64_t length) {
    bool any_turns = false, all_mirrored = true;
    for (const MatchedPair& pair : matched.pairs) {
      if (pair.only_in_one) found_.same_channels = found_.same_channels && at_rest(pair.a.turn) && at_rest(pair.b.turn);
      any_turns = any_turns || !at_rest(pair.a.turn);
      all_mirrored = all_mirrored && close_turns(pair.a.turn, -pair.b.turn);
    }
    found_.mirrored = any_turns && all_mirrored;
    for (const MatchedPair& pair : matched.pairs) {
      if (pair.only_in_one && !at_rest(pair.a.turn + pair.b.turn)) continue;  // the channels differ, not the numbers
      const bool turn_the_same_way = found_.mirrored || close_turns(pair.a.turn, pair.b.turn);
      if (!turn_the_same_way) count(found_.inv_freq, pair, pair.a.turn, pair.b.turn);
      const bool both_turn = !at_rest(pair.a.turn) && !at_rest(pair.b.turn);
      if (both_turn && pair.a.axis != pair.b.axis) count(found_.axis, pair, pair.a.axis, pair.b.axis);
    }
    if (a != nullptr && b != nullptr) {
      found_.amplitude_a = a->amplitude(), found_.amplitude_b = b->amplitude();
      found_.amplitude = !close(found_.amplitude_a, found_.amplitude_b);
    }
    found_.length = length;
  }

  bool count_as_same(const MatchedPair& pair) {
    const bool same_axis = pair.a.axis == pair.b.axis || at_rest(pair.a.turn) || at_rest(pair.b.turn);
    return same_axis && close_turns(pair.a.turn, pair.b.turn) && close(pair.a.amplitude, pair.b.amplitude);
  }

  /// Of the first length in whose call the position lies; where there is none, the smallest position.
  void find_first_position(const MatchedPairs& matched, std::int64_t length) {
    std::int64_t first = -1, first_pair = -1;
    for (const MatchedPair& pair : matched.pairs) {
      if (count_as_same(pair)) continue;
      const std::int64_t position = first_position_apart(pair.a, pair.b);
      if (position >= 0 && (first < 0 || position < first)) first = position, first_pair = pair.index;
    }
    if (first < 0) return;
    const bool in_call = length == 0 || first < length;
    if (in_call || found_.first_position < 0 || first < found_.first_position) {
      found_.first_position = first, found_.first_pair = first_pair, found_.first_length = length;
    }
  }

  RotationsApart& found_;
  double tolerance_;
};

}  // namespace

RotationsApart compare_rotations(const LayerRotation& a, const LayerRotation& b, const std::vector<std::int64_t>& lengths,
                                 double tolerance) {
  RotationsApart found;
  RotationComparer comparer(found, tolerance);
  for (const std::int64_t length : lengths) {
    const auto rotation_a = rotation_of(a, length), rotation_b = rotation_of(b, length);
    comparer.compare(rotation_a ? &*rotation_a : nullptr, rotation_b ? &*rotation_b : nullptr, length);
    if (comparer.settled()) break;
  }
  return found;
}

}  // namespace rotary
