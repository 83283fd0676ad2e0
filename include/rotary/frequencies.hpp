// Frequency rules: how fast each pair turns.
//
// Every rule is a pure function from the numbers of a config to Frequencies. Names of options are the keys of config.json;
// `base` is what configs call rope_theta. An option that is 0 by default counts as "not given".
// What depends on the length of the running sequence is a type of its own with at(length), so that nothing changes under
// the caller's feet: keys in a cache stay comparable only with queries that used the same Frequencies.
//
// Errors of all functions: Error (invalid_argument) naming the number that breaks a rule; no result ever holds a NaN or an
// infinity. Common rules: base finite and positive; rotary_dim even, from 2 to max_rotary_dim; factor finite and positive.
// More on each rule, and who uses it: docs/frequencies.md.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/export.hpp"

namespace rotary {

inline constexpr std::int64_t max_rotary_dim = 1 << 20;

/// What a rule yields. Fill it by hand for a rule of your own.
struct Frequencies {
  std::vector<double> inv_freq;  ///< radians per position, one per pair
  double amplitude = 1;          ///< multiplied into cos and sin of q and of k
  double logit_scale = 1;        ///< multiplied into the softmax scale, never into the table (DeepSeek's mscale squared)
  bool operator==(const Frequencies&) const = default;
};

/// inv_freq[j] = base^(-2j / rotary_dim)   (Su et al. 2021, RoFormer, section 3.2.2)
ROTARY_API Frequencies default_frequencies(double base, std::int64_t rotary_dim);

/// default / factor: position interpolation (Chen et al. 2023, section 2.3). The same as dividing positions by factor.
ROTARY_API Frequencies linear_frequencies(double base, std::int64_t rotary_dim, double factor);

/// inv_freq[j] / divisors[j]: ggml's tensors rope_freqs.weight, rope_factors_short.weight and rope_factors_long.weight.
/// Divisors are finite and positive; 1e30 stands for a pair that hardly turns.
ROTARY_API Frequencies with_divisors(Frequencies frequencies, const std::vector<double>& divisors);

/// How many channels turn when a config gives a share of the head: head_dim * partial_rotary_factor, truncated toward zero
/// as transformers does. Throws when that is odd or 0, or the share is not in (0, 1].
ROTARY_API std::int64_t partial_rotary_dim(std::int64_t head_dim, double partial_rotary_factor);

struct Proportional {
  double partial_rotary_factor = 1;  ///< in (0, 1]
  double factor = 1;
};
/// p-RoPE (Barbero et al. 2024; Gemma 4): over the whole head, base^(-2j / head_dim) / factor for the first
/// floor(partial_rotary_factor * head_dim / 2) pairs and 0 for the rest. Not the same as a partial rotary_dim: the exponent
/// and the partners of the pairs are those of the whole head.
ROTARY_API Frequencies proportional_frequencies(double base, std::int64_t head_dim, const Proportional& rule = {});

/// RetNet's angles: 1e4^(-j / (num_pairs - 1)), both ends included (Sun et al. 2023; torchscale). rotary_dim at least 4.
ROTARY_API Frequencies retnet_frequencies(std::int64_t rotary_dim);

// ---- NTK-aware: a larger base ----------------------------------------------------------------------------------------

/// base * factor^(d / (d - 2)): slows the last pair by exactly `factor`, the first not at all. d = 2 is refused.
/// (bloc97 2023, "NTK-aware scaled RoPE"; Peng et al. 2023, YaRN, section 3.1)
ROTARY_API double ntk_base(double base, std::int64_t rotary_dim, double factor);
/// default at ntk_base. Hunyuan's `alpha` (rope_type dynamic or xdrope) is this factor: fixed, whatever the length.
ROTARY_API Frequencies ntk_frequencies(double base, std::int64_t rotary_dim, double factor);

struct VllmNtk {
  double factor = 1;
  double mixed_b = 0;  ///< not given: pair j is slowed by factor^(2 (j + 1) / d), so that even the first slows
};
/// vLLM's rope_type `ntk`. With mixed_b: default / exp(a (j + 1)^mixed_b), a = ln(factor) / (d / 2)^mixed_b (Su 2023).
ROTARY_API Frequencies vllm_ntk_frequencies(double base, std::int64_t rotary_dim, const VllmNtk& rule);

struct DiffusersScaling {
  double linear_factor = 1;  ///< divides the frequencies
  double ntk_factor = 1;     ///< multiplies the base itself
};
/// As get_1d_rotary_pos_embed of diffusers spells it.
ROTARY_API Frequencies diffusers_frequencies(double base, std::int64_t rotary_dim, const DiffusersScaling& rule);

/// Dynamic NTK (emozilla 2023; rope_type `dynamic` of transformers): with N = max(length, max_position_embeddings), the
/// base grows to base * (factor N / max_position_embeddings - (factor - 1))^(d / (d - 2)). Up to max_position_embeddings it
/// is the default rule. vLLM evaluates it once, at max_position_embeddings * factor, for every length.
struct DynamicNtk {
  double base = 10000;
  std::int64_t rotary_dim = 0;
  double factor = 1;
  std::int64_t max_position_embeddings = 0;  ///< not original_max_position_embeddings

  /// `length`: the largest position of the call + 1.
  ROTARY_API Frequencies at(std::int64_t length) const;
};

/// The first Qwen's use_dynamic_ntk: the factor is max(2^ceil(log2(prompt_length / seq_length) + 1) - 1, 1), chosen when
/// the prompt is read and kept for the tokens that follow.
struct QwenDynamicNtk {
  double base = 10000;
  std::int64_t rotary_dim = 0;
  std::int64_t seq_length = 0;

  ROTARY_API Frequencies at(std::int64_t prompt_length) const;
};

// ---- YaRN --------------------------------------------------------------------------------------------------------------

/// Keys of rope_type `yarn`.
struct Yarn {
  double factor = 1;
  std::int64_t original_max_position_embeddings = 0;  ///< required
  double beta_fast = 32;                              ///< turns within the original length from which a pair is kept
  double beta_slow = 1;                               ///< turns below which a pair is divided by factor
  bool truncate = true;                               ///< round the range of blended pairs outwards to whole pairs
  double attention_factor = 0;                        ///< the amplitude; not given: derived
  double mscale = 0;
  double mscale_all_dim = 0;
  double extrapolation_factor = 1;  ///< 0 divides every pair by factor; the original code's and vLLM's
  double attn_factor = 1;           ///< multiplied into a derived amplitude; the original code's and vLLM's
};

/// YaRN's magnitude: 1 where factor <= 1, else 0.1 * mscale * ln(factor) + 1   (Peng et al. 2023, section 3.4)
ROTARY_API double yarn_mscale(double factor, double mscale = 1);

/// Which pairs YaRN blends: those between `low` and `high`; earlier ones are kept, later ones divided by factor.
struct YarnRange {
  double low;
  double high;
};
ROTARY_API YarnRange yarn_range(double base, std::int64_t rotary_dim, const Yarn& rule);

/// Peng et al. 2023, sections 3.2 and 3.4, with the ramp over the pair index as their code and transformers have it. base
/// > 1.
///
/// amplitude: attention_factor; else, with mscale and mscale_all_dim both given, yarn_mscale(factor, mscale) /
/// yarn_mscale(factor, mscale_all_dim); else yarn_mscale(factor).
/// logit_scale: yarn_mscale(factor, mscale_all_dim)^2 where mscale_all_dim is given. That is DeepSeek's second factor; it
/// belongs to the softmax of DeepSeek's attention and its relatives, whose head turns only in part. Other models with that
/// key (Ministral 3) leave it out.
ROTARY_API Frequencies yarn_frequencies(double base, std::int64_t rotary_dim, const Yarn& rule);

/// Dynamic YaRN (the original code): factor = max(1, length / original_max_position_embeddings); rule.factor has no effect.
struct DynamicYarn {
  double base = 10000;
  std::int64_t rotary_dim = 0;
  Yarn rule = {};

  ROTARY_API Frequencies at(std::int64_t length) const;
};

// ---- LongRoPE ----------------------------------------------------------------------------------------------------------

/// Keys of rope_type `longrope` (old name `su`; Ding et al. 2024, as Phi-3 uses it). A divisor per pair, from short_factor
/// up to original_max_position_embeddings and from long_factor beyond. What counts as the length differs: transformers
/// takes the largest position of the call + 1, vLLM and llama.cpp the longest length that they will ever admit.
struct LongRope {
  double base = 10000;
  std::int64_t rotary_dim = 0;
  std::vector<double> short_factor;  ///< rotary_dim / 2 divisors
  std::vector<double> long_factor;
  std::int64_t original_max_position_embeddings = 0;
  std::int64_t max_position_embeddings = 0;  ///< needed only where the amplitude must be derived from it
  double factor = 0;                         ///< not given: max_position_embeddings / original_max_position_embeddings
  double attention_factor = 0;               ///< the amplitude; not given: sqrt(1 + ln(factor) / ln(original length))
  double short_mscale = 0;                   ///< the amplitude of one list (Phi-3.5-MoE); wins over attention_factor
  double long_mscale = 0;

  ROTARY_API Frequencies at(std::int64_t length) const;
};

// ---- Llama 3 -----------------------------------------------------------------------------------------------------------

/// Keys of rope_type `llama3`.
struct Llama3 {
  double factor = 1;
  double low_freq_factor = 1;   ///< pairs that turn fewer times than this within the original length are divided by factor
  double high_freq_factor = 4;  ///< pairs that turn more often than this are kept; not below low_freq_factor
  std::int64_t original_max_position_embeddings = 0;  ///< required
};
/// The rule of Meta's Llama 3.1 code. Pairs between the two factors are blended linearly in turns per original length.
/// Where the factors are equal (Llama 4 Scout) nothing lies between them, and a pair exactly on the edge is kept.
ROTARY_API Frequencies llama3_frequencies(double base, std::int64_t rotary_dim, const Llama3& rule);

// ---- Pictures and video: several axes -------------------------------------------------------------------------------
// The axis that drives each pair is the map of position_axes.hpp with the same sizes.

/// Each axis with its own channels and its own default rule, one after the other: base^(-2i / axis_dims[a]).
///   Qwen-VL towers, Llama 4 vision, SAM 2: {D/2, D/2}   Gemma 4 vision: {D/2, D/2} at base 100   FLUX: {16, 56, 56}
///   Wan: wan_axis_dims(D)   CogVideoX: {D/4, 3D/8, 3D/8}
ROTARY_API Frequencies axial_frequencies(double base, const std::vector<std::int64_t>& axis_dims);
/// Wan 2: of D/2 pairs, a third each (rounded down) for height and width and the rest for time: 128 -> {44, 42, 42}.
ROTARY_API std::vector<std::int64_t> wan_axis_dims(std::int64_t head_dim);
/// Pixtral: the default rule of the whole head dealt out in turn: first the even entries (rows), then the odd ones
/// (columns). head_dim is a multiple of 4.
ROTARY_API Frequencies pixtral_frequencies(double base, std::int64_t head_dim);
/// MoonViT (Kimi-VL): {D/2, D/2} of axial_frequencies, columns and rows alternating: x w0, y w0, x w1, y w1, …
ROTARY_API Frequencies moonvit_frequencies(double base, std::int64_t head_dim);

struct DinoV3 {
  double base = 100;      ///< periods base^(4i / D); ignored where both periods are given
  double min_period = 0;  ///< both given: periods from min_period to max_period in equal ratios
  double max_period = 0;
};
/// DINOv3: turns by 2 pi / period over coordinates in [-1, 1] (patch_center), the same set for rows and for columns.
ROTARY_API Frequencies dinov3_frequencies(std::int64_t head_dim, const DinoV3& rule = {});

// ---- Any rule --------------------------------------------------------------------------------------------------------

/// Frequencies that are fixed, or a rule that asks for the length: for code that treats both alike.
class ROTARY_API FrequencyRule {
 public:
  FrequencyRule() = default;  ///< no pairs
  FrequencyRule(Frequencies fixed);
  FrequencyRule(DynamicNtk rule);  ///< these check the rule's options at once
  FrequencyRule(QwenDynamicNtk rule);
  FrequencyRule(DynamicYarn rule);
  FrequencyRule(LongRope rule);

  bool depends_on_length() const noexcept { return kind_ != Kind::fixed; }
  /// `length`: the largest position of the call + 1 (or whatever the system that one has to match takes); without effect on
  /// fixed frequencies.
  Frequencies at(std::int64_t length) const;

 private:
  enum class Kind : std::uint8_t { fixed, dynamic_ntk, qwen_dynamic_ntk, dynamic_yarn, long_rope };
  Kind kind_ = Kind::fixed;
  Frequencies fixed_;
  DynamicNtk dynamic_ntk_;
  QwenDynamicNtk qwen_dynamic_ntk_;
  DynamicYarn dynamic_yarn_;
  LongRope long_rope_;
};

}  // namespace rotary
