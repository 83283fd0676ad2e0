#include "rotary/model.hpp"

#include <filesystem>
#include <utility>

#include "base/fail.h"
#include "formats/json.h"
#include "models/layers.h"
#include "models/llama_kind.h"

namespace rotary {

std::int64_t LayerRotation::head_dim() const noexcept { return contents_->head_dim; }
std::int64_t LayerRotation::num_q_heads() const noexcept { return contents_->num_q_heads; }
std::int64_t LayerRotation::num_kv_heads() const noexcept { return contents_->num_kv_heads; }
double LayerRotation::softmax_scale() const noexcept { return contents_->softmax_scale; }
std::int64_t LayerRotation::sliding_window() const noexcept { return contents_->sliding_window; }
// Every layer of the Llama kind does; families with layers that do not come with their own readers.
bool LayerRotation::rotates() const noexcept { return true; }
bool LayerRotation::depends_on_length() const noexcept { return !contents_->fixed.has_value(); }

const Rotation& LayerRotation::rotation() const {
  if (!contents_->fixed) {
    fail_argument("LayerRotation::rotation", "needs the number of tokens, on which this rule's frequencies depend");
  }
  return *contents_->fixed;
}

Rotation LayerRotation::rotation(std::int64_t length) const {
  if (length < 0) fail_argument("LayerRotation::rotation", "length must be at least 0, got ", length);
  return contents_->fixed ? *contents_->fixed : contents_->at(length);
}

Rotation LayerRotation::Contents::at(std::int64_t length) const {
  // logit_scale is left out: only the attention of DeepSeek and its relatives multiplies it in.
  Frequencies frequencies = rule.at(length);
  RotationSpec spec;
  spec.head_dim = head_dim;
  spec.pairing_in = pairing;
  spec.inv_freq = std::move(frequencies.inv_freq);
  spec.amplitude = frequencies.amplitude;
  return Rotation(std::move(spec));
}

/// One group per run of layers that do the same.
void ModelRotations::Contents::add_layers(const LlamaKind& model) {
  num_layers = model.num_layers;
  max_position_embeddings = model.max_position_embeddings;
  for (std::int64_t i = 0; i < num_layers; ++i) {
    const std::int64_t window = model.sliding_windows[static_cast<std::size_t>(i)];
    if (!groups.empty() && layers.back().sliding_window == window) {
      groups.back().last = i;
      continue;
    }
    LayerRotation::Contents& layer = layers.emplace_back();
    layer.head_dim = model.head_dim;
    layer.num_q_heads = model.num_q_heads;
    layer.num_kv_heads = model.num_kv_heads;
    layer.softmax_scale = model.softmax_scale;
    layer.sliding_window = window;
    layer.pairing = model.pairing;
    layer.rule = model.rule;
    if (!layer.rule.depends_on_length()) layer.fixed = layer.at(0);
    groups.push_back({i, i, LayerRotation(&layer)});
  }
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
std::int64_t ModelRotations::num_layers() const noexcept { return contents_->num_layers; }
std::int64_t ModelRotations::max_position_embeddings() const noexcept { return contents_->max_position_embeddings; }
const std::vector<LayerGroup>& ModelRotations::groups() const noexcept { return contents_->groups; }
const std::vector<ValueSource>& ModelRotations::provenance() const noexcept { return contents_->provenance.values(); }
const std::vector<const char*>& ModelRotations::warnings() const noexcept { return contents_->provenance.warnings(); }

const LayerRotation& ModelRotations::layer(std::int64_t index) const {
  for (const LayerGroup& group : contents_->groups) {
    if (index >= group.first && index <= group.last) return group.layer;
  }
  fail_argument("ModelRotations::layer", "the model has layers 0 to ", num_layers() - 1, ", got ", index);
}

namespace {

std::string find_config(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ? (std::filesystem::path(path) / "config.json").string() : path;
}

std::string read_model_type(const ConfigObject& config) {
  const auto model_type = config.text("model_type");
  if (!model_type) fail_unsupported(config.path(), "no model_type says which family this is, and nothing here guesses one");
  return model_type->value;
}

}  // namespace

ModelRotations read_model(const char* path) {
  const std::string file = find_config(path);
  const nlohmann::json json = read_json(file);
  if (!json.is_object()) fail_file(file, "a config must be a JSON object, got ", json.type_name());
  const ConfigObject config(json, file);

  ModelRotations model(new ModelRotations::Contents);
  ModelRotations::Contents& contents = *model.contents_;
  contents.source = file;
  contents.model_type = read_model_type(config);
  const LlamaKind kind = read_llama_kind(config, contents.model_type, contents.provenance);
  contents.add_layers(kind);
  return model;
}

}  // namespace rotary
