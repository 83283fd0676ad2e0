// What attend --linear takes: the method, and the numbers that only some methods have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "rotary/attention.hpp"
#include "rotary/linear_attention.hpp"
#include "tools/linear_methods.h"

namespace rotary::cli {

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
