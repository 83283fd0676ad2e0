#include "attention/problem.h"

#include <cmath>

#include "attention/causal.h"
#include "attention/tensor_checks.h"
#include "base/apart.h"
#include "base/fail.h"
#include "rotary/isa.hpp"

namespace rotary {
namespace {

constexpr const char* operation = "attention";
constexpr TensorChecks checks{operation};

void check_tensor(const ConstTensorView& view, const char* what) {
  checks.given(view, what);
  if (view.has('T')) {
    fail_argument(operation, what, " must be one sequence per batch row (axis S), got packed tokens \"",
                  view.axes().c_str(), "\"");
  }
  checks.axes(view, what, "BSHD");
  for (const char axis : {'S', 'D'}) checks.has(axis, view, what);
  checks.width(view, what);
}

void check_shapes(const AttentionProblem& p) {
  checks.size('B', p.k, "k", p.batch, "q");
  checks.size('B', p.v, "v", p.batch, "q");
  checks.size('D', p.k, "k", p.head_dim, "q");
  checks.size('S', p.v, "v", p.num_keys, "k");
  checks.size('H', p.v, "v", p.num_kv_heads, "k");
  checks.size('B', p.out, "out", p.batch, "q");
  checks.size('S', p.out, "out", p.num_queries, "q");
  checks.size('H', p.out, "out", p.num_q_heads, "q");
  checks.size('D', p.out, "out", p.value_dim, "v");
  checks.heads(p.num_q_heads, p.num_kv_heads);
}

void check_mask(const AttentionProblem& p) {
  const ConstTensorView& mask = p.attn_mask;
  if (mask.dtype() == DType::boolean) {
    fail_argument(operation,
                  "attn_mask is added to the scores: make a boolean one 0 where a key may be seen and -infinity "
                  "elsewhere");
  }
  checks.given(mask, "attn_mask");
  checks.axes(mask, "attn_mask", "BHQK");
  const struct {
    char axis;
    std::int64_t length;
  } expected[] = {{'B', p.batch}, {'H', p.num_q_heads}, {'Q', p.num_queries}, {'K', p.num_keys}};
  for (const auto& [axis, length] : expected) {
    if (mask.size(axis) != length && mask.size(axis) != 1) {
      fail_argument(operation, "attn_mask must have the length ", length, " or 1 along ", axis, ", got ", mask.size(axis));
    }
  }
}

void check_lse(const AttentionProblem& p) {
  if (p.lse.dtype() != DType::f32 && p.lse.dtype() != DType::f64) {
    fail_argument(operation, "lse must be float32 or float64, got ", name(p.lse.dtype()));
  }
  checks.axes(p.lse, "lse", "BSH");
  checks.size('B', p.lse, "lse", p.batch, "q");
  checks.size('S', p.lse, "lse", p.num_queries, "q");
  checks.size('H', p.lse, "lse", p.num_q_heads, "q");
}

void check_written(const TensorView& written, const char* what, const AttentionProblem& p,
                   const AttentionOptions& options) {
  if (overlaps_itself(written)) fail_argument(operation, "the elements of ", what, " must not overlap each other");
  const struct {
    const ConstTensorView& view;
    const char* name;
  } read[] = {{p.q, "q"},
              {p.k, "k"},
              {p.v, "v"},
              {p.attn_mask, "attn_mask"},
              {options.q_positions.position_ids, "q_positions"},
              {options.q_positions.offsets, "q_positions"},
              {options.k_positions.position_ids, "k_positions"},
              {options.k_positions.offsets, "k_positions"}};
  for (const auto& [view, name] : read) {
    check_apart(operation, what, written, name, view);
  }
}

void resolve_rotation(AttentionProblem& p, const AttentionOptions& options) {
  if (options.rotation == nullptr) {
    if (says_something(options.q_positions) || says_something(options.k_positions) || options.table != nullptr ||
        options.precision != Precision::exact) {
      fail_argument(operation, "q_positions, k_positions, precision and table need a rotation");
    }
    return;
  }
  const Rotation& rotation = *options.rotation;
  if (rotation.head_dim() != p.head_dim) {
    fail_argument(operation, "the width of q and k must be the rotation's head_dim, got ", p.head_dim, " and ",
                  rotation.head_dim());
  }
  const RotateOptions angles{.precision = options.precision, .table = options.table};
  const Tokens queries = tokens_of(operation, p.q), keys = tokens_of(operation, p.k);
  p.q_angles.emplace("attention, q_positions", rotation, options.q_positions, queries, angles);
  p.k_angles.emplace("attention, k_positions", rotation, options.k_positions, keys, angles);
}

}  // namespace

std::int64_t AttentionProblem::num_visible(std::int64_t query) const noexcept {
  return num_visible_keys(causal, query, num_queries, num_keys);
}

AttentionProblem check_attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                                 const TensorView& out, const AttentionOptions& options) {
  active_isa();  // here, where it may throw: kernels may not
  check_tensor(q, "q");
  check_tensor(k, "k");
  check_tensor(v, "v");
  check_tensor(out, "out");
  AttentionProblem p{.q = q,
                     .k = k,
                     .v = v,
                     .out = out,
                     .attn_mask = options.attn_mask,
                     .lse = options.lse,
                     .batch = q.size('B'),
                     .num_queries = q.size('S'),
                     .num_keys = k.size('S'),
                     .num_q_heads = q.size('H'),
                     .num_kv_heads = k.size('H'),
                     .head_dim = q.size('D'),
                     .value_dim = v.size('D'),
                     .scale = options.scale,
                     .causal = options.causal,
                     .q_angles = {},
                     .k_angles = {}};
  check_shapes(p);
  if (!std::isfinite(p.scale)) fail_argument(operation, "scale must be finite, got ", p.scale);
  if (p.scale == 0) p.scale = 1 / std::sqrt(static_cast<double>(p.head_dim));
  if (p.attn_mask) check_mask(p);
  resolve_rotation(p, options);
  check_written(out, "out", p, options);
  if (p.lse) {
    check_lse(p);
    check_written(p.lse, "lse", p, options);
    if (may_share_memory(p.lse, out)) fail_argument(operation, "lse must not overlap out");
  }
  return p;
}

}  // namespace rotary
