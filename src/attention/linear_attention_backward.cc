#include <vector>

#include "attention/linear_gradients.h"
#include "attention/linear_problem.h"
#include "attention/linear_report.h"
#include "attention/linear_state.h"
#include "attention/tensor_checks.h"
#include "base/apart.h"
#include "base/fail.h"
#include "base/parallel.h"
#include "rotary/linear_attention.hpp"

namespace rotary {
namespace {

constexpr const char* operation = "linear_attention_backward";
constexpr AttentionNames names{operation, "linear_attention_backward, q_positions",
                               "linear_attention_backward, k_positions"};

template <class T>
LinearAttentionReport attend(const LinearProblem& problem, const LinearGradientViews& views, const LinearState* before,
                             LinearState* state_gradient, Executor* executor) {
  LinearState sums, own;
  if (before != nullptr) sums = *before;
  if (sums.empty()) LinearStateAccess::begin(sums, problem, dtype_of<T>);
  LinearState& gradient = state_gradient != nullptr ? *state_gradient : own;
  if (gradient.empty()) LinearStateAccess::begin(gradient, problem, dtype_of<T>);
  const FeatureRows<T> map(problem.feature_map, problem.head_dim);
  const std::int64_t num_tasks = problem.num_sequences * problem.num_kv_heads;
  std::vector<LinearAttentionReport> reports(static_cast<std::size_t>(num_tasks));
  parallel_for(executor, num_tasks, [&](std::int64_t task) {
    const std::int64_t row = task / problem.num_kv_heads, kv_head = task % problem.num_kv_heads;
    reports[static_cast<std::size_t>(task)] = attend_linearly_backward(problem, map, views, problem.sequence(row), kv_head,
                                                                       LinearStateAccess::sums<T>(sums, row, kv_head),
                                                                       LinearStateAccess::sums<T>(gradient, row, kv_head));
  });
  return merged(reports);
}

}  // namespace

LinearAttentionReport linear_attention_backward(const ConstTensorView& q, const ConstTensorView& k,
                                                const ConstTensorView& v, const ConstTensorView& dout,
                                                const LinearGradients& gradients, const LinearAttentionOptions& options) {
  const LinearProblem problem = check_linear_inputs(names, q, k, v, options);
  TensorChecks{operation}.shape(dout, "dout", q, "q", v, "v");
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
    check_linear_written(operation, view, name, q, k, v, options);
    check_apart(operation, name, view, "dout", dout);
    check_apart_from_state(operation, named(name, view), gradients.state);
    for (const auto& other : written) {
      if (&other.view != &view) check_apart(operation, name, view, other.name, other.view);
    }
    in_double = in_double || view.dtype() == DType::f64;
  }
  for (const DType dtype : {q.dtype(), k.dtype(), v.dtype(), dout.dtype()}) in_double = in_double || dtype == DType::f64;
  for (const LinearState* state :
       {static_cast<const LinearState*>(options.state), static_cast<const LinearState*>(gradients.state)}) {
    if (state == nullptr) continue;
    if (problem.feature_map.features == Features::favor_plus) {
      fail_unsupported(operation,
                       "gradients of favor_plus with respect to a state are not offered: its sums are known up to a "
                       "factor");
    }
    in_double = in_double || (LinearStateAccess::fixed_dtype(*state) && state->dtype() == DType::f64);
  }
  for (const LinearState* state :
       {static_cast<const LinearState*>(options.state), static_cast<const LinearState*>(gradients.state)}) {
    if (state != nullptr) LinearStateAccess::check(operation, *state, problem, in_double ? DType::f64 : DType::f32);
  }
  if (options.state != nullptr && options.state == gradients.state) {
    fail_argument(operation, "the state and the gradient with respect to it must be two");
  }
  const LinearGradientViews views{unpacked(dout), unpacked(gradients.q), unpacked(gradients.k), unpacked(gradients.v)};
  return in_double ? attend<double>(problem, views, options.state, gradients.state, options.executor)
                   : attend<float>(problem, views, options.state, gradients.state, options.executor);
}

}  // namespace rotary
