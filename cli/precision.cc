// rotary precision: how far the tables of cos and sin that systems use are from the truth.
#include "rotary/precision.hpp"

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "command.h"
#include "output.h"
#include "rotation_options.h"

namespace rotary::cli {
namespace {

struct Options {
  RotationOptions rotation;
  std::vector<double> positions{1, 1e5, 1e6, 1e9};
  bool pairs = false;
  bool json = false;
};

/// Angles do not depend on the pairing. Without a word about the rotation: the original one, with a head of today's width.
RotationOptions completed(RotationOptions rotation) {
  if (!rotation.model.path.empty()) return rotation;
  if (rotation.pairing == Pairing::unspecified) rotation.pairing = Pairing::half;
  if (rotation.base == 0 && rotation.head_dim == 0) {
    rotation.base = 10000;
    rotation.head_dim = 128;
    std::cerr << "rotary: no --model: base 10000, head_dim 128\n";
  }
  return rotation;
}

Rotation rotation_for(const Options& options) {
  const double longest = *std::max_element(options.positions.begin(), options.positions.end());
  const bool fits = longest >= 0 && longest < 9e15;
  return RotationSource(completed(options.rotation)).rotation(fits ? static_cast<std::int64_t>(longest) + 1 : 0);
}

Json error_json(const PairError& error) { return {{"angle", error.angle}, {"value", error.value}, {"ulp", error.ulp}}; }

Json row_json(const PrecisionRow& row) {
  Json json;
  json["position"] = row.position;
  json["recipe"] = name(row.recipe);
  json["supported"] = row.supported;
  if (!row.supported) return json;
  json["worst_pair"] = row.worst_pair;
  json["worst"] = error_json(row.worst);
  json["pairs"] = Json::array();
  for (const PairError& error : row.pairs) json["pairs"].push_back(error_json(error));
  return json;
}

std::string ulp_text(double ulp) { return ulp < 1000 ? number(ulp, 3) : scientific(ulp); }

void print_worst(const std::vector<PrecisionRow>& rows) {
  Table table({"position", "tables", "angle error", "cos, sin error", "in ulp", "worst pair"});
  for (const PrecisionRow& row : rows) {
    const std::string position = row.recipe == TableRecipe::exact ? number(row.position, 17) : "";
    if (!row.supported) {
      table.add({position, name(row.recipe), "cannot express this rotation"});
      continue;
    }
    table.add({position, name(row.recipe), scientific(row.worst.angle), scientific(row.worst.value),
               ulp_text(row.worst.ulp), std::to_string(row.worst_pair)});
  }
  table.print("", {1});
}

/// One table per position: pairs downwards, recipes across.
void print_pairs(const std::vector<PrecisionRow>& rows, const Rotation& rotation) {
  constexpr std::size_t num_recipes = 4;
  for (std::size_t first = 0; first + num_recipes <= rows.size(); first += num_recipes) {
    std::cout << "\nangle error at position " << number(rows[first].position, 17) << ", pair by pair\n";
    Table table({"pair", "inv_freq", "exact", "transformers", "ggml", "bfloat16"});
    for (std::size_t j = 0; j < rotation.inv_freq().size(); ++j) {
      std::vector<std::string> cells{std::to_string(j), number(rotation.inv_freq()[j], 6)};
      for (std::size_t recipe = 0; recipe < num_recipes; ++recipe) {
        const PrecisionRow& row = rows[first + recipe];
        cells.push_back(row.supported ? scientific(row.pairs[j].angle) : "-");
      }
      table.add(std::move(cells));
    }
    table.print("  ");
  }
}

int run(const Options& options) {
  const Rotation rotation = rotation_for(options);
  const std::vector<PrecisionRow> rows = precision_report(rotation, options.positions);
  if (options.json) {
    Json json;
    json["inv_freq"] = rotation.inv_freq();
    json["rows"] = Json::array();
    for (const PrecisionRow& row : rows) json["rows"].push_back(row_json(row));
    print_json(json);
    return Exit::right;
  }
  std::cout << "Largest errors over " << rotation.num_pairs()
            << " pairs. Angles in radians; cos and sin also in units in the last place of float32.\n\n";
  print_worst(rows);
  if (options.pairs) print_pairs(rows, rotation);
  return Exit::right;
}

}  // namespace

void add_precision(CLI::App& program, Command& command) {
  auto* app = program.add_subcommand(
      "precision",
      "Example: rotary precision --model config.json --position 100000\n\n"
      "How far cos and sin are from the truth, by position and pair: rotary's exact tables, those of transformers and\n"
      "ggml in float32, and transformers' in bfloat16.");
  auto options = std::make_shared<Options>();
  options->rotation.add_to(*app);
  app->add_option("--position", options->positions, "May be given several times (default: 1, 1e5, 1e6, 1e9)")
      ->allow_extra_args(false);
  app->add_flag("--pairs", options->pairs, "Print every pair, not only the worst");
  app->add_flag("--json", options->json, "Print JSON, with every pair");
  app->callback([&command, options] { command = [options] { return run(*options); }; });
}

}  // namespace rotary::cli
