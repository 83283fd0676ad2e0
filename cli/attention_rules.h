// What softmax attention takes beside rotation, scale and causality: which keys a query sees, and what is done to scores.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "rotary/attention.hpp"
#include "rotary/tensor_file.hpp"

namespace rotary::cli {

struct AttentionRules {
  std::optional<std::int64_t> window_left, window_right, chunk_size;
  std::optional<double> softcap;
  std::string sinks;  ///< the name of a tensor in the file, or a file with one tensor

  void add_to(CLI::App& app);
  /// Says in `how` what was said, and leaves the rest. The sinks come from `file`, or from another, which `sinks_file` holds.
  void add_to(AttentionOptions& how, const TensorFile& file, std::optional<TensorFile>& sinks_file) const;
};

}  // namespace rotary::cli
