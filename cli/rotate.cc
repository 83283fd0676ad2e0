// rotary rotate: turn tensors of a file.
#include "rotary/rotate.hpp"

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "rotary/error.hpp"
#include "rotation_options.h"
#include "tensors.h"

namespace rotary::cli {
namespace {

struct Options {
  std::string file;
  std::string out;
  std::vector<std::string> tensors;
  Axes axes = "BHSD";
  RotationOptions rotation;
  PositionOptions positions;
  Precision precision = Precision::exact;
  bool inverse = false;
  std::optional<double> shift;
  ThreadOptions threads;
};

/// Those of --tensor; without it the only one that the file holds.
std::vector<std::string> chosen_tensors(const Options& options, const TensorFile& file) {
  if (!options.tensors.empty()) return options.tensors;
  if (file.tensors().size() == 1) return {file.tensors().front().name};
  std::string names;
  for (const StoredTensor& tensor : file.tensors()) names += (names.empty() ? "" : ", ") + std::string(tensor.name);
  throw Error(ErrorCode::invalid_argument, ("say with --tensor which tensors to turn: " + names).c_str());
}

void turn(const Options& options, const TensorView& x, const Rotation& rotation, const Positions& positions,
          Executor& executor) {
  const RotateOptions how{.precision = options.precision, .executor = &executor};
  if (options.shift) shift(x, rotation, *options.shift, how);
  else if (options.inverse) unrotate(x, rotation, positions, how);
  else rotate(x, rotation, positions, how);
}

int run(const Options& options) {
  const TensorFile file(options.file.c_str());
  const RotationSource source(options.rotation);
  ThreadPool pool = options.threads.pool();
  const std::vector<std::string> names = chosen_tensors(options, file);
  std::vector<OwnTensor> turned;
  turned.reserve(names.size());
  std::vector<TensorToWrite> outputs;
  std::string used_positions;
  for (const std::string& name : names) {
    const ConstTensorView x = view_of(file, options.file, name, options.axes);
    if (!is_real_float(x.dtype())) {
      throw Error(ErrorCode::unsupported,
                  (options.file + ": " + tensor_name(name) + " must hold floats to be turned").c_str());
    }
    turned.push_back(OwnTensor::copy_of(x));
    const ChosenPositions positions(file, options.positions, x);
    turn(options, turned.back().view(), source.rotation(positions.length()), positions.positions(), pool);
    used_positions = positions.description();
    outputs.push_back({name.c_str(), turned.back().view()});
  }
  write_tensors(options.out.c_str(), outputs);
  if (!options.shift) std::cerr << "rotary: positions: " << used_positions << '\n';
  return Exit::right;
}

}  // namespace

void add_rotate(CLI::App& program, Command& command) {
  auto* app = program.add_subcommand(
      "rotate",
      "Example: rotary rotate layer-00.safetensors --model config.json --tensor q --tensor k -o turned.safetensors\n\n"
      "Turns tensors of FILE by their positions and writes them, under their names, to OUT.");
  auto options = std::make_shared<Options>();
  app->add_option("FILE", options->file, "safetensors, .npz or .npy")->required();
  app->add_option("-o,--out", options->out, "What to write: .safetensors, .npz or .npy")
      ->required()
      ->check(ends_in({".safetensors", ".npz", ".npy"}));
  app->add_option("--tensor", options->tensors, "Which tensors to turn; may be given several times")
      ->allow_extra_args(false);
  add_axes(*app, options->axes);
  options->rotation.add_to(*app);
  options->positions.add_to(*app);
  options->positions.add_cu_seqlens_to(*app);
  auto* inverse = app->add_flag("--inverse", options->inverse, "Undo the rotation");
  app->add_option("--shift", options->shift,
                  "Move keys that are already rotated by so many positions; where they stand matters only to a rule that\n"
                  "depends on the length")
      ->excludes(inverse);
  add_precision(*app, options->precision);
  options->threads.add_to(*app);
  app->callback([&command, options] { command = [options] { return run(*options); }; });
}

}  // namespace rotary::cli
