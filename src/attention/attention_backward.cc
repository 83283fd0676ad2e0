#include "rotary/attention_backward.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <iterator>
#include <memory>

#include "attention/arena.h"
#include "attention/backward_part.h"
#include "attention/backward_problem.h"
#include "attention/key_sums.h"
#include "attention/sequences.h"
#include "attention/tensor_checks.h"
#include "attention/workspace.h"
#include "base/apart.h"
#include "base/element.h"
#include "base/fail.h"
#include "base/parallel.h"

namespace rotary {
namespace {

constexpr AttentionNames names{"attention_backward", "attention_backward, q_positions", "attention_backward, k_positions"};
constexpr const char* operation = names.operation;

void check_dsinks(const AttentionProblem& p, const ConstTensorView& view) {
  constexpr TensorChecks checks{operation};
  if (!p.options.sinks) fail_argument(operation, "dsinks need sinks");
  checks.given(view, "dsinks");
  if (view.rank() != 1 || !view.has('H')) {
    fail_argument(operation, "dsinks must have the axis H alone, got \"", view.axes().c_str(), "\"");
  }
  checks.size('H', view, "dsinks", p.num_q_heads, "q");
}

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
    num_workers_ = std::min(num_tasks_, concurrency(executor_));
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
    if (b_.gradients.sinks) store_dsinks(at.dsinks);
  }

 private:
  struct Memory {
    SequenceTasks<T>* sequences;
    double* dsinks;  // what each task finds, one per head that shares its KV head
    std::byte* workers;
  };

  Memory take(Arena& arena) const {
    Memory at{arena.take<SequenceTasks<T>>(p_.num_sequences),
              b_.gradients.sinks ? arena.take<double>(num_tasks_ * p_.heads_per_kv_head) : nullptr, nullptr};
    const VisibleKeys visible(p_);
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
      tasks.sequence = visible.sequence(n);
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
    double* const dsinks = at.dsinks != nullptr ? at.dsinks + task * p_.heads_per_kv_head : nullptr;
    if (dsinks != nullptr) std::fill_n(dsinks, p_.heads_per_kv_head, 0.0);
    try {
      part.run(tasks.sequence, kv_head, sums, dsinks);
    } catch (...) {  // of a caller's bias function: nobody may wait for this part, nor overtake the ones before it
      const std::int64_t last_block = part.num_blocks(tasks.sequence) - 1;
      sums.wait_for_turn(last_block);
      sums.pass_turn(last_block);
      throw;
    }
  }

  /// Sums in the order of the tasks. Those of a KV head are num_kv_heads apart, in every sequence.
  void store_dsinks(const double* of_tasks) const noexcept {
    const TensorView& to = b_.gradients.sinks;
    const std::int64_t group = p_.heads_per_kv_head;
    for (std::int64_t head = 0; head < p_.num_q_heads; ++head) {
      double sum = 0;
      for (std::int64_t i = head / group; i < num_tasks_; i += p_.num_kv_heads) sum += of_tasks[i * group + head % group];
      store_element(to.dtype(), to.data(), head * to.stride('H'), sum);
    }
  }

  const BackwardProblem& b_;
  const AttentionProblem& p_;
  Executor* executor_;
  std::int64_t worker_bytes_, num_tasks_ = 0, num_workers_ = 0;
};

/// body(tasks of the call), in the type that it computes in.
template <class Body>
auto with_tasks(const BackwardProblem& b, const Body& body) {
  const AttentionProblem& p = b.forward;
  const ConstTensorView deciding[] = {p.q, p.k, p.v, b.out, b.dout, b.gradients.q, b.gradients.k, b.gradients.v};
  const bool in_double = std::any_of(std::begin(deciding), std::end(deciding),
                                     [](const ConstTensorView& x) { return x && x.dtype() == DType::f64; });
  if (in_double) return body(BackwardTasks<double>(b, p.options.executor));
  return body(BackwardTasks<float>(b, p.options.executor));
}

void check(const BackwardProblem& b) {
  constexpr TensorChecks checks{operation};
  const AttentionProblem& p = b.forward;
  const AttentionGradients& gradients = b.gradients;
  check_attention_result(p, b.out, "out");
  check_attention_result(p, b.dout, "dout");
  if (!p.options.lse) fail_argument(operation, "lse must be given, as attention() wrote it");
  check_attention_numbers(p, p.options.lse, "lse");
  if (b.dlse) check_attention_numbers(p, b.dlse, "dlse");
  if (gradients.q) checks.shape(gradients.q, "dq", p.q, "q", p.q, "q");
  if (gradients.k) checks.shape(gradients.k, "dk", p.k, "k", p.k, "k");
  if (gradients.v) checks.shape(gradients.v, "dv", p.v, "v", p.v, "v");
  if (gradients.sinks) check_dsinks(p, gradients.sinks);
  const NamedViews inputs = attention_inputs(p);
  const ConstTensorView workspace = workspace_view(p.options);
  const struct {
    const ConstTensorView& view;
    const char* name;
  } written[] = {
      {gradients.q, "dq"}, {gradients.k, "dk"}, {gradients.v, "dv"}, {gradients.sinks, "dsinks"}, {workspace, "workspace"}};
  for (const auto& [view, name] : written) {
    if (!view) continue;
    check_attention_written(p, inputs, named(name, view));
    check_apart(operation, name, view, "out", b.out);
    check_apart(operation, name, view, "dout", b.dout);
    check_apart(operation, name, view, "lse", p.options.lse);
    check_apart(operation, name, view, "dlse", b.dlse);
    for (const auto& other : written) {
      if (&other.view != &view) check_apart(operation, name, view, other.name, other.view);
    }
  }
}

}  // namespace

void attention_backward(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                        const ConstTensorView& out, const ConstTensorView& dout, const AttentionGradients& gradients,
                        const AttentionOptions& options, const ConstTensorView& dlse) {
  const TensorView nothing;
  const AttentionProblem problem = check_attention_inputs(names, q, k, v, nothing, options);
  const BackwardProblem backward{problem, out, dout, dlse, gradients};
  check(backward);
  if (problem.num_kv_heads == 0) return;
  with_tasks(backward, [&](const auto& tasks) {
    with_workspace(operation, options, tasks.num_bytes(), [&](std::byte& memory) { tasks.run(memory); });
  });
}

std::int64_t attention_backward_workspace_bytes(const ConstTensorView& q, const ConstTensorView& k,
                                                const ConstTensorView& v, const ConstTensorView& out,
                                                const ConstTensorView& dout, const AttentionGradients& gradients,
                                                const AttentionOptions& options, const ConstTensorView& dlse) {
  const TensorView nothing;
  const AttentionProblem problem = check_attention_inputs(names, q, k, v, nothing, options);
  const BackwardProblem backward{problem, out, dout, dlse, gradients};
  check(backward);
  if (problem.num_kv_heads == 0) return 0;
  return Arena::alignment + with_tasks(backward, [](const auto& tasks) { return tasks.num_bytes(); });
}

}  // namespace rotary
