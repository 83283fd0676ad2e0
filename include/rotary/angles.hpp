// cos and sin of position * inv_freq.
//
// `exact` is the default: the double inv_freq is the definition. Its product with the position is kept in two doubles and
// reduced; cos and sin, times the amplitude, are rounded once. Within 1 ulp of float32 at any position up to 2^53 (values
// below 2^-30: within 2^-50). The others replay the float32 recipe of a system that one has to match:
//
//     transformers   angle = float(p) * w in float32; cos, sin of that, correctly rounded. w is inv_freq where that is a
//                    float32 already (the system's own), else 1 / float(1 / inv_freq), as its default rule rounds: the
//                    same w in 19 of 20 entries. Its cosine is vectorised and can differ from this by 1 ulp. For equality
//                    bit for bit hand its tables in (AngleTable::given).
//     ggml           angle of pair j = p, multiplied j times by powf(base, -2/rotary_dim) in float32; libm's cosf and sinf.
//                    Bit for bit with glibc. base comes from inv_freq, which must be a geometric sequence, after
//                    RotationSpec::ggml_divisors where there are some; YaRN is refused (unsupported).
//
// Positions must be finite and at most 2^53 in size, and turn no pair by more than 2^60 radians.
// Errors: Error (invalid_argument) for such a position, Error (unsupported) for a rotation that `ggml` cannot express.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/export.hpp"
#include "rotary/rotation.hpp"
#include "rotary/tensor.hpp"

namespace rotary {

enum class Precision : std::uint8_t { exact, transformers, ggml };

ROTARY_API const char* name(Precision precision) noexcept;

/// cos and sin of one token's pairs, amplitude included, direction not. `position` has rotation.num_axes() entries;
/// `cos` and `sin` have rotation.num_pairs().
ROTARY_API void angles(const Rotation& rotation, const double* position, float* cos, float* sin,
                       Precision precision = Precision::exact);
/// The same in double, within 2 ulp of double (values below 2^-30: within 2^-80).
ROTARY_API void angles(const Rotation& rotation, const double* position, double* cos, double* sin);

/// cos and sin for many positions, made once and shared. Immutable: copies are cheap and see the same rows.
class ROTARY_API AngleTable {
 public:
  /// Rows for the positions first … first + count - 1. Where the position has several axes, a token takes each pair from
  /// the row of the axis that drives it.
  static AngleTable build(const Rotation& rotation, std::int64_t first, std::int64_t count,
                          Precision precision = Precision::exact);
  /// Somebody else's table, as it is: amplitude included, one column per pair (D = num_pairs), or one per channel
  /// (D = rotary_dim, in the order of pairing_in; both columns of a pair must agree). f64, f32, f16 or bf16.
  /// cos^2 + sin^2 must be amplitude^2 as far as the dtype can tell, which catches empty, foreign and unscaled tables.
  /// Axes "ND": row n belongs to position n. "SD", "BSD", "TD": one row per token, whatever its position.
  static AngleTable given(const Rotation& rotation, const ConstTensorView& cos, const ConstTensorView& sin);

  AngleTable(const AngleTable& other) noexcept;
  AngleTable& operator=(const AngleTable& other) noexcept;
  ~AngleTable();

  /// A table with at least `count` rows from the same first position. Earlier rows are the very same values; the memory
  /// of all but the last few is shared. A given table cannot grow: Error (invalid_argument) when it is too short.
  AngleTable extended(std::int64_t count) const;

  std::int64_t first_position() const noexcept;
  std::int64_t num_rows() const noexcept;  ///< over all batch rows where the table is per token
  std::int64_t num_pairs() const noexcept;
  /// What it was made for, which is where it is accepted: a built table by rotations of the same inv_freq and amplitude
  /// (whichever axis drives a pair: a row serves all of them), a given one by those of as many pairs and the same
  /// amplitude.
  const Rotation& rotation() const noexcept;
  bool is_given() const noexcept;
  bool per_token() const noexcept;
  std::int64_t batch_size() const noexcept;           ///< of a table per token: 1 unless it was given as "BSD"
  const float* cos(std::int64_t row) const noexcept;  ///< num_pairs() values
  const float* sin(std::int64_t row) const noexcept;

 private:
  struct Rows;
  explicit AngleTable(Rows* rows) noexcept : rows_(rows) {}
  Rows* rows_;  // counted
};

}  // namespace rotary
