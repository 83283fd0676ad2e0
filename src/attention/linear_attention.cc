#include "rotary/linear_attention.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "attention/linear_chunks.h"
#include "attention/linear_problem.h"
#include "attention/linear_report.h"
#include "attention/linear_state.h"
#include "attention/linear_steps.h"
#include "base/fail.h"
#include "base/parallel.h"

namespace rotary {
namespace {

constexpr const char* operation = "linear_attention";
constexpr AttentionNames names{operation, "linear_attention, q_positions", "linear_attention, k_positions"};

template <class T>
LinearAttentionReport attend(const LinearProblem& problem, LinearState& sums, Executor* executor) {
  if (sums.empty()) LinearStateAccess::begin(sums, problem, dtype_of<T>);
  const FeatureRows<T> map(problem.feature_map, problem.head_dim);
  const bool one_token = is_step(problem, map);
  const std::int64_t num_heads = problem.num_sequences * problem.num_kv_heads;
  const auto attend_to = [&](std::int64_t begin, std::int64_t end) {
    return one_token ? step_linearly(problem, map, sums, begin, end) : attend_linearly(problem, map, sums, begin, end);
  };
  if (executor == nullptr) return attend_to(0, num_heads);
  // A few tasks per thread: heads of a task share its workspace, and a token's angles.
  const std::int64_t num_tasks = std::min<std::int64_t>(num_heads, 4L * executor->concurrency());
  std::vector<LinearAttentionReport> reports(static_cast<std::size_t>(num_tasks));
  parallel_for(executor, num_tasks, [&](std::int64_t task) {
    reports[static_cast<std::size_t>(task)] = attend_to(task * num_heads / num_tasks, (task + 1) * num_heads / num_tasks);
  });
  return merged(reports);
}

}  // namespace

const char* name(Rotate rotate) noexcept {
  switch (rotate) {
    case Rotate::after_map: return "after_map";
    case Rotate::before_map: return "before_map";
    case Rotate::lifted: return "lifted";
  }
  return "unknown";
}

const char* name(Normalizer normalizer) noexcept {
  switch (normalizer) {
    case Normalizer::features: return "features";
    case Normalizer::rotated: return "rotated";
    case Normalizer::pair_norms: return "pair_norms";
    case Normalizer::none: return "none";
  }
  return "unknown";
}

LinearAttentionReport linear_attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                                       const TensorView& out, const LinearAttentionOptions& options) {
  const LinearProblem problem = check_linear_attention(names, q, k, v, out, options);
  LinearState* const state = options.state;
  bool in_double = state != nullptr && LinearStateAccess::fixed_dtype(*state) && state->dtype() == DType::f64;
  for (const DType dtype : {q.dtype(), k.dtype(), v.dtype(), out.dtype()}) in_double = in_double || dtype == DType::f64;
  if (state != nullptr) LinearStateAccess::check(operation, *state, problem, in_double ? DType::f64 : DType::f32);
  const auto attend_with = [&](LinearState& sums) {
    return in_double ? attend<double>(problem, sums, options.executor) : attend<float>(problem, sums, options.executor);
  };
  if (state != nullptr) return attend_with(*state);
  LinearState own;
  return attend_with(own);
}

WeightKinds weight_kinds(const LinearAttentionOptions& options) noexcept {
  const Features features = options.feature_map.features;
  const bool turns = options.rotation != nullptr, features_turn = turns && options.rotate != Rotate::before_map;
  const bool of_products = features == Features::identity || features == Features::one_plus_cos ||
                           features == Features::taylor2 || features == Features::favor_plus;
  const bool positive_map = features != Features::identity;
  const bool shared =
      options.normalizer == Normalizer::rotated || (options.normalizer == Normalizer::features && !features_turn);
  // Lifted pairs start at (x, 0): their cosines are what cosformer_rotation keeps above 0.
  const bool pairs_open_little = !features_turn || options.rotate == Rotate::lifted;
  return {.relative = !turns || features_turn || of_products,
          .non_negative = positive_map && pairs_open_little,
          .sum_to_one = shared};
}

Rotation cosformer_rotation(std::int64_t head_dim, double M) {
  if (head_dim < 1) fail_argument("cosformer_rotation", "head_dim must be at least 1, got ", head_dim);
  if (!(M > 0) || !std::isfinite(M)) fail_argument("cosformer_rotation", "M must be above 0 and finite, got ", M);
  return Rotation({.head_dim = 2 * head_dim,
                   .pairing_in = Pairing::half,
                   .inv_freq = std::vector<double>(static_cast<std::size_t>(head_dim), std::numbers::pi / (2 * M))});
}

}  // namespace rotary
