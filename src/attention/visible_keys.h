// Which keys a query sees, but for attn_mask: one rule for all that compute softmax attention.
#pragma once

#include <cstdint>

#include "attention/problem.h"
#include "attention/sequences.h"

namespace rotary {

/// A number or truth value per token of a view whose row axis may be missing, or of length 1, and then serves all rows.
struct TokenEntries {
  TokenEntries(const ConstTensorView& entries, char token_axis) noexcept;
  std::int64_t element(std::int64_t row, std::int64_t token) const noexcept { return row * row_step + token * token_step; }

  const ConstTensorView& view;
  std::int64_t row_step = 0, token_step = 0;
};

/// All rules together make one range of keys per query where they can; where one cannot (a scattered sequence), `shows`
/// decides within the range.
class VisibleKeys {
 public:
  explicit VisibleKeys(const AttentionProblem& problem) noexcept;

  /// Number `n` of the problem's sequences, with what the rules say about all its keys.
  AttentionSequence sequence(std::int64_t n) const noexcept;
  /// No key outside is seen by the query.
  KeyRange range(const AttentionSequence& s, std::int64_t query) const noexcept;
  /// Whether a key in that range is seen.
  bool shows(const AttentionSequence& s, std::int64_t query, std::int64_t key) const noexcept;

 private:
  bool is_token(const AttentionSequence& s, std::int64_t key) const noexcept;
  double chunk_of_query(const AttentionSequence& s, std::int64_t query) const noexcept;
  double chunk_of_key(const AttentionSequence& s, std::int64_t key) const noexcept;
  std::int64_t document_of_query(const AttentionSequence& s, std::int64_t query) const noexcept;
  std::int64_t document_of_key(const AttentionSequence& s, std::int64_t key) const noexcept;

  const AttentionProblem& p_;
  const AttentionOptions& options_;
  TokenEntries padding_, q_documents_, k_documents_;
  std::int64_t window_left_, window_right_;
  double chunk_size_;
};

}  // namespace rotary
