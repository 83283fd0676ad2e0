// rotary inspect: what a model's rotation is, and where every value came from.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <numbers>
#include <string>

#include "command.h"
#include "output.h"
#include "rotary/model.hpp"

namespace rotary::cli {
namespace {

struct Options {
  std::string path;
  std::int64_t layer = -1;
  std::int64_t length = -1;
  bool json = false;
};

/// The rotation to show where the length decides and none was asked for: that of a short call.
Rotation shown(const LayerRotation& layer, std::int64_t length) {
  return layer.rotation(std::max<std::int64_t>(length, 0));
}

std::string layers_of(const LayerGroup& group) {
  return group.first == group.last ? std::to_string(group.first)
                                   : std::to_string(group.first) + "-" + std::to_string(group.last);
}

double wavelength(double inv_freq) { return 2 * std::numbers::pi / std::abs(inv_freq); }

Json provenance_json(const LayerRotation& model) {
  Json json = Json::object();
  for (const ValueSource& value : model.provenance()) {
    json[value.name] = {{"value", Json::parse(value.value)}, {"source", value.source}};
  }
  return json;
}

Json group_json(const LayerGroup& group, std::int64_t length) {
  const Rotation rotation = shown(group.layer, length);
  const LayerRotation& layer = group.layer;
  Json json;
  json["first"] = group.first;
  json["last"] = group.last;
  json["rotates"] = layer.rotates();
  json["head_dim"] = rotation.head_dim();
  json["rotary_dim"] = rotation.rotary_dim();
  json["rotary_offset"] = rotation.rotary_offset();
  json["pairing_in"] = name(rotation.pairing_in());
  json["pairing_out"] = name(rotation.pairing_out());
  json["direction"] = rotation.direction();
  json["depends_on_length"] = layer.depends_on_length();
  json["inv_freq"] = rotation.inv_freq();
  json["axis"] = rotation.axis();
  json["amplitude"] = rotation.amplitude();
  json["softmax_scale"] = layer.softmax_scale();
  json["num_q_heads"] = layer.num_q_heads();
  json["num_kv_heads"] = layer.num_kv_heads();
  json["sliding_window"] = layer.sliding_window() == 0 ? Json() : Json(layer.sliding_window());
  json["provenance"] = provenance_json(layer);
  return json;
}

Json model_json(const ModelRotations& model, const std::vector<LayerGroup>& groups, std::int64_t length) {
  Json json;
  json["schema"] = 1;
  json["model_type"] = model.model_type();
  json["source"] = model.source();
  json["num_layers"] = model.num_layers();
  json["max_position_embeddings"] = model.max_position_embeddings();
  json["length"] = length < 0 ? Json() : Json(length);
  json["layers"] = Json::array();
  for (const LayerGroup& group : groups) json["layers"].push_back(group_json(group, length));
  json["warnings"] = Json::array();
  for (const Warning& warning : model.warnings()) json["warnings"].push_back({{"id", warning.id}, {"severity", name(warning.severity)}, {"text", warning.text}});
  return json;
}

void print_pairs(const Rotation& rotation) {
  Table table({"pair", "channels", "inv_freq", "wavelength"});
  const std::int64_t step = std::max<std::int64_t>(1, rotation.num_pairs() / 8);
  for (std::int64_t j = 0; j < rotation.num_pairs(); ++j) {
    if (j % step != 0 && j + 1 != rotation.num_pairs()) continue;
    const auto pair = static_cast<std::size_t>(j);
    const Pair channels = rotation.pairs_in()[pair];
    table.add({std::to_string(j), std::to_string(channels.first) + ", " + std::to_string(channels.second),
               number(rotation.inv_freq()[pair], 9), number(wavelength(rotation.inv_freq()[pair]), 5)});
  }
  table.print("  ");
}

void print_group(const ModelRotations& model, const LayerGroup& group, std::int64_t length) {
  const LayerRotation& layer = group.layer;
  const Rotation rotation = shown(layer, length);
  const auto never_finish = std::count_if(rotation.inv_freq().begin(), rotation.inv_freq().end(), [&](double inv_freq) {
    return wavelength(inv_freq) > static_cast<double>(model.max_position_embeddings());
  });
  std::cout << "\nlayers " << layers_of(group) << '\n'
            << "  rotates        " << rotation.rotary_dim() << " of " << rotation.head_dim() << " channels, pairing "
            << name(rotation.pairing_in()) << ", " << (rotation.direction() > 0 ? "counter-clockwise" : "clockwise") << '\n'
            << "  heads          " << layer.num_q_heads() << " query, " << layer.num_kv_heads() << " key/value\n"
            << "  softmax scale  " << number(layer.softmax_scale(), 9) << '\n'
            << "  amplitude      " << number(rotation.amplitude(), 9) << '\n';
  if (layer.sliding_window() > 0) std::cout << "  window         the last " << layer.sliding_window() << " keys\n";
  if (layer.depends_on_length()) {
    std::cout << "  frequencies    depend on the number of tokens; shown for "
              << (length < 0 ? "short calls (see --length)" : "a call of " + std::to_string(length)) << '\n';
  }
  std::cout << "  slow pairs     " << never_finish << " of " << rotation.num_pairs() << " never finish a turn within "
            << model.max_position_embeddings() << " tokens\n\n";
  print_pairs(rotation);
}

void print_sources(const LayerRotation& model) {
  constexpr std::size_t enough = 24;
  std::cout << "\nwhere it comes from\n";
  Table table({"value", "", "source"});
  for (const ValueSource& value : model.provenance()) {
    std::string text = value.value;
    if (text.size() > enough) text = text.substr(0, enough - 3) + "...";
    table.add({value.name, text, value.source});
  }
  table.print("  ", {0, 1, 2});
}

int inspect(const Options& options) {
  const ModelRotations model = read_model(options.path.c_str());
  std::vector<LayerGroup> groups = model.groups();
  if (options.layer >= 0) groups = {{options.layer, options.layer, model.layer(options.layer)}};
  if (options.json) {
    print_json(model_json(model, groups, options.length));
    return Exit::right;
  }
  std::cout << model.source() << ": " << model.model_type() << ", " << model.num_layers() << " layers\n";
  for (const LayerGroup& group : groups) print_group(model, group, options.length);
  print_sources(model.layer(0));
  if (!model.warnings().empty()) std::cout << "\nwarnings\n";
  for (const Warning& warning : model.warnings()) std::cout << "  " << warning.id << " " << warning.text << '\n';
  return Exit::right;
}

}  // namespace

void add_inspect(CLI::App& program, Command& command) {
  auto* app = program.add_subcommand("inspect",
                                     "Example: rotary inspect config.json --layer 0\n\n"
                                     "Shows what a model's rotation is, layer by layer, and where each value comes from.");
  auto options = std::make_shared<Options>();
  app->add_option("PATH", options->path, "config.json, or the folder that holds it")->required();
  app->add_option("--layer", options->layer, "Only this layer")->check(CLI::NonNegativeNumber);
  app->add_option("--length", options->length, "Tokens of the call, for rules that depend on it")
      ->check(CLI::NonNegativeNumber);
  app->add_flag("--json", options->json, "Print JSON");
  app->callback([&command, options] { command = [options] { return inspect(*options); }; });
}

}  // namespace rotary::cli
