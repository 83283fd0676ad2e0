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
  // Each the name of a tensor in the file, or a file with one tensor:
  std::string sinks;
  std::string document_ids, q_document_ids;  ///< of keys; of queries, those of keys where they are as many

  /// Files beside the one with q, k and v that rules come from.
  struct Files {
    std::optional<TensorFile> sinks, document_ids, q_document_ids;
  };

  void add_to(CLI::App& app);
  /// Says in `how` what was said for these queries and keys, and leaves the rest. Tensors come from `file`, or from another,
  /// which `files` then holds.
  void add_to(AttentionOptions& how, const ConstTensorView& q, const ConstTensorView& k, const TensorFile& file,
              Files& files) const;
};

}  // namespace rotary::cli
