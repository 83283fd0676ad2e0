#include "attention/sequences.h"

#include "attention/cached_sequences.h"

namespace rotary {

AttentionSequence sequence_tokens(const AttentionProblem& p, std::int64_t n) noexcept {
  AttentionSequence s{};
  s.number = n;
  if (p.is_packed()) {
    const ConstTensorView& q_ends = p.options.cu_seqlens;
    const ConstTensorView& k_ends = p.options.k_cu_seqlens ? p.options.k_cu_seqlens : q_ends;
    const auto begin = [](const ConstTensorView& ends, std::int64_t i) { return whole_number(ends, i * ends.stride('N')); };
    s.first_query = begin(q_ends, n);
    s.num_queries = begin(q_ends, n + 1) - s.first_query;
    s.first_key = begin(k_ends, n);
    s.num_keys = begin(k_ends, n + 1) - s.first_key;
  } else {
    s.row = n;
    s.num_queries = p.num_queries;
    s.num_keys = p.cached != nullptr ? p.cached->at(n).num_tokens : p.num_keys;
  }
  return s;
}

}  // namespace rotary
