#include "rotation_options.h"

#include <cmath>
#include <iostream>
#include <map>

#include "rotary/error.hpp"
#include "rotary/frequencies.hpp"

namespace rotary::cli {
namespace {

Rotation by_hand(const RotationOptions& options) {
  if (options.base == 0 || options.head_dim == 0 || options.pairing == Pairing::unspecified) {
    throw Error(ErrorCode::invalid_argument, "give --model, or --base, --head-dim and --pairing by hand");
  }
  RotationSpec spec;
  spec.head_dim = options.head_dim;
  spec.rotary_dim = options.rotary_dim == 0 ? options.head_dim : options.rotary_dim;
  spec.rotary_offset = options.rotary_offset;
  spec.pairing_in = options.pairing;
  spec.inv_freq = default_frequencies(options.base, spec.rotary_dim).inv_freq;
  return Rotation(std::move(spec));
}

Rotation with_pairing(const Rotation& rotation, Pairing pairing) {
  RotationSpec spec;
  spec.head_dim = rotation.head_dim();
  spec.rotary_dim = rotation.rotary_dim();
  spec.rotary_offset = rotation.rotary_offset();
  spec.pairing_in = pairing;
  spec.inv_freq = rotation.inv_freq();
  spec.amplitude = rotation.amplitude();
  return Rotation(std::move(spec));
}

}  // namespace

void RotationOptions::add_to(CLI::App& app) {
  auto* from_model = app.add_option("--model", model, "config.json, or the folder that holds it");
  app.add_option("--layer", layer, "Layer of the model; needed where layers differ")->check(CLI::NonNegativeNumber);
  app.add_option("--base", base, "By hand: the base of the frequencies (rope_theta)")->excludes(from_model);
  app.add_option("--head-dim", head_dim, "By hand: channels of a head")->excludes(from_model);
  app.add_option("--rotary-dim", rotary_dim, "By hand: channels that turn, if not all")->excludes(from_model);
  app.add_option("--rotary-offset", rotary_offset, "By hand: the first channel that turns")->excludes(from_model);
  add_pairing(app, pairing, "By hand, or instead of the model's: half or interleaved");
}

LayerRotation choose_layer(const ModelRotations& model, std::int64_t layer) {
  for (const char* warning : model.warnings()) std::cerr << "rotary: note: " << model.source() << ": " << warning << '\n';
  if (layer < 0 && model.groups().size() > 1) {
    throw Error(ErrorCode::invalid_argument, "the layers of this model differ: say which one with --layer");
  }
  return model.layer(layer < 0 ? 0 : layer);
}

ChosenRotation choose_rotation(const RotationOptions& options, std::int64_t length) {
  if (options.model.empty()) {
    Rotation rotation = by_hand(options);
    const double scale = 1 / std::sqrt(static_cast<double>(rotation.head_dim()));
    return {std::move(rotation), scale, 0};
  }
  const ModelRotations model = read_model(options.model.c_str());
  const LayerRotation layer = choose_layer(model, options.layer);
  Rotation rotation = layer.rotation(length);
  if (options.pairing != Pairing::unspecified) rotation = with_pairing(rotation, options.pairing);
  return {std::move(rotation), layer.softmax_scale(), layer.sliding_window()};
}

void add_pairing(CLI::App& app, Pairing& pairing, const std::string& help) {
  static const std::map<std::string, Pairing> names{{"half", Pairing::half}, {"interleaved", Pairing::interleaved}};
  app.add_option("--pairing", pairing, help)->transform(CLI::CheckedTransformer(names))->option_text("half|interleaved");
}

void add_precision(CLI::App& app, Precision& precision) {
  static const std::map<std::string, Precision> names{
      {"exact", Precision::exact}, {"transformers", Precision::transformers}, {"ggml", Precision::ggml}};
  app.add_option("--precision", precision, "Of cos and sin: exact, or as a system makes them (default: exact)")
      ->transform(CLI::CheckedTransformer(names))
      ->option_text("exact|transformers|ggml");
}

}  // namespace rotary::cli
