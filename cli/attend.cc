// rotary attend: attention over q, k and v of a file, with the rotation inside.
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "command.h"
#include "models/plain_attention.h"
#include "rotary/attention.hpp"
#include "rotary/error.hpp"
#include "rotation_options.h"
#include "tensors.h"

namespace rotary::cli {
namespace {

struct Options {
  std::string file;
  std::string out;
  std::string q = "q", k = "k", v = "v";
  Axes axes = "BHSD";
  RotationOptions rotation;
  PositionOptions k_positions, q_positions;
  Precision precision = Precision::exact;
  Causal causal = Causal::none;
  std::optional<double> scale;
  bool lse = false;
  ThreadOptions threads;
};

/// The axes of `x` with another width, for the output.
OwnTensor output_like(const ConstTensorView& q, std::int64_t width) {
  Dims shape = q.shape();
  shape[q.axes().find('D')] = width;
  return {q.axes(), shape, q.dtype()};
}

OwnTensor lse_like(const ConstTensorView& q) {
  const ConstTensorView without_channels = q.select('D', 0);
  return {without_channels.axes(), without_channels.shape(), q.dtype() == DType::f64 ? DType::f64 : DType::f32};
}

/// Where the queries stand: as --q-offset or --q-position-ids say; else where the keys do, the last query with the last
/// key where there are more or fewer queries. Refers to the positions of the keys.
class QueryPositions {
 public:
  QueryPositions(const TensorFile& file, const Options& options, const ConstTensorView& q, const ConstTensorView& k,
                 const ChosenPositions& of_keys)
      : positions_(of_keys.positions()), length_(of_keys.length()), description_(of_keys.description()) {
    if (options.q_positions.given()) {
      chosen_.emplace(file, options.q_positions, q);
      positions_ = chosen_->positions();
      length_ = std::max(length_, chosen_->length());
      description_ = "keys " + of_keys.description() + "; queries " + chosen_->description();
    } else if (q.size('S') != k.size('S')) {
      align_at_the_end(options.causal, q.size('S'), k.size('S'));
      description_ = "keys " + of_keys.description() + "; the last query with the last key";
    }
  }

  const Positions& positions() const { return positions_; }
  std::int64_t length() const { return length_; }  ///< the largest position of queries and keys + 1
  const std::string& description() const { return description_; }

 private:
  void align_at_the_end(Causal causal, std::int64_t num_queries, std::int64_t num_keys) {
    const std::string lengths = std::to_string(num_queries) + " queries and " + std::to_string(num_keys) + " keys";
    if (causal != Causal::bottom_right) {
      throw Error(ErrorCode::invalid_argument,
                  ("attend: say with --q-offset or --q-position-ids where the queries stand: there are " + lengths +
                   ", and only bottom_right puts the last query with the last key")
                      .c_str());
    }
    if (!positions_.position_ids) {
      positions_.offset += num_keys - num_queries;
      return;
    }
    if (num_queries > num_keys) {
      throw Error(ErrorCode::invalid_argument, ("attend: say with --q-position-ids where the queries stand: there are " +
                                                lengths + " with a position id each")
                                                   .c_str());
    }
    positions_.position_ids = positions_.position_ids.slice('S', num_keys - num_queries, num_keys);
  }

  std::optional<ChosenPositions> chosen_;
  Positions positions_;
  std::int64_t length_;
  std::string description_;
};

int run(const Options& options) {
  if (options.scale && *options.scale == 0) {
    throw Error(ErrorCode::invalid_argument, "attend: --scale must not be 0: every key would weigh the same");
  }
  const TensorFile file(options.file.c_str());
  const ConstTensorView q = view_of(file, options.file, options.q, options.axes);
  const ConstTensorView k = view_of(file, options.file, options.k, options.axes);
  const ConstTensorView v = view_of(file, options.file, options.v, options.axes);
  const ChosenPositions k_positions(file, options.k_positions, k);
  const QueryPositions q_positions(file, options, q, k, k_positions);
  const RotationSource source(options.rotation);
  const Rotation rotation = source.rotation(q_positions.length());
  if (source.layer() != nullptr) require_plain_attention("attend", *source.layer(), k.size('S'), q_positions.length());

  ThreadPool pool = options.threads.pool();
  OwnTensor out = output_like(q, v.size('D'));
  OwnTensor lse = lse_like(q);
  AttentionOptions how{.rotation = &rotation,
                       .q_positions = q_positions.positions(),
                       .k_positions = k_positions.positions(),
                       .precision = options.precision,
                       .causal = options.causal,
                       .scale = options.scale.value_or(source.softmax_scale()),
                       .executor = &pool};
  if (options.lse) how.lse = lse.view();
  attention(q, k, v, out.view(), how);

  std::vector<TensorToWrite> outputs{{"attn_out", out.view()}};
  if (options.lse) outputs.push_back({"lse", lse.view()});
  write_tensors(options.out.c_str(), outputs);
  std::cerr << "rotary: positions: " << q_positions.description() << '\n';
  return Exit::right;
}

}  // namespace

void add_attend(CLI::App& program, Command& command) {
  auto* app = program.add_subcommand(
      "attend",
      "Example: rotary attend layer-00.safetensors --model config.json --causal bottom_right -o out.safetensors\n\n"
      "Turns q and k of FILE by their positions, attends, and writes attn_out to OUT.\n\n"
      "Keys stand at position_ids of FILE, else at 0, 1, 2, …, or as --offset or --position-ids say. Queries stand where\n"
      "the keys do. Where their number differs, bottom_right puts the last query with the last key, as in decoding with a\n"
      "cache; otherwise --q-offset or --q-position-ids must say it.");
  auto options = std::make_shared<Options>();
  app->add_option("FILE", options->file, "safetensors or .npz with q, k and v, not rotated")->required();
  app->add_option("-o,--out", options->out, "What to write: .safetensors, .npz or .npy")
      ->required()
      ->check(ends_in({".safetensors", ".npz", ".npy"}));
  app->add_option("--q", options->q, "Name of the queries in FILE (default: q)");
  app->add_option("--k", options->k, "Name of the keys in FILE (default: k)");
  app->add_option("--v", options->v, "Name of the values in FILE (default: v)");
  add_axes(*app, options->axes);
  options->rotation.add_to(*app);
  options->k_positions.add_to(*app, "", "key");
  options->q_positions.add_to(*app, "q-", "query");
  add_causal(*app, options->causal, "Which keys a query sees")->required();
  app->add_option("--scale", options->scale, "Of the scores, not 0 (default: the model's; by hand 1 / sqrt(head_dim))");
  app->add_flag("--lse", options->lse, "Write lse too: the logarithm of each query's sum");
  add_precision(*app, options->precision);
  options->threads.add_to(*app);
  app->callback([&command, options] { command = [options] { return run(*options); }; });
}

}  // namespace rotary::cli
