#include "models/huggingface/layer_sorts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string_view>

#include <nlohmann/json.hpp>

namespace rotary::huggingface {
namespace {

struct NamedSort {
  std::string_view name;
  SortMeaning meaning;
};
constexpr SortMeaning full{true, false, false};
constexpr SortMeaning sliding{true, true, false};
constexpr SortMeaning chunked{true, false, true};
constexpr SortMeaning none{false, false, false};
/// DeepSeek-V4's sorts by the number that stands for them in compress_ratios.
struct SortOfRatio {
  std::int64_t ratio;
  std::string_view sort;
};
constexpr std::array sorts_of_ratios{SortOfRatio{0, "sliding_attention"}, SortOfRatio{4, "compressed_sparse_attention"},
                                     SortOfRatio{128, "heavily_compressed_attention"}};
/// Nemotron-H's letters.
struct SortOfLetter {
  char letter;
  std::string_view sort;
};
constexpr std::array sorts_of_letters{SortOfLetter{'M', "mamba"}, SortOfLetter{'*', "full_attention"},
                                      SortOfLetter{'-', "mlp"}, SortOfLetter{'E', "moe"}};
/// layer_types of transformers 5.24 and the older lists of single families (layers_block_type, block_types, …).
constexpr std::array sorts{
    NamedSort{"full_attention", full},
    NamedSort{"attention", full},
    NamedSort{"global", full},
    NamedSort{"global_attention", full},
    NamedSort{"window", full},  // of pictures: a tile, not a number of tokens
    NamedSort{"window_attention", full},
    NamedSort{"hybrid", full},
    NamedSort{"indexed_attention", full},
    NamedSort{"deepseek_sparse_attention", full},
    NamedSort{"minimax_m3_sparse", full},
    NamedSort{"compressed_sparse_attention", sliding},
    NamedSort{"heavily_compressed_attention", sliding},
    NamedSort{"sliding_attention", sliding},
    NamedSort{"reference_sliding_attention", sliding},
    NamedSort{"hybrid_sliding", sliding},
    NamedSort{"local", sliding},
    NamedSort{"local_attention", sliding},
    NamedSort{"chunked_attention", chunked},
    NamedSort{"linear_attention", none},
    NamedSort{"linear", none},
    NamedSort{"lightning_attention", none},
    NamedSort{"cross_attention", none},
    NamedSort{"mamba", none},
    NamedSort{"mamba2", none},
    NamedSort{"conv", none},
    NamedSort{"recurrent", none},
    NamedSort{"moe", none},
    NamedSort{"mlp", none},
    NamedSort{"rwkv", none},
    NamedSort{"fourier", none},
};

class SortReader {
 public:
  SortReader(const Part& part, std::int64_t num_layers, Provenance& provenance)
      : part_(part), config_(part.config), rule_(part.family.layers), num_layers_(num_layers), provenance_(provenance) {}

  std::vector<std::string> read() {
    if (const auto given = config_.texts("layer_types")) return listed_in_file(*given);
    std::vector<std::string> found = by_rule();
    if (!part_.family.window_flag.empty() && !is_true(std::string(part_.family.window_flag))) {
      std::replace(found.begin(), found.end(), std::string("sliding_attention"), std::string("full_attention"));
    }
    return found;
  }

 private:
  std::vector<std::string> by_rule() {
    const std::string key(rule_.key);
    switch (rule_.kind) {
      case Layers::Kind::alike: return each([](std::int64_t) { return true; });
      case Layers::Kind::every: {
        const std::int64_t n = number(key, rule_.otherwise);
        return each([n](std::int64_t i) { return n == 0 || (i + 1) % n == 0; });
      }
      case Layers::Kind::from_first: {
        const std::int64_t n = number(key, rule_.otherwise);
        return each([n](std::int64_t i) { return n == 0 || i % n == 0; });
      }
      case Layers::Kind::period: {
        const std::int64_t n = number(key, rule_.otherwise);
        const std::int64_t offset = number(std::string(rule_.offset_key), rule_.offset);
        return each([n, offset](std::int64_t i) { return n == 0 || i % n == offset; });
      }
      case Layers::Kind::from_last: {
        const std::int64_t n = number(key, rule_.otherwise), last = num_layers_ - 1;
        return each([n, last](std::int64_t i) { return n == 0 || (last - i) % n == 0; });
      }
      case Layers::Kind::listed: return listed_by_index(key);
      case Layers::Kind::upper: return upper_windows(key);
      case Layers::Kind::named: return repeated(key);
      case Layers::Kind::flags: return flagged(key);
      case Layers::Kind::needed: config_.refuse("layer_types", "must be given, as nothing else says which layers attend");
      case Layers::Kind::pattern: return pattern();
      case Layers::Kind::letters: return letters(key);
      case Layers::Kind::numbered: return numbered(key);
      case Layers::Kind::ratios: return ratios(key);
      case Layers::Kind::after_dense: return after_dense(key);
      case Layers::Kind::even_below: return even_below(key);
    }
    return {};
  }

  bool is_true(const std::string& key) const {
    const auto flag = config_.boolean(key);
    return flag && flag->value;
  }

  std::vector<std::string> each(const std::function<bool(std::int64_t)>& is_sort) const {
    std::vector<std::string> result;
    for (std::int64_t i = 0; i < num_layers_; ++i) {
      const bool chosen = is_sort(i) || (rule_.last_is_sort && i + 1 == num_layers_);
      result.emplace_back(chosen ? rule_.sort : rule_.rest);
    }
    return result;
  }

  /// The file's, or the class's; 0 is allowed and means "no pattern".
  std::int64_t number(const std::string& key, std::int64_t otherwise) {
    if (key.empty()) return otherwise;
    const auto given = config_.whole_number(key);
    const Found<std::int64_t> found =
        given ? *given : Found<std::int64_t>{otherwise, part_.class_default(sentence(otherwise))};
    provenance_.add(key, found);
    return found.value;
  }

  std::vector<std::string> listed_in_file(const Found<std::vector<std::string>>& given) {
    std::vector<std::string> list = given.value;
    // Some lists go on over the layers that predict further tokens.
    const auto extra = config_.whole_number("num_nextn_predict_layers");
    const std::int64_t longest = num_layers_ + (extra ? extra->value : 0);
    if (std::ssize(list) > num_layers_ && std::ssize(list) <= longest) list.resize(static_cast<std::size_t>(num_layers_));
    require_one_per_layer("layer_types", list.size());
    for (const std::string& sort : list) meaning_of_sort(part_, sort);
    provenance_.add("layer_types", nlohmann::json("a list"), given.source);
    return list;
  }

  std::vector<std::string> listed_by_index(const std::string& key) {
    const auto given = config_.whole_numbers(key);
    if (!given) {
      return each([n = rule_.otherwise](std::int64_t i) { return n != 0 && (i + 1) % n == 0; });
    }
    std::vector<std::string> result(static_cast<std::size_t>(num_layers_), std::string(rule_.rest));
    for (const std::int64_t index : given->value) {
      if (index >= num_layers_) {
        fail_file(config_.path(), config_.key(key), " must hold layers below num_hidden_layers, got ", index, " of ",
                  num_layers_);
      }
      result[static_cast<std::size_t>(index)] = rule_.sort;
    }
    provenance_.add(key, given->value, given->source);
    return result;
  }

  /// max_window_layers may be 0: then every layer has the window.
  std::vector<std::string> upper_windows(const std::string& key) {
    const auto used = config_.boolean("use_sliding_window");
    const bool windows = (used && used->value) || (!used && rule_.offset != 0);
    if (!windows) return each([](std::int64_t) { return true; });
    const std::int64_t first = number(key, rule_.otherwise);
    return each([first](std::int64_t i) { return i < first; });
  }

  std::vector<std::string> repeated(const std::string& key) {
    const auto given = config_.texts(key);
    if (!given || given->value.empty()) return pattern();
    for (const std::string& sort : given->value) meaning_of_sort(part_, sort);
    std::vector<std::string> result;
    for (std::int64_t i = 0; i < num_layers_; ++i) {
      result.push_back(given->value[static_cast<std::size_t>(i) % given->value.size()]);
    }
    provenance_.add(key, given->value, given->source);
    return result;
  }

  std::vector<std::string> flagged(const std::string& key) {
    const auto given = config_.whole_numbers(key);
    if (!given || given->value.empty()) {
      const std::int64_t n = number(std::string(rule_.offset_key), rule_.otherwise);
      return each([n](std::int64_t i) { return n == 0 || (i + 1) % n != 0; });
    }
    require_one_per_layer(key, given->value.size());
    provenance_.add(key, given->value, given->source);
    return each([&](std::int64_t i) { return given->value[static_cast<std::size_t>(i)] != 0; });
  }

  static std::vector<std::string_view> words(std::string_view text) {
    std::vector<std::string_view> found;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(' '), text.size());
      found.push_back(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return found;
  }

  /// The sorts in rest, then those in sort again and again.
  /// Other releases of a family write a list of 0 (full_attention) and 1 (sliding_attention).
  std::vector<std::string> sliding_flags() {
    const std::string key(rule_.offset_key);
    const auto given = config_.whole_numbers(key);
    require_one_per_layer(key, given->value.size());
    provenance_.add(key, given->value, given->source + " (1 means a window)");
    std::vector<std::string> result;
    for (const std::int64_t flag : given->value) result.emplace_back(flag != 0 ? "sliding_attention" : "full_attention");
    return result;
  }

  std::vector<std::string> pattern() {
    if (!rule_.offset_key.empty() && config_.has(std::string(rule_.offset_key))) return sliding_flags();
    const std::vector<std::string_view> first = words(rule_.kind == Layers::Kind::named ? std::string_view() : rule_.rest);
    const std::vector<std::string_view> repeated = words(rule_.sort);
    std::vector<std::string> result;
    for (std::size_t i = 0; i < static_cast<std::size_t>(num_layers_); ++i) {
      result.emplace_back(i < first.size() ? first[i] : repeated[(i - first.size()) % repeated.size()]);
    }
    if (rule_.last_is_sort) result.back() = "full_attention";
    provenance_.add("layer_types", nlohmann::json("a list"), part_.class_default("a list"));
    return result;
  }

  std::vector<std::string> letters(const std::string& key) {
    const auto given = config_.text(key);
    if (!given) config_.refuse("layer_types", "must be given, as nothing else says which layers attend");
    require_one_per_layer(key, given->value.size());
    provenance_.add(key, *given);
    std::vector<std::string> result;
    for (const char letter : given->value) {
      const auto* known = std::find_if(sorts_of_letters.begin(), sorts_of_letters.end(),
                                       [&](const SortOfLetter& sort) { return sort.letter == letter; });
      if (known == sorts_of_letters.end()) config_.refuse(key, "must hold one of M * - E for each layer");
      result.emplace_back(known->sort);
    }
    return result;
  }

  std::vector<std::string> numbered(const std::string& key) {
    const auto given = config_.whole_numbers(key);
    const auto others = config_.whole_numbers(std::string(rule_.offset_key));
    if (!given || !others) config_.refuse(key, sentence("must be given, and ", rule_.offset_key));
    std::vector<std::string> result(static_cast<std::size_t>(num_layers_));
    for (const auto& [list, sort] : {std::pair(&*given, rule_.sort), std::pair(&*others, rule_.rest)}) {
      for (const std::int64_t number : list->value) {
        if (number < 1 || number > num_layers_) config_.refuse(key, sentence("must hold layers from 1 to ", num_layers_));
        result[static_cast<std::size_t>(number - 1)] = sort;
      }
    }
    for (std::size_t i = 0; i < result.size(); ++i) {
      if (result[i].empty()) config_.refuse(key, sentence("or ", rule_.offset_key, " must name layer ", i + 1));
    }
    provenance_.add(key, given->value, given->source + " (counted from 1)");
    return result;
  }

  std::vector<std::string> ratios(const std::string& key) {
    const auto given = config_.whole_numbers(key);
    if (!given) return pattern();
    if (std::ssize(given->value) < num_layers_) require_one_per_layer(key, given->value.size());
    std::vector<std::string> result;
    for (std::size_t i = 0; i < static_cast<std::size_t>(num_layers_); ++i) {
      const auto* known = std::find_if(sorts_of_ratios.begin(), sorts_of_ratios.end(),
                                       [&](const SortOfRatio& sort) { return sort.ratio == given->value[i]; });
      if (known == sorts_of_ratios.end()) config_.refuse(key, "must hold 0, 4 or 128 for each layer");
      result.emplace_back(known->sort);
    }
    provenance_.add(key, given->value, given->source);
    return result;
  }

  std::vector<std::string> after_dense(const std::string& key) {
    const auto dense = config_.whole_number("first_k_dense_replace");
    const std::int64_t first = dense ? dense->value : 0;
    if (dense) provenance_.add("first_k_dense_replace", *dense);
    const std::int64_t n_dense = number("prefix_dense_sliding_window_pattern", 1), n = number(key, rule_.otherwise);
    if (n_dense == 0 || n == 0) config_.refuse(key, "must be at least 1");
    return each([=](std::int64_t i) { return i < first ? (i + 1) % n_dense == 0 : (i - first + 1) % n == 0; });
  }

  std::vector<std::string> even_below(const std::string& key) {
    if (!is_true("use_sliding_window")) return each([](std::int64_t) { return true; });
    const std::int64_t last = number(key, rule_.otherwise);
    return each([last](std::int64_t i) { return i % 2 != 0 || i >= last; });
  }

  void require_one_per_layer(const std::string& key, std::size_t size) const {
    if (static_cast<std::int64_t>(size) == num_layers_) return;
    fail_file(config_.path(), config_.key(key), " must have one entry for each of the ", num_layers_, " layers, got ",
              size);
  }

  const Part& part_;
  const ConfigObject& config_;
  const Layers& rule_;
  std::int64_t num_layers_;
  Provenance& provenance_;
};

class TurningReader {
 public:
  TurningReader(const Part& part, const std::vector<std::string>& sorts, Provenance& provenance)
      : part_(part), config_(part.config), rule_(part.family.turns), sorts_(sorts), provenance_(provenance) {}

  std::vector<bool> read() {
    const std::string key(rule_.key);
    switch (rule_.kind) {
      case Turns::Kind::all: return of_all(true);
      case Turns::Kind::only: return by_sort(true);
      case Turns::Kind::except: return by_sort(false);
      case Turns::Kind::only_with_windows:
        return config_.has("sliding_window") || part_.family.defaults.window != 0 ? windows_or_all()
                                                                                  : of_all(rule_.where_missing);
      case Turns::Kind::by_flags: return by_flags(key);
      case Turns::Kind::by_list: return by_list(key);
      case Turns::Kind::if_named: {
        const auto given = config_.text(key);
        if (given) provenance_.add(key, *given);
        return of_all(given ? given->value == rule_.word : rule_.where_missing);
      }
      case Turns::Kind::if_true: {
        const auto given = config_.boolean(key);
        if (given) provenance_.add(key, *given);
        return of_all(given ? given->value : rule_.where_missing);
      }
      case Turns::Kind::unless_true: {
        const auto given = config_.boolean(key);
        if (given) provenance_.add(key, *given);
        return of_all(!(given && given->value));
      }
      case Turns::Kind::not_listed: return not_listed(key);
      case Turns::Kind::if_positive: {
        const auto given = config_.number(key);
        if (given) provenance_.add(key, *given);
        return of_all(given ? given->value > 0 : rule_.where_missing);
      }
      case Turns::Kind::if_equal: return of_all(is_equal(key));
      case Turns::Kind::unless_null: return of_all(!config_.is_null(key));
      case Turns::Kind::only_or_dense: return only_or_dense();
    }
    return {};
  }

 private:
  std::vector<bool> of_all(bool turns) const { return std::vector<bool>(sorts_.size(), turns); }

  bool is_equal(const std::string& key) {
    const auto given = config_.count(key);
    if (!given || (given->value != rule_.otherwise && given->value != rule_.other)) {
      config_.refuse(key, sentence("must be ", rule_.otherwise, " (turns) or ", rule_.other, " (does not) to tell which ",
                                   part_.family.model_type, " this is"));
    }
    provenance_.add(key, *given);
    return given->value == rule_.otherwise;
  }

  std::vector<bool> by_sort(bool when_equal) const {
    std::vector<bool> turns;
    for (const std::string& sort : sorts_) turns.push_back((sort == rule_.word) == when_equal);
    return turns;
  }

  std::vector<bool> only_or_dense() const {
    std::vector<bool> turns = by_sort(true);
    const auto pattern = config_.whole_number("prefix_dense_sliding_window_pattern");
    if (pattern && pattern->value != 1) return turns;
    const auto dense = config_.whole_number("first_k_dense_replace");
    const auto mlps = config_.texts("mlp_layer_types");
    for (std::size_t i = 0; i < turns.size(); ++i) {
      const bool is_dense =
          mlps ? i < mlps->value.size() && mlps->value[i] == "dense" : dense && static_cast<std::int64_t>(i) < dense->value;
      if (is_dense) turns[i] = true;
    }
    return turns;
  }

  /// EXAONE-4 and kin: without a window at all every layer turns; with one only those that have it.
  std::vector<bool> windows_or_all() const {
    if (config_.is_null("sliding_window")) return of_all(rule_.where_missing);
    return by_sort(true);
  }

  std::vector<bool> by_flags(const std::string& key) {
    const auto given = config_.whole_numbers(key);
    if (given && !given->value.empty()) {
      if (given->value.size() != sorts_.size()) {
        fail_file(config_.path(), config_.key(key), " must have one entry for each of the ", sorts_.size(), " layers, got ",
                  given->value.size());
      }
      provenance_.add(key, given->value, given->source + " (1 means that the layer turns)");
      std::vector<bool> turns;
      for (const std::int64_t flag : given->value) turns.push_back(flag != 0);
      return turns;
    }
    const std::string interval_key = "no_rope_layer_interval";
    const auto interval = config_.count(interval_key);
    const Found<std::int64_t> n =
        interval ? *interval : Found<std::int64_t>{rule_.otherwise, part_.class_default(sentence(rule_.otherwise))};
    provenance_.add(interval_key, n);
    std::vector<bool> turns;
    for (std::size_t i = 0; i < sorts_.size(); ++i) turns.push_back((static_cast<std::int64_t>(i) + 1) % n.value != 0);
    return turns;
  }

  /// A base per layer, where 0 or null says that it does not turn.
  std::vector<bool> by_list(const std::string& key) {
    if (!config_.has(key)) return rule_.otherwise == 0 ? of_all(true) : all_but_every_nth_from_the_end();
    const auto& list = config_.value(key);
    if (!list.is_array() || list.size() != sorts_.size()) {
      config_.refuse(key, sentence("must be a list with one entry for each of the ", sorts_.size(), " layers"));
    }
    std::vector<bool> turns;
    for (const auto& entry : list) {
      if (!entry.is_number() && !entry.is_null()) config_.refuse(key, "must hold numbers");
      const double base = entry.is_number() ? entry.get<double>() : 0;
      if (!std::isfinite(base)) config_.refuse(key, "must hold finite numbers");
      turns.push_back(base != 0);
    }
    provenance_.add(key, list, config_.source(key) + " (0 means that the layer does not turn)");
    return turns;
  }

  std::vector<bool> all_but_every_nth_from_the_end() const {
    std::vector<bool> turns;
    for (std::size_t i = 0; i < sorts_.size(); ++i) {
      turns.push_back((sorts_.size() - 1 - i) % static_cast<std::size_t>(rule_.otherwise) != 0);
    }
    return turns;
  }

  std::vector<bool> not_listed(const std::string& key) {
    std::vector<bool> turns = of_all(true);
    const auto given = config_.whole_numbers(key);
    if (!given) return turns;
    provenance_.add(key, given->value, given->source);
    for (const std::int64_t index : given->value) {
      if (index < static_cast<std::int64_t>(turns.size())) turns[static_cast<std::size_t>(index)] = false;
    }
    return turns;
  }

  const Part& part_;
  const ConfigObject& config_;
  const Turns& rule_;
  const std::vector<std::string>& sorts_;
  Provenance& provenance_;
};

}  // namespace

SortMeaning meaning_of_sort(const Part& part, const std::string& sort) {
  for (const NamedSort& known : sorts) {
    if (known.name == sort) return known.meaning;
  }
  fail_unsupported(part.config.path(), "layer_types has a sort of layer that no family here uses: ",
                   nlohmann::json(sort).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
}

std::vector<std::string> read_layer_sorts(const Part& part, std::int64_t num_layers, Provenance& provenance) {
  return SortReader(part, num_layers, provenance).read();
}

std::vector<bool> read_turning_layers(const Part& part, const std::vector<std::string>& sorts, Provenance& provenance) {
  return TurningReader(part, sorts, provenance).read();
}

}  // namespace rotary::huggingface
