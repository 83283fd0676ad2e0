// rotary frequencies: how fast each pair turns, as a table.
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>

#include "command.h"
#include "model_options.h"
#include "rotary/frequency_file.hpp"

namespace rotary::cli {
namespace {

struct Options {
  ModelOptions model;
  std::string out;
  std::int64_t layer = -1;
  std::int64_t length = -1;
};

int run(const Options& options) {
  const ModelRotations model = options.model.read();
  const LayerRotation layer = choose_rotating_layer(model, options.layer);
  if (layer.depends_on_length() && options.length < 0) {
    std::cerr << "rotary: the frequencies depend on the number of tokens; these are of short calls (another: --length)\n";
  }
  const Rotation rotation = layer.rotation(std::max<std::int64_t>(options.length, 0));
  if (options.out.empty()) {
    const std::vector<char> csv = frequencies_csv(rotation);
    std::cout.write(csv.data(), static_cast<std::streamsize>(csv.size()));
  } else {
    write_frequencies(options.out.c_str(), rotation);
  }
  return Exit::right;
}

}  // namespace

void add_frequencies(CLI::App& program, Command& command) {
  auto* app = program.add_subcommand("frequencies",
                                     "Example: rotary frequencies config.json -o inv_freq.npy\n\n"
                                     "How fast each pair turns: .csv with pair, channels, inv_freq, wavelength, axis and\n"
                                     "amplitude, or .npy with inv_freq alone. Without -o, CSV on stdout.");
  auto options = std::make_shared<Options>();
  options->model.add_to(*app)->required();
  options->model.add_part_to(*app);
  app->add_option("-o,--out", options->out, "What to write: .csv or .npy")->check(ends_in({".csv", ".npy"}));
  app->add_option("--layer", options->layer, "Layer of the model; needed where layers turn differently")
      ->check(at_least(0));
  app->add_option("--length", options->length, "Tokens of the call, for rules that depend on it")->check(at_least(1));
  app->callback([&command, options] { command = [options] { return run(*options); }; });
}

}  // namespace rotary::cli
