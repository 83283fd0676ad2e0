// read_model: which reader a path is for.
#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "formats/json.h"
#include "models/readers.h"
#include "rotary/model.hpp"

namespace rotary {
namespace {

std::string find_config(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ? (std::filesystem::path(path) / "config.json").string() : path;
}

}  // namespace

ModelRotations read_model(const char* path, const ReadOptions& options) {
  const std::string file = find_config(path);
  const nlohmann::json json = read_json(file);
  if (!json.is_object()) fail_file(file, "a config must be a JSON object, got ", json.type_name());
  return build_model(read_huggingface(json, file, options));
}

}  // namespace rotary
