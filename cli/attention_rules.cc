#include "attention_rules.h"

#include "base/fail.h"
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
  auto* of_keys = app.add_option("--document-ids", document_ids,
                                 "Tensor of FILE, or a file, with an int32 or int64 per key: a query sees keys of its own")
                      ->check(not_empty());
  app.add_option("--q-document-ids", q_document_ids, "The same per query (default: as the keys, where they are as many)")
      ->check(not_empty())
      ->needs(of_keys);
  app.add_option("--softcap", softcap, "Scores become softcap * tanh(score / softcap); 0: no cap (default: the model's)");
  app.add_option("--sinks", sinks, "Tensor of FILE, or a file: per query head, the score of a key without a value")
      ->check(not_empty());
}

void AttentionRules::add_to(AttentionOptions& how, const ConstTensorView& q, const ConstTensorView& k,
                            const TensorFile& file, Files& files) const {
  if (window_left) how.window_left = *window_left;
  if (window_right) how.window_right = *window_right;
  if (chunk_size) how.chunk_size = *chunk_size;
  if (softcap) how.softcap = *softcap;
  if (!sinks.empty()) how.sinks = view_as(stored_in(file, sinks, files.sinks), sinks, "H");
  if (document_ids.empty()) return;
  how.k_document_ids = view_per_token(stored_in(file, document_ids, files.document_ids), document_ids, k);
  how.q_document_ids = how.k_document_ids;
  if (!q_document_ids.empty()) {
    how.q_document_ids = view_per_token(stored_in(file, q_document_ids, files.q_document_ids), q_document_ids, q);
  } else if (const char tokens = k.has('T') ? 'T' : 'S'; q.size(tokens) != k.size(tokens)) {
    fail_argument("attend", "give --q-document-ids: there are ", q.size(tokens), " queries and ", k.size(tokens), " keys");
  }
}

}  // namespace rotary::cli
