// Attention where every sequence has one query at most: keys and values are read once, where they lie.
//
// The keys of a sequence are cut into parts of 1,024 or more, at most 8, which depend on their number alone. Each part has
// its own softmax; parts are merged in order. So the result is the same whether one thread does them all, or many.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/problem.h"

namespace rotary {

/// Whether DecodeTasks do the call: in float32, with rows of keys and values that lie in one piece and need not be turned,
/// nothing added to the scores, and heads for which 64 KiB of workspace suffice.
bool is_decode(const AttentionProblem& problem) noexcept;

/// The tasks of a call, and the memory that they need.
class DecodeTasks {
 public:
  explicit DecodeTasks(const AttentionProblem& problem);

  std::int64_t num_bytes() const noexcept;
  /// `memory` is the first of num_bytes() bytes, at a multiple of 64.
  void run(std::byte& memory) const;

 private:
  template <class Body>
  void for_tasks(std::byte* memory, std::int64_t tasks_per_group, const Body& body) const;
  void run_whole(std::byte* memory) const;
  void run_parts(std::byte* memory) const;

  const AttentionProblem& p_;
  std::int64_t group_heads_, groups_per_sequence_, num_groups_;  // KV heads of one sequence that are done together
  bool in_parts_;  // a task for every part, where there are few groups for many threads
  std::int64_t num_workers_, worker_bytes_, sums_bytes_;
};

}  // namespace rotary
