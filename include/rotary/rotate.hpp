// Turning queries and keys.
//
// Tensors are f64, f32, f16 or bf16 views with axes named B, S (or T for packed tokens), H and D in any order; B and H may
// be missing. D must be the rotation's head_dim. A c64 or c128 tensor holds a pair per number: D is half of head_dim and
// contiguous, the pairing interleaved. Channels outside the rotary slice are copied, bit by bit where the dtype stays.
// Values are never turned by anything here unless they are handed in.
//
// Arithmetic is in float32 (double where a tensor is f64), and the result is rounded once to its dtype. With Precision
//     exact          u c - v s and u s + v c with one fma each, where the instruction set has it
//     ggml           the same with fma everywhere: bit for bit ggml's CPU code, built with FMA
//     transformers   every product and the sum are rounded to the dtype of x, and before that cos and sin:
//                    bit for bit, given its own cos and sin (AngleTable::given)
//
// Common to all functions below. Elements that are written must not overlap each other, nor those of the other tensor, nor
// the positions or distances.
// A table must have been made for the rotation (AngleTable::rotation). One by position needs a row for every position; one
// by token has as many rows as there are tokens, and positions are left out. Errors: Error (invalid_argument) for a wrong
// axis, dtype, width, length, position or table, Error (unsupported) for a rotation that Precision::ggml cannot express;
// nothing is written in that case.
#pragma once

#include "rotary/angles.hpp"
#include "rotary/export.hpp"
#include "rotary/parallel.hpp"
#include "rotary/positions.hpp"
#include "rotary/rotation.hpp"
#include "rotary/tensor.hpp"

namespace rotary {

struct RotateOptions {
  Precision precision = Precision::exact;
  const AngleTable* table = nullptr;  ///< rows to use instead of computing angles; every position must have its row
  Executor* executor = nullptr;       ///< nullptr: the caller's thread
};

/// Turns q and k in place, angles computed once for both. Their head counts may differ.
ROTARY_API void rotate(const TensorView& q, const TensorView& k, const Rotation& rotation, const Positions& positions = {},
                       const RotateOptions& options = {});
/// Turns one tensor in place.
ROTARY_API void rotate(const TensorView& x, const Rotation& rotation, const Positions& positions = {},
                       const RotateOptions& options = {});
/// Writes the turned x to `out` (same axes by name and same sizes; dtypes and order in memory may differ).
/// `out` may be x itself; otherwise they must not overlap.
ROTARY_API void rotate_to(const ConstTensorView& x, const TensorView& out, const Rotation& rotation,
                          const Positions& positions = {}, const RotateOptions& options = {});

// Each of the following turns in place, or as rotate_to() does to `out`.

/// The inverse: brings back what rotate() was given (angle negated, amplitude divided out), read in pairing_out, written in
/// pairing_in.
ROTARY_API void unrotate(const TensorView& x, const Rotation& rotation, const Positions& positions = {},
                         const RotateOptions& options = {});
ROTARY_API void unrotate_to(const ConstTensorView& x, const TensorView& out, const Rotation& rotation,
                            const Positions& positions = {}, const RotateOptions& options = {});

/// The backward pass of rotate(): turns gradients of the output into gradients of the input. It is the transpose: the angle
/// is negated and the amplitude kept.
ROTARY_API void rotate_backward(const TensorView& gradient, const Rotation& rotation, const Positions& positions = {},
                                const RotateOptions& options = {});
ROTARY_API void rotate_backward_to(const ConstTensorView& gradient, const TensorView& out, const Rotation& rotation,
                                   const Positions& positions = {}, const RotateOptions& options = {});

/// Moves keys that are already rotated by `distance` positions, so that they are as if rotated at position + distance:
/// a pure rotation, amplitude untouched, pairs as pairing_out lays them. Needed after tokens were dropped from a cache.
/// On all axes of the position alike. Takes no table. In float32 a shift adds at most 2^-22 of a pair's length as an error;
/// a thousand add up.
ROTARY_API void shift(const TensorView& rotated, const Rotation& rotation, double distance,
                      const RotateOptions& options = {});
ROTARY_API void shift_to(const ConstTensorView& rotated, const TensorView& out, const Rotation& rotation, double distance,
                         const RotateOptions& options = {});
/// A distance per batch row ("B"), per token ("S", "BS", "T"), or per axis and token ("AS", "ABS", "AT"); i32, i64 or f64.
ROTARY_API void shift(const TensorView& rotated, const Rotation& rotation, const ConstTensorView& distances,
                      const RotateOptions& options = {});
ROTARY_API void shift_to(const ConstTensorView& rotated, const TensorView& out, const Rotation& rotation,
                         const ConstTensorView& distances, const RotateOptions& options = {});

/// The rotation at one position as a matrix, head_dim x head_dim, row-major: y = M x, amplitude included. Block-diagonal
/// where pairs are neighbours (Su et al. 2021, equation 15). For teaching and tests.
ROTARY_API std::vector<double> rotation_matrix(const Rotation& rotation, const std::vector<double>& position);

}  // namespace rotary
