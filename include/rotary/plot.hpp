// A picture of a model's rotation: docs/plot.md.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/export.hpp"
#include "rotary/model.hpp"

namespace rotary {

struct PlotOptions {
  std::int64_t layer = -1;   ///< only this one; -1: every sort of layer that rotates, up to 8 of them
  std::int64_t length = -1;  ///< tokens of the call, for rules that depend on it; -1: short calls
};

/// SVG, complete in itself, for light and dark pages. For each sort of layer, how many positions each pair takes for one turn,
/// and the mean of amplitude^2 cos(inv_freq * distance) over pairs by distance: what rotation does to the score of a key
/// that equals its query.
/// Errors: Error (invalid_argument) where no layer rotates, or not the one asked for.
ROTARY_API std::vector<char> plot_svg(const ModelRotations& model, const PlotOptions& options = {});

/// The same in a file. Writes beside the target and renames. Errors: also (invalid_file) when the file cannot be written.
ROTARY_API void write_plot(const char* path, const ModelRotations& model, const PlotOptions& options = {});

}  // namespace rotary
