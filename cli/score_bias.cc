#include "score_bias.h"

#include <cmath>

#include "base/fail.h"
#include "command.h"
#include "rotation/positions.h"
#include "tensors.h"

namespace rotary::cli {
namespace {

/// Whether every token stands one position after the one before it.
bool step_by_one(const ConstTensorView& x, const Positions& positions) {
  const ConstTensorView& ids = positions.position_ids;
  if (!ids) return true;
  for (std::int64_t b = 0; b < ids.size('B'); ++b) {
    const ConstTensorView row = ids.has('B') ? ids.slice('B', b, b + 1) : ids;
    const ConstTensorView first_row = x.has('B') ? x.slice('B', 0, 1) : x;
    for (std::int64_t s = 0; s + 1 < x.size('S'); ++s) {
      const auto position = [&](std::int64_t token) {
        return position_range(first_row.slice('S', token, token + 1), {.position_ids = row.slice('S', token, token + 1)})
            .highest;
      };
      if (position(s + 1) - position(s) != 1) return false;
    }
  }
  return true;
}

/// Where packed sequences begin, of `length` tokens.
std::vector<bool> starts_of(const ConstTensorView& cu_seqlens, std::int64_t length) {
  std::vector<bool> starts(static_cast<std::size_t>(length));
  for (std::int64_t i = 0; cu_seqlens && i < cu_seqlens.size('N'); ++i) {
    const std::int64_t start = whole_number(cu_seqlens, i * cu_seqlens.stride('N'));
    if (start >= 0 && start < length) starts[static_cast<std::size_t>(start)] = true;
  }
  return starts;
}

}  // namespace

void BiasOptions::add_to(CLI::App& app) {
  auto* tensor =
      app.add_option("--mask", mask,
                     "Tensor of FILE, or a file, of numbers to add to the scores, or of booleans, true where a key\n"
                     "is seen: queries x keys, before them heads, before those batch rows")
          ->check(not_empty());
  app.add_flag("--alibi", alibi, "Add ALiBi's bias to the scores, in place of a rotation")->excludes(tensor);
}

ScoreBias::ScoreBias(const TensorFile& file, const BiasOptions& options, std::int64_t num_q_heads) {
  if (!options.mask.empty()) {
    const StoredTensor& stored = stored_in(file, options.mask, mask_file_);
    const std::size_t rank = stored.shape.size();
    mask_ = view_as(stored, options.mask, rank == 2 ? "QK" : rank == 3 ? "HQK" : "BHQK");
  }
  if (options.alibi) alibi_ = PositionBias::alibi(alibi_slopes(num_q_heads));
}

void ScoreBias::add_to(AttentionOptions& how) const {
  how.attn_mask = mask_;
  if (alibi_) how.bias = &*alibi_;
}

std::vector<double> ScoreBias::decay(Causal causal, const ConstTensorView& k, const Positions& positions) const {
  if (mask_) {
    fail_unsupported(
        "attend",
        "--mask does not go with --linear: keys are summed before any query comes, so that nothing can be added to "
        "one query's scores; --padding leaves out keys for all queries");
  }
  if (!alibi_) return {};
  require_factorable(*alibi_, causal);
  if (!step_by_one(k, positions)) {
    fail_unsupported("attend", "--alibi with --linear is a decay from token to token: positions must grow by 1");
  }
  if (k.size('H') != alibi_->num_heads()) {
    fail_unsupported(
        "attend",
        "--alibi with --linear is a decay of the sums, of which each KV head has one: there must be as many query "
        "heads, got ",
        alibi_->num_heads(), " for ", k.size('H'));
  }
  std::vector<double> decay;
  for (std::int64_t h = 0; h < alibi_->num_heads(); ++h) decay.push_back(std::exp(alibi_->at(h, 1, 0)));
  return decay;
}

void ScoreBias::require_tokens_side_by_side(const ConstTensorView& key_padding_mask,
                                            const ConstTensorView& cu_seqlens) const {
  const ConstTensorView& mask = key_padding_mask;
  if (!alibi_ || !mask || mask.dtype() != DType::boolean) return;  // another dtype is for linear_attention() to refuse
  const char tokens = mask.has('T') ? 'T' : 'S';
  const std::vector<bool> starts = starts_of(cu_seqlens, mask.size(tokens));
  for (std::int64_t b = 0; b < mask.size('B'); ++b) {
    bool after_token = false, after_gap = false;
    for (std::int64_t s = 0; s < mask.size(tokens); ++s) {
      if (starts[static_cast<std::size_t>(s)]) after_token = after_gap = false;
      const bool present = is_token(mask, b, s);
      if (present && after_gap) {
        fail_unsupported(
            "attend",
            "--alibi with --linear is a decay from token to token, which skips what --padding leaves out: that must lie "
            "before the first token or after the last, got some before token ",
            s);
      }
      after_token = after_token || present;
      after_gap = after_token && !present;
    }
  }
}

}  // namespace rotary::cli
