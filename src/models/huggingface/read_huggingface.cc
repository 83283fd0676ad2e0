// A config.json as a whole: which family it is, and which parts it has.
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "base/text.h"
#include "models/blame.h"
#include "models/huggingface/family.h"
#include "models/huggingface/read_part.h"
#include "models/readers.h"
#include "models/word_pairs.h"

namespace rotary::huggingface {
namespace {

using nlohmann::json;

/// An entry of Family::parts.
struct PartPlace {
  std::string key;
  std::string family;     ///< "": it must say itself
  bool any_type = false;  ///< its own model_type counts
};

std::vector<PartPlace> places_of(std::string_view list) {
  std::vector<PartPlace> places;
  for (auto& [key, family] : word_pairs(list)) {
    const bool any_type = family.ends_with('*');
    if (any_type) family.pop_back();
    places.push_back({key, family, any_type});
  }
  return places;
}

/// Where files of unknown composites keep the part that writes text.
constexpr std::array usual_text_parts{"text_config", "llm_config", "language_config", "thinker_config.text_config"};

/// No file nests composites deeper than a thinker inside an omni model.
constexpr int max_depth = 4;

class FileReader {
 public:
  FileReader(const json& config, const std::string& path, const ReadOptions& options)
      : config_(config, path), options_(options), findings_(options.lenient) {
    config_.tolerate_with(findings_);
  }

  void tolerate_repeated(const std::vector<std::string>& keys) {
    if (keys.empty()) return;
    findings_.tolerate("RP025", config_.path(),
                       sentence("an object must not have a key twice, got ", in_words(keys), " again"),
                       "Python's reader takes the last");
  }

  ModelDescription read() {
    const std::string model_type = read_model_type();
    std::vector<NamedPart> parts;
    if (options_.family[0] != '\0') {
      const Family& family = family_called(options_.family);
      findings_.warn("RP022", sentence("read as ", family.model_type, ", though model_type is ", in_quotes(model_type)));
      const ConfigObject object = family.parts.empty() ? place_of_text(family) : config_;
      parts = read_object(object, family, "", 0, true);
    } else {
      parts = read_object(config_, family_called(model_type), "", 0, true);
    }
    ModelDescription model = std::move(parts.front().description);
    for (std::size_t i = 1; i < parts.size(); ++i) {
      parts[i].description.source = config_.path();
      parts[i].description.format = "config.json";
      model.parts.push_back({std::move(parts[i].path), std::move(parts[i].description)});
    }
    model.model_type = model_type;
    model.source = config_.path();
    model.format = "config.json";
    model.warnings = findings_.entries();
    return model;
  }

 private:
  std::string read_model_type() const {
    const auto model_type = config_.text("model_type");
    if (model_type) return model_type->value;
    if (options_.family[0] != '\0') return "";
    fail_unsupported(config_.path(),
                     "no model_type says which family this is, and nothing here guesses one; name a family "
                     "whose code is known to be the same (--family)");
  }

  const Family& family_called(const std::string& model_type) const {
    const Family* family = find_family(model_type);
    if (family != nullptr) return *family;
    const std::string near = nearest_families(model_type);
    fail_unsupported(config_.path(), "model_type ", in_quotes(model_type),
                     " is not in the family table, and nothing here guesses", near.empty() ? "" : " (nearest: ", near,
                     near.empty() ? "" : ")", "; name a family whose code is known to be the same (--family)");
  }

  struct NamedPart {
    std::string path;  ///< "vision_config"; empty for the file itself
    ModelDescription description;
  };

  /// For a family that the caller named: the object in a composite file that is the text part, else the file itself.
  ConfigObject place_of_text(const Family& family) const {
    if (has_layers(config_, family)) return config_;
    for (const char* key : usual_text_parts) {
      if (auto object = config_.object(key)) return *object;
    }
    return config_;
  }

  /// What an object holds, the main part first. Where it is not needed, families that are not in the table are left out.
  std::vector<NamedPart> read_object(const ConfigObject& object, const Family& family, const std::string& path, int depth,
                                     bool needed) {
    std::vector<NamedPart> parts;
    if (family.parts.empty() || family.own_layers) parts.push_back({path, read_layers(object, family, depth > 0)});
    if (family.parts.empty()) return parts;
    if (!family.own_layers && !family.note.empty()) {
      findings_.warn("RP024", sentence(family.model_type, ": ", family.note));
    }
    if (depth == max_depth) fail_file(config_.path(), path, " must nest at most ", max_depth, " composites deep");

    const std::vector<PartPlace> places = places_of(family.parts);
    for (const PartPlace& place : places) {
      const bool is_main = parts.empty();
      for (NamedPart& part : read_place(object, place, path, depth, needed && is_main)) parts.push_back(std::move(part));
      if (needed && parts.empty() && &place == &places.front()) read_flat(object, family, place, path, parts);
    }
    if (parts.empty() && needed) {
      std::vector<std::string> keys;
      keys.reserve(places.size());
      for (const PartPlace& place : places) keys.push_back(object.key(place.key));
      fail_file(config_.path(), "a config of ", family.model_type, " must have one of its parts (", in_words(keys),
                "), got none");
    }
    return parts;
  }

  /// The family whose attention an object has: another one where its plain_flag is false.
  const Family& code_of(const ConfigObject& object, const Family& family) {
    const auto flag = family.plain_flag.empty() ? std::nullopt : object.boolean(std::string(family.plain_flag));
    if (!flag || flag->value) return family;
    findings_.warn("RP024", sentence(object.key(std::string(family.plain_flag)),
                                     " is false: read as llama, whose attention "
                                     "the code that comes with such models takes"));
    return family_called("llama");
  }

  ModelDescription read_layers(const ConfigObject& object, const Family& family, bool nested) {
    const Family& code = code_of(object, family);
    ConfigObject with_aliases = object;
    with_aliases.add_aliases(code.aliases);
    ModelDescription part = blaming_file(object.path(), "", [&] {
      return read_part({with_aliases, code, findings_, nested});
    });
    part.model_type = family.model_type;
    return part;
  }

  std::vector<NamedPart> read_place(const ConfigObject& outer, const PartPlace& place, const std::string& path, int depth,
                                    bool needed) {
    const auto object = outer.object(place.key);
    if (!object) return {};
    const auto own = object->text("model_type");
    if (place.family.empty() && !own) object->refuse("model_type", "must say which family this part is");
    const std::string model_type = place.any_type && own ? own->value : place.family;
    const Family* family = needed ? &family_called(model_type) : find_family(model_type);
    if (family == nullptr) {
      findings_.warn("RP026", sentence(outer.key(place.key), " is left out: its family ", in_quotes(model_type),
                                       " is not in the table"));
      return {};
    }
    return read_object(*object, *family, path.empty() ? place.key : path + "." + place.key, depth + 1, needed);
  }

  /// Old files of some composites keep the first part's keys at the top level; in others the code would not find them there.
  void read_flat(const ConfigObject& object, const Family& family, const PartPlace& place, const std::string& path,
                 std::vector<NamedPart>& parts) {
    const Family* main = place.family.empty() ? nullptr : &family_called(place.family);
    if (main == nullptr || !has_layers(object, *main)) {
      findings_.warn("RP026", sentence(object.key(place.key),
                                       " is not in the file, where transformers would take the defaults "
                                       "of its class: it is left out"));
      return;
    }
    if (!family.flat) {
      fail_file(config_.path(), "the keys of ", place.key, " must stand inside it, as the code of ", family.model_type,
                " ignores those at the top level");
    }
    parts.push_back({path, read_layers(object, *main, false)});
  }

  /// Whether an object has a part's keys at its top level.
  static bool has_layers(const ConfigObject& object, const Family& family) {
    ConfigObject flat = object;
    flat.add_aliases(family.aliases);
    return flat.has("num_hidden_layers") || flat.has("num_attention_heads");
  }

  ConfigObject config_;
  ReadOptions options_;
  Findings findings_;
};

}  // namespace

}  // namespace rotary::huggingface

namespace rotary {

ModelDescription read_huggingface(const nlohmann::json& config, const std::string& path, const ReadOptions& options,
                                  const std::vector<std::string>& repeated_keys) {
  huggingface::FileReader reader(config, path, options);
  reader.tolerate_repeated(repeated_keys);
  return reader.read();
}

}  // namespace rotary
