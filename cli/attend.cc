// rotary attend: attention over q, k and v of a file, with the rotation inside.
#include <iostream>
#include <memory>
#include <string>

#include "command.h"
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
  std::string axes = "BHSD";
  RotationOptions rotation;
  PositionOptions positions;
  Precision precision = Precision::exact;
  Causal causal = Causal::none;
  double scale = 0;
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

void refuse_window(std::int64_t window, std::int64_t num_keys) {
  if (window == 0 || num_keys <= window) return;
  throw Error(ErrorCode::unsupported,
              ("attend: the layer's sliding window of " + std::to_string(window) + " keys hides some of the " +
               std::to_string(num_keys) + ", which is not supported yet")
                  .c_str());
}

int run(const Options& options) {
  const TensorFile file(options.file.c_str());
  const ConstTensorView q = view_of(file, options.file, options.q, options.axes.c_str());
  const ConstTensorView k = view_of(file, options.file, options.k, options.axes.c_str());
  const ConstTensorView v = view_of(file, options.file, options.v, options.axes.c_str());
  const ChosenPositions positions(file, options.positions, k);
  const RotationSource source(options.rotation);
  const Rotation rotation = source.rotation(positions.length());
  refuse_window(source.sliding_window(), k.size('S'));

  ThreadPool pool = options.threads.pool();
  OwnTensor out = output_like(q, v.size('D'));
  OwnTensor lse = lse_like(q);
  AttentionOptions how{.rotation = &rotation,
                       .q_positions = positions.positions(),
                       .k_positions = positions.positions(),
                       .precision = options.precision,
                       .causal = options.causal,
                       .scale = options.scale == 0 ? source.softmax_scale() : options.scale,
                       .executor = &pool};
  if (options.lse) how.lse = lse.view();
  attention(q, k, v, out.view(), how);

  std::vector<TensorToWrite> outputs{{"attn_out", out.view()}};
  if (options.lse) outputs.push_back({"lse", lse.view()});
  write_tensors(options.out.c_str(), outputs);
  std::cerr << "rotary: positions: " << positions.description() << '\n';
  return Exit::right;
}

}  // namespace

void add_attend(CLI::App& program, Command& command) {
  auto* app = program.add_subcommand(
      "attend",
      "Example: rotary attend layer-00.safetensors --model config.json --causal bottom_right -o out.safetensors\n\n"
      "Turns q and k of FILE by their positions, attends, and writes attn_out to OUT.");
  auto options = std::make_shared<Options>();
  app->add_option("FILE", options->file, "safetensors or .npz with q, k and v, not rotated")->required();
  app->add_option("-o,--out", options->out, "What to write: .safetensors, .npz or .npy")->required();
  app->add_option("--q", options->q, "Name of the queries in FILE (default: q)");
  app->add_option("--k", options->k, "Name of the keys in FILE (default: k)");
  app->add_option("--v", options->v, "Name of the values in FILE (default: v)");
  add_axes(*app, options->axes);
  options->rotation.add_to(*app);
  options->positions.add_to(*app);
  add_causal(*app, options->causal, "Which keys a query sees")->required();
  app->add_option("--scale", options->scale, "Of the scores (default: the model's; by hand 1 / sqrt(head_dim))");
  app->add_flag("--lse", options->lse, "Write lse too: the logarithm of each query's sum");
  add_precision(*app, options->precision);
  options->threads.add_to(*app);
  app->callback([&command, options] { command = [options] { return run(*options); }; });
}

}  // namespace rotary::cli
