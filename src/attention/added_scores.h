// What is added to the scores of one query.
#pragma once

#include <cstdint>

#include "attention/problem.h"
#include "attention/sequences.h"
#include "attention/visible_keys.h"

namespace rotary {

/// Whether anything may be added to scores of the problem.
bool may_add_to_scores(const AttentionProblem& problem) noexcept;

/// The bias, attn_mask, and -infinity for what a scattered rule hides.
class AddedScores {
 public:
  explicit AddedScores(const AttentionProblem& problem) noexcept;

  bool may_add() const noexcept { return may_add_; }
  /// Whether anything is, in one sequence.
  bool any(const AttentionSequence& s) const noexcept { return adds_ || s.is_scattered(); }

  /// Where keys stand, if that matters to what is added.
  void load_positions(const AttentionSequence& s, std::int64_t first_key, std::int64_t num_keys,
                      double* positions) const noexcept;
  /// `line` receives the numbers for the keys first_key, first_key + 1, … of the sequence, which stand at `k_positions`.
  void row(const AttentionSequence& s, std::int64_t query, std::int64_t head, std::int64_t first_key, std::int64_t num_keys,
           const double* k_positions, double* line) const;

 private:
  void load_mask(const AttentionSequence& s, std::int64_t query, std::int64_t head, std::int64_t first_key,
                 std::int64_t num_keys, double* line) const noexcept;

  void add_bias(double q_position, std::int64_t head, std::int64_t num_keys, const double* k_positions, double* line) const;
  void add_function(double q_position, std::int64_t head, std::int64_t num_keys, const double* k_positions,
                    double* line) const;

  const AttentionProblem& p_;
  VisibleKeys visible_;
  const ConstTensorView& mask_;
  const PositionBias* bias_;
  BiasFunction function_;
  bool adds_, may_add_;
  std::int64_t row_step_, head_step_, query_step_, key_step_;  // of the mask
};

}  // namespace rotary
