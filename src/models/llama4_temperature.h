// Llama 4's factor on queries, under the same keys in config.json and in params.json.
#pragma once

#include <string>

#include "models/config_object.h"
#include "models/description.h"

namespace rotary {

/// 1 + attn_scale ln(1 + floor((position + 1) / floor_scale)). `default_source` stands before a number that the file leaves
/// out: "code of Meta: ".
inline void add_llama4_temperature(const ConfigObject& config, const std::string& default_source, LayerDescription& layer) {
  const auto beta = config.positive_number("attn_scale");
  const auto length = config.count("floor_scale");
  layer.query_temperature = {QueryTemperature::Kind::steps, beta ? beta->value : 0.1, length ? length->value : 8192, 1};
  layer.provenance.add("temperature_beta", layer.query_temperature.beta, beta ? beta->source : default_source + "0.1");
  layer.provenance.add("temperature_length", layer.query_temperature.length,
                       length ? length->source : default_source + "8192");
}

}  // namespace rotary
