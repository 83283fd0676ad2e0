// ModelRotations and LayerRotation over what a reader described.
#include <atomic>
#include <cmath>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/fail.h"
#include "models/blame.h"
#include "models/description.h"
#include "rotary/model.hpp"
#include "rotary/warning.hpp"

namespace rotary {

const char* name(Turning turning) noexcept {
  switch (turning) {
    case Turning::rotates: return "rotates";
    case Turning::no_rotation: return "no rotation";
    case Turning::no_attention: return "no attention";
    case Turning::not_a_rotation: return "not a rotation";
  }
  return "?";
}

const char* name(NormOrder order) noexcept {
  switch (order) {
    case NormOrder::none: return "none";
    case NormOrder::before_rotation: return "before rotation";
    case NormOrder::after_rotation: return "after rotation";
  }
  return "?";
}

double QueryTemperature::at(double position) const noexcept {
  switch (kind) {
    case Kind::none: return 1;
    case Kind::steps:
      return 1 + beta * std::log1p(std::floor((position + static_cast<double>(shift)) / static_cast<double>(length)));
    case Kind::logn:
      return position + 1 > static_cast<double>(length) ? std::log(position + 1) / std::log(static_cast<double>(length))
                                                        : 1;
    case Kind::power: return std::pow(1 + (position + static_cast<double>(shift)) / static_cast<double>(length), beta);
  }
  return 1;
}

// ---- one layer ---------------------------------------------------------------------------------------------------------

struct LayerRotation::Contents {
  LayerDescription layer;
  std::optional<Rotation> fixed;  // where the length has no say
  std::vector<ValueSource> provenance;

  explicit Contents(LayerDescription description) : layer(std::move(description)) {
    if (layer.turning == Turning::rotates && !layer.rule.depends_on_length()) fixed = layer.rotation_at(0);
    for (const auto& entry : layer.provenance.entries()) {
      provenance.push_back({entry.name.c_str(), entry.value.c_str(), entry.source.c_str()});
    }
  }
};

Rotation LayerDescription::rotation_at(std::int64_t length) const {
  Frequencies frequencies = rule.at(length);
  RotationSpec spec = layout;
  spec.head_dim = head_dim;
  spec.inv_freq = std::move(frequencies.inv_freq);
  spec.amplitude = frequencies.amplitude;
  if (length > original_max_position_embeddings && !long_ggml_divisors.empty()) spec.ggml_divisors = long_ggml_divisors;
  return Rotation(std::move(spec));
}

const char* LayerRotation::label() const noexcept { return contents_->layer.label.c_str(); }
Turning LayerRotation::turning() const noexcept { return contents_->layer.turning; }
const char* LayerRotation::reason() const noexcept { return contents_->layer.reason.c_str(); }
std::int64_t LayerRotation::head_dim() const noexcept { return contents_->layer.head_dim; }
std::int64_t LayerRotation::num_q_heads() const noexcept { return contents_->layer.num_q_heads; }
std::int64_t LayerRotation::num_kv_heads() const noexcept { return contents_->layer.num_kv_heads; }
double LayerRotation::softmax_scale() const noexcept { return contents_->layer.softmax_scale; }
const QueryTemperature& LayerRotation::query_temperature() const noexcept { return contents_->layer.query_temperature; }
double LayerRotation::softcap() const noexcept { return contents_->layer.softcap; }
bool LayerRotation::has_sinks() const noexcept { return contents_->layer.has_sinks; }
NormOrder LayerRotation::norm_order() const noexcept { return contents_->layer.norm_order; }
double LayerRotation::key_scale() const noexcept { return contents_->layer.key_scale; }
bool LayerRotation::window_is_symmetric() const noexcept { return contents_->layer.window_is_symmetric; }
std::int64_t LayerRotation::sliding_window() const noexcept { return contents_->layer.sliding_window; }
std::int64_t LayerRotation::attention_chunk_size() const noexcept { return contents_->layer.attention_chunk_size; }
bool LayerRotation::rotates_values() const noexcept { return contents_->layer.rotates_values; }
bool LayerRotation::unrotates_output() const noexcept { return contents_->layer.unrotates_output; }
const char* LayerRotation::rule() const noexcept { return contents_->layer.rule_name.c_str(); }
const std::vector<ValueSource>& LayerRotation::provenance() const noexcept { return contents_->provenance; }

bool LayerRotation::depends_on_length() const noexcept { return rotates() && !contents_->fixed.has_value(); }

namespace {

void require_rotation(const LayerDescription& layer) {
  if (layer.turning != Turning::rotates) {
    fail_argument("LayerRotation::rotation", "the layer must rotate, got one that does not: ", layer.reason);
  }
}

}  // namespace

const Rotation& LayerRotation::rotation() const {
  require_rotation(contents_->layer);
  if (!contents_->fixed) {
    fail_argument("LayerRotation::rotation", "needs the number of tokens, on which this rule's frequencies depend");
  }
  return *contents_->fixed;
}

Rotation LayerRotation::rotation(std::int64_t length) const {
  require_rotation(contents_->layer);
  if (length < 0) fail_argument("LayerRotation::rotation", "length must be at least 0, got ", length);
  return contents_->fixed ? *contents_->fixed : contents_->layer.rotation_at(length);
}

// ---- the model ---------------------------------------------------------------------------------------------------------

struct ModelContents {
  std::atomic<int> owners{1};
  std::string model_type, source, format, fingerprint;
  std::int64_t max_position_embeddings = 0;
  std::int64_t original_max_position_embeddings = 0;
  std::deque<LayerRotation::Contents> kinds;  // they do not move
  std::vector<LayerRotation> layer_of_kind;
  std::vector<std::size_t> kind_of_layer;
  std::vector<LayerGroup> groups;
  std::vector<Findings::Entry> findings;
  std::vector<Warning> warnings;
  std::vector<std::string> names_of_parts;
  std::vector<const char*> part_names;
  std::vector<ModelRotations> parts;

  explicit ModelContents(ModelDescription description);
  static ModelRotations make(ModelDescription description) {
    return ModelRotations(new ModelContents(std::move(description)));
  }
};

ModelContents::ModelContents(ModelDescription description) : fingerprint(fingerprint_of(description)) {
  model_type = std::move(description.model_type);
  source = std::move(description.source);
  format = std::move(description.format);
  max_position_embeddings = description.max_position_embeddings;
  kind_of_layer = std::move(description.kind_of_layer);
  findings = std::move(description.warnings);

  for (LayerDescription& kind : description.kinds) {
    if (original_max_position_embeddings == 0) original_max_position_embeddings = kind.original_max_position_embeddings;
    kinds.emplace_back(std::move(kind));
    layer_of_kind.push_back(LayerRotation(&kinds.back()));
  }
  if (original_max_position_embeddings == 0) original_max_position_embeddings = max_position_embeddings;

  for (std::size_t i = 0; i < kind_of_layer.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    if (i > 0 && kind_of_layer[i] == kind_of_layer[i - 1]) groups.back().last = index;
    else groups.push_back({index, index, layer_of_kind[kind_of_layer[i]]});
  }
  for (const Findings::Entry& finding : findings) {
    warnings.push_back({finding.id.c_str(), find_warning_kind(finding.id.c_str())->severity, finding.text.c_str()});
  }
  for (auto& [name_of_part, part] : description.parts) {
    names_of_parts.push_back(name_of_part);
    parts.push_back(make(std::move(part)));
  }
  for (const std::string& name_of_part : names_of_parts) part_names.push_back(name_of_part.c_str());
}

ModelRotations build_model(ModelDescription description) {
  const std::string path = description.source;
  return blaming_file(path, "", [&] { return ModelContents::make(std::move(description)); });
}

ModelRotations::ModelRotations(const ModelRotations& other) noexcept : contents_(other.contents_) { ++contents_->owners; }

ModelRotations& ModelRotations::operator=(const ModelRotations& other) noexcept {
  ModelRotations copy(other);
  std::swap(contents_, copy.contents_);
  return *this;
}

ModelRotations::~ModelRotations() {
  if (--contents_->owners == 0) delete contents_;
}

const char* ModelRotations::model_type() const noexcept { return contents_->model_type.c_str(); }
const char* ModelRotations::source() const noexcept { return contents_->source.c_str(); }
const char* ModelRotations::format() const noexcept { return contents_->format.c_str(); }
const char* ModelRotations::fingerprint() const noexcept { return contents_->fingerprint.c_str(); }
std::int64_t ModelRotations::num_layers() const noexcept {
  return static_cast<std::int64_t>(contents_->kind_of_layer.size());
}
std::int64_t ModelRotations::max_position_embeddings() const noexcept { return contents_->max_position_embeddings; }
std::int64_t ModelRotations::original_max_position_embeddings() const noexcept {
  return contents_->original_max_position_embeddings;
}
const std::vector<LayerGroup>& ModelRotations::groups() const noexcept { return contents_->groups; }
const std::vector<Warning>& ModelRotations::warnings() const noexcept { return contents_->warnings; }
const std::vector<const char*>& ModelRotations::part_names() const noexcept { return contents_->part_names; }

const LayerRotation& ModelRotations::layer(std::int64_t index) const {
  if (index < 0 || index >= num_layers()) {
    fail_argument("ModelRotations::layer", "the model has layers 0 to ", num_layers() - 1, ", got ", index);
  }
  return contents_->layer_of_kind[contents_->kind_of_layer[static_cast<std::size_t>(index)]];
}

ModelRotations ModelRotations::part(const char* name) const {
  for (std::size_t i = 0; i < contents_->parts.size(); ++i) {
    if (contents_->names_of_parts[i] == name) return contents_->parts[i];
  }
  std::string known;
  for (const std::string& part : contents_->names_of_parts) known.append(known.empty() ? "" : ", ").append(part);
  fail_argument("ModelRotations::part", "must be one of the model's parts (", known.empty() ? "it has none" : known,
                "), got ", name);
}

}  // namespace rotary
