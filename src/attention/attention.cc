#include "rotary/attention.hpp"

#include "attention/problem.h"
#include "attention/query_block.h"
#include "base/parallel.h"

namespace rotary {
namespace {

template <class T>
void attend(const AttentionProblem& problem, Executor* executor) {
  const std::int64_t rows = problem.num_queries * problem.heads_per_kv_head();
  const std::int64_t blocks = (rows + rows_per_block<T>() - 1) / rows_per_block<T>();
  const std::int64_t count = problem.batch * problem.num_kv_heads * blocks;
  parallel_for(executor, count, [&](std::int64_t i) {
    const std::int64_t task = count - 1 - i;  // late queries see most keys under a causal mask: the long tasks first
    const std::int64_t block = task % blocks, kv_head = task / blocks % problem.num_kv_heads;
    attend_block<T>(problem, task / blocks / problem.num_kv_heads, kv_head, block * rows_per_block<T>());
  });
}

}  // namespace

const char* name(Causal causal) noexcept {
  switch (causal) {
    case Causal::none: return "none";
    case Causal::top_left: return "top_left";
    case Causal::bottom_right: return "bottom_right";
  }
  return "unknown";
}

void attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v, const TensorView& out,
               const AttentionOptions& options) {
  const AttentionProblem problem = check_attention(q, k, v, out, options);
  if (problem.num_q_heads == 0) return;
  bool in_double = false;
  for (const DType dtype : {q.dtype(), k.dtype(), v.dtype(), out.dtype()}) in_double = in_double || dtype == DType::f64;
  if (in_double) attend<double>(problem, options.executor);
  else attend<float>(problem, options.executor);
}

}  // namespace rotary
