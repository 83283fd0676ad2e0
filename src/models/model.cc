// read_model: which reader a path is for.
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "formats/json.h"
#include "formats/mapped_file.h"
#include "models/checkpoint/folder.h"
#include "models/checkpoint/weights.h"
#include "models/readers.h"
#include "rotary/model.hpp"

namespace rotary {
namespace {

/// By its mark, or by its name: one without the mark is a broken GGUF, and no JSON.
bool is_gguf(const std::string& path) { return MappedFile(path).bytes().starts_with("GGUF") || path.ends_with(".gguf"); }

ModelDescription describe(const std::string& file, const ReadOptions& options) {
  if (is_gguf(file)) return read_gguf(file, options);
  std::vector<std::string> repeated_keys;
  JsonLimits limits{.python_constants = true};  // published files have them, under keys that are not read here
  if (options.lenient) limits.repeated_keys = &repeated_keys;
  const nlohmann::json json = read_json(file, limits);
  if (!json.is_object()) fail_file(file, "a config must be a JSON object, got ", json.type_name());
  if (!looks_like_params(json)) return read_huggingface(json, file, options, repeated_keys);
  if (!repeated_keys.empty()) read_json(file);  // refuses them: nobody reads such a params.json
  return read_params(json, file, options);
}

}  // namespace

ModelRotations read_model(const char* path, const ReadOptions& options) {
  if (*path == '\0') fail_argument("read_model", "path must not be empty");
  const std::string file = find_model_file(path);
  ModelDescription model = describe(file, options);
  if (file != path) check_weights(path, model);
  return build_model(std::move(model));
}

}  // namespace rotary
