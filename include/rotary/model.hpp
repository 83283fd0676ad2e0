// From a model's own files to its rotation.
//
//     const auto model = rotary::read_model("config.json");
//     rotary::rotate(q, k, model.layer(0).rotation(), {.offset = past_length});
//
// Strict: what a file leaves open is filled only where the model's own code has a default for it, and every value says
// where it came from. Contradictions, unknown rules, missing keys and unknown families are errors, never guesses.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/export.hpp"
#include "rotary/rotation.hpp"

namespace rotary {

/// A value and where it was found: {"base", "100000", "config.json: rope_theta"}. `value` is JSON text.
struct ValueSource {
  const char* name;
  const char* value;
  const char* source;
};

/// How one layer uses rotation. Lives as long as the ModelRotations it came from, or a copy of that.
class ROTARY_API LayerRotation {
 public:
  std::int64_t head_dim() const noexcept;
  std::int64_t num_q_heads() const noexcept;
  std::int64_t num_kv_heads() const noexcept;
  double softmax_scale() const noexcept;  ///< all factors included; what attention() takes as `scale`
  /// How many keys a query sees, itself included; 0: all.
  std::int64_t sliding_window() const noexcept;

  bool rotates() const noexcept;
  /// Whether the frequencies change with the number of tokens (dynamic NTK, LongRoPE).
  bool depends_on_length() const noexcept;
  /// Throws Error (invalid_argument) where the layer does not rotate, or where the length decides: ask rotation(length).
  const Rotation& rotation() const;
  /// The rotation of a call whose largest position is length - 1. Keys that were cached at another length keep the
  /// frequencies of theirs.
  Rotation rotation(std::int64_t length) const;

 private:
  friend class ModelRotations;
  struct Contents;
  explicit LayerRotation(const Contents* contents) noexcept : contents_(contents) {}
  const Contents* contents_;
};

/// Consecutive layers that do the same.
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
  std::int64_t num_layers() const noexcept;
  /// The context length that the file states (max_position_embeddings).
  std::int64_t max_position_embeddings() const noexcept;

  const LayerRotation& layer(std::int64_t index) const;  ///< throws Error (invalid_argument) outside 0 … num_layers - 1
  const std::vector<LayerGroup>& groups() const noexcept;
  /// Every value that decided something, in reading order.
  const std::vector<ValueSource>& provenance() const noexcept;
  const std::vector<const char*>& warnings() const noexcept;

 private:
  friend ROTARY_API ModelRotations read_model(const char* path);
  struct Contents;
  explicit ModelRotations(Contents* contents) noexcept : contents_(contents) {}
  Contents* contents_;  // counted
};

/// Reads a config.json of Hugging Face transformers, or the one in a folder. Both spellings: rope_theta with rope_scaling
/// (type or rope_type), and rope_parameters. Families: those of the Llama kind (src/models/llama_kind.cc has the table).
/// Errors: Error (invalid_file) where the file breaks a rule; (unsupported) for a family or a rule not known here.
ROTARY_API ModelRotations read_model(const char* path);

}  // namespace rotary
