#include "model_json.h"

#include <algorithm>

namespace rotary::cli {
namespace {

Json positive_or_null(std::int64_t number) { return number > 0 ? Json(number) : Json(); }
Json text_or_null(const char* text) { return *text == '\0' ? Json() : Json(text); }

Json temperature_json(const QueryTemperature& temperature) {
  const auto described = [&](const char* kind) {
    return Json{{"kind", kind}, {"beta", temperature.beta}, {"length", temperature.length}, {"shift", temperature.shift}};
  };
  switch (temperature.kind) {
    case QueryTemperature::Kind::none: return {};
    case QueryTemperature::Kind::steps: return described("steps");
    case QueryTemperature::Kind::logn: return described("logn");
    case QueryTemperature::Kind::power: return described("power");
  }
  return {};
}

Json provenance_json(const LayerRotation& layer) {
  Json json = Json::object();
  for (const ValueSource& value : layer.provenance()) {
    json[value.name] = {{"value", Json::parse(value.value)}, {"source", value.source}};
  }
  return json;
}

Json pairs_json(const std::vector<Pair>& pairs) {
  Json json = Json::array();
  for (const Pair& pair : pairs) json.push_back({pair.first, pair.second});
  return json;
}

void add_rotation(Json& json, const Rotation& rotation) {
  json["rotary_dim"] = rotation.rotary_dim();
  json["rotary_offset"] = rotation.rotary_offset();
  json["pairing_in"] = name(rotation.pairing_in());
  json["pairing_out"] = name(rotation.pairing_out());
  if (rotation.pairing_in() == Pairing::listed) json["pairs_in"] = pairs_json(rotation.pairs_in());
  if (rotation.pairing_out() == Pairing::listed) json["pairs_out"] = pairs_json(rotation.pairs_out());
  json["direction"] = rotation.direction();
  json["inv_freq"] = rotation.inv_freq();
  json["axis"] = rotation.axis();
  json["amplitude"] = rotation.amplitude();
}

/// The identity, with the same keys.
void add_no_rotation(Json& json) {
  json["rotary_dim"] = 0;
  json["rotary_offset"] = 0;
  json["pairing_in"] = nullptr;
  json["pairing_out"] = nullptr;
  json["direction"] = 1;
  json["inv_freq"] = Json::array();
  json["axis"] = Json::array();
  json["amplitude"] = 1;
}

Json group_json(const LayerGroup& group, std::int64_t length) {
  const LayerRotation& layer = group.layer;
  const bool attends = layer.turning() != Turning::no_attention;
  Json json;
  json["first"] = group.first;
  json["last"] = group.last;
  json["label"] = layer.label();
  json["rotates"] = layer.rotates();
  json["turning"] = name(layer.turning());
  json["reason"] = text_or_null(layer.reason());
  json["head_dim"] = layer.head_dim();
  if (layer.rotates()) add_rotation(json, layer.rotation(std::max<std::int64_t>(length, 0)));
  else add_no_rotation(json);
  json["rule"] = text_or_null(layer.rule());
  json["depends_on_length"] = layer.depends_on_length();
  json["softmax_scale"] = attends && layer.softmax_scale() != 0 ? Json(layer.softmax_scale()) : Json();
  json["key_scale"] = layer.key_scale();
  json["query_temperature"] = temperature_json(layer.query_temperature());
  json["softcap"] = layer.softcap() != 0 ? Json(layer.softcap()) : Json();
  json["has_sinks"] = layer.has_sinks();
  json["num_q_heads"] = layer.num_q_heads();
  json["num_kv_heads"] = layer.num_kv_heads();
  json["norm_order"] = name(layer.norm_order());
  json["sliding_window"] = positive_or_null(layer.sliding_window());
  json["window_is_symmetric"] = layer.window_is_symmetric();
  json["attention_chunk_size"] = positive_or_null(layer.attention_chunk_size());
  json["rotates_values"] = layer.rotates_values();
  json["unrotates_output"] = layer.unrotates_output();
  json["provenance"] = provenance_json(layer);
  return json;
}

}  // namespace

Json model_json(const ModelRotations& model, const std::vector<LayerGroup>& groups, std::int64_t length) {
  Json json;
  json["schema"] = 1;
  json["model_type"] = model.model_type();
  json["source"] = model.source();
  json["format"] = model.format();
  json["fingerprint"] = model.fingerprint();
  json["num_layers"] = model.num_layers();
  json["max_position_embeddings"] = positive_or_null(model.max_position_embeddings());
  json["original_max_position_embeddings"] = positive_or_null(model.original_max_position_embeddings());
  json["length"] = length < 0 ? Json() : Json(length);
  json["layers"] = Json::array();
  for (const LayerGroup& group : groups) json["layers"].push_back(group_json(group, length));
  json["warnings"] = Json::array();
  for (const Warning& warning : model.warnings()) {
    json["warnings"].push_back({{"id", warning.id}, {"severity", name(warning.severity)}, {"text", warning.text}});
  }
  json["parts"] = Json::object();
  for (const char* part_name : model.part_names()) {
    const ModelRotations part = model.part(part_name);
    json["parts"][part_name] = model_json(part, part.groups(), length);
  }
  return json;
}

}  // namespace rotary::cli
