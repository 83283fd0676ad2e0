#include "attention/problem.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/score_checks.h"
#include "attention/tensor_checks.h"
#include "attention/visible_checks.h"
#include "attention/workspace.h"
#include "base/apart.h"
#include "base/element.h"
#include "base/fail.h"
#include "rotary/isa.hpp"

namespace rotary {
namespace {

TensorChecks checks(const AttentionProblem& p) noexcept { return {p.operation}; }

void check_tensor(const AttentionProblem& p, const ConstTensorView& view, const char* what) {
  checks(p).given(view, what);
  if (!p.is_packed() && view.has('T')) fail_argument(p.operation, "packed tokens (axis T) need cu_seqlens");
  checks(p).axes_of_rows(view, what, p.token_axis);
  checks(p).width(view, what);
}

/// As many batch rows, tokens and heads as there are queries.
void check_is_per_query(const AttentionProblem& p, const ConstTensorView& view, const char* what) {
  checks(p).size('B', view, what, p.q.size('B'), "q");
  checks(p).size(p.token_axis, view, what, p.num_queries, "q");
  checks(p).size('H', view, what, p.num_q_heads, "q");
}

void check_shapes(AttentionProblem& p) {
  checks(p).size('B', p.k, "k", p.q.size('B'), "q");
  checks(p).size('B', p.v, "v", p.q.size('B'), "q");
  checks(p).size('D', p.k, "k", p.head_dim, "q");
  checks(p).size(p.token_axis, p.v, "v", p.num_keys, "k");
  checks(p).size('H', p.v, "v", p.num_kv_heads, "k");
  p.heads_per_kv_head = checks(p).heads(p.num_q_heads, p.num_kv_heads);
}

void check_sequences(AttentionProblem& p) {
  const ConstTensorView &q_ends = p.options.cu_seqlens, &k_ends = p.options.k_cu_seqlens;
  if (!p.is_packed()) {
    if (k_ends) fail_argument(p.operation, "k_cu_seqlens need cu_seqlens");
    p.num_sequences = p.q.size('B');
    return;
  }
  check_cu_seqlens(p.operation, "cu_seqlens", q_ends, tokens_of(p.operation, p.q));
  if (!k_ends) {
    if (p.num_keys != p.num_queries) {
      fail_argument(p.operation, "cu_seqlens alone needs as many queries as keys, got ", p.num_queries, " and ", p.num_keys,
                    ": give k_cu_seqlens too");
    }
  } else {
    check_cu_seqlens(p.operation, "k_cu_seqlens", k_ends, tokens_of(p.operation, p.k));
    if (k_ends.size('N') != q_ends.size('N')) {
      fail_argument(p.operation, "k_cu_seqlens must be as long as cu_seqlens, got ", k_ends.size('N'), " and ",
                    q_ends.size('N'));
    }
  }
  p.num_sequences = q_ends.size('N') - 1;
}

void resolve_positions(AttentionProblem& p, const AttentionNames& names) {
  const AttentionOptions& o = p.options;
  const bool counted = o.chunk_size != 0 || o.bias != nullptr || o.bias_function;
  if (o.rotation == nullptr) {
    if (!counted && (says_something(o.q_positions) || says_something(o.k_positions))) {
      fail_argument(p.operation, "q_positions and k_positions need a rotation, chunk_size or a bias");
    }
    if (o.table != nullptr || o.precision != Precision::exact) {
      fail_argument(p.operation, "precision and table need a rotation");
    }
  }
  if (o.rotation == nullptr && !counted) return;

  const PositionsWithin within_queries(o.cu_seqlens, o.q_positions);
  const PositionsWithin within_keys(o.k_cu_seqlens ? o.k_cu_seqlens : o.cu_seqlens, o.k_positions);
  const Positions &q_positions = within_queries.positions(), &k_positions = within_keys.positions();
  const Tokens queries = tokens_of(p.operation, p.q), keys = tokens_of(p.operation, p.k);
  if (counted) {
    if (q_positions.position_ids.size('A') != 1 || k_positions.position_ids.size('A') != 1) {
      fail_argument(p.operation,
                    "chunk_size and biases need positions of one axis: a distance along several is not one number");
    }
    p.q_positions.emplace(names.q_positions, q_positions, queries, 1);
    p.k_positions.emplace(names.k_positions, k_positions, keys, 1);
  }
  if (o.rotation == nullptr) return;
  const Rotation& rotation = *o.rotation;
  if (rotation.head_dim() != p.head_dim) {
    fail_argument(p.operation, "the width of q and k must be the rotation's head_dim, got ", p.head_dim, " and ",
                  rotation.head_dim());
  }
  const RotateOptions angles{.precision = o.precision, .table = o.table};
  const bool row_per_token = o.table != nullptr && o.table->per_token();
  p.q_angles.emplace(names.q_positions, rotation, row_per_token ? o.q_positions : q_positions, queries, angles);
  if (p.cached != nullptr) return;
  p.k_angles.emplace(names.k_positions, rotation, row_per_token ? o.k_positions : k_positions, keys, angles);
  p.turn_alike = !p.is_packed() && queries == keys && !row_per_token && !says_something(o.q_positions) &&
                 !says_something(o.k_positions);
}

/// The workspace overlaps nothing that is read or written. It nearly always lies elsewhere, which its bytes tell.
void check_workspace(const AttentionProblem& p, const NamedViews& others) {
  const MemoryRange bytes = workspace_range(p.options);
  if (std::none_of(others.begin(), others.end(), [&](const NamedView& view) { return meet(bytes, view.range); })) return;
  const ConstTensorView memory = workspace_view(p.options);
  check_attention_written(p, others, named("workspace", memory));
}

}  // namespace

double AttentionProblem::scale_of(std::int64_t row, std::int64_t token) const noexcept {
  const ConstTensorView& factors = options.temperatures;
  if (!factors) return scale;
  return scale * load_element(factors.dtype(), factors.data(),
                              (factors.size('B') > 1 ? row * factors.stride('B') : 0) + token * factors.stride(token_axis));
}

double AttentionProblem::sink(std::int64_t head) const noexcept {
  const ConstTensorView& sinks = options.sinks;
  if (!sinks) return -std::numeric_limits<double>::infinity();
  return load_element(sinks.dtype(), sinks.data(), head * sinks.stride('H'));
}

AttentionProblem check_attention_inputs(const AttentionNames& names, const ConstTensorView& q, const ConstTensorView& k,
                                        const ConstTensorView& v, const TensorView& out, const AttentionOptions& options,
                                        const CachedSequences* cached) {
  active_isa();  // here, where it may throw: kernels may not
  AttentionProblem p(names.operation, q, k, v, out, options, cached);
  check_tensor(p, q, "q");
  check_tensor(p, k, "k");
  check_tensor(p, v, "v");
  check_shapes(p);
  check_sequences(p);
  if (!std::isfinite(p.scale)) fail_argument(p.operation, "scale must be finite, got ", p.scale);
  if (p.scale == 0) p.scale = 1 / std::sqrt(static_cast<double>(p.head_dim));
  check_visible_options(p.operation, p);
  resolve_positions(p, names);
  check_score_options(p.operation, p);
  return p;
}

void check_attention_result(const AttentionProblem& p, const ConstTensorView& view, const char* what) {
  check_tensor(p, view, what);
  check_is_per_query(p, view, what);
  checks(p).size('D', view, what, p.value_dim, "v");
}

void check_attention_numbers(const AttentionProblem& p, const ConstTensorView& view, const char* what) {
  if (view.dtype() != DType::f32 && view.dtype() != DType::f64) {
    fail_argument(p.operation, what, " must be float32 or float64, got ", name(view.dtype()));
  }
  checks(p).axes(view, what, p.is_packed() ? "TH" : "BSH");
  check_is_per_query(p, view, what);
}

NamedViews attention_inputs(const AttentionProblem& p) noexcept {
  const AttentionOptions& o = p.options;
  NamedViews inputs;
  inputs.add("q", p.q);
  inputs.add("k", p.k);
  inputs.add("v", p.v);
  inputs.add("temperatures", o.temperatures);
  inputs.add("attn_mask", o.attn_mask);
  inputs.add("sinks", o.sinks);
  inputs.add("prefix_lengths", o.prefix_lengths);
  inputs.add("q_document_ids", o.q_document_ids);
  inputs.add("k_document_ids", o.k_document_ids);
  inputs.add("key_padding_mask", o.key_padding_mask);
  inputs.add("cu_seqlens", o.cu_seqlens);
  inputs.add("k_cu_seqlens", o.k_cu_seqlens);
  inputs.add("q_positions", o.q_positions.position_ids);
  inputs.add("q_positions", o.q_positions.offsets);
  inputs.add("q_positions", o.q_positions.cu_seqlens);
  inputs.add("k_positions", o.k_positions.position_ids);
  inputs.add("k_positions", o.k_positions.offsets);
  inputs.add("k_positions", o.k_positions.cu_seqlens);
  return inputs;
}

void check_attention_written(const AttentionProblem& p, const NamedViews& inputs, const NamedView& written) {
  if (overlaps_itself(*written.view)) {
    fail_argument(p.operation, "the elements of ", written.name, " must not overlap each other");
  }
  for (const NamedView& input : inputs) check_apart(p.operation, written, input);
}

AttentionProblem check_attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                                 const TensorView& out, const AttentionOptions& options, const CachedSequences* cached) {
  constexpr AttentionNames names{"attention", "attention, q_positions", "attention, k_positions"};
  AttentionProblem p = check_attention_inputs(names, q, k, v, out, options, cached);
  NamedViews others = attention_inputs(p);  // that what is written next must not overlap
  const auto check_written = [&](const NamedView& written) {
    check_attention_written(p, others, written);
    others.add(written);
  };
  check_attention_result(p, out, "out");
  check_written(named("out", out));
  if (options.lse) {
    check_attention_numbers(p, options.lse, "lse");
    check_written(named("lse", options.lse));
  }
  if (options.workspace != nullptr) check_workspace(p, others);
  return p;
}

}  // namespace rotary
