// What is added to the scores of one query.
#pragma once

#include <cstdint>

#include "attention/problem.h"
#include "attention/sequences.h"
#include "attention/visible_keys.h"

namespace rotary {

/// attn_mask, and -infinity for what a scattered rule hides.
class AddedScores {
 public:
  explicit AddedScores(const AttentionProblem& problem) noexcept;

  /// Whether anything may be added to scores of the problem; whether it is, in one sequence.
  bool may_add() const noexcept { return may_add_; }
  bool any(const AttentionSequence& s) const noexcept { return mask_ || s.is_scattered(); }

  /// `line` receives the numbers for the keys first_key, first_key + 1, … of the sequence.
  void row(const AttentionSequence& s, std::int64_t query, std::int64_t head, std::int64_t first_key, std::int64_t num_keys,
           double* line) const noexcept;

 private:
  void load_mask(const AttentionSequence& s, std::int64_t query, std::int64_t head, std::int64_t first_key,
                 std::int64_t num_keys, double* line) const noexcept;

  VisibleKeys visible_;
  const ConstTensorView& mask_;
  bool may_add_;
  std::int64_t row_step_, head_step_, query_step_, key_step_;  // of the mask
};

}  // namespace rotary
