// Sinusoidal encodings: positions that are added to embeddings, as before rotation.
//
// A pair of channels at position p holds amplitude * (sin(angle), cos(angle)), angle = p * inv_freq: the very angles of a
// rotation (Su et al. 2021 took theirs from here). So a Rotation describes an encoding, too: its pairs say which channels
// hold a sine and its cosine, its frequencies how fast they turn, its axes which coordinate of a position drives them.
//
//     a width of 8, interleaved:   s0 c0 s1 c1 s2 c2 s3 c3     (Vaswani et al. 2017, section 3.5)
//     a width of 8, half:          s0 s1 s2 s3 c0 c1 c2 c3     (tensor2tensor, fairseq, RoFormer in transformers)
//
// Tensors are f64, f32, f16 or bf16 views with axes named B, S (or T for packed tokens), H and D in any order; B and H may
// be missing, and all heads get the same. D must be the rotation's head_dim, which here is the width of the embedding.
// Channels outside the rotary slice are 0 in the table. Angles are exact at any position (angles.hpp). Arithmetic is in
// float32, in double where a tensor is f64; the result is rounded once to its dtype.
//
// Elements that are written must not overlap each other, nor those of the positions. Errors: Error (invalid_argument) for a
// wrong axis, dtype, width, length, position or table, Error (unsupported) for a rotation that Precision::ggml cannot
// express; nothing is written in that case.
#pragma once

#include <cstdint>

#include "rotary/export.hpp"
#include "rotary/positions.hpp"
#include "rotary/rotate.hpp"
#include "rotary/rotation.hpp"
#include "rotary/tensor.hpp"

namespace rotary {

/// The published encodings. The last two look alike and are different tables.
enum class Sinusoidal : std::uint8_t {
  interleaved,   ///< sine and cosine in turns, inv_freq[j] = 10000^(-2j / d)             (Vaswani et al. 2017)
  concatenated,  ///< all sines, then all cosines, the same inv_freq                      (RoFormer, Marian in transformers)
  tensor2tensor,  ///< all sines, then all cosines, inv_freq[j] = 10000^(-j / (d/2 - 1))   (tensor2tensor, fairseq, M2M-100)
};

ROTARY_API const char* name(Sinusoidal sinusoidal) noexcept;

/// The angles and channels of a published encoding. `width` is even and at least 2; with tensor2tensor it is at least 4, and
/// may be odd: the last channel is then 0, as there. Describe others by hand: another base, several axes, cosines first.
ROTARY_API Rotation sinusoidal_rotation(Sinusoidal sinusoidal, std::int64_t width);

/// Writes the encoding of every token's position to `out`.
ROTARY_API void sinusoidal(const TensorView& out, const Rotation& rotation, const Positions& positions = {},
                           const RotateOptions& options = {});

/// Adds the encoding of every token's position to x. Embeddings that a model scales (by sqrt(d) in Vaswani et al.) are the
/// caller's to scale first.
ROTARY_API void add_sinusoidal(const TensorView& x, const Rotation& rotation, const Positions& positions = {},
                               const RotateOptions& options = {});
/// Writes the sum to `out` (same axes by name and same sizes; dtypes and order in memory may differ). `out` may be x itself;
/// otherwise they must not overlap.
ROTARY_API void add_sinusoidal_to(const ConstTensorView& x, const TensorView& out, const Rotation& rotation,
                                  const Positions& positions = {}, const RotateOptions& options = {});

}  // namespace rotary
