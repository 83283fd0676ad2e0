#include "linear_options.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <system_error>

#include "base/fail.h"
#include "command.h"

namespace rotary::cli {
namespace {

using Names = std::initializer_list<const char*>;

/// A whole number of 64 bits without a sign.
CLI::Validator natural_number() {
  const auto check = [](const std::string& given) -> std::string {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), value);
    const bool whole = error == std::errc() && end == given.data() + given.size();
    return whole ? "" : "must be a whole number from 0 to 2^64 - 1, got " + given;
  };
  return {check, ""};
}

std::vector<double> decays_of(const std::string& list) {
  std::vector<double> decays;
  const char *from = list.data(), *const last = from + list.size();
  while (true) {
    const auto [end, error] = std::from_chars(from, last, decays.emplace_back());
    if (error != std::errc() || (end != last && *end != ',')) {
      fail_argument("attend", "--decay must be one number, or several with commas between them, got ", list);
    }
    if (end == last) return decays;
    from = end + 1;
  }
}

}  // namespace

void LinearOptions::add_to(CLI::App& app) {
  std::vector<std::pair<std::string, const LinearMethod*>> choices;
  choices.reserve(linear_methods.size());
  for (const LinearMethod& one : linear_methods) choices.emplace_back(one.name, &one);
  auto* linear = add_choice<const LinearMethod*>(app, "--linear", method, std::move(choices),
                                                 "Linear attention by this method, instead of softmax attention");
  const auto with_linear = [&](CLI::Option* option) { return option->needs(linear); };
  with_linear(add_choice<Features>(
      app, "--map", map, {{"elu", Features::elu_plus_1}, {"relu", Features::relu}, {"identity", Features::identity}},
      "roformer, rotated, pair-norms: the features (default: elu, which is elu + 1)"));
  auto* projection_option = with_linear(
      app.add_option("--projection", projection, "performer: tensor of FILE, or a file, with a row per feature"));
  projection_option->check(not_empty());
  auto* features_option = with_linear(app.add_option("--features", num_features, "performer: how many features to draw"));
  features_option->check(at_least(1))->excludes(projection_option);
  with_linear(app.add_option("--seed", seed, "performer: draw them from this seed (default: 0)"))
      ->check(natural_number())
      ->needs(features_option);
  with_linear(app.add_option("--M", M, "cosformer: the distance at which a weight reaches 0, a constant of the model"));
  with_linear(app.add_option_function<std::string>(
      "--decay", [this](const std::string& list) { decay = decays_of(list); },
      "What a token leaves of each earlier key, above 0 and at most 1: one number, or one per KV\n"
      "head, with commas (default: 1; retention: RetNet's, 1 - 2^(-5 - h) of KV head h)"));
  with_linear(app.add_option("--chunk", chunk_size, "Tokens that are multiplied together (default: 16)"))
      ->check(at_least(1));
  with_linear(app.add_flag("--json", json, "Print the report as JSON"));
}

void LinearOptions::check(const CLI::App& app, Causal causal) const {
  const std::string linear = std::string("--linear ") + method->name;
  const auto refuse_unless = [&](bool fits, const Names& names, const std::string& why) {
    for (const char* name : names) {
      if (!fits && app.count(name) > 0) fail_argument("attend", name, " does not go with ", linear, ": ", why);
    }
  };
  const auto require = [&](bool needed, const Names& names, const std::string& rule) {
    const bool given = std::any_of(names.begin(), names.end(), [&](const char* name) { return app.count(name) > 0; });
    if (needed && !given) fail_argument("attend", linear, " needs ", rule);
  };
  if (method->has_decay() && causal == Causal::none) {
    fail_argument("attend", linear,
                  " needs --causal top_left: it decays from key to query, and has no other order than that of the tokens");
  }
  const std::string no_rotation = method->turned == Turned::never       ? "nothing turns"
                                  : method->turned == Turned::by_cosine ? "every channel turns by pi / (2 M)"
                                                                        : "its frequencies are one per channel, by --base";
  refuse_unless(method->turned == Turned::by_rotation,
                {"--model", "--layer", "--head-dim", "--rotary-dim", "--rotary-offset", "--pairing"}, no_rotation);
  refuse_unless(method->turned == Turned::by_rotation || method->turned == Turned::by_channel, {"--base"}, no_rotation);
  refuse_unless(method->turned != Turned::never, {"--offset", "--position-ids", "--q-offset", "--q-position-ids"},
                no_rotation);
  refuse_unless(method->takes_map(), {"--map"}, "the method says what its features are");
  refuse_unless(method->takes_projection(), {"--features", "--seed", "--projection"}, "it has no projection");
  refuse_unless(method->turned == Turned::by_cosine, {"--M"}, "only cosformer has it");
  refuse_unless(method->takes_scale(), {"--scale"}, "only taylor2 and the performers scale their scores");
  refuse_unless(false, {"--lse"}, "there is no exponential whose sum could be written");
  refuse_unless(false, {"--precision"}, "its angles are always exact");
  refuse_unless(false, {"--window-left", "--window-right", "--chunk-size", "--softcap", "--sinks", "--document-ids"},
                "keys are summed before any query comes, so that there is no single score");
  require(method->turned == Turned::by_cosine, {"--M"},
          "--M: the distance at which a weight reaches 0. It is a constant of the model and not the length, or every sum "
          "that is kept would be wrong as soon as the length grows");
  require(method->turned == Turned::by_channel, {"--base"}, "--base: channel p of d turns by base^(-p / d) per position");
  require(method->takes_projection(), {"--features", "--projection"}, "--features N (with --seed S) or --projection");
}

}  // namespace rotary::cli
