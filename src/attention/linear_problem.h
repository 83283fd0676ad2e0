// A call of linear_attention() whose arguments have been checked.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "attention/names.h"
#include "base/apart.h"
#include "rotary/linear_attention.hpp"
#include "rotation/token_angles.h"

namespace rotary {

/// Tokens that attend to each other: a batch row, or one of the packed sequences.
struct LinearSequence {
  std::int64_t row, first_query, num_queries, first_key, num_keys;
};

/// Refers to the options and what they refer to, which must outlive it. Packed tokens are batch row 0, with the axis S.
struct LinearProblem {
  /// What the arguments say at once; the rest is to be found.
  LinearProblem(const ConstTensorView& q, const ConstTensorView& k, const ConstTensorView& v,
                const LinearAttentionOptions& options);

  ConstTensorView q, k, v;
  std::optional<TensorView> out;  // none where no result is written
  FeatureMap feature_map;
  const Rotation* rotation;  // nullptr: nothing turns
  Rotate rotate;
  Normalizer normalizer;
  std::optional<TokenAngles> q_angles, other_k_angles;
  bool same_positions = false;  // of q and k: then they have the same angles
  std::int64_t num_q_heads, num_kv_heads, head_dim, value_dim;
  std::int64_t heads_per_kv_head = 0;
  std::int64_t num_sequences = 0;
  const ConstTensorView& cu_seqlens;  // may be not given, like the mask: then a batch row is a sequence
  const ConstTensorView& key_padding_mask;
  std::vector<double> decay;  // per KV head; empty: none
  bool is_causal;
  std::int64_t chunk_size;
  std::int64_t num_features = 0;
  std::int64_t a_width = 0, c_width = 0,
               m_width = 0;  // of the features in numerator and denominator, and of what bounds them

  LinearSequence sequence(std::int64_t n) const noexcept;
  const std::optional<TokenAngles>& k_angles() const noexcept { return same_positions ? q_angles : other_k_angles; }
  /// Whether features themselves turn.
  bool turns_features() const noexcept { return rotation != nullptr && rotate != Rotate::before_map; }
  /// Whether the denominator is made of the very features of the numerator.
  bool shares_features() const noexcept {
    return normalizer == Normalizer::rotated || (normalizer == Normalizer::features && !turns_features());
  }
  /// Whether terms of a denominator can cancel each other.
  bool may_cancel() const noexcept;
  /// Whether the sizes of its terms are bounded by 1, |x'| and |x'|^2 / sqrt 2 of a row instead of by every feature.
  bool bounds_by_norm() const noexcept;
  bool is_token(std::int64_t row, std::int64_t key) const noexcept;
};

/// Throws Error (invalid_argument) naming the rule that the arguments break; Error (unsupported) as TokenAngles does.
LinearProblem check_linear_attention(const AttentionNames& names, const ConstTensorView& q, const ConstTensorView& k,
                                     const ConstTensorView& v, const TensorView& out,
                                     const LinearAttentionOptions& options);
/// The same where no result is written; `out` is then not given.
LinearProblem check_linear_inputs(const AttentionNames& names, const ConstTensorView& q, const ConstTensorView& k,
                                  const ConstTensorView& v, const LinearAttentionOptions& options);

/// `written` must be apart from itself, the inputs, and what the options refer to.
void check_linear_written(const char* operation, const TensorView& written, const char* what, const ConstTensorView& q,
                          const ConstTensorView& k, const ConstTensorView& v, const LinearAttentionOptions& options);
void check_apart_from_state(const char* operation, const NamedView& written, LinearState* state);

/// The same tokens with their axis T under the name S.
ConstTensorView unpacked(const ConstTensorView& view);
TensorView unpacked(const TensorView& view);

}  // namespace rotary
