#include "models/huggingface/llama_kind.h"

#include <array>
#include <cmath>
#include <string_view>

#include "base/fail.h"
#include "models/huggingface/rope_parameters.h"
#include "models/readers.h"

namespace rotary {
namespace {

/// Which layers have a sliding window.
enum class Window : std::uint8_t {
  never,
  all_layers,    // sliding_window counts on every layer
  upper_layers,  // only with use_sliding_window, by layer_types or from layer max_window_layers on
};

/// One row per model_type whose code in transformers 5.24 pairs halves of the whole head on all layers alike and scales
/// scores by head_dim^-0.5 (models/*/modeling_*.py: rotate_half, self.scaling), with the defaults of its config class
/// (models/*/configuration_*.py) for keys that a file may leave out. 0: none (then as many KV heads as query heads;
/// hidden_size / num_attention_heads). Read 2026-11.
struct Family {
  std::string_view model_type;
  double base;
  std::int64_t num_kv_heads;
  std::int64_t head_dim;
  std::int64_t max_position_embeddings;
  Window window;
  std::int64_t sliding_window;
};
constexpr std::array families{
    Family{"llama", 1e4, 0, 0, 2048, Window::never, 0},
    Family{"mistral", 1e4, 8, 0, 131072, Window::all_layers, 4096},
    Family{"mixtral", 1e6, 8, 0, 131072, Window::all_layers, 0},
    Family{"olmo2", 1e4, 0, 0, 2048, Window::never, 0},
    Family{"qwen2", 1e4, 32, 0, 32768, Window::upper_layers, 4096},
    Family{"qwen3", 1e4, 32, 128, 32768, Window::upper_layers, 4096},
    Family{"seed_oss", 1e4, 8, 128, 524288, Window::never, 0},
    Family{"starcoder2", 1e4, 2, 0, 4096, Window::all_layers, 0},
};

/// Keys by which other families' files change the rotation, or the scores. In a file of this kind transformers ignores
/// them.
constexpr std::array keys_of_other_families{
    "rope_ratio",
    "rope_local_base_freq",
    "rotary_emb_base",
    "rotary_pct",
    "rotary_dim",
    "no_rope_layers",
    "layer_rope_theta",
    "no_rope_layer_interval",
    "query_pre_attn_scalar",
    "attention_multiplier",
    "use_dynamic_ntk",
};

/// Far above any model; a larger number is an attack or a slip.
constexpr std::int64_t max_layers = 1 << 16;
constexpr std::int64_t max_heads = 1 << 16;

class Reader {
 public:
  Reader(const ConfigObject& config, const Family& family, Provenance& provenance, Findings& findings)
      : config_(config), family_(family), provenance_(provenance), findings_(findings) {}

  LlamaKind read() {
    refuse_other_layouts();
    LlamaKind model{};
    model.num_layers = at_most(max_layers, "num_hidden_layers", required("num_layers", "num_hidden_layers"));
    model.num_q_heads = at_most(max_heads, "num_attention_heads", required("num_q_heads", "num_attention_heads"));
    model.num_kv_heads = num_kv_heads(model.num_q_heads);
    model.head_dim = head_dim(model.num_q_heads);
    model.pairing = Pairing::half;
    provenance_.add("rotary_dim", model.head_dim, code("turns the whole head"));
    provenance_.add("pairing", "half", code("rotate_half pairs channel j with j + head_dim / 2"));

    const auto length = max_position_embeddings();
    model.max_position_embeddings = length.value;
    const std::string model_type(family_.model_type);
    model.rule = read_rope_parameters(config_, {model_type.c_str(), model.head_dim, family_.base, length}, provenance_, findings_);

    model.softmax_scale = 1 / std::sqrt(static_cast<double>(model.head_dim));
    provenance_.add("softmax_scale", model.softmax_scale, code("1 / sqrt(head_dim)"));
    model.sliding_windows = sliding_windows(model.num_layers);
    warn();
    return model;
  }

 private:
  std::string code(const char* what) const { return sentence("code of ", family_.model_type, " in transformers: ", what); }
  std::string class_default(std::int64_t value) const {
    return sentence("default of ", family_.model_type, " in transformers: ", value);
  }

  std::int64_t required(const char* name, const char* key) {
    const auto found = config_.count(key);
    if (!found) config_.refuse(key, "must be given");
    provenance_.add(name, found->value, found->source);
    return found->value;
  }

  std::int64_t at_most(std::int64_t limit, const char* key, std::int64_t value) const {
    if (value > limit) config_.refuse(key, sentence("must be at most ", limit));
    return value;
  }

  std::int64_t num_kv_heads(std::int64_t num_q_heads) {
    constexpr const char* key = "num_key_value_heads";
    Found<std::int64_t> heads{num_q_heads, "as many as query heads, as the file names no other number"};
    if (const auto given = config_.count(key)) heads = *given;
    else if (family_.num_kv_heads != 0 && !config_.json().contains(key)) {
      heads = {family_.num_kv_heads, class_default(family_.num_kv_heads)};
    }
    if (num_q_heads % heads.value != 0) {
      fail_file(config_.path(), key, " must divide num_attention_heads, got ", heads.value, " (", heads.source, ") and ",
                num_q_heads);
    }
    provenance_.add("num_kv_heads", heads.value, heads.source);
    return heads.value;
  }

  std::int64_t head_dim(std::int64_t num_q_heads) {
    Found<std::int64_t> width{};
    if (const auto given = config_.count("head_dim")) width = *given;
    else if (family_.head_dim != 0 && !config_.json().contains("head_dim")) {
      width = {family_.head_dim, class_default(family_.head_dim)};
    } else {
      const auto hidden = config_.count("hidden_size");
      if (!hidden) config_.refuse("hidden_size", "must be given where there is no head_dim");
      if (hidden->value % num_q_heads != 0) {
        fail_file(config_.path(), "hidden_size must be a multiple of num_attention_heads where there is no head_dim, got ",
                  hidden->value, " and ", num_q_heads);
      }
      width = {hidden->value / num_q_heads, file_name(config_.path()) + ": hidden_size / num_attention_heads"};
    }
    if (width.value % 2 != 0 || width.value > max_rotary_dim) {
      fail_file(config_.path(), "head_dim must be even and at most ", max_rotary_dim, ", got ", width.value, " (",
                width.source, ")");
    }
    provenance_.add("head_dim", width.value, width.source);
    return width.value;
  }

  Found<std::int64_t> max_position_embeddings() {
    const auto given = config_.count("max_position_embeddings");
    auto found = given
                     ? *given
                     : Found<std::int64_t>{family_.max_position_embeddings, class_default(family_.max_position_embeddings)};
    provenance_.add("max_position_embeddings", found.value, found.source);
    return found;
  }

  std::vector<std::int64_t> sliding_windows(std::int64_t num_layers) {
    std::vector<std::int64_t> windows(static_cast<std::size_t>(num_layers), 0);
    const std::vector<std::string> types = layer_types(num_layers);
    if (family_.window == Window::never) return windows;
    if (family_.window == Window::upper_layers) {
      const auto used = config_.boolean("use_sliding_window");
      if (!used || !used->value) return windows;
    }
    Found<std::int64_t> window{0, ""};
    if (const auto given = config_.count("sliding_window")) window = *given;
    else if (family_.sliding_window != 0 && !config_.json().contains("sliding_window")) {
      window = {family_.sliding_window, class_default(family_.sliding_window)};
    }
    if (window.value == 0) return windows;
    provenance_.add("sliding_window", window.value, window.source);

    std::int64_t first = 0;
    if (family_.window == Window::upper_layers && types.empty()) first = first_windowed_layer();
    for (std::int64_t i = first; i < num_layers; ++i) {
      const auto layer = static_cast<std::size_t>(i);
      if (family_.window == Window::all_layers || types.empty() || types[layer] == "sliding_attention") {
        windows[layer] = window.value;
      }
    }
    return windows;
  }

  /// max_window_layers, which may be 0: then every layer has the window.
  std::int64_t first_windowed_layer() {
    constexpr const char* key = "max_window_layers";
    constexpr std::int64_t default_of_qwen = 28;
    const auto given = config_.number(key);
    if (given && (given->value < 0 || given->value != std::floor(given->value) || given->value > 1e9)) {
      config_.refuse(key, "must be a whole number");
    }
    const Found<std::int64_t> first = given ? Found<std::int64_t>{static_cast<std::int64_t>(given->value), given->source}
                                            : Found<std::int64_t>{default_of_qwen, class_default(default_of_qwen)};
    provenance_.add(key, first.value, first.source);
    return first.value;
  }

  /// Empty where the file has none.
  std::vector<std::string> layer_types(std::int64_t num_layers) {
    constexpr const char* key = "layer_types";
    std::vector<std::string> types;
    if (!config_.has(key)) return types;
    const auto& list = config_.json()[key];
    if (!list.is_array() || static_cast<std::int64_t>(list.size()) != num_layers) {
      config_.refuse(key, sentence("must be a list with one entry for each of the ", num_layers, " layers"));
    }
    for (const auto& entry : list) {
      if (entry != "full_attention" && entry != "sliding_attention") {
        fail_unsupported(config_.path(), key, " must hold full_attention or sliding_attention for ", family_.model_type,
                         ", got ", entry.dump());
      }
      types.push_back(entry.get<std::string>());
    }
    return types;
  }

  void refuse_other_layouts() const {
    for (const char* key : {"rope_interleaved", "rope_interleave"}) {
      const auto flag = config_.boolean(key);
      if (flag && flag->value) {
        fail_unsupported(config_.path(), key, " is true, but the code of ", family_.model_type,
                         " in transformers pairs halves and does not read it");
      }
    }
  }

  void warn() {
    for (const char* key : keys_of_other_families) {
      if (config_.has(key)) {
        findings_.warn("RP006", sentence(key, " belongs to other families: the code of ", family_.model_type,
                                  " in transformers does not read it, nor does rotary"));
      }
    }
    if (config_.has("auto_map")) {
      findings_.warn("RP007", sentence("auto_map names code that comes with the model: read here as transformers' own ",
                                family_.model_type, ", which may turn otherwise"));
    }
  }

  const ConfigObject& config_;
  const Family& family_;
  Provenance& provenance_;
  Findings& findings_;
};

std::string known_types() {
  std::string list;
  for (const Family& family : families) list.append(list.empty() ? "" : ", ").append(family.model_type);
  return list;
}

}  // namespace

LlamaKind read_llama_kind(const ConfigObject& config, const std::string& model_type, Provenance& provenance,
                          Findings& findings) {
  for (const Family& family : families) {
    if (family.model_type == model_type) return Reader(config, family, provenance, findings).read();
  }
  fail_unsupported(config.path(), "model_type ", nlohmann::json(model_type).dump(),
                   " is not among those that can be read (", known_types(), ")");
}

ModelDescription read_huggingface(const nlohmann::json& json, const std::string& path, const ReadOptions& options) {
  const ConfigObject config(json, path);
  const auto model_type = config.text("model_type");
  if (!model_type) fail_unsupported(config.path(), "no model_type says which family this is, and nothing here guesses one");
  Findings findings(options.lenient);
  LayerDescription layer;
  const LlamaKind kind = read_llama_kind(config, model_type->value, layer.provenance, findings);
  ModelDescription model;
  model.model_type = model_type->value;
  model.source = path;
  model.format = "config.json";
  model.max_position_embeddings = kind.max_position_embeddings;
  layer.head_dim = kind.head_dim;
  layer.num_q_heads = kind.num_q_heads;
  layer.num_kv_heads = kind.num_kv_heads;
  layer.softmax_scale = kind.softmax_scale;
  layer.layout.pairing_in = kind.pairing;
  layer.rule = kind.rule;
  for (const std::int64_t window : kind.sliding_windows) {
    std::size_t index = 0;
    while (index < model.kinds.size() && model.kinds[index].sliding_window != window) ++index;
    if (index == model.kinds.size()) {
      model.kinds.push_back(layer);
      model.kinds.back().sliding_window = window;
    }
    model.kind_of_layer.push_back(index);
  }
  model.warnings = findings.entries();
  return model;
}

}  // namespace rotary
