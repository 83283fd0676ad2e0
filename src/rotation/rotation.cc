#include "rotary/rotation.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/exact_angle.h"
#include "base/fail.h"

namespace rotary {
namespace {

constexpr const char* operation = "Rotation";

std::vector<Pair> resolve_pairs(const RotationSpec& spec, Pairing pairing, const std::vector<Pair>& listed,
                                const char* which) {
  const auto num_pairs = static_cast<std::int64_t>(spec.inv_freq.size());
  if (pairing == Pairing::listed) {
    if (static_cast<std::int64_t>(listed.size()) != num_pairs) {
      fail_argument(operation, which, " must list one pair per entry of inv_freq, got ", listed.size(), " and ", num_pairs);
    }
    std::vector<std::int64_t> channels;
    for (const Pair& pair : listed) {
      for (const std::int64_t channel : {pair.first, pair.second}) {
        if (channel < 0 || channel >= spec.head_dim) {
          fail_argument(operation, which, " must name channels below head_dim, got ", channel, " and ", spec.head_dim);
        }
        channels.push_back(channel);
      }
    }
    std::sort(channels.begin(), channels.end());
    const auto twice = std::adjacent_find(channels.begin(), channels.end());
    if (twice != channels.end()) fail_argument(operation, which, " must name no channel twice, got ", *twice);
    return listed;
  }
  if (!listed.empty()) fail_argument(operation, which, " belongs to the pairing `listed`, got ", name(pairing));
  if (pairing != Pairing::half && pairing != Pairing::interleaved) {
    fail_argument(operation, which, " follow a pairing that is known, got number ", static_cast<int>(pairing));
  }

  std::vector<Pair> pairs;
  pairs.reserve(spec.inv_freq.size());
  for (std::int64_t j = 0; j < num_pairs; ++j) {
    if (pairing == Pairing::half) pairs.push_back({spec.rotary_offset + j, spec.rotary_offset + j + num_pairs});
    else pairs.push_back({spec.rotary_offset + 2 * j, spec.rotary_offset + 2 * j + 1});
  }
  return pairs;
}

void check_slice(const RotationSpec& spec) {
  if (spec.head_dim < 1) fail_argument(operation, "head_dim must be at least 1, got ", spec.head_dim);
  if (spec.rotary_dim < 2 || spec.rotary_dim % 2 != 0 || spec.rotary_dim > spec.head_dim) {
    fail_argument(operation, "rotary_dim must be even, at least 2 and at most head_dim, got ", spec.rotary_dim, " and ",
                  spec.head_dim);
  }
  if (static_cast<std::int64_t>(spec.inv_freq.size()) * 2 != spec.rotary_dim) {
    fail_argument(operation, "inv_freq must have rotary_dim / 2 entries, got ", spec.inv_freq.size(), " for rotary_dim ",
                  spec.rotary_dim);
  }
  if (spec.rotary_offset < 0 || spec.rotary_offset > spec.head_dim - spec.rotary_dim) {
    fail_argument(operation, "rotary_offset must leave rotary_dim channels of head_dim, got ", spec.rotary_offset, ", ",
                  spec.rotary_dim, " and ", spec.head_dim);
  }
}

void check_numbers(const RotationSpec& spec) {
  for (std::size_t j = 0; j < spec.inv_freq.size(); ++j) {
    if (!(std::abs(spec.inv_freq[j]) <= 0x1p60)) {
      fail_argument(operation, "inv_freq must be finite and at most 2^60 in size, got ", spec.inv_freq[j], " for pair ", j);
    }
  }
  if (!(std::isfinite(spec.amplitude) && spec.amplitude > 0)) {
    fail_argument(operation, "amplitude must be finite and positive, got ", spec.amplitude);
  }
  if (!spec.ggml_divisors.empty() && spec.ggml_divisors.size() != spec.inv_freq.size()) {
    fail_argument(operation, "ggml_divisors must have one entry per pair or none, got ", spec.ggml_divisors.size(), " for ",
                  spec.inv_freq.size(), " pairs");
  }
  for (std::size_t j = 0; j < spec.ggml_divisors.size(); ++j) {
    if (!(std::isfinite(spec.ggml_divisors[j]) && spec.ggml_divisors[j] > 0)) {
      fail_argument(operation, "ggml_divisors must be finite and positive, got ", spec.ggml_divisors[j], " for pair ", j);
    }
  }
  if (spec.direction != 1 && spec.direction != -1)
    fail_argument(operation, "direction must be 1 or -1, got ", spec.direction);
}

/// Otherwise a channel would be written twice, or never.
void check_same_channels(const RotationSpec& spec) {
  std::vector<std::int64_t> in, out;
  for (const Pair& pair : spec.pairs_in) in.insert(in.end(), {pair.first, pair.second});
  for (const Pair& pair : spec.pairs_out) out.insert(out.end(), {pair.first, pair.second});
  std::sort(in.begin(), in.end());
  std::sort(out.begin(), out.end());
  if (in != out) fail_argument(operation, "pairs_in and pairs_out must use the same channels");
}

/// x / (2 pi) to 2^-104: three of its parts are enough.
DoubleDouble divide_by_two_pi(double x) noexcept {
  const DoubleDouble product = two_product(x, turns_per_radian[0]), tail = two_product(x, turns_per_radian[1]);
  const DoubleDouble middle = two_sum(product.lo, tail.hi);
  return fast_two_sum(product.hi, middle.hi + (middle.lo + (tail.lo + x * turns_per_radian[2])));
}

}  // namespace

const char* name(Pairing pairing) noexcept {
  switch (pairing) {
    case Pairing::unspecified: return "unspecified";
    case Pairing::half: return "half";
    case Pairing::interleaved: return "interleaved";
    case Pairing::listed: return "listed";
  }
  return "unknown";
}

Rotation::Rotation(RotationSpec spec) : spec_(std::move(spec)) {
  if (spec_.rotary_dim == 0) spec_.rotary_dim = 2 * static_cast<std::int64_t>(spec_.inv_freq.size());
  check_slice(spec_);
  check_numbers(spec_);

  if (spec_.pairing_in == Pairing::unspecified) {
    fail_argument(operation, "pairing_in must be half, interleaved or listed: a wrong guess gives fluent nonsense");
  }
  if (spec_.pairing_out == Pairing::unspecified) {
    spec_.pairing_out = spec_.pairing_in;
    if (spec_.pairs_out.empty()) spec_.pairs_out = spec_.pairs_in;
  }
  spec_.pairs_in = resolve_pairs(spec_, spec_.pairing_in, spec_.pairs_in, "pairs_in");
  spec_.pairs_out = resolve_pairs(spec_, spec_.pairing_out, spec_.pairs_out, "pairs_out");

  check_same_channels(spec_);

  if (spec_.axis.empty()) spec_.axis.assign(spec_.inv_freq.size(), 0);
  if (spec_.axis.size() != spec_.inv_freq.size()) {
    fail_argument(operation, "axis must have one entry per pair, got ", spec_.axis.size(), " for ", spec_.inv_freq.size(),
                  " pairs");
  }
  num_axes_ = 1 + *std::max_element(spec_.axis.begin(), spec_.axis.end());
  if (num_axes_ > max_position_axes) {
    fail_argument(operation, "axis must stay below ", max_position_axes, ", got ", num_axes_ - 1);
  }

  for (const double frequency : spec_.inv_freq) {
    const auto [hi, lo] = divide_by_two_pi(frequency);
    turns_hi_.push_back(hi);
    turns_lo_.push_back(lo);
    max_abs_inv_freq_ = std::max(max_abs_inv_freq_, std::abs(frequency));
  }
}

Rotation with_pairing(const Rotation& rotation, Pairing pairing) {
  for (const Pairing given : {rotation.pairing_in(), rotation.pairing_out(), pairing}) {
    if (given == Pairing::listed) fail_argument("with_pairing", "pairs that are listed one by one cannot be exchanged");
  }
  RotationSpec spec;
  spec.head_dim = rotation.head_dim();
  spec.rotary_dim = rotation.rotary_dim();
  spec.rotary_offset = rotation.rotary_offset();
  spec.pairing_in = pairing;
  spec.inv_freq = rotation.inv_freq();
  spec.axis = rotation.axis();
  spec.amplitude = rotation.amplitude();
  spec.direction = rotation.direction();
  spec.ggml_divisors = rotation.ggml_divisors();
  return Rotation(std::move(spec));
}

}  // namespace rotary
