// rotary attend: attention over q, k and v of a file, with the rotation inside.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "attention_rules.h"
#include "base/fail.h"
#include "command.h"
#include "linear_call.h"
#include "models/layer_attention.h"
#include "output.h"
#include "query_positions.h"
#include "rotary/attention.hpp"
#include "rotation/positions.h"
#include "rotation_options.h"
#include "score_bias.h"
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
  std::string padding;  // the name of a tensor in the file, or a file with one tensor
  AttentionRules rules;
  BiasOptions bias;
  LinearOptions linear;
  ThreadOptions threads;
  const CLI::App* app = nullptr;  // who was asked for what
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

/// What is read for either kind of attention.
struct Inputs {
  ConstTensorView q, k, v;
  Positions q_positions = {}, k_positions = {};
  std::optional<Rotation> rotation = {};  // none: for a method or a bias that takes its place
  double scale = 0;
  ConstTensorView key_padding_mask = {};
  std::optional<LayerAttention> layer = {};  // of a model, for softmax attention
};

bool takes_rotation(const Options& options) {
  return options.linear.given() ? options.linear.method->turned == Turned::by_rotation : !options.bias.alibi;
}

/// Where nothing turns, queries stand nowhere.
bool takes_positions(const Options& options) {
  return !options.linear.given() || options.linear.method->turned != Turned::never;
}

bool takes_scale(const Options& options) { return !options.linear.given() || options.linear.method->takes_scale(); }

void attend(const Options& options, const TensorFile& file, const Inputs& in, const TensorView& out, const TensorView& lse,
            Executor& executor) {
  AttentionOptions how{.q_positions = in.q_positions,
                       .k_positions = in.k_positions,
                       .precision = options.precision,
                       .causal = options.causal,
                       .key_padding_mask = in.key_padding_mask,
                       .cu_seqlens = in.k_positions.cu_seqlens,
                       .scale = in.scale,
                       .lse = lse,
                       .executor = &executor};
  if (in.rotation) how.rotation = &*in.rotation;
  if (in.layer) in.layer->add_to(how);
  AttentionRules::Files rule_files;
  options.rules.add_to(how, in.q, in.k, file, rule_files);
  const ScoreBias bias(file, options.bias, in.q.size('H'));
  bias.add_to(how);
  ProgressBar bar("attend");
  how.progress = bar.progress();
  attention(in.q, in.k, in.v, out, how);
}

void attend_linearly(const Options& options, const TensorFile& file, const Inputs& in, const TensorView& out,
                     Executor& executor) {
  LinearOptions linear = options.linear;
  const ScoreBias bias(file, options.bias, in.q.size('H'));
  const std::vector<double> decay = bias.decay(options.causal, in.k, in.k_positions);
  if (!decay.empty()) linear.decay = decay;
  LinearCall call(linear, file, in.k, in.rotation, options.rotation.base);
  LinearAttentionOptions& how = call.how();
  bias.require_tokens_side_by_side(in.key_padding_mask, in.k_positions.cu_seqlens);
  how.key_padding_mask = in.key_padding_mask;
  if (how.rotation != nullptr) {
    how.q_positions = in.q_positions;
    how.k_positions = in.k_positions;
  }
  if (takes_scale(options)) how.feature_map.scale = in.scale;
  how.is_causal = options.causal != Causal::none;
  how.cu_seqlens = in.k_positions.cu_seqlens;
  how.executor = &executor;
  call.attend(in.q, in.k, in.v, out);
}

void check(const Options& options) {
  if (options.scale && *options.scale == 0)
    fail_argument("attend", "--scale must not be 0: every key would weigh the same");
  if (options.linear.given()) {
    if (options.bias.alibi && !options.linear.decay.empty()) {
      fail_argument("attend", "--alibi does not go with --decay: with --linear it is one");
    }
    return options.linear.check(*options.app, options.causal);
  }
  for (const char* name : {"--model", "--layer", "--base", "--head-dim", "--rotary-dim", "--rotary-offset", "--pairing"}) {
    if (options.bias.alibi && options.app->count(name) > 0) fail_argument("attend", name, " does not go with --alibi");
  }
}

/// Of the batch rows or packed sequences.
std::int64_t longest_sequence(const ConstTensorView& k, const Positions& positions) {
  const ConstTensorView& ends = positions.cu_seqlens;
  if (!ends) return k.size(k.has('T') ? 'T' : 'S');
  std::int64_t longest = 0;
  for (std::int64_t n = 1; n < ends.size('N'); ++n) {
    const std::int64_t step = ends.stride('N');
    longest = std::max(longest, whole_number(ends, n * step) - whole_number(ends, (n - 1) * step));
  }
  return longest;
}

/// A model's window ends at the query's own key: that on the diagonal of the causal rule, or the key of the same number.
void check_window(const Options& options, const LayerRotation& layer) {
  if (layer.sliding_window() == 0 || options.rules.window_left) return;
  if (options.causal == Causal::none && options.q_positions.given()) {
    fail_argument("attend", "give --window-left: the layer has a sliding window of ", layer.sliding_window(),
                  " keys, and neither --causal none nor a position says which key is a query's own");
  }
}

void check_sinks(const Options& options, const LayerRotation& layer) {
  if (!layer.has_sinks() || !options.rules.sinks.empty()) return;
  fail_argument("attend",
                "give --sinks: the layer has a number per query head in its sums, which its checkpoint holds and its "
                "description does not");
}

int run(const Options& options) {
  check(options);
  const TensorFile file(options.file.c_str());
  Inputs in{.q = view_of(file, options.file, options.q, options.axes),
            .k = view_of(file, options.file, options.k, options.axes),
            .v = view_of(file, options.file, options.v, options.axes)};
  if (in.q.has('T') && in.q.size('T') != in.k.size('T')) {
    fail_argument("attend", "packed queries must be as many as keys, got ", in.q.size('T'), " and ", in.k.size('T'));
  }
  const ChosenPositions k_positions(file, options.k_positions, in.k);
  in.k_positions = k_positions.positions();
  std::optional<QueryPositions> q_positions;
  std::int64_t length = k_positions.length();
  if (takes_positions(options)) {
    q_positions.emplace(file, options.q_positions, options.causal, in.q, in.k, k_positions);
    in.q_positions = q_positions->positions();
    length = q_positions->length();
  }
  in.scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(in.q.size('D'))));
  if (takes_rotation(options)) {
    const RotationSource source(options.rotation);
    in.rotation = source.rotation(length);
    in.scale = options.scale.value_or(source.softmax_scale());
    if (in.scale == 0 && takes_scale(options)) {
      fail_argument("attend",
                    "give --scale: this model multiplies its scores by a factor that its description does not state");
    }
    if (const LayerRotation* layer = source.layer()) {
      if (options.linear.given()) {
        require_plain_attention("attend", *layer, longest_sequence(in.k, in.k_positions), length);
      } else {
        check_window(options, *layer);
        check_sinks(options, *layer);
        in.layer.emplace("attend", *layer, in.q, in.q_positions);
      }
    }
  }
  std::optional<TensorFile> padding_file;
  if (!options.padding.empty()) {
    in.key_padding_mask = view_per_token(stored_in(file, options.padding, padding_file), options.padding, in.k);
  }

  ThreadPool pool = options.threads.pool();
  OwnTensor out = output_like(in.q, in.v.size('D')), lse = lse_like(in.q);
  std::vector<TensorToWrite> outputs{{"attn_out", out.view()}};
  if (options.lse) outputs.push_back({"lse", lse.view()});
  if (options.linear.given()) attend_linearly(options, file, in, out.view(), pool);
  else attend(options, file, in, out.view(), options.lse ? lse.view() : TensorView(), pool);
  write_tensors(options.out.c_str(), outputs);
  if (q_positions) std::cerr << "rotary: positions: " << q_positions->description() << '\n';
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
      "cache; otherwise --q-offset or --q-position-ids must say it.\n\n"
      "A model's window, chunks, cap and factors on queries hold unless others are given; its sinks must be, with "
      "--sinks.\n\n"
      "--linear computes linear attention: time grows with the length, memory does not. roformer, rotated, pair-norms and\n"
      "retention turn features; performer, performer-relu, one-plus-cos and taylor2 turn q and k; elu turns nothing;\n"
      "cosformer takes --M and lrpe --base in place of a rotation. What is true of the weights is said on stderr.");
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
  options->k_positions.add_cu_seqlens_to(*app);
  options->q_positions.add_to(*app, "q-", "query");
  add_causal(*app, options->causal, "Which keys a query sees")->required();
  app->add_option("--scale", options->scale, "Of the scores, not 0 (default: the model's; by hand 1 / sqrt(head_dim))");
  app->add_flag("--lse", options->lse, "Write lse too: the logarithm of each query's sum");
  add_precision(*app, options->precision);
  options->bias.add_to(*app);
  app->add_option("--padding", options->padding, "Tensor of FILE, or a file, of booleans: true for a key that is a token")
      ->check(not_empty());
  options->rules.add_to(*app);
  options->linear.add_to(*app);
  options->threads.add_to(*app);
  options->app = app;
  app->callback([&command, options] { command = [options] { return run(*options); }; });
}

}  // namespace rotary::cli
