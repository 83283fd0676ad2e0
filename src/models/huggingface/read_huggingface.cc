// A config.json as a whole: which family it is, and which parts it has.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "models/huggingface/family.h"
#include "models/huggingface/read_part.h"
#include "models/readers.h"

namespace rotary {
namespace {

using nlohmann::json;

std::string quoted(const std::string& text) { return json(text).dump(-1, ' ', true, json::error_handler_t::replace); }

/// An entry of Family::parts: where the part stands, and the family of one that does not name its own.
struct PartPlace {
  std::string path;
  std::string model_type;
};

std::vector<PartPlace> places_of(std::string_view list) {
  std::vector<PartPlace> places;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(' '), list.size());
    const std::string_view entry = list.substr(0, end);
    const std::size_t equal = entry.find('=');
    places.push_back({std::string(entry.substr(0, equal)), std::string(entry.substr(equal + 1))});
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return places;
}

class FileReader {
 public:
  FileReader(const json& config, const std::string& path, const ReadOptions& options)
      : config_(config, path), options_(options), findings_(options.lenient) {}

  ModelDescription read() {
    const std::string model_type = read_model_type();
    const Family& family = family_called(options_.family[0] != '\0' ? options_.family : model_type);
    if (options_.family[0] != '\0') {
      findings_.warn("RP022", sentence("read as ", family.model_type, ", though model_type is ", quoted(model_type)));
    }
    ModelDescription model = family.parts.empty() ? read_one(config_, family, false) : read_composite(family);
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
    fail_unsupported(config_.path(), "model_type ", quoted(model_type),
                     " is not in the family table, and nothing here guesses "
                     "(nearest: ",
                     nearest_families(model_type), "); name a family whose code is known to be the same (--family)");
  }

  ModelDescription read_one(const ConfigObject& object, const Family& family, bool nested) {
    ConfigObject with_aliases = object;
    with_aliases.add_aliases(family.aliases);
    return read_part({with_aliases, family, findings_, nested});
  }

  /// The first part that is there is the model; the others become its parts.
  ModelDescription read_composite(const Family& family) {
    std::vector<std::pair<std::string, ModelDescription>> found;
    for (const PartPlace& place : places_of(family.parts)) {
      if (auto part = read_place(place)) found.emplace_back(place.path, std::move(*part));
      else if (found.empty() && family.flat && has_layers(place)) {
        found.emplace_back(place.path, read_one(config_, family_called(place.model_type), false));
      }
    }
    if (found.empty()) {
      fail_file(config_.path(), "a config of ", family.model_type, " must have one of its parts (", family.parts,
                "), got none");
    }
    ModelDescription model = std::move(found.front().second);
    for (std::size_t i = 1; i < found.size(); ++i) model.parts.push_back(std::move(found[i]));
    return model;
  }

  /// Whether the part's keys stand at the top level, as old files have it.
  bool has_layers(const PartPlace& place) const {
    ConfigObject flat = config_;
    flat.add_aliases(family_called(place.model_type).aliases);
    return flat.has("num_hidden_layers") || flat.has("num_attention_heads");
  }

  std::optional<ModelDescription> read_place(const PartPlace& place) {
    const auto object = config_.object(place.path);
    if (!object) return std::nullopt;
    const auto own = object->text("model_type");
    const std::string model_type = own ? own->value : place.model_type;
    const Family& family =
        family_called(find_family(model_type) != nullptr || place.model_type.empty() ? model_type : place.model_type);
    if (!family.parts.empty())
      fail_unsupported(config_.path(), place.path, " must be no composite itself, got ", family.model_type);
    ModelDescription part = read_one(*object, family, true);
    part.model_type = model_type;
    part.source = config_.path();
    part.format = "config.json";
    return part;
  }

  ConfigObject config_;
  ReadOptions options_;
  Findings findings_;
};

}  // namespace

ModelDescription read_huggingface(const json& config, const std::string& path, const ReadOptions& options) {
  return FileReader(config, path, options).read();
}

}  // namespace rotary
