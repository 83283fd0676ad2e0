// rotary plot: a picture of a model's rotation.
#include "rotary/plot.hpp"

#include <iostream>
#include <memory>
#include <string>

#include "command.h"
#include "model_options.h"

namespace rotary::cli {
namespace {

struct Options {
  ModelOptions model;
  std::string out;
  PlotOptions plot;
};

int run(const Options& options) {
  const ModelRotations model = options.model.read();
  if (options.out.empty()) {
    const std::vector<char> svg = plot_svg(model, options.plot);
    std::cout.write(svg.data(), static_cast<std::streamsize>(svg.size()));
  } else {
    write_plot(options.out.c_str(), model, options.plot);
  }
  return Exit::right;
}

}  // namespace

void add_plot(CLI::App& program, Command& command) {
  auto* app = program.add_subcommand(
      "plot",
      "Example: rotary plot config.json -o rotation.svg\n\n"
      "Draws, for each sort of layer that rotates, how many positions each pair takes for one turn, against the context,\n"
      "and what rotation leaves of a score by distance. Without -o, the SVG goes to stdout.");
  auto options = std::make_shared<Options>();
  options->model.add_to(*app)->required();
  options->model.add_part_to(*app);
  app->add_option("-o,--out", options->out, "What to write: .svg")->check(ends_in({".svg"}));
  app->add_option("--layer", options->plot.layer, "Only this layer")->check(at_least(0));
  app->add_option("--length", options->plot.length, "Tokens of the call, for rules that depend on it")->check(at_least(1));
  app->callback([&command, options] { command = [options] { return run(*options); }; });
}

}  // namespace rotary::cli
