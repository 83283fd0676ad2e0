// rotary compare: do two models, or two versions of a file, turn alike?
#include "rotary/compare.hpp"

#include <iostream>
#include <memory>
#include <set>
#include <string>

#include "command.h"
#include "model_options.h"
#include "models/layers_by_sort.h"
#include "output.h"

namespace rotary::cli {
namespace {

struct Options {
  ModelOptions model;
  std::string other;
  bool json = false;
};

Json position_or_null(std::int64_t number) { return number < 0 ? Json() : Json(number); }

Json differences_json(const std::vector<Difference>& differences) {
  Json json = Json::array();
  for (const Difference& difference : differences) {
    json.push_back({{"name", difference.name},
                    {"effect", name(difference.effect)},
                    {"a", difference.a},
                    {"b", difference.b},
                    {"detail", difference.detail}});
  }
  return json;
}

Json layers_json(const ComparedLayers& compared) {
  Json json;
  json["part"] = *compared.part == '\0' ? Json() : Json(compared.part);
  json["layers"] = Json::array();
  for (const LayerRange& range : compared.layers) json["layers"].push_back({{"first", range.first}, {"last", range.last}});
  json["first_position"] = position_or_null(compared.first_position);
  json["first_pair"] = position_or_null(compared.first_pair);
  json["length"] = compared.length == 0 ? Json() : Json(compared.length);
  json["differences"] = differences_json(compared.differences);
  return json;
}

Json model_json(const ModelRotations& model) {
  return {{"source", model.source()},
          {"format", model.format()},
          {"model_type", model.model_type()},
          {"fingerprint", model.fingerprint()}};
}

Json comparison_json(const ModelRotations& a, const ModelRotations& b, const Comparison& comparison) {
  Json json;
  json["schema"] = 1;
  json["a"] = model_json(a);
  json["b"] = model_json(b);
  json["same"] = comparison.same();
  json["same_keys"] = comparison.same_keys();
  json["only_pairing_differs"] = comparison.only_pairing_differs();
  json["first_position"] = position_or_null(comparison.first_position());
  json["tolerance"] = comparison.tolerance();
  json["differences"] = differences_json(comparison.differences());
  json["layers"] = Json::array();
  for (const ComparedLayers& compared : comparison.layers()) json["layers"].push_back(layers_json(compared));
  return json;
}

// ---- in words ----------------------------------------------------------------------------------------------------------

std::string name_of(const ComparedLayers& compared) {
  const std::string part = compared.part;
  return (part.empty() ? "" : part + ", ") + in_words(compared.layers);
}

std::string where_keys_part(const ComparedLayers& compared) {
  if (compared.first_position < 0) return "";
  std::string text = "  rotated keys part at position " + std::to_string(compared.first_position) + ", pair " +
                     std::to_string(compared.first_pair);
  return compared.length == 0 ? text : text + ", in a call of " + std::to_string(compared.length) + " tokens";
}

void print_difference(const Difference& difference) {
  constexpr std::size_t indent = 29;
  std::string lead = "  " + plain(difference.name);
  lead.resize(std::max(lead.size() + 1, indent - 3), ' ');
  for (const auto& [which, value] : {std::pair{"a  ", difference.a}, {"b  ", difference.b}, {"   ", difference.detail}}) {
    std::string mark = which;
    for (const std::string& line : wrapped(plain(value), line_width - indent)) {
      std::cout << lead << mark << line << '\n';
      lead = std::string(indent - 3, ' '), mark = "   ";
    }
  }
}

bool has_effect(const Difference& difference) { return difference.effect != Effect::nothing; }

/// Those with an effect, or those without.
void print_differences(const std::string& title, const std::vector<Difference>& differences, bool with_effect) {
  bool titled = false;
  for (const Difference& difference : differences) {
    if (has_effect(difference) != with_effect) continue;
    if (!titled) std::cout << '\n' << title << '\n';
    titled = true;
    print_difference(difference);
  }
}

std::string list_of_names(const Comparison& comparison) {
  std::set<std::string> seen;
  std::string list;
  const auto add = [&](const std::vector<Difference>& differences) {
    for (const Difference& difference : differences) {
      if (has_effect(difference) && seen.insert(difference.name).second)
        list += (list.empty() ? "" : ", ") + std::string(difference.name);
    }
  };
  add(comparison.differences());
  for (const ComparedLayers& compared : comparison.layers()) add(compared.differences);
  return list;
}

std::string pairing_verdict(const Comparison& comparison) {
  for (const ComparedLayers& compared : comparison.layers()) {
    for (const Difference& difference : compared.differences) {
      if (!has_effect(difference)) continue;
      const auto word = [](const std::string& text) { return text.substr(0, text.find(" (")); };
      return "the pairing is the only difference: " + word(difference.a) + " against " + word(difference.b) +
             "; the rows of q and k are permuted";
    }
  }
  return "";
}

std::string verdict(const Comparison& comparison) {
  if (comparison.same()) return "the same rotation";
  if (comparison.only_pairing_differs()) return pairing_verdict(comparison);
  std::string text = "differs: " + list_of_names(comparison);
  if (comparison.same_keys()) return text + "; rotated keys are the same";
  if (comparison.first_position() < 0) return text;
  return text + "; rotated keys differ by more than a bfloat16 step from position " +
         std::to_string(comparison.first_position()) + " on";
}

void print_head(const char* which, const ModelRotations& model) {
  std::cout << which << "  " << plain(model.source()) << ": " << plain(model.model_type()) << ", " << model.num_layers()
            << " layers, fingerprint " << model.fingerprint() << '\n';
}

void print(const ModelRotations& a, const ModelRotations& b, const Comparison& comparison) {
  print_head("a", a);
  print_head("b", b);
  print_differences(bold("the models"), comparison.differences(), true);
  for (const ComparedLayers& compared : comparison.layers()) {
    print_differences(bold(name_of(compared)) + where_keys_part(compared), compared.differences, true);
  }
  const std::string harmless = dim("  without effect");
  print_differences(bold("the models") + harmless, comparison.differences(), false);
  for (const ComparedLayers& compared : comparison.layers()) {
    print_differences(bold(name_of(compared)) + harmless, compared.differences, false);
  }
  std::cout << '\n';
  for (const std::string& line : wrapped(verdict(comparison), line_width)) std::cout << line << '\n';
}

int run(const Options& options) {
  const ModelRotations a = options.model.read(), b = read_as(options.model, options.other);
  const Comparison comparison = compare(a, b);
  if (options.json) print_json(comparison_json(a, b, comparison));
  else print(a, b, comparison);
  return comparison.same() ? Exit::right : Exit::differs;
}

}  // namespace

void add_compare(CLI::App& program, Command& command) {
  auto* app = program.add_subcommand(
      "compare",
      "Example: rotary compare config.json model.gguf\n\n"
      "Do two models, or two versions of a file, turn alike? Names each difference, and the first position at which\n"
      "rotated keys part. Exit code: 0 the same rotation, 1 different.");
  auto options = std::make_shared<Options>();
  options->model.add_to(*app, "A")->required();
  app->add_option("B", options->other, "The other one")->required();
  options->model.add_part_to(*app);
  app->add_flag("--json", options->json, "Print JSON");
  app->callback([&command, options] { command = [options] { return run(*options); }; });
}

}  // namespace rotary::cli
