// What llama.cpp knows about an architecture and a GGUF does not say: one row of a table per name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/model.hpp"

namespace rotary::gguf {

/// Which channels pair up, and how positions reach them: ggml's rope types.
enum class RopeType : std::uint8_t {
  none,
  norm,           // neighbours
  neox,           // halves
  mrope,          // halves; axes in blocks of rope.dimension_sections
  imrope,         // halves; axes in turn
  norm_or_mrope,  // mrope where the file has sections
  neox_or_mrope,
};

/// Which of the layers with softmax attention turn.
enum class Turns : std::uint8_t {
  all,
  none,
  sliding,           // those with a window
  but_every_fourth,  // not layers 3, 7, 11, …
  llama4,            // the same; all but the last where the window is switched off
  smallthinker,      // not layers 0, 4, 8, …; all where there is no window
  exaone4,           // those with a window where the model has windows (64 layers), else all
  cohere2moe,        // those with a window, and the leading dense ones
  finetuned,         // all or none, by rope.scaling.finetuned
  rope_pattern,      // by attention.rope_pattern
  baichuan,          // all of 32 layers (7B), none of 40 (13B, ALiBi)
};

/// Which layers have softmax attention at all.
enum class Attends : std::uint8_t {
  every_layer,
  with_kv_heads,  // those whose head_count_kv is not 0
  every_fourth,   // 3, 7, 11, …, or by attention.recurrent_layers or full_attention_interval
  every_eighth,
  never,
};

enum class Mask : std::uint8_t { none, window, symmetric, chunks };

struct Window {
  enum class Pattern : std::uint8_t {
    period,  // by `period`; attention.sliding_window_pattern wins, as a list or as another period
    listed,  // attention.sliding_window_pattern must be there, as a list
    every_layer,
  };
  Mask mask = Mask::none;
  bool required = false;  // attention.sliding_window must be there
  std::int64_t size = 0;  // where it is not; 0: then there is no window
  Pattern pattern = Pattern::period;
  std::int64_t period = 1;   // layer i is full where i % period == period - 1
  bool full_first = false;   // … where i % period == 0
  std::int64_t only_of = 0;  // only in a model of so many layers; 0: in any
};

/// What layers with a window turn by. "Own base" is rope.freq_base_swa.
enum class Sliding : std::uint8_t {
  as_full,                 // no other than full layers
  own_or_full_base,        // own base, else that of full layers; their scaling
  own_or_full_base_plain,  // …; unscaled, but with their amplitude's host part
  own_or_10000_plain,      // own base, else 10000; unscaled
  own_base,                // own base, which must be there; the scaling of full layers
  full_base_only,          // the base of full layers; neither scaling nor amplitude
  own_or_full_base_only,   // own base, else that of full layers; neither scaling nor amplitude
};

enum class Slice : std::uint8_t {
  leading,
  trailing,           // the last channels of key_length
  latent,             // the last channels of key_length_mla, which must be there (multi-head latent attention)
  latent_if_given,    // … or, in older files, of key_length
  latent_or_sliding,  // …; key_length_mla_swa on layers with a window
  shared_key_value,   // DeepSeek-V4: one row is key and value
};

enum class RotaryDim : std::uint8_t {
  of_first_layer,  // rope.dimension_count, or dimension_count_swa where the first layer has a window
  of_each_layer,
  half_on_full,  // Step-3.5 halves what the file says on full layers
  whole_head,
};

/// Which per-pair divisors are used: rope_freqs.weight ("freqs"), rope_factors_long and _short.weight ("lists").
enum class Divisors : std::uint8_t { none, freqs, freqs_or_lists, lists, freqs_on_full, freqs_or_lists_on_full };

enum class SoftmaxScale : std::uint8_t {
  head_dim,    // 1 / sqrt(head_dim)
  rotary_dim,  // 1 / sqrt(rotary_dim)
  value_dim,   // 1 / sqrt(value_length)
  one,
  key,       // attention.scale, else as head_dim
  gemma2,    // 27B, which is the one of 46 layers, by embedding_length / head_count
  gemma3,    // 27B, of 62 layers
  grok,      // attention.output_scale
  deepseek,  // with YaRN's magnitude squared
};

enum class Temperature : std::uint8_t {
  none,
  llama4,           // constants, on layers that do not turn
  original_length,  // attention.temperature_scale, over the original context length
  keys,             // attention.temperature_scale and temperature_length
};

/// Which of the keys rope.scaling.yarn_* are read.
enum class YarnKeys : std::uint8_t {
  none,
  grok,                  // ext_factor, attn_factor, beta_fast (8), beta_slow
  mistral3,              // beta_fast, beta_slow, log_multiplier
  tenfold,               // log_multiplier, stored as a tenth
  tenfold_both_factors,  // …, which is then taken for mscale, too
};

/// Blocks after the last layer, which predict further tokens: nextn_predict_layers.
enum class FurtherBlocks : std::uint8_t {
  counted,
  if_stored,  // where the file has their weights
  not_apart,  // all blocks are layers
};

enum class QkNorm : std::uint8_t { none, before, before_if_given, after, llama4 };

struct Architecture {
  std::string_view name;
  RopeType type = RopeType::none;
  Turns turns = Turns::all;
  const char* reason = "";  // why layers do not turn
  Attends attends = Attends::every_layer;
  Window window = {};
  Sliding sliding = Sliding::as_full;
  Slice slice = Slice::leading;
  RotaryDim rotary_dim = RotaryDim::of_first_layer;
  bool whole_head_only = false;    // refused where only a part of the head turns
  bool ignores_rope_keys = false;  // base 10000, no scaling, whatever the file says
  bool reads_alpha = false;        // rope.scaling.alpha enlarges the base
  Divisors divisors = Divisors::none;
  SoftmaxScale scale = SoftmaxScale::head_dim;
  Temperature temperature = Temperature::none;
  double softcap = 0;  // attn_logit_softcapping, this where it is missing; 0: not read
  bool sinks = false;  // attn_sinks.weight of every layer is required
  YarnKeys yarn = YarnKeys::none;
  QkNorm norm = QkNorm::none;
  FurtherBlocks further_blocks = FurtherBlocks::counted;
  bool one_axis_is_enough = false;    // of norm_or_mrope and neox_or_mrope: to have sections
  bool permuted = false;              // the converter exchanges the pairing of Hugging Face checkpoints
  bool permuted_with_axes = false;    // … where the file has sections: from neighbours to halves
  std::string_view refused_key = {};  // a count at this key makes another model of it, which has no description here
  const char* note = "";              // how systems disagree
  bool note_without_yarn = false;     // which concerns files without YaRN, too
};

/// Of llama.cpp; nullptr for a name that it does not know.
const Architecture* find_architecture(std::string_view name) noexcept;

}  // namespace rotary::gguf
