// --model and --layer, or the rotation's numbers by hand.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "model_options.h"
#include "rotary/angles.hpp"
#include "rotary/model.hpp"
#include "rotary/rotation.hpp"

namespace rotary::cli {

struct RotationOptions {
  ModelOptions model;
  std::int64_t layer = -1;
  double base = 0;
  std::int64_t head_dim = 0;
  std::int64_t rotary_dim = 0;
  std::int64_t rotary_offset = 0;
  Pairing pairing = Pairing::unspecified;

  void add_to(CLI::App& app);
};

/// What the options say. Warnings of the model go to stderr once.
class RotationSource {
 public:
  explicit RotationSource(const RotationOptions& options);

  /// `length`: the largest position + 1, for rules that depend on it.
  Rotation rotation(std::int64_t length) const;
  double softmax_scale() const;        ///< 1 / sqrt(head_dim) where the numbers were given by hand; 0: not known
  const LayerRotation* layer() const;  ///< nullptr where the numbers were given by hand

 private:
  RotationOptions options_;
  std::optional<Rotation> by_hand_;
  std::optional<ModelRotations> model_;
  std::optional<LayerRotation> layer_;
};

/// The layer that was asked for; without --layer the only one, where all layers are alike. Warnings go to stderr.
LayerRotation choose_layer(const ModelRotations& model, std::int64_t layer);

void add_pairing(CLI::App& app, Pairing& pairing, const std::string& help);
void add_precision(CLI::App& app, Precision& precision);

}  // namespace rotary::cli
