// The angles of all tokens where queries and keys share them: read once for all heads and sequences that come by.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "attention/arena.h"
#include "kernels/angle_runs.h"
#include "kernels/rotate.h"
#include "rotary/dtype.hpp"
#include "rotation/token_angles.h"

namespace rotary {

/// Of rows of T that a rotation turns.
template <class T>
PairFormat pair_format(const Rotation& rotation) noexcept {
  return {.dtype = dtype_of<T>,
          .interleaved = rotation.pairing_in() == Pairing::interleaved,
          .num_pairs = rotation.num_pairs()};
}

/// cos and sin in the order of the kernel, a run of tokens at a time, read when they are first asked for. Refers to the angles.
template <class T>
class KeptAngles {
 public:
  /// At least fewest_tokens_for_runs. Memory from `arena`, where it may only be counted.
  KeptAngles(const TokenAngles& angles, std::int64_t num_tokens, Arena& arena)
      : angles_(angles),
        format_(pair_format<T>(angles.rotation())),
        num_tokens_(num_tokens),
        step_(arranged_size(format_)) {
    if (std::is_same_v<T, float>) steps_.numbers = arena.take<double>(angle_steps_size(format_.num_pairs));
    rows_ = arena.take<T>(num_tokens_ * step_);
    const std::int64_t num_runs = (num_tokens + angle_run - 1) / angle_run;
    has_run_ = arena.take<bool>(num_runs);
    if (!arena.only_counts()) std::fill_n(has_run_, num_runs, false);
  }

  /// Of the tokens angle_run * run … of any batch row, arranged_size() numbers apart.
  T* run(std::int64_t run) noexcept {
    if (!has_run_[run]) read(run);
    has_run_[run] = true;
    return rows_ + run * angle_run * step_;
  }

 private:
  void read(std::int64_t run) noexcept {
    const std::int64_t end = std::min((run + 1) * angle_run, num_tokens_), half = step_ / 2;
    for (std::int64_t token = run * angle_run; token < end;) {
      T* const cos = rows_ + token * step_;
      std::int64_t length = 1;
      if constexpr (std::is_same_v<T, float>) {
        length = angles_.read_run(0, token, end - token, steps_, cos, cos + half, step_);
      } else {
        angles_.read(0, token, cos, cos + half);
      }
      arrange(format_, {cos, cos + half, length, step_}, cos);
      token += length;
    }
  }

  const TokenAngles& angles_;
  PairFormat format_;
  std::int64_t num_tokens_, step_;
  AngleSteps steps_;
  T* rows_;
  bool* has_run_;
};

}  // namespace rotary
