#include "attention_rules.h"

#include "command.h"
#include "tensors.h"

namespace rotary::cli {

void AttentionRules::add_to(CLI::App& app) {
  app.add_option("--window-left", window_left,
                 "A query sees so many keys before its own (default: as the model's window says; by hand all)")
      ->check(at_least(0));
  app.add_option("--window-right", window_right, "And so many after it (default: as the model's window says; by hand all)")
      ->check(at_least(0));
  app.add_option("--chunk-size", chunk_size,
                 "A query sees its own chunk of so many positions (default: the model's; by hand all)")
      ->check(at_least(1));
  app.add_option("--softcap", softcap, "Scores become softcap * tanh(score / softcap); 0: no cap (default: the model's)");
  app.add_option("--sinks", sinks, "Tensor of FILE, or a file: per query head, the score of a key without a value")
      ->check(not_empty());
}

void AttentionRules::add_to(AttentionOptions& how, const TensorFile& file, std::optional<TensorFile>& sinks_file) const {
  if (window_left) how.window_left = *window_left;
  if (window_right) how.window_right = *window_right;
  if (chunk_size) how.chunk_size = *chunk_size;
  if (softcap) how.softcap = *softcap;
  if (!sinks.empty()) how.sinks = view_as(stored_in(file, sinks, sinks_file), sinks, "H");
}

}  // namespace rotary::cli
