#include "models/huggingface/shape.h"

#include <optional>

#include "models/description.h"
#include "rotary/frequencies.hpp"

namespace rotary::huggingface {
namespace {

class ShapeReader {
 public:
  ShapeReader(const Part& part, Provenance& provenance)
      : part_(part), config_(part.config), defaults_(part.family.defaults), provenance_(provenance) {}

  Shape read() {
    const bool needed = part_.family.positions == PositionKind::rotary;
    Shape shape;
    const std::string half_key(part_.family.half_layers_key);
    if (!half_key.empty() && config_.has(half_key)) {
      shape.num_layers = 2 * take("num_layers", half_key.c_str(), 0, max_layers / 2, true);
      provenance_.add("num_layers", shape.num_layers, "2 * " + config_.source(half_key));
    } else {
      shape.num_layers = take("num_layers", "num_hidden_layers", defaults_.layers, max_layers, true);
    }
    shape.num_q_heads = num_q_heads(needed);
    if (shape.num_q_heads != 0) {
      if (part_.family.slice.kind == Slice::Kind::mla) {
        read_mla(shape);
      } else {
        shape.num_kv_heads = num_kv_heads(shape.num_q_heads);
        shape.head_dim = head_dim(shape.num_q_heads, needed);
      }
    }
    shape.max_position_embeddings = length();
    return shape;
  }

 private:
  /// A number that the file or the class gives.
  std::int64_t take(const char* name, const char* key, std::int64_t otherwise, std::int64_t limit, bool needed) {
    const auto given = config_.count(key);
    if (!given && otherwise == 0) {
      if (needed) config_.refuse(key, "must be given");
      return 0;
    }
    const Found<std::int64_t> found = given ? *given : of_class(key, otherwise);
    if (found.value > limit) config_.refuse(key, sentence("must be at most ", limit));
    provenance_.add(name, found);
    return found.value;
  }

  std::int64_t num_q_heads(bool needed) {
    if (!part_.family.q_heads_factor_key.empty()) return multiplied_heads();
    if (part_.family.q_heads_by_width && !config_.has("num_attention_heads")) {
      const auto hidden = hidden_size();
      const Found<std::int64_t> heads{hidden->value / defaults_.head_dim,
                                      sentence(hidden->source, " / ", defaults_.head_dim)};
      if (heads.value < 1 || heads.value > max_heads) {
        config_.refuse(hidden_key(), sentence("must hold 1 to ", max_heads, " heads of ", defaults_.head_dim, " channels"));
      }
      provenance_.add("num_q_heads", heads);
      return heads.value;
    }
    return take("num_q_heads", "num_attention_heads", defaults_.q_heads, max_heads, needed);
  }

  std::int64_t multiplied_heads() {
    const std::string key(part_.family.q_heads_factor_key);
    const std::int64_t kv_heads = take("num_kv_heads", "num_key_value_heads", defaults_.kv_heads, max_heads, true);
    const std::int64_t factor = take(key.c_str(), key.c_str(), defaults_.q_heads / kv_heads, max_heads / kv_heads, true);
    provenance_.add("num_q_heads", kv_heads * factor, sentence("num_key_value_heads * ", key));
    return kv_heads * factor;
  }

  Found<std::int64_t> of_class(const std::string& key, std::int64_t value) {
    if (!part_.nested) {
      part_.findings.warn("RP010",
                          sentence(key, " is not in the file: ", value, " is the default of ", part_.family.model_type));
    }
    return {value, part_.class_default(sentence(value))};
  }

  std::int64_t num_kv_heads(std::int64_t num_q_heads) {
    const std::string key = "num_key_value_heads";
    Found<std::int64_t> heads{num_q_heads, "as many as query heads, as the file names no other number"};
    const auto flag_of_key =
        part_.family.kv_heads_flag.empty() ? std::nullopt : config_.boolean(std::string(part_.family.kv_heads_flag));
    if (!part_.family.kv_heads_flag.empty() && !(flag_of_key && flag_of_key->value))
      return taken_kv(num_q_heads, key, heads);
    if (const auto given = config_.count(key)) heads = *given;
    else if (defaults_.kv_heads != 0 && !config_.is_null(key)) {
      heads = {defaults_.kv_heads, part_.class_default(sentence(defaults_.kv_heads))};
    }
    if (!part_.family.multi_query_flag.empty()) multi_query(heads);
    return taken_kv(num_q_heads, key, heads);
  }

  /// Falcon: the flag counts over num_kv_heads, but not in the new decoder.
  void multi_query(Found<std::int64_t>& heads) const {
    const std::string key(part_.family.multi_query_flag);
    const auto new_decoder = config_.boolean("new_decoder_architecture");
    const auto flag = config_.boolean(key);
    if ((new_decoder && new_decoder->value) || (flag && !flag->value)) return;
    heads = {1, flag ? flag->source : part_.class_default(key + " true")};
  }

  std::int64_t taken_kv(std::int64_t num_q_heads, const std::string& key, const Found<std::int64_t>& heads) {
    if (num_q_heads % heads.value != 0) {
      fail_file(config_.path(), config_.key(key), " must divide ", config_.key("num_attention_heads"), ", got ",
                heads.value, " (", heads.source, ") and ", num_q_heads);
    }
    provenance_.add("num_kv_heads", heads);
    return heads.value;
  }

  std::int64_t head_dim(std::int64_t num_q_heads, bool needed) {
    Found<std::int64_t> width{};
    // Classes of attention without rotation may save a width of 0.
    const auto given = needed ? config_.count("head_dim") : config_.whole_number("head_dim");
    if (given && given->value != 0 && !part_.family.head_dim_is_hidden_over_heads) width = *given;
    else if (defaults_.head_dim != 0 && !config_.is_null("head_dim")) {
      width = {defaults_.head_dim, part_.class_default(sentence(defaults_.head_dim))};
    } else {
      const auto hidden = hidden_size();
      if (!hidden) {
        if (needed) config_.refuse(hidden_key(), "must be given where there is no head_dim");
        return 0;
      }
      if (hidden->value % num_q_heads != 0) {
        if (!needed) return 0;
        fail_file(config_.path(), config_.key(hidden_key()), " must be a multiple of ", config_.key("num_attention_heads"),
                  " where there is no head_dim, got ", hidden->value, " and ", num_q_heads);
      }
      width = {hidden->value / num_q_heads, hidden->source + " / " + config_.key("num_attention_heads")};
      if (const std::int64_t factor = part_.family.head_dim_factor; factor != 1) {
        width = {width.value * factor, sentence(factor, " * ", width.source)};
      }
    }
    if (needed && (width.value % 2 != 0 || width.value > max_rotary_dim)) {
      fail_file(config_.path(), "head_dim must be even and at most ", max_rotary_dim, ", got ", width.value, " (",
                width.source, ")");
    }
    provenance_.add("head_dim", width);
    return width.value;
  }

  std::string hidden_key() const { return std::string(part_.family.hidden_key); }

  std::optional<Found<std::int64_t>> hidden_size() {
    if (auto given = config_.count(hidden_key())) return given;
    if (defaults_.hidden == 0) return std::nullopt;
    return of_class(hidden_key(), defaults_.hidden);
  }

  /// Heads of two parts: [nope | rope].
  void read_mla(Shape& shape) {
    const std::int64_t nope = take("qk_nope_head_dim", "qk_nope_head_dim", defaults_.nope, max_rotary_dim, true);
    const std::int64_t rope = take("qk_rope_head_dim", "qk_rope_head_dim", defaults_.rope, max_rotary_dim, true);
    if (rope % 2 != 0) config_.refuse("qk_rope_head_dim", "must be even");
    shape.num_kv_heads = shape.num_q_heads;
    provenance_.add("num_kv_heads", shape.num_kv_heads, part_.code("every query head has a key of its own"));
    shape.head_dim = nope + rope;
    shape.mla_rotary = rope;
    provenance_.add("head_dim", shape.head_dim, "qk_nope_head_dim + qk_rope_head_dim");
  }

  Found<std::int64_t> length() {
    const std::string key = "max_position_embeddings";
    Found<std::int64_t> found{0, ""};
    if (const auto given = config_.count(key)) found = *given;
    else if (defaults_.length != 0) found = {defaults_.length, part_.class_default(sentence(defaults_.length))};
    if (found.value != 0) provenance_.add(key, found);
    return found;
  }

  const Part& part_;
  const ConfigObject& config_;
  const ClassDefaults& defaults_;
  Provenance& provenance_;
};

}  // namespace

Shape read_shape(const Part& part, Provenance& provenance) { return ShapeReader(part, provenance).read(); }

}  // namespace rotary::huggingface
