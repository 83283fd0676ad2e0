#include "model_options.h"

#include <vector>

#include "command.h"
#include "models/layers_by_sort.h"
#include "rotary/error.hpp"

namespace rotary::cli {

CLI::Option* ModelOptions::add_to(CLI::App& app, const std::string& name) {
  auto* option =
      app.add_option(name, path, "config.json, .gguf, params.json, or a folder with one of them")->check(not_empty());
  app.add_option("--family", family, "Read the file as this family, whatever it says: for a fork known to be the same");
  app.add_flag("--lenient", lenient, "Let faults pass that real loaders tolerate, with a warning for each");
  return option;
}

void ModelOptions::add_part_to(CLI::App& app) {
  app.add_option("--part", part, "Of a composite model, this part: vision_config, …");
}

ModelRotations ModelOptions::read() const { return read_as(*this, path); }

ModelRotations read_as(const ModelOptions& options, const std::string& path) {
  const ModelRotations model = read_model(path.c_str(), {.lenient = options.lenient, .family = options.family.c_str()});
  return options.part.empty() ? model : model.part(options.part.c_str());
}

LayerRotation layer_of(const ModelRotations& model, std::int64_t layer) {
  if (layer < model.num_layers()) return model.layer(layer);
  throw Error(
      ErrorCode::invalid_argument,
      ("--layer must be 0 to " + std::to_string(model.num_layers() - 1) + ", got " + std::to_string(layer)).c_str());
}

LayerRotation choose_rotating_layer(const ModelRotations& model, std::int64_t layer) {
  if (layer >= 0) return layer_of(model, layer);
  std::vector<LayerSort> sorts = layers_by_sort(model);
  std::erase_if(sorts, [](const LayerSort& sort) { return !sort.layer.rotates(); });
  if (sorts.empty()) throw Error(ErrorCode::invalid_argument, "no layer of this model rotates");
  if (sorts.size() == 1) return sorts.front().layer;
  std::string list;
  for (const LayerSort& sort : sorts) list += (list.empty() ? "" : "; ") + in_words(sort.ranges);
  throw Error(ErrorCode::invalid_argument, ("say with --layer which layer: they turn differently: " + list).c_str());
}

}  // namespace rotary::cli
