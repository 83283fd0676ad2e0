#include "rotary/attention_backward.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>

#include "attention/aligned_array.h"
#include "attention/arena.h"
#include "attention/backward_part.h"
#include "attention/backward_problem.h"
#include "attention/key_sums.h"
#include "attention/sequences.h"
#include "attention/tensor_checks.h"
#include "base/apart.h"
#include "base/fail.h"
#include "base/parallel.h"

namespace rotary {
namespace {

constexpr AttentionNames names{"attention_backward", "attention_backward, q_positions", "attention_backward, k_positions"};
constexpr const char* operation = names.operation;

/// A sequence's share of the tasks: one per part of its queries and KV head.
template <class T>
struct SequenceTasks {
  AttentionSequence sequence;
  std::int64_t first_task, num_parts;
  T* sums;                          // of dk and dv, one KV head after another
  std::atomic<std::int64_t>* done;  // of every KV head and part
};

template <class T>
class BackwardTasks {
 public:
  BackwardTasks(const BackwardProblem& problem, Executor* executor)
      : b_(problem), p_(problem.forward), executor_(executor), worker_bytes_(count_worker_bytes()) {
    for (std::int64_t n = 0; n < p_.num_sequences; ++n) num_tasks_ += num_parts(sequence_tokens(p_, n)) * p_.num_kv_heads;
    num_workers_ = std::min<std::int64_t>(num_tasks_, executor_ != nullptr ? executor_->concurrency() : 1);
  }

  std::int64_t num_bytes() const {
    Arena count;
    take(count);
    return count.num_bytes();
  }

  /// `memory` is the first of num_bytes() bytes, at a multiple of 64.
  void run(std::byte& memory) const {
    Arena arena(memory);
    const Memory at = take(arena);
    std::atomic<std::int64_t> next{0};  // in order: a part waits for the one before
    parallel_for(executor_, num_workers_, [&](std::int64_t worker) {
      Arena own(at.workers[worker * worker_bytes_]);
      BackwardPart<T> part(b_, own);
      for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < num_tasks_;) run_task(at, i, part);
    });
  }

 private:
  struct Memory {
    SequenceTasks<T>* sequences;
    std::byte* workers;
  };

  Memory take(Arena& arena) const {
    Memory at{arena.take<SequenceTasks<T>>(p_.num_sequences), nullptr};
    std::int64_t first_task = 0;
    for (std::int64_t n = 0; n < p_.num_sequences; ++n) {
      const AttentionSequence tokens = sequence_tokens(p_, n);
      SequenceTasks<T> tasks{{}, first_task, num_parts(tokens), nullptr, nullptr};
      first_task += tasks.num_parts * p_.num_kv_heads;
      if (tasks.num_parts > 1) {
        tasks.sums = arena.take<T>(p_.num_kv_heads * sums_of_head(tokens));
        tasks.done = arena.take<std::atomic<std::int64_t>>(p_.num_kv_heads * tasks.num_parts);
      }
      if (arena.only_counts()) continue;
      for (std::int64_t i = 0; tasks.done != nullptr && i < p_.num_kv_heads * tasks.num_parts; ++i) {
        std::construct_at(tasks.done + i, 0);
      }
      tasks.sequence = sequence(p_, n);
      at.sequences[n] = tasks;
    }
    at.workers = arena.take<std::byte>(num_workers_ * worker_bytes_);
    return at;
  }

  std::int64_t count_worker_bytes() const {
    Arena count;
    const BackwardPart<T> part(b_, count);
    return count.num_bytes();
  }

  /// At least one, which writes zeros for keys that no query sees.
  std::int64_t num_parts(const AttentionSequence& tokens) const noexcept {
    const std::int64_t rows = BackwardPart<T>::num_rows(p_);
    return std::max<std::int64_t>((BackwardRows<T>::count(p_, tokens) + rows - 1) / rows, 1);
  }
  std::int64_t sums_of_head(const AttentionSequence& tokens) const noexcept {
    return tokens.num_keys * (p_.head_dim + p_.value_dim);
  }

  void run_task(const Memory& at, std::int64_t task, BackwardPart<T>& part) const {
    const SequenceTasks<T>* const first = at.sequences;
    const SequenceTasks<T>* const after = std::upper_bound(
        first, first + p_.num_sequences, task, [](std::int64_t i, const SequenceTasks<T>& s) { return i < s.first_task; });
    const SequenceTasks<T>& tasks = after[-1];
    const std::int64_t kv_head = (task - tasks.first_task) % p_.num_kv_heads;
    KeySums<T> sums{(task - tasks.first_task) / p_.num_kv_heads, tasks.num_parts, nullptr, nullptr, nullptr};
    if (tasks.num_parts > 1) {
      sums.dkeys = tasks.sums + kv_head * sums_of_head(tasks.sequence);
      sums.dvalues = sums.dkeys + tasks.sequence.num_keys * p_.head_dim;
      sums.done = tasks.done + kv_head * tasks.num_parts;
    }
    try {
      part.run(tasks.sequence, kv_head, sums);
    } catch (...) {  // of a caller's bias function: nobody may wait for this part, nor overtake the ones before it
      const std::int64_t last_block = part.num_blocks(tasks.sequence) - 1;
      sums.wait_for_turn(last_block);
      sums.pass_turn(last_block);
      throw;
    }
  }

  const BackwardProblem& b_;
  const AttentionProblem& p_;
  Executor* executor_;
  std::int64_t worker_bytes_, num_tasks_ = 0, num_workers_ = 0;
};

template <class T>
void attend_backward(const BackwardProblem& problem, Executor* executor) {
  const BackwardTasks<T> tasks(problem, executor);
  const AlignedArray<std::byte> memory = unset_array<std::byte>(tasks.num_bytes());
  tasks.run(memory[0]);
}

}  // namespace

void attention_backward(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                        const ConstTensorView& out, const ConstTensorView& dout, const AttentionGradients& gradients,
                        const AttentionOptions& options, const ConstTensorView& dlse) {
  const TensorView nothing;
  const AttentionProblem problem = check_attention_inputs(names, q, k, v, nothing, options);
  check_attention_result(problem, out, "out");
  check_attention_result(problem, dout, "dout");
  if (!options.lse) fail_argument(operation, "lse must be given, as attention() wrote it");
  check_attention_numbers(problem, options.lse, "lse");
  if (dlse) check_attention_numbers(problem, dlse, "dlse");
  const struct {
    const TensorView& view;
    const char* name;
    const ConstTensorView& like;
    const char* whose;
  } written[] = {{gradients.q, "dq", q, "q"}, {gradients.k, "dk", k, "k"}, {gradients.v, "dv", v, "v"}};
  bool in_double = false;
  for (const auto& [view, name, like, whose] : written) {
    if (!view) continue;
    TensorChecks{operation}.shape(view, name, like, whose, like, whose);
    check_attention_written(problem, view, name);
    check_apart(operation, name, view, "out", out);
    check_apart(operation, name, view, "dout", dout);
    check_apart(operation, name, view, "lse", options.lse);
    check_apart(operation, name, view, "dlse", dlse);
    for (const auto& other : written) {
      if (&other.view != &view) check_apart(operation, name, view, other.name, other.view);
    }
    in_double = in_double || view.dtype() == DType::f64;
  }
  for (const ConstTensorView* x : {&q, &k, &v, &out, &dout}) in_double = in_double || x->dtype() == DType::f64;
  if (problem.num_kv_heads == 0) return;
  const BackwardProblem backward{problem, out, dout, dlse, gradients};
  if (in_double) attend_backward<double>(backward, options.executor);
  else attend_backward<float>(backward, options.executor);
}

}  // namespace rotary
