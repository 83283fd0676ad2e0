// The central type: how one attention head turns with position.
//
// A rotation is small. Each pair of channels (u, v) at position p turns counter-clockwise by angle = p * inv_freq:
//
//     u' = amplitude * (u cos(angle) - v sin(angle))
//     v' = amplitude * (v cos(angle) + u sin(angle))
//
// (Su et al. 2021, RoFormer, equations 14 and 34.) What differs between models is only description: which channels pair up,
// how fast each pair turns, and which axis of the position drives it.
//
//     a head of 8, half:         x0 x4 | x1 x5 | x2 x6 | x3 x7     (GPT-NeoX, Hugging Face Llama, ggml NEOX)
//     a head of 8, interleaved:  x0 x1 | x2 x3 | x4 x5 | x6 x7     (GPT-J, Meta Llama, ggml NORM, complex numbers)
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/export.hpp"

namespace rotary {

/// Positions have at most this many axes.
inline constexpr int max_position_axes = 8;

/// Which channels of the rotary slice form pair j, for a slice of rotary_dim = 2 * num_pairs channels.
enum class Pairing : std::uint8_t {
  unspecified,  ///< refused everywhere: nothing here guesses the pairing
  half,         ///< (j, j + num_pairs)
  interleaved,  ///< (2j, 2j + 1)
  listed,       ///< given pair by pair
};

ROTARY_API const char* name(Pairing pairing) noexcept;

/// The two channels of a pair, counted from the start of the head.
struct Pair {
  std::int64_t first;
  std::int64_t second;
  bool operator==(const Pair&) const = default;
};

/// The plain description from which a Rotation is made.
struct RotationSpec {
  std::int64_t head_dim = 0;
  std::int64_t rotary_dim = 0;     ///< channels that turn; 0: two per entry of inv_freq. Even and at most head_dim.
  std::int64_t rotary_offset = 0;  ///< first channel of the slice that turns; ignored where both pairings are listed
  Pairing pairing_in = Pairing::unspecified;
  /// Unspecified: as pairing_in. They differ where a model reads neighbours and writes halves.
  Pairing pairing_out = Pairing::unspecified;
  std::vector<double> inv_freq = {};    ///< radians per position, one per pair; at most 2^60 in size, zero allowed
  std::vector<std::uint8_t> axis = {};  ///< which axis of the position drives each pair; empty: axis 0 for all
  double amplitude = 1;                 ///< multiplied into cos and sin; finite and positive
  int direction = 1;                    ///< 1 counter-clockwise, -1 clockwise
  std::vector<Pair> pairs_in = {};      ///< for Pairing::listed: one per entry of inv_freq, no channel twice
  std::vector<Pair> pairs_out = {};
  /// ggml's per-pair divisors (the tensor rope_freqs.weight), already divided into inv_freq. Only Precision::ggml reads
  /// them, to divide where ggml does. Empty: none.
  std::vector<double> ggml_divisors = {};
};

/// A checked description, ready for use. Immutable, so that it can be shared between threads and layers.
class ROTARY_API Rotation {
 public:
  /// Throws Error (invalid_argument) naming the rule that the description breaks.
  explicit Rotation(RotationSpec spec);

  std::int64_t head_dim() const noexcept { return spec_.head_dim; }
  std::int64_t rotary_dim() const noexcept { return spec_.rotary_dim; }
  std::int64_t rotary_offset() const noexcept { return spec_.rotary_offset; }
  std::int64_t num_pairs() const noexcept { return static_cast<std::int64_t>(spec_.inv_freq.size()); }
  int num_axes() const noexcept { return num_axes_; }
  Pairing pairing_in() const noexcept { return spec_.pairing_in; }
  Pairing pairing_out() const noexcept { return spec_.pairing_out; }
  double amplitude() const noexcept { return spec_.amplitude; }
  int direction() const noexcept { return spec_.direction; }
  const std::vector<double>& inv_freq() const noexcept { return spec_.inv_freq; }
  const std::vector<std::uint8_t>& axis() const noexcept { return spec_.axis; }  ///< one per pair, never empty
  /// The channels of every pair, also for half and interleaved.
  const std::vector<Pair>& pairs_in() const noexcept { return spec_.pairs_in; }
  const std::vector<Pair>& pairs_out() const noexcept { return spec_.pairs_out; }

  const std::vector<double>& ggml_divisors() const noexcept { return spec_.ggml_divisors; }

  /// inv_freq / (2 pi), turns per position, as an unevaluated sum of two doubles (relative error below 2^-104).
  const std::vector<double>& turns_hi() const noexcept { return turns_hi_; }
  const std::vector<double>& turns_lo() const noexcept { return turns_lo_; }
  double max_abs_inv_freq() const noexcept { return max_abs_inv_freq_; }

 private:
  RotationSpec spec_;
  std::vector<double> turns_hi_;
  std::vector<double> turns_lo_;
  double max_abs_inv_freq_ = 0;
  int num_axes_ = 1;
};

/// The same turns of a slice whose channels are paired otherwise, in and out: half or interleaved. For q and k of weights
/// whose rows were permuted, such as those in a GGUF.
ROTARY_API Rotation with_pairing(const Rotation& rotation, Pairing pairing);

}  // namespace rotary
