// Where a config has its rotation keys: rope_scaling, rope_parameters, and the top level beside them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "models/huggingface/part.h"
#include "models/provenance.h"

namespace rotary::huggingface {

/// What the keys are read for.
struct RopeQuestion {
  std::string sort;         ///< "full_attention"
  std::int64_t head_dim;    ///< of this sort
  std::int64_t mla_rotary;  ///< qk_rope_head_dim where the slice is mla
  Found<std::int64_t> max_position_embeddings;
  std::optional<Found<double>> base_of_layer;   ///< from a list with a base per layer
  std::optional<Found<double>> share_of_layer;  ///< from a list with a partial_rotary_factor per layer
  bool scaled = true;                           ///< whether the rule of the file is for this layer
};

/// rope_scaling and rope_parameters, where the file has them, as they apply to one sort of layer.
struct Spellings {
  std::optional<ConfigObject> scaling;
  std::optional<ConfigObject> parameters;
  bool nested = false;        ///< by sort of layer
  bool of_class = false;      ///< the class's own, as the file has none
  bool switched_off = false;  ///< null for this sort

  /// The one that counts: rope_scaling wins.
  const ConfigObject* chosen() const { return scaling ? &*scaling : parameters ? &*parameters : nullptr; }
};

/// Throws Error (invalid_file) where they contradict each other, or have nothing for this sort of layer.
Spellings find_spellings(const Part& part, const RopeQuestion& question);

/// Whether a flat rope object is for this layer, too.
bool is_scaled(const Family& family, const RopeQuestion& question);

/// The keys of the rule, without those that name it and those that may also stand at the top level.
nlohmann::json parameters_of_rule(const ConfigObject& object);

/// What an object calls its rule: a string, or null.
nlohmann::json rule_name_in(const ConfigObject& object, Findings& findings);

/// A value that may stand in either object and at the top level: the first one counts, and the others must be equal.
std::optional<Found<double>> agreed_number(const Spellings& spellings, const Part& part, const std::string& inner_key,
                                           const std::string& outer_key, const char* warning);

}  // namespace rotary::huggingface
