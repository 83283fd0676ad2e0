// Does what a model computed agree with its rotation?
//
// From q, k and v as they were before the rotation, verify() computes the rotated heads and the attention in double, and
// compares them with what the model itself had at those places. For every element it knows how far float32 rounding in the
// model could have moved it (docs/cli.md derives the bound): a difference within it is explained, one beyond it is not.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/angles.hpp"
#include "rotary/attention.hpp"
#include "rotary/export.hpp"
#include "rotary/model.hpp"
#include "rotary/parallel.hpp"
#include "rotary/positions.hpp"
#include "rotary/progress.hpp"
#include "rotary/rotation.hpp"
#include "rotary/tensor.hpp"

namespace rotary {

/// What was captured. Axes S, H, D and B (which may be missing everywhere) in any order; f64, f32, f16 or bf16. Those of
/// q_rot, k_rot and attn_out that are given are checked: q_rot needs q, k_rot needs k, attn_out needs q, k and v.
struct Capture {
  ConstTensorView q = {};  ///< before the rotation (and after q-norm, where the model has one)
  ConstTensorView k = {};
  ConstTensorView v = {};
  ConstTensorView q_rot = {};
  ConstTensorView k_rot = {};
  ConstTensorView attn_out = {};  ///< softmax(scores) v, before the output projection
  ConstTensorView sinks = {};     ///< axis H, as in AttentionOptions; attn_out of a layer that has them needs them
  Positions positions = {};
};

struct VerifyOptions {
  Pairing pairing = Pairing::unspecified;  ///< half or interleaved instead of the model's own
  Precision precision = Precision::exact;  ///< of the tables that rotary uses
  Causal causal = Causal::bottom_right;
  Executor* executor = nullptr;
  Progress progress = {};  ///< a piece is a query head of a batch row; on the caller's thread
};

/// How one tensor of the capture compares.
struct TensorCheck {
  const char* name = "";  ///< "q_rot", "k_rot" or "attn_out"
  std::int64_t num_elements = 0;
  std::int64_t num_outside = 0;  ///< elements whose difference rounding does not explain
  double max_abs_diff = 0;       ///< infinite where one side is not a number
  double typical_diff = 0;       ///< root mean square, over the finite ones
  double max_ratio = 0;          ///< the largest difference in units of its element's own bound
  // The element with the largest difference:
  double bound = 0;
  double expected = 0;  ///< by rotary
  double found = 0;     ///< in the capture
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t token = 0;
  double position = 0;  ///< of that token, on the first axis
  std::int64_t channel = 0;

  bool ok() const noexcept { return num_elements > 0 && num_outside == 0; }
};

struct VerifyReport {
  std::vector<TensorCheck> tensors;
  bool ok() const noexcept;  ///< there is something, and all of it agrees
};

/// `scale` multiplies the scores. Errors: Error (invalid_argument) for tensors that do not fit together, and for one to
/// check that is empty.
ROTARY_API VerifyReport verify(const Capture& capture, const Rotation& rotation, double scale,
                               const VerifyOptions& options = {});
/// With the layer's rotation for as many tokens as the largest position asks, its softmax scale, window, chunks, factor on
/// queries and cap. Also checks the numbers of heads. Errors: also (unsupported) where there is an output to check and the
/// layer's attention is more than that: a factor on keys, norms after the rotation, values that turn.
ROTARY_API VerifyReport verify(const Capture& capture, const LayerRotation& layer, const VerifyOptions& options = {});

}  // namespace rotary
