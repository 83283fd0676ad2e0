// Position biases: a number per head that depends on where query and key stand, added to the score.
//
//     score(i, j) = scale * q_i . k_j + bias(h, p_i, p_j)
//
//     alibi     -slope[h] * |p_i - p_j|                            (Press, Smith and Lewis 2022, ALiBi)
//     t5        table[bucket(p_j - p_i), h]                        (Raffel et al. 2020, T5: log-spaced buckets, scale 1)
//     clipped   table[clip(p_j - p_i, -reach, reach) + reach, h]   (a number per distance, clipped as by Shaw et al. 2018)
//
// attention() takes them as they are (AttentionOptions::bias); position_bias() writes them as a tensor, to look at or for
// attn_mask. Distances are key minus query: negative in the past. Errors of everything here: Error (invalid_argument) naming
// the rule and what was given, where no other is named.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/attention.hpp"
#include "rotary/export.hpp"
#include "rotary/parallel.hpp"
#include "rotary/positions.hpp"
#include "rotary/tensor.hpp"

namespace rotary {

/// ALiBi's slopes. n a power of two: 2^(-8 h / n), h = 1 … n. Else those of the largest power of two c below n, then every
/// second one of 2c, from the first on, until there are n (the authors' code; MPT and BLOOM get the same numbers). 1 to
/// 65,536 heads.
ROTARY_API std::vector<double> alibi_slopes(std::int64_t num_heads);

struct T5Rule {
  std::int64_t num_buckets = 32;    ///< 2 to 1024; bidirectional: even, at least 4, half of them for keys after the query
  std::int64_t max_distance = 128;  ///< from here on all distances share a bucket; more than a half of one side's buckets
  bool bidirectional = true;        ///< false: all keys after the query share the bucket of distance 0 (T5's decoder)
};

/// T5's buckets. One side has n of them: distances 0 … e-1 have their own, e = n / 2 rounded down; the bucket e + t begins at
/// the smallest whole distance d with
///
///     log(d / e) / log(max_distance / e) * (n - e) >= t,      that is      d^(n-e) >= max_distance^t * e^(n-e-t).
///
/// The right-hand form is decided in whole numbers of any size: no logarithm is rounded, so that no edge moves. (The left
/// one, in float32, is what T5's code evaluates.)
class ROTARY_API T5Buckets {
 public:
  explicit T5Buckets(const T5Rule& rule = {});

  /// Of a key `distance` after the query (negative: before it).
  std::int64_t bucket(std::int64_t distance) const noexcept;
  /// The smallest distance of every bucket of one side, from 0 on. Two are equal where the first of them is empty.
  const std::vector<std::int64_t>& first_distances() const noexcept { return first_distances_; }
  const T5Rule& rule() const noexcept { return rule_; }

 private:
  T5Rule rule_;
  std::vector<std::int64_t> first_distances_;
};

enum class BiasKind : std::uint8_t { alibi, t5, clipped };

ROTARY_API const char* name(BiasKind kind) noexcept;

/// A checked description, immutable. Tables are copied, as double; f64, f32, f16 or bf16, every number finite.
class ROTARY_API PositionBias {
 public:
  static PositionBias alibi(std::vector<double> slopes);  ///< one per head, finite
  /// `table` has the axes N (buckets) and H: relative_attention_bias.weight in transformers.
  static PositionBias t5(const ConstTensorView& table, const T5Buckets& buckets);
  /// `table` has the axes N (distances -reach … reach, an odd number) and H.
  static PositionBias clipped(const ConstTensorView& table);

  BiasKind kind() const noexcept { return kind_; }
  std::int64_t num_heads() const noexcept { return num_heads_; }

  /// What is added to the score of one query and one key. Positions are finite, at most 2^53 in size, and whole numbers
  /// unless the bias is ALiBi.
  double at(std::int64_t head, double q_position, double k_position) const;

 private:
  friend struct BiasValues;
  PositionBias(BiasKind kind, std::int64_t num_heads, std::vector<double> numbers);

  BiasKind kind_;
  std::int64_t num_heads_;
  std::vector<double> numbers_;  // slopes; or the table, heads running fastest
  T5Buckets buckets_;            // of t5
};

struct PositionBiasOptions {
  Positions q_positions = {};  ///< as attention() takes them: B and S stand for B and Q
  Positions k_positions = {};
  Executor* executor = nullptr;
};

/// Writes the bias of every head, query and key to `out`: f64, f32, f16 or bf16, axes among B, H, Q and K in any order, H as
/// many as the bias has heads. Computed in double and rounded once. In float16 a bias below -65,520 becomes -infinity, and
/// hides its key; in bfloat16 distances past 256 that differ by little share a bias: prefer float32. `out` must not overlap
/// the positions or itself. Nothing is written where there is an error.
ROTARY_API void position_bias(const TensorView& out, const PositionBias& bias, const PositionBiasOptions& options = {});

/// Returns where linear attention can use the bias, as a factor exp(bias) of its weights; otherwise throws
/// Error (unsupported), which says why.
///
/// Linear attention adds up its keys before it meets a query. That takes exp(bias(i, j)) = sum over r of f_r(i) g_r(j) with
/// a fixed number of terms, each a state of its own. One term does for ALiBi under a causal rule, exp(-slope i) exp(slope j):
/// a decay. A causal table needs at least D + 1 terms where its last step is at the distance D; anything that is not constant
/// needs a number of terms that grows with the length where there is no causal rule (docs/position-bias.md has the proofs).
ROTARY_API void require_factorable(const PositionBias& bias, Causal causal);

}  // namespace rotary
