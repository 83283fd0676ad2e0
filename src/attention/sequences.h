// The sequences of a call of attention(): tokens that may attend to each other.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/problem.h"

namespace rotary {

/// Keys begin … end - 1; none where end <= begin.
struct KeyRange {
  std::int64_t begin, end;
};

inline bool is_empty(const KeyRange& range) noexcept { return range.end <= range.begin; }

inline KeyRange common(const KeyRange& a, const KeyRange& b) noexcept {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

/// The smallest range that holds both.
inline KeyRange hull(const KeyRange& a, const KeyRange& b) noexcept {
  if (is_empty(a)) return b;
  if (is_empty(b)) return a;
  return {std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

/// A batch row, or one of the packed sequences (then row is 0); `number` counts either. Its queries and keys count from 0;
/// first_query and first_key say where they begin in the tensors.
struct AttentionSequence {
  std::int64_t number, row, first_query, num_queries, first_key, num_keys;
  std::int64_t prefix_length;
  KeyRange tokens;  // the keys outside are padding
  // Whether a rule hides a key between two keys that it shows: such a rule makes no range of keys.
  bool padding_is_scattered, chunks_are_scattered, documents_are_scattered;

  bool is_scattered() const noexcept { return padding_is_scattered || chunks_are_scattered || documents_are_scattered; }
};

/// Number `n` of the problem's sequences: its tokens alone. VisibleKeys::sequence() says everything.
AttentionSequence sequence_tokens(const AttentionProblem& problem, std::int64_t n) noexcept;

}  // namespace rotary
