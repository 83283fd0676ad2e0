// What attend --linear takes: the method, and the numbers that only some methods have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "rotary/attention.hpp"
#include "rotary/linear_attention.hpp"

namespace rotary::cli {

/// How the features of a method get their positions.
enum class Turned {
  never,
  by_rotation,  ///< of the model, or by hand
  by_channel,   ///< LRPE: a frequency per channel, by --base
  by_cosine,    ///< cosFormer: one frequency, by --M
};

struct LinearMethod {
  const char* name;
  Features features;
  Turned turned;
  Rotate rotate;
  Normalizer normalizer;

  bool takes_projection() const { return features == Features::favor_plus || features == Features::favor_relu; }
  bool takes_scale() const { return takes_projection() || features == Features::taylor2; }
  /// RetNet's, where none is given.
  bool has_decay() const { return features == Features::identity; }
  bool takes_map() const {
    return turned == Turned::by_rotation && rotate == Rotate::after_map && features == Features::elu_plus_1;
  }
};

struct LinearOptions {
  const LinearMethod* method = nullptr;  ///< nullptr: softmax attention
  Features map = Features::elu_plus_1;
  std::int64_t num_features = 0;
  std::uint64_t seed = 0;
  std::string projection;
  double M = 0;
  std::vector<double> decay;
  std::int64_t chunk_size = LinearAttentionOptions{}.chunk_size;
  bool json = false;

  void add_to(CLI::App& app);
  bool given() const { return method != nullptr; }
  /// Error (invalid_argument) for an option of `app` that the method does not have, and for one that it lacks.
  void check(const CLI::App& app, Causal causal) const;
};

}  // namespace rotary::cli
