#include "models/huggingface/rotary_width.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace rotary::huggingface {

namespace {

class WidthReader {
 public:
  WidthReader(std::string rule, const Spellings& spellings, const Part& part, const RopeQuestion& question,
              Provenance& provenance)
      : rule_(std::move(rule)), spellings_(spellings), part_(part), question_(question), provenance_(provenance) {}

  /// Channels that turn.
  std::int64_t read() {
    const Slice& slice = part_.family.slice;
    switch (slice.kind) {
      case Slice::Kind::mla: return taken(question_.mla_rotary, part_.config.source("qk_rope_head_dim"));
      case Slice::Kind::projected: return projected();
      case Slice::Kind::channels: return channels();
      case Slice::Kind::share:
      case Slice::Kind::whole: break;
    }
    const auto share = given_share();
    if (slice.kind == Slice::Kind::whole) return whole(share);
    return share ? part_of_head(share->value, share->source) : default_width();
  }

 private:
  std::optional<Found<double>> given_share() const {
    if (question_.share_of_layer) return question_.share_of_layer;
    const std::string key =
        part_.family.slice.kind == Slice::Kind::share ? std::string(part_.family.slice.key) : "partial_rotary_factor";
    return agreed_number(spellings_, part_, "partial_rotary_factor", key, "RP017");
  }

  /// A share wins, as in transformers, but has to agree.
  std::int64_t channels() {
    const std::string key(part_.family.slice.key);
    const auto found = part_.config.count(key);
    if (found && (found->value % 2 != 0 || found->value > question_.head_dim)) {
      part_.config.refuse(key, sentence("must be even and at most head_dim ", question_.head_dim));
    }
    const auto share = given_share();
    if (share) {
      const std::int64_t width = part_of_head(share->value, share->source);
      if (found && found->value != width) {
        part_.findings.tolerate("RP017", part_.config.path(),
                                sentence(key, " must agree with partial_rotary_factor, got ", found->value, " and ",
                                         share->value, " of ", question_.head_dim, " (", share->source, ")"),
                                "transformers takes the factor");
      }
      return width;
    }
    if (found) return taken(found->value, found->source);
    if (part_.config.is_null(key) && part_.family.slice.otherwise != 0) part_.config.refuse(key, "must not be null");
    return default_width();
  }

  std::int64_t projected() {
    const auto projection = part_.config.count("projection_dim");
    const auto heads = part_.config.count("num_attention_heads");
    const std::int64_t width = std::max<std::int64_t>(
        32, (projection ? projection->value : 768) / (2 * (heads ? heads->value : part_.family.defaults.q_heads)));
    if (width % 2 != 0 || width > question_.head_dim) {
      part_.config.refuse("projection_dim",
                          sentence("/ (2 * num_attention_heads) must be even and at most head_dim ", question_.head_dim));
    }
    return taken(width, "max(32, projection_dim / (2 * num_attention_heads))");
  }

  std::int64_t whole(const std::optional<Found<double>>& share) {
    if (share && share->value != 1) {
      if (share->value > 1) refuse_share(*share);
      const std::string rule = sentence("partial_rotary_factor must be 1 or missing for ", part_.family.model_type,
                                        ", whose code turns the whole head, got ", share->value);
      // The other rules would make a table for a part of the head, on which that code then fails.
      if (!part_.findings.lenient() || rule_ != "default") fail_unsupported(part_.config.path(), rule);
      part_.findings.warn("RP025", rule + "; transformers does not read it with the plain rule");
    }
    return taken(question_.head_dim, part_.code("turns the whole head"));
  }

  std::int64_t default_width() {
    const SortRope* const own = part_.family.rope_of(question_.sort);
    const double otherwise = own != nullptr && own->partial != 0 ? own->partial : part_.family.slice.otherwise;
    if (part_.family.slice.kind == Slice::Kind::channels) {
      const auto width = static_cast<std::int64_t>(otherwise);
      if (width == 0) return taken(question_.head_dim, part_.code("turns the whole head"));
      return taken(std::min(width, question_.head_dim), part_.class_default(sentence(width, " channels")));
    }
    return part_of_head(otherwise, part_.class_default(sentence("partial_rotary_factor ", otherwise)));
  }

  std::int64_t part_of_head(double share, const std::string& source) {
    if (share > 1) refuse_share({share, source});
    const double channels = static_cast<double>(question_.head_dim) * share;
    const auto width = static_cast<std::int64_t>(channels);
    provenance_.add("partial_rotary_factor", share, source);
    if (width < 2) {
      fail_file(part_.config.path(), "partial_rotary_factor must leave at least two channels, got ", share, " (", source,
                ") of head_dim ", question_.head_dim);
    }
    if (width % 2 != 0) {
      part_.findings.tolerate("RP013", part_.config.path(),
                              sentence("head_dim * partial_rotary_factor must be even, got int(", question_.head_dim, " * ",
                                       share, ") = ", width, " (", source, ")"),
                              sentence("transformers turns ", width + 1, " channels with the exponent of ", width));
    }
    return taken(width, sentence("floor(head_dim * ", share, ")"));
  }

  [[noreturn]] void refuse_share(const Found<double>& share) const {
    fail_file(part_.config.path(), "partial_rotary_factor must be at most 1, as no more than the head can turn, got ",
              share.value, " (", share.source, ")");
  }

  std::int64_t taken(std::int64_t width, const std::string& source) {
    provenance_.add("rotary_dim", width, source);
    return width;
  }

  std::string rule_;
  const Spellings& spellings_;
  const Part& part_;
  const RopeQuestion& question_;
  Provenance& provenance_;
};

}  // namespace

std::int64_t read_rotary_width(const std::string& rule, const Spellings& spellings, const Part& part,
                               const RopeQuestion& question, Provenance& provenance) {
  return WidthReader(rule, spellings, part, question, provenance).read();
}

}  // namespace rotary::huggingface
