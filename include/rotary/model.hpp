// From a model's own files to its rotation.
//
//     const auto model = rotary::read_model("config.json");  // or a .gguf, a params.json, a checkpoint folder
//     rotary::rotate(q, k, model.layer(0).rotation(), {.offset = past_length});
//
// Strict: what a file leaves open is filled only where the model's own code has a default for it, and every value says
// where it came from. Contradictions, unknown rules, missing keys and unknown families are errors, never guesses.
// docs/models.md has the rules; docs/families.md says how to add a family.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/export.hpp"
#include "rotary/rotation.hpp"
#include "rotary/warning.hpp"

namespace rotary {

struct ModelContents;

/// A value and where it was found: {"base", "100000", "config.json: rope_theta"}. `value` is JSON text.
struct ValueSource {
  const char* name;
  const char* value;
  const char* source;
};

/// What a layer does with positions.
enum class Turning : std::uint8_t {
  rotates,         ///< q and k turn
  no_rotation,     ///< softmax attention without a rotation
  no_attention,    ///< no softmax attention: a convolution, linear attention, a state space
  not_a_rotation,  ///< positions act on q and k in a way that no rotation can express (V-JEPA 2)
};

ROTARY_API const char* name(Turning turning) noexcept;  ///< "rotates", "no rotation", "no attention", "not a rotation"

/// Where a model normalises q and k.
enum class NormOrder : std::uint8_t { none, before_rotation, after_rotation };

ROTARY_API const char* name(NormOrder order) noexcept;  ///< "none", "before rotation", "after rotation"

/// A factor on the query that grows with its position, applied after rotation, beside softmax_scale.
struct QueryTemperature {
  enum class Kind : std::uint8_t {
    none,   ///< 1
    steps,  ///< 1 + beta ln(1 + floor((position + shift) / length)): Llama 4 (shift 1), Ministral 3 and Mistral 4 (shift 0)
    logn,   ///< ln(position + 1) / ln(length) from position + 1 > length on, 1 before: the first Qwen's use_logn_attn
    power,  ///< (1 + (position + shift) / length)^beta: Beam (shift 1)
  };
  Kind kind = Kind::none;
  double beta = 0;
  std::int64_t length = 0;
  std::int64_t shift = 0;

  ROTARY_API double at(double position) const noexcept;
  bool operator==(const QueryTemperature&) const = default;
};

/// How one layer uses rotation. Lives as long as the ModelRotations it came from, or a copy of that.
class ROTARY_API LayerRotation {
 public:
  const char* label() const noexcept;  ///< the model's own name for this sort of layer: "sliding_attention"; often ""
  Turning turning() const noexcept;
  bool rotates() const noexcept { return turning() == Turning::rotates; }
  /// Why it does not rotate, in a few words: "learned positions". "" where it rotates.
  const char* reason() const noexcept;

  std::int64_t head_dim() const noexcept;
  std::int64_t num_q_heads() const noexcept;
  std::int64_t num_kv_heads() const noexcept;
  /// All factors included, but for key_scale(); what attention() takes as `scale`. 0: not known (learned, or no such scale).
  double softmax_scale() const noexcept;
  /// What keys are multiplied with before they turn, and so in the cache: Falcon-H1's key_multiplier; 1 elsewhere.
  double key_scale() const noexcept;
  const QueryTemperature& query_temperature() const noexcept;
  /// Scores s become softcap * tanh(s / softcap) (Gemma 2); 0: they are not capped.
  double softcap() const noexcept;
  /// A number per query head takes part in the sum of the softmax, like the score of a key without a value (gpt-oss). The
  /// numbers are weights, in the checkpoint: a description does not have them.
  bool has_sinks() const noexcept;
  NormOrder norm_order() const noexcept;
  /// How many keys a query sees, itself included; 0: all. The last so many, or, where window_is_symmetric(), as many after
  /// it as before it: (sliding_window() - 1) / 2 on each side.
  std::int64_t sliding_window() const noexcept;
  bool window_is_symmetric() const noexcept;
  /// Queries see only keys of their own chunk of so many positions (Llama 4); 0: no chunks.
  std::int64_t attention_chunk_size() const noexcept;
  /// Values turn like keys (RoFormer's rotary_value, DeepSeek-V4).
  bool rotates_values() const noexcept;
  /// The attention output is turned back at the query's position (DeepSeek-V4).
  bool unrotates_output() const noexcept;

  const char* rule()
      const noexcept;  ///< the frequency rule by its key in config files: "yarn"; "" where it does not rotate
  /// Whether the frequencies change with the number of tokens (dynamic NTK, LongRoPE).
  bool depends_on_length() const noexcept;
  /// Throws Error (invalid_argument) where the layer does not rotate, or where the length decides: ask rotation(length).
  const Rotation& rotation() const;
  /// The rotation of a call whose largest position is length - 1. Keys that were cached at another length keep the
  /// frequencies of theirs.
  Rotation rotation(std::int64_t length) const;

  /// Every value that decided something for this layer, in reading order.
  const std::vector<ValueSource>& provenance() const noexcept;

  /// Whether both are the same sort of layer of one model.
  bool operator==(const LayerRotation& other) const noexcept { return contents_ == other.contents_; }

 private:
  friend class ModelRotations;
  friend struct ModelContents;
  struct Contents;
  explicit LayerRotation(const Contents* contents) noexcept : contents_(contents) {}
  const Contents* contents_;
};

/// Layers first … last, both included.
struct LayerRange {
  std::int64_t first;
  std::int64_t last;
  bool operator==(const LayerRange&) const = default;
};

/// Consecutive layers that do the same. Groups that alternate share their LayerRotation: groups[0].layer == groups[2].layer.
struct LayerGroup {
  std::int64_t first;
  std::int64_t last;
  LayerRotation layer;
};

/// What a model does with positions, layer by layer. Immutable; copies are cheap and share everything.
class ROTARY_API ModelRotations {
 public:
  ModelRotations(const ModelRotations& other) noexcept;
  ModelRotations& operator=(const ModelRotations& other) noexcept;
  ~ModelRotations();

  const char* model_type() const noexcept;  ///< as the file names it: "llama"
  const char* source() const noexcept;      ///< the path that was read
  const char* format() const noexcept;      ///< "config.json", "gguf", "params.json"
  std::int64_t num_layers() const noexcept;
  /// The context length that the file states (max_position_embeddings).
  std::int64_t max_position_embeddings() const noexcept;
  /// The length before it was extended, where a rule names it (original_max_position_embeddings); else that same length.
  std::int64_t original_max_position_embeddings() const noexcept;

  const LayerRotation& layer(std::int64_t index) const;  ///< throws Error (invalid_argument) outside 0 … num_layers - 1
  const std::vector<LayerGroup>& groups() const noexcept;
  const std::vector<Warning>& warnings() const noexcept;

  /// 16 hexadecimal digits: equal exactly when rotated keys that one model cached can be used by the other, layer by layer.
  /// docs/models.md says what goes into it.
  const char* fingerprint() const noexcept;

  /// Further parts of a composite model, each with layers of its own: {"vision_config", "audio_config"}. The model itself is
  /// the one that writes text, or the only part.
  const std::vector<const char*>& part_names() const noexcept;
  ModelRotations part(const char* name) const;  ///< throws Error (invalid_argument) for a name that is not there

 private:
  friend struct ModelContents;
  explicit ModelRotations(ModelContents* contents) noexcept : contents_(contents) {}
  ModelContents* contents_;  // counted
};

struct ReadOptions {
  /// Turn into warnings what real loaders tolerate, and do what they do: an odd rotary width, a contradiction between
  /// spellings, a type and rope_type that differ, …
  bool lenient = false;
  /// Read the file as this family, whatever its model_type: for a fork whose code is known to be the same. "": as it says.
  const char* family = "";
};

/// Reads a config.json of Hugging Face transformers (all spellings), a GGUF (its header only, also of split files), a
/// params.json of Meta or Mistral, or a checkpoint folder that holds one of them; of a folder with safetensors, the shapes of
/// q and k must agree with what the file says.
/// Errors: Error (invalid_file) where the file breaks a rule; (unsupported) for a family or a rule not known here.
ROTARY_API ModelRotations read_model(const char* path, const ReadOptions& options = {});

}  // namespace rotary
