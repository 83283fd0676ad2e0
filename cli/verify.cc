// rotary verify: does what a model computed agree with its rotation?
#include "rotary/verify.hpp"

#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "command.h"
#include "model_options.h"
#include "output.h"
#include "rotary/error.hpp"
#include "rotation_options.h"
#include "tensors.h"

namespace rotary::cli {
namespace {

struct Options {
  std::string capture;
  ModelOptions model;
  std::int64_t layer = 0;
  Axes axes = "BHSD";
  std::vector<std::string> map;
  Pairing pairing = Pairing::unspecified;
  Precision precision = Precision::exact;
  Causal causal = Causal::bottom_right;
  PositionOptions positions;
  ThreadOptions threads;
  bool json = false;
};

/// Under which name each tensor stands in the file.
class Names {
 public:
  explicit Names(const std::vector<std::string>& map) {
    for (const char* role : {"q", "k", "v", "q_rot", "k_rot", "attn_out", "position_ids", "sinks"}) names_[role] = role;
    for (const std::string& entries : map) {
      std::istringstream list(entries);
      for (std::string entry; std::getline(list, entry, ',');) add(entry);
    }
  }

  const std::string& operator[](const std::string& role) const { return names_.at(role); }
  bool given(const std::string& role) const { return given_.count(role) > 0; }

 private:
  void add(const std::string& entry) {
    const std::size_t equals = entry.find('=');
    const std::string role = entry.substr(0, equals);
    if (equals == entry.npos || names_.count(role) == 0) {
      throw Error(
          ErrorCode::invalid_argument,
          ("--map takes ROLE=NAME with the roles q, k, v, q_rot, k_rot, attn_out, position_ids and sinks, got " + entry)
              .c_str());
    }
    names_[role] = entry.substr(equals + 1);
    given_[role] = true;
  }

  std::map<std::string, std::string> names_;
  std::map<std::string, bool> given_;
};

/// Not given where the file has no such tensor, unless --map asked for it.
ConstTensorView find(const TensorFile& file, const Options& options, const Names& names, const char* role,
                     const Axes& axes) {
  const std::string& name = names[role];
  if (file.find(name.c_str()) == nullptr && !names.given(role)) return {};
  return view_of(file, options.capture, name, axes);
}

void require(const ConstTensorView& needed, const ConstTensorView& checked, const Options& options, const char* name,
             const char* checks) {
  if (checked && !needed) {
    throw Error(ErrorCode::invalid_file,
                (options.capture + ": " + name + " is missing, and " + checks + " cannot be checked without it").c_str());
  }
}

Capture read_capture(const TensorFile& file, const Options& options, const Names& names, bool has_sinks) {
  Capture capture;
  capture.q = find(file, options, names, "q", options.axes);
  capture.k = find(file, options, names, "k", options.axes);
  capture.v = find(file, options, names, "v", options.axes);
  capture.q_rot = find(file, options, names, "q_rot", options.axes);
  capture.k_rot = find(file, options, names, "k_rot", options.axes);
  capture.attn_out = find(file, options, names, "attn_out", options.axes);
  if (has_sinks || names.given("sinks")) capture.sinks = find(file, options, names, "sinks", "H");
  if (!capture.q_rot && !capture.k_rot && !capture.attn_out) {
    throw Error(
        ErrorCode::invalid_file,
        (options.capture + ": holds none of q_rot, k_rot and attn_out, so there is nothing to compare with").c_str());
  }
  require(capture.q, capture.q_rot, options, "q", "q_rot");
  require(capture.k, capture.k_rot, options, "k", "k_rot");
  require(capture.q, capture.attn_out, options, "q", "attn_out");
  require(capture.k, capture.attn_out, options, "k", "attn_out");
  require(capture.v, capture.attn_out, options, "v", "attn_out");
  return capture;
}

/// JSON has no infinity: null.
Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json tensor_json(const TensorCheck& check) {
  Json json;
  json["max_abs_diff"] = finite(check.max_abs_diff);
  json["bound"] = check.bound;
  json["ok"] = check.ok();
  json["typical_diff"] = check.typical_diff;
  json["max_ratio"] = finite(check.max_ratio);
  json["num_elements"] = check.num_elements;
  json["num_outside"] = check.num_outside;
  json["at"] = {{"batch", check.batch},        {"head", check.head},       {"token", check.token},
                {"position", check.position},  {"channel", check.channel}, {"expected", finite(check.expected)},
                {"found", finite(check.found)}};
  return json;
}

std::string where(const TensorCheck& check) {
  std::string text = "head " + std::to_string(check.head) + ", position " + number(check.position, 17) + ", channel " +
                     std::to_string(check.channel);
  return check.batch > 0 ? "row " + std::to_string(check.batch) + ", " + text : text;
}

std::string share_outside(const TensorCheck& check) {
  if (check.ok()) return "within rounding";
  const double percent = 100 * static_cast<double>(check.num_outside) / static_cast<double>(check.num_elements);
  return number(percent, 3) + " % beyond rounding";
}

void print_table(const VerifyReport& report) {
  Table table({"tensor", "largest difference", "allowed there", "typical", "where the largest is", ""});
  for (const TensorCheck& check : report.tensors) {
    table.add({check.name, scientific(check.max_abs_diff), scientific(check.bound), scientific(check.typical_diff),
               where(check), share_outside(check)});
  }
  table.print("", {0, 4, 5});
}

/// A few elements that differ are another fault than a rotation that is not the model's.
bool matches_mostly(const TensorCheck& check) { return 2 * check.num_outside < check.num_elements; }

std::string verdict(const VerifyReport& report, Pairing pairing) {
  if (report.ok()) return "agrees: float32 rounding explains every difference";
  std::string wrong;
  bool any_matches = false;
  for (const TensorCheck& check : report.tensors) {
    any_matches = any_matches || matches_mostly(check);
    if (!check.ok()) wrong += (wrong.empty() ? "" : ", ") + std::string(check.name);
  }
  const std::string with = std::string(" (pairing ") + name(pairing) + ")";
  if (!any_matches) return "differs: nothing matches" + with;
  return "differs: " + wrong + " beyond rounding" + with;
}

int run(const Options& options) {
  const ModelRotations model = options.model.read();
  const LayerRotation layer = choose_layer(model, options.layer);
  const TensorFile file(options.capture.c_str());
  const Names names(options.map);
  Capture capture = read_capture(file, options, names, layer.has_sinks());
  if (layer.has_sinks()) require(capture.sinks, capture.attn_out, options, "sinks", "attn_out");
  const ChosenPositions positions(file, options.positions, capture.q ? capture.q : capture.k, names["position_ids"]);
  capture.positions = positions.positions();

  ThreadPool pool = options.threads.pool();
  ProgressBar bar("verify");
  VerifyOptions how{
      .pairing = options.pairing, .precision = options.precision, .causal = options.causal, .executor = &pool};
  how.progress = bar.progress();
  const VerifyReport report = verify(capture, layer, how);
  bar.clear();

  const Pairing pairing =
      options.pairing == Pairing::unspecified ? layer.rotation(positions.length()).pairing_in() : options.pairing;
  std::cerr << "rotary: positions: " << positions.description() << '\n';
  if (options.json) {
    Json tensors = Json::object();
    for (const TensorCheck& check : report.tensors) tensors[check.name] = tensor_json(check);
    print_json({{"tensors", tensors}, {"ok", report.ok()}});
    std::cerr << "rotary: " << verdict(report, pairing) << '\n';
  } else {
    print_table(report);
    std::cout << verdict(report, pairing) << '\n';
  }
  return report.ok() ? Exit::right : Exit::differs;
}

}  // namespace

void add_verify(CLI::App& program, Command& command) {
  auto* app = program.add_subcommand(
      "verify",
      "Example: rotary verify layer-00.safetensors --model config.json --layer 0\n\n"
      "From q, k and v in CAPTURE, computes the rotation and the attention of the model's layer and compares them with\n"
      "q_rot, k_rot and attn_out there. Says whether float32 rounding in the model explains the differences.");
  auto options = std::make_shared<Options>();
  app->add_option("CAPTURE", options->capture, "safetensors, .npz: the tensors that the model computed")->required();
  options->model.add_to(*app, "--model")->required();
  app->add_option("--layer", options->layer, "Layer of the model")->required()->check(at_least(0));
  app->add_option("--map", options->map,
                  "Names in the file: q=NAME,k=NAME,…; roles q k v q_rot k_rot attn_out position_ids")
      ->allow_extra_args(false);
  add_axes(*app, options->axes);
  add_pairing(*app, options->pairing, "Instead of the model's own: half or interleaved");
  add_precision(*app, options->precision);
  add_causal(*app, options->causal, "Which keys a query sees (default: bottom_right)");
  options->positions.add_to(*app);
  options->threads.add_to(*app);
  app->add_flag("--json", options->json, "Print JSON");
  app->callback([&command, options] { command = [options] { return run(*options); }; });
}

}  // namespace rotary::cli
