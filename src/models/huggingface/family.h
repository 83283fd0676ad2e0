// One row per model_type of config.json: how that model's own code uses its keys. Data only; the files beside this one say
// what each word means for a config. docs/families.md shows how to add a row.
//
// A row states what differs from the commonest model: every layer alike, the whole head turns in halves, base 10000 unless
// rope_theta says otherwise, scores scaled by 1 / sqrt(head_dim).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "rotary/model.hpp"
#include "rotary/rotation.hpp"

namespace rotary::huggingface {

/// Numbers of the model's class for keys that a file may leave out. 0: none.
struct ClassDefaults {
  std::int64_t layers = 0;
  std::int64_t q_heads = 0;
  std::int64_t kv_heads = 0;  ///< 0: as many as query heads
  std::int64_t head_dim = 0;  ///< 0: hidden_size / num_attention_heads
  std::int64_t hidden = 0;
  std::int64_t length = 0;  ///< max_position_embeddings
  std::int64_t window = 0;  ///< sliding_window
  std::int64_t nope = 0;    ///< qk_nope_head_dim
  std::int64_t rope = 0;    ///< qk_rope_head_dim
  std::int64_t image = 0;   ///< image_size, where positions depend on it
  std::int64_t patch = 0;   ///< patch_size
  std::int64_t chunk = 0;   ///< attention_chunk_size
};

/// Which channels of a head turn.
struct Slice {
  enum class Kind : std::uint8_t {
    whole,      ///< all; a share other than 1 is refused, as the code could not use it
    share,      ///< the first floor(head_dim * number at `key`)
    channels,   ///< the first (number at `key`)
    mla,        ///< the last qk_rope_head_dim of qk_nope_head_dim + qk_rope_head_dim
    projected,  ///< the first max(32, projection_dim / (2 * num_attention_heads)): CLVP
  };
  Kind kind = Kind::whole;
  std::string_view key = {};
  double otherwise = 1;  ///< where the key is missing; 0: then the whole head
  bool at_end = false;   ///< the last channels of the head instead of the first (mla always)
};
constexpr Slice whole() { return {}; }
constexpr Slice share(double otherwise, std::string_view key = "partial_rotary_factor", bool at_end = false) {
  return {Slice::Kind::share, key, otherwise, at_end};
}
constexpr Slice channels(double otherwise, std::string_view key = "rotary_dim", bool at_end = false) {
  return {Slice::Kind::channels, key, otherwise, at_end};
}
constexpr Slice mla() { return {Slice::Kind::mla}; }

/// Which sort each layer is, where the file has no layer_types.
struct Layers {
  enum class Kind : std::uint8_t {
    alike,        ///< all `sort`
    every,        ///< layers n-1, 2n-1, … are `sort`, the others `rest`; n at `key`
    from_first,   ///< layers 0, n, 2n, … are `sort`, the others `rest`
    period,       ///< layers with i mod n == offset are `sort`; n at `key`, offset at `offset_key`
    from_last,    ///< counted from the last layer: it and every nth before it are `sort`
    listed,       ///< the layers whose indices stand in the list at `key` are `sort`
    upper,        ///< with use_sliding_window, layers from max_window_layers on are `rest`
    named,        ///< a list of sorts at `key`, repeated to the end where `repeats`
    flags,        ///< a list of 0 and 1 at `key`: 1 is `sort`; where it is missing every nth is `rest`, n at `offset_key`
    needed,       ///< layer_types has to be in the file
    pattern,      ///< the sorts in `rest` first, then those in `sort` again and again
    letters,      ///< a text at `key` with one letter per layer: M Mamba, * attention, - and E without attention
    numbered,     ///< the lists at `key` and `offset_key` hold the layers of `sort` and of `rest`, counted from 1
    ratios,       ///< compress_ratios, one per layer: 0, 4 and 128 stand for DeepSeek-V4's three sorts; else as pattern
    after_dense,  ///< as every, but counted from layer first_k_dense_replace on; those before it by a pattern of their own
    even_below,   ///< with use_sliding_window, even layers below max_window_layers are `rest`
  };
  Kind kind = Kind::alike;
  std::string_view key = {};
  std::int64_t otherwise = 0;  ///< n where the key is missing
  std::string_view sort = "full_attention";
  std::string_view rest = "sliding_attention";
  std::string_view offset_key = {};
  std::int64_t offset = 0;
  bool last_is_sort = false;  ///< the last layer is `sort` whatever the rule says
};
constexpr Layers alike(std::string_view sort) { return {Layers::Kind::alike, {}, 0, sort}; }
constexpr Layers every(std::int64_t n, std::string_view key, std::string_view sort = "full_attention",
                       std::string_view rest = "sliding_attention", bool last_is_sort = false) {
  return {Layers::Kind::every, key, n, sort, rest, {}, 0, last_is_sort};
}
constexpr Layers from_first(std::int64_t n, std::string_view key, std::string_view sort = "full_attention",
                            std::string_view rest = "sliding_attention") {
  return {Layers::Kind::from_first, key, n, sort, rest};
}
constexpr Layers period(std::int64_t n, std::string_view key, std::int64_t offset, std::string_view offset_key,
                        std::string_view sort, std::string_view rest) {
  return {Layers::Kind::period, key, n, sort, rest, offset_key, offset};
}
constexpr Layers from_last(std::int64_t n, std::string_view key, std::string_view sort = "full_attention",
                           std::string_view rest = "sliding_attention") {
  return {Layers::Kind::from_last, key, n, sort, rest};
}
/// Where the list is missing, every nth is `sort`; n = 0: none.
constexpr Layers listed(std::string_view key, std::string_view sort, std::string_view rest, std::int64_t n = 0) {
  return {Layers::Kind::listed, key, n, sort, rest};
}
/// Layers from max_window_layers on slide, where use_sliding_window says so (or is missing, where `unasked`).
constexpr Layers upper_windows(std::int64_t first = 28, bool unasked = false) {
  return {Layers::Kind::upper, "max_window_layers", first, "full_attention", "sliding_attention", {}, unasked ? 1 : 0};
}
/// e.g. ["recurrent", "recurrent", "attention"], repeated over the layers.
constexpr Layers named(std::string_view key, std::string_view sort) { return {Layers::Kind::named, key, 0, sort}; }
constexpr Layers flags(std::string_view key, std::string_view sort, std::string_view rest, std::int64_t n = 0,
                       std::string_view n_key = {}) {
  return {Layers::Kind::flags, key, n, sort, rest, n_key};
}
constexpr Layers needed() { return {Layers::Kind::needed}; }
/// Sorts with blanks between them: pattern("sliding_attention full_attention"). A list at `flags_key` counts instead, where
/// the file has it: 1 is sliding_attention, 0 full_attention.
constexpr Layers pattern(std::string_view repeated, std::string_view first = "", bool last_is_full = false,
                         std::string_view flags_key = "") {
  return {Layers::Kind::pattern, {}, 0, repeated, first, flags_key, 0, last_is_full};
}
constexpr Layers letters(std::string_view key) { return {Layers::Kind::letters, key}; }
constexpr Layers numbered(std::string_view sort_key, std::string_view rest_key, std::string_view sort,
                          std::string_view rest) {
  return {Layers::Kind::numbered, sort_key, 0, sort, rest, rest_key};
}
constexpr Layers ratios(std::string_view repeated, std::string_view first) {
  return {Layers::Kind::ratios, "compress_ratios", 0, repeated, first};
}
constexpr Layers after_dense(std::int64_t n, std::string_view key) { return {Layers::Kind::after_dense, key, n}; }
constexpr Layers even_below(std::int64_t n) { return {Layers::Kind::even_below, "max_window_layers", n}; }

/// Which layers turn.
struct Turns {
  enum class Kind : std::uint8_t {
    all,
    only,               ///< layers of the sort `word`
    except,             ///< all but layers of the sort `word`
    only_with_windows,  ///< as only, where the file has a window; else all, or none
    by_flags,           ///< no_rope_layers (1: turns), else all but every nth by no_rope_layer_interval
    by_list,            ///< layer_rope_theta: a base per layer, 0: does not turn
    if_named,           ///< all, where the text at `key` is `word`; else none (position_embedding_type)
    if_true,            ///< all, where the flag at `key` is true (use_mem_rope)
    unless_true,        ///< none, where the flag at `key` is true (alibi)
    not_listed,         ///< all but the layers in the list at `key` (cross_attention_layers)
    if_positive,        ///< all, where the number at `key` is above 0 (rotary_emb_fraction); none where it is 0
    if_equal,           ///< all, where the number at `key` is `otherwise`; none where it is `other`; else refused
    unless_null,        ///< none, where the file has null at `key` (OLMo hybrid's rope_theta)
    only_or_dense,      ///< as only, and the dense first layers (first_k_dense_replace, mlp_layer_types) of Cohere 2 MoE
  };
  Kind kind = Kind::all;
  std::string_view key = {};
  std::string_view word = {};
  std::int64_t otherwise = 0;  ///< n of by_flags
  bool where_missing = true;   ///< of if_named, if_true and if_positive: whether it turns where the key is missing
  std::int64_t other = 0;
};
constexpr Turns only(std::string_view sort) { return {Turns::Kind::only, {}, sort}; }
/// Layers with a window; where the file has no window at all: every layer, or none.
constexpr Turns only_with_windows(bool all_without) {
  return {Turns::Kind::only_with_windows, "sliding_window", "sliding_attention", 0, all_without};
}
constexpr Turns except(std::string_view sort) { return {Turns::Kind::except, {}, sort}; }
constexpr Turns by_flags(std::int64_t n) { return {Turns::Kind::by_flags, "no_rope_layers", {}, n}; }
constexpr Turns if_named(std::string_view key, std::string_view word, bool where_missing) {
  return {Turns::Kind::if_named, key, word, 0, where_missing};
}
/// n where the list is missing; 0: then all turn.
constexpr Turns by_list(std::string_view key, std::int64_t n = 0) { return {Turns::Kind::by_list, key, {}, n}; }
constexpr Turns unless_true(std::string_view key) { return {Turns::Kind::unless_true, key}; }
constexpr Turns not_listed(std::string_view key) { return {Turns::Kind::not_listed, key}; }
constexpr Turns unless_null(std::string_view key) { return {Turns::Kind::unless_null, key}; }
constexpr Turns only_or_dense(std::string_view sort) { return {Turns::Kind::only_or_dense, {}, sort}; }
constexpr Turns if_true(std::string_view key, bool where_missing) {
  return {Turns::Kind::if_true, key, {}, 0, where_missing};
}
constexpr Turns if_positive(std::string_view key, bool where_missing) {
  return {Turns::Kind::if_positive, key, {}, 0, where_missing};
}
constexpr Turns if_equal(std::string_view key, std::int64_t turns, std::int64_t does_not) {
  return {Turns::Kind::if_equal, key, {}, turns, true, does_not};
}

/// Rotation of one sort of layer, where sorts differ. Keys in rope_parameters[sort] win over these.
struct SortRope {
  std::string_view sort = {};
  double base = 0;                     ///< 0: as the family
  std::string_view base_key = {};      ///< top-level key of the old spelling; empty: as the family
  bool scaled = true;                  ///< whether rope_scaling of the old spelling is for this sort
  std::string_view rule = {};          ///< where nothing names one; empty: default
  double partial = 0;                  ///< partial_rotary_factor where nothing names one; 0: as the family
  std::string_view head_dim_key = {};  ///< of heads of their own width: global_head_dim
  std::int64_t head_dim = 0;
  std::string_view nope_key = {};  ///< of mla: what does not turn of a head of that width
  std::int64_t nope = 0;
  std::string_view q_heads_key = {};
  std::string_view kv_heads_key = {};  ///< num_global_key_value_heads
  std::int64_t kv_heads = 0;
  std::int64_t kv_heads_factor = 1;  ///< times num_key_value_heads
  std::string_view sinks_key = {};   ///< a flag that says whether this sort has sinks
  bool sinks = false;                ///< where that flag is missing
  std::string_view entry = {};       ///< in nested rope_parameters, where it is not named like the sort: "compress"
};

/// What scores are multiplied by before the softmax.
enum class Scale : std::uint8_t {
  head_dim,               ///< 1 / sqrt(head_dim)
  query_pre_attn_scalar,  ///< 1 / sqrt(number at that key)
  number,                 ///< the number at `scale_key`, `scale` where it is missing
  over_head_dim,          ///< the same / head_dim
  half_head_dim,          ///< 1 / sqrt(head_dim / 2): Zamba 2
  mla,                    ///< head_dim, times YaRN's mscale_all_dim squared (DeepSeek's second factor)
  unknown,                ///< learned, or not of this form: written as 0
};

/// A factor on queries that grows with the position.
enum class Temperature : std::uint8_t {
  none,
  llama4,     ///< attn_temperature_tuning, attn_scale, floor_scale; on layers that do not turn
  ministral,  ///< llama_4_scaling_beta among the rule's keys; on all layers
  logn,       ///< use_logn_attn and seq_length; on all layers
  beam,       ///< (1 + (position + 1) / 2048)^0.1; on layers that do not turn
};

/// What the number at window_key says.
enum class Window : std::uint8_t {
  keys,          ///< how many keys a query sees
  each_side,     ///< how many on each side (bidirectional)
  halves,        ///< twice that (bidirectional), unless sliding_window says how many on each side
  half_of_keys,  ///< twice how many keys a query sees, unless sliding_window says how many
};

/// Which axis of the position drives each pair.
enum class Axes : std::uint8_t {
  one,
  blocks,       ///< mrope_section: so many pairs per axis, one axis after the other
  dealt,        ///< mrope_section, dealt out in turn (mrope_interleaved)
  by_flag,      ///< dealt where mrope_interleaved is true, else blocks
  ernie,        ///< (h, w, t): h and w in turn, t the rest
  xdrope,       ///< xdrope_section or mrope_section, in blocks
  alternating,  ///< pairs follow rows and columns in turn, all with their own frequency
  // towers: frequencies of their own per axis
  vision_rows,     ///< row, column: the first half of the pairs follows rows, the second columns, by the same frequencies
  vision_columns,  ///< row, column: the first half follows columns, the second rows
  vision_xy,       ///< x, y, as the model counts positions: the first half follows x, the second y
  sam3,            ///< vision_xy; layers of the sort "global" count in windows: window_size / (image_size / patch_size)
  pixtral,         ///< row, column: even frequencies of the whole head follow rows, odd ones columns
  moonvit,         ///< row, column: columns and rows in turn, both by the same frequency
  dinov3,          ///< y, x: patch centres in [-1, 1]
  halves,          ///< x, y: the head in two blocks, one per axis, each in halves: Gemma 4's tower
  thirds,          ///< time, row, column: 2 * (head_dim / 6) channels each, the rest untouched
};

/// What positions do, where it is not a rotation of heads.
enum class PositionKind : std::uint8_t {
  rotary,
  none,            ///< learned, ALiBi, relative, none at all: `why` says which
  not_a_rotation,  ///< V-JEPA 2 and kin: `why` says what happens instead
};

/// A key by which the code of a family turns otherwise than its row says: files that have it are refused.
struct Refusal {
  std::string_view key = {};
  std::string_view why = {};  ///< what the code then does
  double harmless = 0;        ///< a number that changes nothing; nor do null, false and 0
};

/// Where the value at a key is this word (a text, or true or false), positions act in another way.
struct OtherReason {
  std::string_view key = {};
  std::string_view word = {};
  std::string_view why = {};
};

struct Family {
  std::string_view model_type;
  PositionKind positions = PositionKind::rotary;
  std::string_view why = {};  ///< where it does not rotate: "learned positions"
  OtherReason other_why = {};
  ClassDefaults defaults = {};
  /// Other names for keys: "num_hidden_layers=n_layer hidden_size=n_embd". The name of the left wins where both are there.
  std::string_view aliases = {};

  std::string_view hidden_key = "hidden_size";
  bool head_dim_is_hidden_over_heads = false;  ///< the code does not read head_dim
  std::string_view kv_heads_flag = {};         ///< a flag without which num_key_value_heads does not count
  std::int64_t head_dim_factor = 1;            ///< head_dim is so many times hidden_size / num_attention_heads
  std::string_view multi_query_flag = {};      ///< a flag, true where missing, that stands for one key/value head (Falcon)
  std::string_view q_heads_factor_key = {};    ///< query heads are so many times the key/value heads
  std::string_view q_heads_per_layer = {};     ///< a list with the number of query heads of each layer
  bool q_heads_by_width = false;               ///< where the file names none: hidden_size / (head_dim of the class)
  std::string_view half_layers_key = {};       ///< a key with half the number of attention layers (LongCat's num_layers)

  Pairing pairing = Pairing::half;
  Pairing pairing_out = Pairing::unspecified;  ///< as pairing
  std::string_view pairing_key = {};           ///< a flag by which a file chooses: true is interleaved
  int direction = 1;
  Slice slice = {};
  /// A flag that, where false, stands for Llama's attention instead: the code that comes with DeepSeek-VL2 and DeepSeek-OCR.
  std::string_view plain_flag = {};
  double base = 10000;
  std::string_view base_key = "rope_theta";  ///< empty: no key changes it
  bool base_is_ratio = false;                ///< the number at base_key is a multiple of 10000 (ChatGLM's rope_ratio)
  bool alpha_is_ntk = false;                 ///< rope_type dynamic or xdrope with alpha: a fixed base (Hunyuan)
  bool yarn_is_longrope = false;             ///< rope_type yarn means longrope (Phi-3)
  bool yarn_amplitude_is_1 = false;          ///< unless attention_factor is given (DeepSeek-V4)
  Layers layers = {};
  Turns turns = {};
  std::string_view base_per_layer = {};     ///< a list of bases, one per layer (layer_rope_theta)
  std::string_view partial_per_layer = {};  ///< a list of shares, one per layer
  std::string_view scaled_layers = {};      ///< a list of the layers that the rule is for; the others have the plain one
  std::span<const SortRope> ropes = {};
  /// A flag that makes the base follow the prompt's length, from seq_length on: the first Qwen's use_dynamic_ntk. Classes
  /// disagree about its default, so that it must be given.
  std::string_view prompt_ntk_flag = {};
  std::string_view rope_parameters = {};  ///< JSON: what the class takes where the file has no rope object at all
  bool rope_by_sort = false;              ///< the code reads only rope_parameters with an entry for each sort
  bool plain_rule_only = false;           ///< the code knows no other rule than the plain one
  Axes axes = Axes::one;
  std::array<std::int64_t, 4> sections = {};  ///< where the file has none
  std::int64_t first_position = 0;            ///< where the code starts to count on every axis; says so, changes nothing
  Scale scale = Scale::head_dim;
  std::string_view scale_key = {};
  double scale_value = 0;               ///< where the key is missing
  std::string_view key_scale_key = {};  ///< a number that keys are multiplied with before they turn
  Temperature temperature = Temperature::none;
  std::string_view softcap_key = {};  ///< a number that scores are capped at
  double softcap = 0;                 ///< where that key is missing, or there is none
  bool sinks = false;                 ///< a number per query head takes part in the sum of the softmax
  NormOrder norm = NormOrder::none;
  std::string_view norm_key = {};  ///< a flag that switches it on
  bool norm_where_missing = true;  ///< whether it is on where that flag is missing
  bool windows = false;            ///< sliding_window counts on layers of every sort
  std::string_view window_key = "sliding_window";
  Window window = Window::keys;
  std::string_view both_sides_flag = {};  ///< a flag that makes attention bidirectional: then the number is for both sides
  std::string_view window_flag = {};      ///< windows count only where this flag is true
  bool rotates_values = false;
  std::string_view values_key = {};  ///< a flag that switches it on
  bool unrotates_output = false;
  /// Composite configs: "text_config=llama* vision_config=llama4_vision_model", the one that writes text first. A part is
  /// read as the family named here; one with a star as what its own model_type says, and as the family before the star where
  /// it does not say.
  std::string_view parts = {};
  bool flat = false;        ///< old files of this composite keep the first part's keys at the top level
  bool own_layers = false;  ///< the keys of the main part stand at the top level, beside the parts: this row describes it
  std::array<Refusal, 2> refusals = {};
  std::string_view source = "transformers 5.24";
  std::string_view note = {};  ///< what systems disagree about, or what else one must know (RP024)

  /// What this sort of layer has of its own; nullptr where nothing.
  constexpr const SortRope* rope_of(std::string_view sort) const {
    for (const SortRope& rope : ropes) {
      if (rope.sort == sort) return &rope;
    }
    return nullptr;
  }
};

/// nullptr where the table has no such row.
const Family* find_family(std::string_view model_type);
/// The names that are nearest to what was asked, for an error: at most three.
std::string nearest_families(std::string_view model_type);

}  // namespace rotary::huggingface
