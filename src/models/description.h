// What every reader of model files fills in, and from which ModelRotations are built. One LayerDescription per sort of
// layer, not per layer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/findings.h"
#include "models/provenance.h"
#include "rotary/frequencies.hpp"
#include "rotary/model.hpp"
#include "rotary/rotation.hpp"

namespace rotary {

/// Far above any model; a larger number in a file is an attack or a slip.
inline constexpr std::int64_t max_layers = 1 << 12;
inline constexpr std::int64_t max_heads = 1 << 16;
inline constexpr std::size_t max_kinds = 1 << 10;
/// Pairs of channels of all sorts of layers together: some 20 MB.
inline constexpr std::int64_t max_pairs_of_model = 1 << 18;

struct LayerDescription {
  std::string label;
  Turning turning = Turning::rotates;
  std::string reason;  ///< where it does not rotate

  std::int64_t head_dim = 0;
  std::int64_t num_q_heads = 0;
  std::int64_t num_kv_heads = 0;
  double softmax_scale = 0;  ///< with every factor that does not depend on the position
  QueryTemperature query_temperature;
  double softcap = 0;
  bool has_sinks = false;
  NormOrder norm_order = NormOrder::none;
  double key_scale = 1;  ///< keys times this, then the rotation
  std::int64_t sliding_window = 0;
  bool window_is_symmetric = false;
  std::int64_t attention_chunk_size = 0;
  bool rotates_values = false;
  bool unrotates_output = false;

  /// Slice, pairings, axis, direction; head_dim, inv_freq and amplitude are filled in from above and from the rule.
  RotationSpec layout;
  /// Of LongRoPE in a GGUF: instead of layout.ggml_divisors beyond the original length.
  std::vector<double> long_ggml_divisors;
  std::string rule_name;  ///< "yarn"
  FrequencyRule rule;
  /// Of a rule that knows an original length, else 0.
  std::int64_t original_max_position_embeddings = 0;

  Provenance provenance;

  /// The rotation of a call of `length` tokens. Throws Error (invalid_argument) where the layout breaks a rule.
  Rotation rotation_at(std::int64_t length) const;
};

struct ModelDescription {
  std::string model_type;
  std::string source;  ///< path
  std::string format;
  std::int64_t max_position_embeddings = 0;
  std::vector<LayerDescription> kinds;
  std::vector<std::size_t> kind_of_layer;  ///< one per layer: index into kinds
  std::vector<Findings::Entry> warnings;
  struct Part;
  std::vector<Part> parts;

  std::size_t num_layers() const { return kind_of_layer.size(); }
};

struct ModelDescription::Part {
  std::string name;
  ModelDescription description;
};

/// Adds one sort of layer. Error (unsupported) with the path beyond max_kinds or max_pairs_of_model: lists with an entry per
/// layer must not turn a small file into gigabytes.
void add_kind(ModelDescription& model, LayerDescription kind, const std::string& path);

/// Checks every rotation at once (Error (invalid_file) with the path and the broken rule), groups the layers.
ModelRotations build_model(ModelDescription description);

/// 16 hexadecimal digits.
std::string fingerprint_of(const ModelDescription& model);

}  // namespace rotary
