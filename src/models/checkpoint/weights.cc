#include "models/checkpoint/weights.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/fail.h"
#include "base/text.h"
#include "rotary/error.hpp"
#include "rotary/tensor_file.hpp"

namespace rotary {
namespace {

namespace fs = std::filesystem;

/// Where the layers of the part that writes text stand, in the namings of transformers, Meta and Mistral. Towers have
/// layers, too, under other prefixes.
constexpr std::array prefixes{
    "layers.",        "model.layers.",    "model.language_model.layers.", "language_model.model.layers.",
    "transformer.h.", "gpt_neox.layers.", "transformer.encoder.layers.",  "model.decoder.layers.",
};

enum class Projection : std::uint8_t { q, k, qkv };

struct NamedProjection {
  std::string_view name;
  Projection projection;
};
constexpr std::array projections{
    NamedProjection{"self_attn.q_proj.weight", Projection::q},
    NamedProjection{"self_attn.k_proj.weight", Projection::k},
    NamedProjection{"attention.wq.weight", Projection::q},
    NamedProjection{"attention.wk.weight", Projection::k},
    NamedProjection{"self_attn.qkv_proj.weight", Projection::qkv},
    NamedProjection{"attention.query_key_value.weight", Projection::qkv},
    NamedProjection{"self_attention.query_key_value.weight", Projection::qkv},
    NamedProjection{"self_attn.query_key_value.weight", Projection::qkv},
    NamedProjection{"self_attn.q_b_proj.weight", Projection::q},
    NamedProjection{"attention.wq_b.weight", Projection::q},
};

struct Place {
  std::size_t prefix;  ///< index into prefixes
  std::size_t layer;
  std::optional<Projection> projection;
};

std::optional<Projection> projection_of(std::string_view name_inside_layer) {
  for (const NamedProjection& known : projections) {
    if (name_inside_layer == known.name) return known.projection;
  }
  return std::nullopt;
}

std::optional<Place> place_of(std::string_view name) {
  for (std::size_t i = 0; i < prefixes.size(); ++i) {
    const std::string_view prefix = prefixes[i];
    if (!name.starts_with(prefix)) continue;
    const std::string_view rest = name.substr(prefix.size());
    std::size_t layer = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), layer);
    if (error != std::errc{} || end == rest.data() + rest.size() || *end != '.') continue;
    return Place{i, layer, projection_of({end + 1, static_cast<std::size_t>(rest.data() + rest.size() - end - 1)})};
  }
  return std::nullopt;
}

/// Packed weights of quantised checkpoints have other shapes.
bool has_plain_rows(const StoredTensor& tensor) {
  return tensor.shape.size() == 2 &&
         (tensor.dtype == DType::f32 || tensor.dtype == DType::f16 || tensor.dtype == DType::bf16);
}

class WeightChecker {
 public:
  WeightChecker(const TensorFile& weights, const ModelDescription& model) : weights_(weights), model_(model) {}

  /// How many projections were compared.
  std::size_t check() {
    std::size_t compared = 0;
    for (const StoredTensor& tensor : weights_.tensors()) {
      const auto place = place_of(tensor.name);
      if (!place) continue;
      last_layer_[place->prefix] = std::max(last_layer_[place->prefix], place->layer);
      if (!place->projection) continue;
      has_attention_[place->prefix] = true;
      if (!has_plain_rows(tensor)) continue;
      if (place->layer >= model_.num_layers()) continue;  // layers for predicting further tokens (DeepSeek-V3)
      const LayerDescription& layer = model_.kinds[model_.kind_of_layer[place->layer]];
      if (layer.turning == Turning::no_attention || layer.head_dim == 0) continue;
      compare(tensor, *place->projection, layer);
      ++compared;
    }
    return compared;
  }

  /// After check(): of how many layers there are tensors, where those of the layers with attention were recognised.
  std::size_t num_layers() const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < prefixes.size(); ++i) {
      if (has_attention_[i]) count = std::max(count, last_layer_[i] + 1);
    }
    return count;
  }

 private:
  void compare(const StoredTensor& tensor, Projection projection, const LayerDescription& layer) const {
    const std::int64_t q = layer.num_q_heads * layer.head_dim, kv = layer.num_kv_heads * layer.head_dim;
    const bool mla = layer.layout.rotary_offset != 0;
    switch (projection) {
      // Some models put a gate beside the queries (Qwen3-Next): twice the rows.
      case Projection::q: return require(tensor, q, "num_attention_heads * head_dim", true);
      case Projection::k: return mla ? void() : require(tensor, kv, "num_key_value_heads * head_dim", false);
      case Projection::qkv:
        return require(tensor, q + 2 * kv, "(num_attention_heads + 2 * num_key_value_heads) * head_dim", false);
    }
  }

  void require(const StoredTensor& tensor, std::int64_t rows, const char* formula, bool twice_is_fine) const {
    const std::int64_t found = tensor.shape[0];
    if (found == rows || (twice_is_fine && found == 2 * rows)) return;
    fail_file(model_.source, "the weights must be shaped as the file says: ", tensor.name, " must have ", formula, " = ",
              rows, " rows, got ", found);
  }

  const TensorFile& weights_;
  const ModelDescription& model_;
  std::array<std::size_t, prefixes.size()> last_layer_{};
  std::array<bool, prefixes.size()> has_attention_{};
};

void note_layers(const std::string& path, std::size_t num_layers, ModelDescription& model) {
  if (num_layers == 0 || num_layers == model.num_layers()) return;
  const bool has_more = num_layers > model.num_layers();
  model.warnings.push_back(
      {"RP028", sentence(one_line(path), ": the weights have ", num_layers, " layers, and the file says ",
                         model.num_layers(), has_more ? "; the further ones may be there to predict further tokens" : "")});
}

}  // namespace

void check_weights(const std::string& folder, ModelDescription& model) {
  std::error_code ignored;
  std::string path;
  for (const char* name : {"model.safetensors.index.json", "model.safetensors", "consolidated.safetensors"}) {
    if (path.empty() && fs::exists(fs::path(folder) / name, ignored)) path = (fs::path(folder) / name).string();
  }
  if (path.empty()) return;
  std::size_t compared = 0;
  try {
    const TensorFile weights(path.c_str());
    WeightChecker checker(weights, model);
    compared = checker.check();
    note_layers(path, checker.num_layers(), model);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;  // element types that are not read here
  }
  if (compared == 0) {
    model.warnings.push_back({"RP027", path + ": no projection to q or k has a name and a type that is known here, so the "
                                              "shapes were not compared"});
  }
}

}  // namespace rotary
