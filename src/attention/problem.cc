#include "attention/problem.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/score_checks.h"
#include "attention/tensor_checks.h"
#include "attention/visible_checks.h"
#include "base/apart.h"
#include "base/element.h"
#include "base/fail.h"
#include "rotary/isa.hpp"

namespace rotary {
namespace {

constexpr const char* operation = "attention";
constexpr TensorChecks checks{operation};

const char* token_axes(char token_axis) noexcept { return token_axis == 'T' ? "THD" : "BSHD"; }

void check_tensor(const AttentionProblem& p, const ConstTensorView& view, const char* what) {
  checks.given(view, what);
  if (!p.is_packed() && view.has('T')) fail_argument(operation, "packed tokens (axis T) need cu_seqlens");
  checks.axes(view, what, token_axes(p.token_axis));
  for (const char axis : {p.token_axis, 'D'}) checks.has(axis, view, what);
  checks.width(view, what);
}

void check_shapes(const AttentionProblem& p) {
  checks.size('B', p.k, "k", p.q.size('B'), "q");
  checks.size('B', p.v, "v", p.q.size('B'), "q");
  checks.size('D', p.k, "k", p.head_dim, "q");
  checks.size(p.token_axis, p.v, "v", p.num_keys, "k");
  checks.size('H', p.v, "v", p.num_kv_heads, "k");
  checks.size('B', p.out, "out", p.q.size('B'), "q");
  checks.size(p.token_axis, p.out, "out", p.num_queries, "q");
  checks.size('H', p.out, "out", p.num_q_heads, "q");
  checks.size('D', p.out, "out", p.value_dim, "v");
  checks.heads(p.num_q_heads, p.num_kv_heads);
}

void check_sequences(AttentionProblem& p) {
  const ConstTensorView &q_ends = p.options.cu_seqlens, &k_ends = p.options.k_cu_seqlens;
  if (!p.is_packed()) {
    if (k_ends) fail_argument(operation, "k_cu_seqlens need cu_seqlens");
    p.num_sequences = p.q.size('B');
    return;
  }
  check_cu_seqlens(operation, "cu_seqlens", q_ends, tokens_of(operation, p.q));
  if (!k_ends) {
    if (p.num_keys != p.num_queries) {
      fail_argument(operation, "cu_seqlens alone needs as many queries as keys, got ", p.num_queries, " and ", p.num_keys,
                    ": give k_cu_seqlens too");
    }
  } else {
    check_cu_seqlens(operation, "k_cu_seqlens", k_ends, tokens_of(operation, p.k));
    if (k_ends.size('N') != q_ends.size('N')) {
      fail_argument(operation, "k_cu_seqlens must be as long as cu_seqlens, got ", k_ends.size('N'), " and ",
                    q_ends.size('N'));
    }
  }
  p.num_sequences = q_ends.size('N') - 1;
}

void check_lse(const AttentionProblem& p) {
  const TensorView& lse = p.options.lse;
  if (lse.dtype() != DType::f32 && lse.dtype() != DType::f64) {
    fail_argument(operation, "lse must be float32 or float64, got ", name(lse.dtype()));
  }
  checks.axes(lse, "lse", p.is_packed() ? "TH" : "BSH");
  checks.size('B', lse, "lse", p.q.size('B'), "q");
  checks.size(p.token_axis, lse, "lse", p.num_queries, "q");
  checks.size('H', lse, "lse", p.num_q_heads, "q");
}

void check_written(const ConstTensorView& written, const char* what, const AttentionProblem& p) {
  if (overlaps_itself(written)) fail_argument(operation, "the elements of ", what, " must not overlap each other");
  const AttentionOptions& o = p.options;
  const struct {
    const ConstTensorView& view;
    const char* name;
  } read[] = {{p.q, "q"},
              {p.k, "k"},
              {p.v, "v"},
              {o.temperatures, "temperatures"},
              {o.attn_mask, "attn_mask"},
              {o.sinks, "sinks"},
              {o.prefix_lengths, "prefix_lengths"},
              {o.q_document_ids, "q_document_ids"},
              {o.k_document_ids, "k_document_ids"},
              {o.key_padding_mask, "key_padding_mask"},
              {o.cu_seqlens, "cu_seqlens"},
              {o.k_cu_seqlens, "k_cu_seqlens"},
              {o.q_positions.position_ids, "q_positions"},
              {o.q_positions.offsets, "q_positions"},
              {o.k_positions.position_ids, "k_positions"},
              {o.k_positions.offsets, "k_positions"}};
  for (const auto& [view, name] : read) check_apart(operation, what, written, name, view);
}

void check_workspace(const AttentionProblem& p) {
  const AttentionOptions& o = p.options;
  if (o.workspace == nullptr) return;
  const ConstTensorView bytes(o.workspace, DType::u8, "N", {std::max<std::int64_t>(o.workspace_bytes, 0)});
  check_written(bytes, "workspace", p);
  check_apart(operation, "workspace", bytes, "out", p.out);
  check_apart(operation, "workspace", bytes, "lse", o.lse);
}

Positions counted_within(const ConstTensorView& cu_seqlens, const Positions& given) {
  Positions positions = given;
  if (cu_seqlens && !given.position_ids && !given.cu_seqlens) positions.cu_seqlens = cu_seqlens;
  return positions;
}

void resolve_positions(AttentionProblem& p) {
  const AttentionOptions& o = p.options;
  const bool counted = o.chunk_size != 0 || o.bias != nullptr || o.bias_function;
  if (o.rotation == nullptr) {
    if (!counted && (says_something(o.q_positions) || says_something(o.k_positions))) {
      fail_argument(operation, "q_positions and k_positions need a rotation, chunk_size or a bias");
    }
    if (o.table != nullptr || o.precision != Precision::exact) {
      fail_argument(operation, "precision and table need a rotation");
    }
  }
  if (o.rotation == nullptr && !counted) return;

  constexpr const char *of_queries = "attention, q_positions", *of_keys = "attention, k_positions";
  const Positions q_positions = counted_within(o.cu_seqlens, o.q_positions);
  const Positions k_positions = counted_within(o.k_cu_seqlens ? o.k_cu_seqlens : o.cu_seqlens, o.k_positions);
  const Tokens queries = tokens_of(operation, p.q), keys = tokens_of(operation, p.k);
  if (counted) {
    if (q_positions.position_ids.size('A') != 1 || k_positions.position_ids.size('A') != 1) {
      fail_argument(operation,
                    "chunk_size and biases need positions of one axis: a distance along several is not one number");
    }
    p.q_positions.emplace(of_queries, q_positions, queries, 1);
    p.k_positions.emplace(of_keys, k_positions, keys, 1);
  }
  if (o.rotation == nullptr) return;
  const Rotation& rotation = *o.rotation;
  if (rotation.head_dim() != p.head_dim) {
    fail_argument(operation, "the width of q and k must be the rotation's head_dim, got ", p.head_dim, " and ",
                  rotation.head_dim());
  }
  const RotateOptions angles{.precision = o.precision, .table = o.table};
  const bool row_per_token = o.table != nullptr && o.table->per_token();
  p.q_angles.emplace(of_queries, rotation, row_per_token ? o.q_positions : q_positions, queries, angles);
  p.k_angles.emplace(of_keys, rotation, row_per_token ? o.k_positions : k_positions, keys, angles);
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

AttentionProblem check_attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                                 const TensorView& out, const AttentionOptions& options) {
  active_isa();  // here, where it may throw: kernels may not
  AttentionProblem p{.q = q,
                     .k = k,
                     .v = v,
                     .out = out,
                     .options = options,
                     .token_axis = options.cu_seqlens ? 'T' : 'S',
                     .num_sequences = 0,
                     .num_queries = 0,
                     .num_keys = 0,
                     .num_q_heads = q.size('H'),
                     .num_kv_heads = k.size('H'),
                     .head_dim = q.size('D'),
                     .value_dim = v.size('D'),
                     .scale = options.scale,
                     .q_angles = {},
                     .k_angles = {},
                     .q_positions = {},
                     .k_positions = {}};
  check_tensor(p, q, "q");
  check_tensor(p, k, "k");
  check_tensor(p, v, "v");
  check_tensor(p, out, "out");
  p.num_queries = q.size(p.token_axis);
  p.num_keys = k.size(p.token_axis);
  check_shapes(p);
  check_sequences(p);
  if (!std::isfinite(p.scale)) fail_argument(operation, "scale must be finite, got ", p.scale);
  if (p.scale == 0) p.scale = 1 / std::sqrt(static_cast<double>(p.head_dim));
  check_visible_options(operation, p);
  resolve_positions(p);
  check_score_options(operation, p);
  check_written(out, "out", p);
  if (options.lse) {
    check_lse(p);
    check_written(options.lse, "lse", p);
    if (may_share_memory(options.lse, out)) fail_argument(operation, "lse must not overlap out");
  }
  check_workspace(p);
  return p;
}

}  // namespace rotary
