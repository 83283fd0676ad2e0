// rotary inspect: what a model's rotation is, and where every value came from.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <numbers>
#include <string>

#include "command.h"
#include "model_json.h"
#include "model_options.h"
#include "models/layers_by_sort.h"
#include "output.h"

namespace rotary::cli {
namespace {

struct Options {
  ModelOptions model;
  std::int64_t layer = -1;
  std::int64_t length = -1;
  bool json = false;
};

double wavelength(double inv_freq) { return 2 * std::numbers::pi / std::abs(inv_freq); }

std::string wavelength_text(double inv_freq) { return inv_freq == 0 ? "∞" : number(wavelength(inv_freq), 4); }

std::string channels_text(const Pair& pair) { return std::to_string(pair.first) + ", " + std::to_string(pair.second); }

/// JSON text as people write it.
std::string plain_value(const char* text) {
  const Json json = Json::parse(text);
  if (json.is_number()) return number(json.get<double>(), 12);
  return plain(json.is_string() ? json.get<std::string>() : text);
}

/// The value that decided; "" where nothing is known of it.
std::string known_value(const LayerRotation& layer, const std::string& name) {
  for (const ValueSource& value : layer.provenance()) {
    if (value.name == name) return plain_value(value.value);
  }
  return "";
}

// ---- one sort of layer -------------------------------------------------------------------------------------------------

/// The words behind one label, in lines that fit.
void print_line(const std::string& label, const std::string& words) {
  constexpr std::size_t indent = 16;
  std::string lead = "  " + label;
  lead.resize(indent, ' ');
  for (const std::string& line : wrapped(plain(words), line_width - indent)) {
    std::cout << lead << line << '\n';
    lead = std::string(indent, ' ');
  }
}

std::string slice_text(const Rotation& rotation) {
  const std::int64_t width = rotation.rotary_dim(), begin = rotation.rotary_offset();
  if (width == rotation.head_dim()) return "all " + std::to_string(width) + " channels";
  return std::to_string(width) + " of " + std::to_string(rotation.head_dim()) + " channels, " + std::to_string(begin) +
         " to " + std::to_string(begin + width - 1);
}

std::string turn_text(const Rotation& rotation) {
  std::string text = slice_text(rotation) + ", pairing " + name(rotation.pairing_in());
  if (rotation.pairing_out() != rotation.pairing_in()) text += std::string(", written ") + name(rotation.pairing_out());
  if (rotation.num_axes() > 1) text += ", " + std::to_string(rotation.num_axes()) + " axes";
  return text + (rotation.direction() > 0 ? ", counter-clockwise" : ", clockwise");
}

std::string rule_text(const LayerRotation& layer) {
  std::string text = layer.rule();
  for (const char* parameter : {"base", "factor"}) {
    if (const std::string value = known_value(layer, parameter); !value.empty()) {
      text += std::string(", ") + parameter + " " + value;
    }
  }
  return layer.depends_on_length() ? text + "; depends on the number of tokens" : text;
}

std::string wavelengths_text(const ModelRotations& model, const Rotation& rotation) {
  const auto [slowest, fastest] = std::minmax_element(rotation.inv_freq().begin(), rotation.inv_freq().end(),
                                                      [](double a, double b) { return std::abs(a) < std::abs(b); });
  std::string text = wavelength_text(*fastest) + " to " + wavelength_text(*slowest) + " positions";
  const std::int64_t trained = model.original_max_position_embeddings();
  if (trained == 0) return text;
  const auto slow = std::count_if(rotation.inv_freq().begin(), rotation.inv_freq().end(), [&](double inv_freq) {
    return inv_freq == 0 || wavelength(inv_freq) > static_cast<double>(trained);
  });
  return text + "; " + std::to_string(slow) + " of " + std::to_string(rotation.num_pairs()) +
         " pairs never finish a turn within " + std::to_string(trained);
}

std::string temperature_text(const QueryTemperature& temperature) {
  std::string text = "; times ";
  for (const std::int64_t position :
       {std::int64_t{0}, temperature.length, 4 * temperature.length, 16 * temperature.length}) {
    text += (position == 0 ? "" : ", ") + number(temperature.at(static_cast<double>(position)), 5) + " at query " +
            std::to_string(position);
  }
  return text;
}

std::string scores_text(const LayerRotation& layer, double amplitude) {
  std::string text = layer.softmax_scale() == 0 ? "times a factor that is not known (learned, or of another form)"
                                                : "times " + number(layer.softmax_scale(), 9);
  if (amplitude != 1) {
    text += "; cos and sin times " + number(amplitude, 9) + ", so what turns scores " + number(amplitude * amplitude, 6) +
            " times as much";
  }
  if (layer.query_temperature().kind != QueryTemperature::Kind::none) text += temperature_text(layer.query_temperature());
  if (layer.softcap() != 0) {
    text += "; then " + number(layer.softcap(), 9) + " tanh(score / " + number(layer.softcap(), 9) + ")";
  }
  return text;
}

constexpr const char* sinks_text =
    "a weight per query head (its values are in the checkpoint) is in the sum of the softmax";

std::string reach_text(const LayerRotation& layer) {
  if (layer.window_is_symmetric()) {
    return std::to_string((layer.sliding_window() - 1) / 2) + " keys on each side of its own, " +
           std::to_string(layer.sliding_window()) + " in all";
  }
  if (layer.sliding_window() > 0) return "the last " + std::to_string(layer.sliding_window()) + " keys";
  return "keys of the same " + std::to_string(layer.attention_chunk_size()) + " positions";
}

void print_pairs(const Rotation& rotation, std::int64_t trained) {
  std::vector<std::string> header{"pair", "channels"};
  if (rotation.num_axes() > 1) header.emplace_back("axis");
  header.insert(header.end(), {"inv_freq", "wavelength"});
  if (trained > 0) header.emplace_back("turns in " + std::to_string(trained));
  Table table(header);
  const std::int64_t step = std::max<std::int64_t>(1, rotation.num_pairs() / 8);
  for (std::int64_t j = 0; j < rotation.num_pairs(); ++j) {
    if (j % step != 0 && j + 1 != rotation.num_pairs()) continue;
    const auto pair = static_cast<std::size_t>(j);
    const double inv_freq = rotation.inv_freq()[pair];
    std::vector<std::string> row{std::to_string(j), channels_text(rotation.pairs_in()[pair])};
    if (rotation.num_axes() > 1) row.push_back(std::to_string(rotation.axis()[pair]));
    row.insert(row.end(), {number(inv_freq, 9), wavelength_text(inv_freq)});
    if (trained > 0) row.push_back(inv_freq == 0 ? "0" : number(static_cast<double>(trained) / wavelength(inv_freq), 4));
    table.add(row);
  }
  std::cout << '\n';
  table.print("  ");
}

void print_sort(const ModelRotations& model, const LayerSort& sort, std::int64_t length) {
  const LayerRotation& layer = sort.layer;
  const std::string label = plain(layer.label());
  std::cout << '\n' << bold(in_words(sort.ranges)) << (label.empty() ? "" : dim("  " + label)) << '\n';
  if (!layer.rotates()) print_line("turns", std::string(name(layer.turning())) + ": " + layer.reason());
  if (layer.turning() == Turning::no_attention) return;

  if (!layer.rotates()) {
    print_line("heads", std::to_string(layer.num_q_heads()) + " query, " + std::to_string(layer.num_kv_heads()) +
                            " key/value, of " + std::to_string(layer.head_dim()) + " channels");
    print_line("scores", scores_text(layer, 1));
    if (layer.has_sinks()) print_line("sinks", sinks_text);
    if (layer.key_scale() != 1) print_line("keys", "times " + number(layer.key_scale(), 9));
    if (layer.sliding_window() + layer.attention_chunk_size() > 0) print_line("sees", reach_text(layer));
    return;
  }
  const Rotation rotation = layer.rotation(std::max<std::int64_t>(length, 0));
  print_line("turns", turn_text(rotation));
  print_line("heads", std::to_string(layer.num_q_heads()) + " query, " + std::to_string(layer.num_kv_heads()) +
                          " key/value, of " + std::to_string(layer.head_dim()) + " channels");
  print_line("rule", rule_text(layer));
  if (layer.depends_on_length()) {
    print_line("",
               length < 0 ? "shown for short calls (another: --length)" : "shown for a call of " + std::to_string(length));
  }
  print_line("wavelengths", wavelengths_text(model, rotation));
  print_line("scores", scores_text(layer, rotation.amplitude()));
  if (layer.has_sinks()) print_line("sinks", sinks_text);
  if (layer.key_scale() != 1) print_line("keys", "times " + number(layer.key_scale(), 9) + " before they turn");
  if (layer.sliding_window() + layer.attention_chunk_size() > 0) print_line("sees", reach_text(layer));
  if (layer.norm_order() != NormOrder::none) print_line("q, k norm", name(layer.norm_order()));
  if (layer.rotates_values()) print_line("values", "turn like keys");
  if (layer.unrotates_output()) print_line("output", "is turned back at the position of the query");
  print_pairs(rotation, model.original_max_position_embeddings());
}

// ---- sources -----------------------------------------------------------------------------------------------------------

bool same_source(const ValueSource& a, const ValueSource& b) {
  return std::string(a.name) == b.name && std::string(a.value) == b.value && std::string(a.source) == b.source;
}

bool holds(const std::vector<ValueSource>& values, const ValueSource& value) {
  return std::any_of(values.begin(), values.end(), [&](const ValueSource& other) { return same_source(value, other); });
}

void print_values(const std::string& title, const std::vector<ValueSource>& values) {
  if (values.empty()) return;
  constexpr std::size_t enough = 24;
  std::cout << '\n' << bold(title) << '\n';
  Table table({"value", "", "source"});
  for (const ValueSource& value : values) {
    std::string text = plain_value(value.value);
    if (text.size() > enough) text = text.substr(0, enough - 3) + "...";
    table.add({plain(value.name), text, plain(value.source)});
  }
  table.print("  ", {0, 1, 2});
}

/// What all sorts have in common once, then what each has of its own.
void print_sources(const std::vector<LayerSort>& sorts) {
  if (sorts.empty()) return;
  std::vector<ValueSource> shared;
  for (const ValueSource& value : sorts.front().layer.provenance()) {
    const auto has_it = [&](const LayerSort& sort) { return holds(sort.layer.provenance(), value); };
    if (std::all_of(sorts.begin(), sorts.end(), has_it)) shared.push_back(value);
  }
  print_values("where it comes from", shared);
  for (const LayerSort& sort : sorts) {
    std::vector<ValueSource> own;
    for (const ValueSource& value : sort.layer.provenance()) {
      if (!holds(shared, value)) own.push_back(value);
    }
    print_values("of " + in_words(sort.ranges), own);
  }
}

// ---- the rest ----------------------------------------------------------------------------------------------------------

void print_warnings(const ModelRotations& model) {
  if (model.warnings().empty()) return;
  std::cout << '\n' << bold("warnings") << dim("  more on each: rotary explain ID") << '\n';
  for (const Warning& warning : model.warnings()) {
    std::string lead = std::string(warning.id) + " " + name(warning.severity);
    lead.resize(14, ' ');
    lead = "  " + (warning.severity == Severity::warning ? yellow(lead) : lead) + " ";
    for (const std::string& line : wrapped(plain(warning.text), line_width - 17)) {
      std::cout << lead << line << '\n';
      lead = std::string(17, ' ');
    }
  }
}

/// One line per sort of layer.
void print_part(const std::string& part_name, const ModelRotations& part) {
  std::cout << '\n'
            << bold("part " + plain(part_name)) << "  " << plain(part.model_type()) << ", " << part.num_layers()
            << " layers" << dim("  in full: --part " + plain(part_name)) << '\n';
  for (const LayerSort& sort : layers_by_sort(part)) {
    const LayerRotation& layer = sort.layer;
    const std::string what = layer.rotates() ? turn_text(layer.rotation(std::int64_t{0})) + "; " + rule_text(layer)
                                             : std::string(name(layer.turning())) + ": " + layer.reason();
    for (const std::string& line : wrapped(plain(in_words(sort.ranges) + ": " + what), line_width - 4)) {
      std::cout << "  " << line << '\n';
    }
  }
}

void print_head(const ModelRotations& model) {
  std::cout << plain(model.source()) << ": " << bold(plain(model.model_type())) << ", " << model.num_layers() << " layers";
  if (model.max_position_embeddings() > 0) std::cout << ", " << model.max_position_embeddings() << " positions";
  if (model.original_max_position_embeddings() != model.max_position_embeddings()) {
    std::cout << " (trained on " << model.original_max_position_embeddings() << ")";
  }
  std::cout << "\nfingerprint " << model.fingerprint() << '\n';
}

int inspect(const Options& options) {
  const ModelRotations model = options.model.read();
  std::vector<LayerGroup> groups = model.groups();
  std::vector<LayerSort> sorts = layers_by_sort(model);
  if (options.layer >= 0) {
    const LayerRotation layer = layer_of(model, options.layer);
    groups = {{options.layer, options.layer, layer}};
    sorts = {{layer, {{options.layer, options.layer}}}};
  }
  if (options.json) {
    print_json(model_json(model, groups, options.length));
    return Exit::right;
  }
  print_head(model);
  for (const LayerSort& sort : sorts) print_sort(model, sort, options.length);
  print_sources(sorts);
  print_warnings(model);
  for (const char* part_name : model.part_names()) print_part(part_name, model.part(part_name));
  return Exit::right;
}

}  // namespace

void add_inspect(CLI::App& program, Command& command) {
  auto* app = program.add_subcommand("inspect",
                                     "Example: rotary inspect config.json --layer 0\n\n"
                                     "Shows what a model's rotation is, layer by layer, and where each value comes from.");
  auto options = std::make_shared<Options>();
  options->model.add_to(*app)->required();
  options->model.add_part_to(*app);
  app->add_option("--layer", options->layer, "Only this layer")->check(at_least(0));
  app->add_option("--length", options->length, "Tokens of the call, for rules that depend on it")->check(at_least(1));
  app->add_flag("--json", options->json, "Print JSON");
  app->callback([&command, options] { command = [options] { return inspect(*options); }; });
}

}  // namespace rotary::cli
