#include "model_options.h"

namespace rotary::cli {

CLI::Option* ModelOptions::add_to(CLI::App& app, const std::string& name) {
  auto* option = app.add_option(name, path, "config.json, .gguf, params.json, or a folder with one of them");
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

}  // namespace rotary::cli
