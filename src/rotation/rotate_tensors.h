// The loop over the tokens and heads of tensors: everything is checked already, and each row goes to the kernel.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rotary/parallel.hpp"
#include "rotary/rotation.hpp"
#include "rotary/tensor.hpp"
#include "rotation/positions.h"
#include "rotation/token_angles.h"

namespace rotary {

/// One tensor to turn: from `x` to `out`, which is the same view, or shares no memory with it.
struct TensorToRotate {
  ConstTensorView x;
  TensorView out;
};

/// Where pairs are read and where they are written: the two pairings of a rotation, in this order or the other.
struct PairMap {
  Pairing from, to;
  const std::vector<Pair>& from_pairs;
  const std::vector<Pair>& to_pairs;

  static PairMap forward(const Rotation& r) { return {r.pairing_in(), r.pairing_out(), r.pairs_in(), r.pairs_out()}; }
  static PairMap backward(const Rotation& r) { return {r.pairing_out(), r.pairing_in(), r.pairs_out(), r.pairs_in()}; }
  /// Of what is turned already.
  static PairMap rotated(const Rotation& r) { return {r.pairing_out(), r.pairing_out(), r.pairs_out(), r.pairs_out()}; }
};

/// Turns all tensors, which have the same tokens. The result does not depend on the executor.
void rotate_tensors(std::span<const TensorToRotate> tensors, const Tokens& tokens, const PairMap& map,
                    const TokenAngles& angles, Executor* executor);

}  // namespace rotary
