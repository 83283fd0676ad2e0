// Attention where every sequence has one query at most: keys and values are read once, where they lie. Keys that turn do so
// step by step.
//
// The keys of a sequence are cut into parts of 1,024 or more, at most 8, which depend on their number alone. Each part has
// its own softmax; parts are merged in order. So the result is the same whether one thread does them all, or many.
#pragma once

#include <cstddef>
#include <cstdint>

#include "attention/decoder.h"
#include "attention/problem.h"
#include "attention/visible_keys.h"

namespace rotary {

/// Whether every sequence has one query at most.
bool has_single_queries(const AttentionProblem& problem) noexcept;

/// The tasks of a call, and the memory that they need.
class DecodeTasks {
 public:
  /// Whether they compute what the problem asks for, were it of single queries: in float32, with rows of keys and values that
  /// lie in one piece, keys that are float32 where they turn, and nothing added to the scores.
  static bool suit(const AttentionProblem& problem) noexcept;

  explicit DecodeTasks(const AttentionProblem& problem);

  /// Whether 64 KiB of memory suffice for one KV head. Otherwise the call is not for them.
  bool fit() const noexcept { return fit_; }
  std::int64_t num_bytes() const noexcept;
  /// `memory` is the first of num_bytes() bytes, at a multiple of 64.
  void run(std::byte& memory);

 private:
  template <std::int64_t tasks_per_group, class Body>
  void for_tasks(std::byte* memory, const Body& body);
  void run_whole(std::byte* memory);
  void run_parts(std::byte* memory);

  const AttentionProblem& p_;
  VisibleKeys visible_;
  Decoder decoder_;                                              // what each thread has a copy of
  std::int64_t group_heads_, groups_per_sequence_, num_groups_;  // KV heads of one sequence that are done together
  bool fit_;
  bool in_parts_;  // a task for every part, where there are few groups for many threads
  std::int64_t num_workers_, worker_bytes_, sums_bytes_ = 0;
};

}  // namespace rotary
