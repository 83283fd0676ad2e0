// What every command takes that reads a model: its path, and how to read it.
#pragma once

#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

#include "output.h"
#include "rotary/model.hpp"

namespace rotary::cli {

struct ModelOptions {
  std::string path;
  std::string family;
  std::string part;
  bool lenient = false;

  /// PATH, or an option such as --model.
  CLI::Option* add_to(CLI::App& app, const std::string& name = "PATH");
  void add_part_to(CLI::App& app);

  /// With --part, that part of it.
  ModelRotations read() const;
};

/// The layer that was asked for (-1: none was); else the only sort of layer that rotates. Error (invalid_argument) where there
/// is none, or several.
LayerRotation choose_rotating_layer(const ModelRotations& model, std::int64_t layer);

/// One that there is, or Error (invalid_argument).
LayerRotation layer_of(const ModelRotations& model, std::int64_t layer);

/// Another file, read the same way.
ModelRotations read_as(const ModelOptions& options, const std::string& path);

}  // namespace rotary::cli
