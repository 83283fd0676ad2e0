#include "rotation_options.h"

#include <cmath>
#include <iostream>

#include "command.h"
#include "output.h"
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

}  // namespace

void RotationOptions::add_to(CLI::App& app) {
  auto* from_model = model.add_to(app, "--model");
  app.add_option("--layer", layer, "Layer of the model; needed where layers differ")->check(at_least(0));
  app.add_option("--base", base, "By hand: the base of the frequencies (rope_theta)")->excludes(from_model);
  app.add_option("--head-dim", head_dim, "By hand: channels of a head")->excludes(from_model);
  app.add_option("--rotary-dim", rotary_dim, "By hand: channels that turn, if not all")->excludes(from_model);
  app.add_option("--rotary-offset", rotary_offset, "By hand: the first channel that turns")->excludes(from_model);
  add_pairing(app, pairing, "By hand, or instead of the model's: half or interleaved");
}

LayerRotation choose_layer(const ModelRotations& model, std::int64_t layer) {
  for (const Warning& warning : model.warnings())
    std::cerr << "rotary: note: " << plain(model.source()) << ": " << warning.id << " " << warning.text << '\n';
  if (layer < 0 && model.groups().size() > 1) {
    throw Error(ErrorCode::invalid_argument, "the layers of this model differ: say which one with --layer");
  }
  return layer_of(model, layer < 0 ? 0 : layer);
}

RotationSource::RotationSource(const RotationOptions& options) : options_(options) {
  if (options.model.path.empty()) by_hand_ = by_hand(options);
  else {
    model_ = options.model.read();
    layer_ = choose_layer(*model_, options.layer);
  }
}

double RotationSource::softmax_scale() const {
  return layer_ ? layer_->softmax_scale() : 1 / std::sqrt(static_cast<double>(by_hand_->head_dim()));
}

const LayerRotation* RotationSource::layer() const { return layer_ ? &*layer_ : nullptr; }

Rotation RotationSource::rotation(std::int64_t length) const {
  if (by_hand_) return *by_hand_;
  Rotation rotation = layer_->rotation(length);
  return options_.pairing == Pairing::unspecified ? rotation : with_pairing(rotation, options_.pairing);
}

void add_pairing(CLI::App& app, Pairing& pairing, const std::string& help) {
  add_choice<Pairing>(app, "--pairing", pairing, {{"half", Pairing::half}, {"interleaved", Pairing::interleaved}}, help);
}

void add_precision(CLI::App& app, Precision& precision) {
  add_choice<Precision>(app, "--precision", precision,
                        {{"exact", Precision::exact}, {"transformers", Precision::transformers}, {"ggml", Precision::ggml}},
                        "Of cos and sin: exact, or as a system makes them (default: exact)");
}

}  // namespace rotary::cli
