// What attend adds to the scores: a tensor of the file, or ALiBi.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "rotary/position_bias.hpp"
#include "tensors.h"

namespace rotary::cli {

struct BiasOptions {
  std::string mask;  ///< the name of a tensor in the file, or a file with one tensor
  bool alibi = false;

  void add_to(CLI::App& app);
};

class ScoreBias {
 public:
  ScoreBias(const TensorFile& file, const BiasOptions& options, std::int64_t num_q_heads);

  /// For softmax attention.
  void add_to(AttentionOptions& how) const;
  /// For linear attention: what each KV head keeps of a key from token to token; empty where nothing is added. Error
  /// (unsupported) for what it cannot do.
  std::vector<double> decay(Causal causal, const ConstTensorView& k, const Positions& positions) const;
  /// Error (unsupported) where ALiBi, which goes by position, would meet padding between tokens, which a decay skips.
  void require_tokens_side_by_side(const ConstTensorView& key_padding_mask, const ConstTensorView& cu_seqlens) const;

 private:
  std::optional<TensorFile> mask_file_;
  ConstTensorView mask_;
  std::optional<PositionBias> alibi_;
};

}  // namespace rotary::cli
