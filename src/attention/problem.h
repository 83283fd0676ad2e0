// A call of attention() whose arguments have been checked.
#pragma once

#include <cstdint>
#include <optional>

#include "attention/names.h"
#include "base/apart.h"
#include "rotary/attention.hpp"
#include "rotation/positions.h"
#include "rotation/token_angles.h"

namespace rotary {

class CachedSequences;

/// Refers to the arguments of the call, which must outlive it.
struct AttentionProblem {
  /// Not checked, without scale, sequences, angles and positions.
  AttentionProblem(const char* operation, const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                   const TensorView& out, const AttentionOptions& options, const CachedSequences* cached) noexcept
      : operation(operation),
        q(q),
        k(k),
        v(v),
        out(out),
        options(options),
        token_axis(options.cu_seqlens ? 'T' : 'S'),
        num_queries(q.size(token_axis)),
        num_keys(k.size(token_axis)),
        num_q_heads(q.size('H')),
        num_kv_heads(k.size('H')),
        head_dim(q.size('D')),
        value_dim(v.size('D')),
        scale(options.scale),
        cached(cached) {}

  const char* operation;
  const ConstTensorView &q, &k, &v;
  const TensorView& out;
  const AttentionOptions& options;
  char token_axis;                     // T where sequences are packed, else S
  std::int64_t num_sequences = 0;      // batch rows, or packed ones
  std::int64_t num_queries, num_keys;  // tokens of a batch row, or packed ones
  std::int64_t num_q_heads, num_kv_heads, head_dim, value_dim;
  std::int64_t heads_per_kv_head = 0;
  double scale;                                            // without temperatures
  std::optional<TokenAngles> q_angles, k_angles;           // none: nothing turns
  bool turn_alike = false;                                 // both have as many tokens, at positions counted from 0
  std::optional<TokenPositions> q_positions, k_positions;  // where something beside the rotation counts positions
  const CachedSequences* cached;                           // nullptr, or what is read, turned already, in place of k and v

  bool is_packed() const noexcept { return token_axis == 'T'; }
  /// What the products of one query are multiplied by: the scale, and its temperature.
  double scale_of(std::int64_t row, std::int64_t token) const noexcept;
  /// -infinity where there is none.
  double sink(std::int64_t head) const noexcept;
};

/// Throws Error (invalid_argument) naming the rule that the arguments break; Error (unsupported) as TokenAngles does. k and v
/// have the shapes of what is cached, where it is.
AttentionProblem check_attention(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                                 const TensorView& out, const AttentionOptions& options,
                                 const CachedSequences* cached = nullptr);

// Parts of that, each of which throws like it. The first makes a problem without a look at `out` and lse.
AttentionProblem check_attention_inputs(const AttentionNames& names, const ConstTensorView& q, const ConstTensorView& k,
                                        const ConstTensorView& v, const TensorView& out, const AttentionOptions& options,
                                        const CachedSequences* cached = nullptr);
/// Shaped like out.
void check_attention_result(const AttentionProblem& problem, const ConstTensorView& view, const char* what);
/// A number per query and head, like lse.
void check_attention_numbers(const AttentionProblem& problem, const ConstTensorView& view, const char* what);
/// All that is read.
NamedViews attention_inputs(const AttentionProblem& problem) noexcept;
/// What is written overlaps neither itself nor the inputs.
void check_attention_written(const AttentionProblem& problem, const NamedViews& inputs, const NamedView& written);

}  // namespace rotary
