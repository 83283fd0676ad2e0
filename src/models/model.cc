// read_model: which reader a path is for.
#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "formats/json.h"
#include "models/readers.h"
#include "rotary/model.hpp"

namespace rotary {
namespace {

namespace fs = std::filesystem;

bool is_gguf(const std::string& path) {
  std::array<char, 4> magic{};
  std::ifstream(path, std::ios::binary).read(magic.data(), magic.size());
  return std::string_view(magic.data(), magic.size()) == "GGUF";
}

/// The only GGUF of a folder, or the first part of the only split one; "" where there is none.
std::string find_gguf(const std::string& folder) {
  std::string found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool is_later_part = name.find("-of-") != name.npos && name.find("-00001-of-") == name.npos;
    if (!name.ends_with(".gguf") || is_later_part) continue;
    if (!found.empty()) {
      fail_file(folder, "one GGUF must be named where a folder holds several, such as ",
                fs::path(found).filename().string(), " and ", name);
    }
    found = entry.path().string();
  }
  return found;
}

std::string find_file(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  const std::string config = (fs::path(path) / "config.json").string();
  if (fs::exists(config, ignored)) return config;
  const std::string gguf = find_gguf(path);
  return gguf.empty() ? config : gguf;
}

}  // namespace

ModelRotations read_model(const char* path, const ReadOptions& options) {
  const std::string file = find_file(path);
  if (is_gguf(file)) return build_model(read_gguf(file, options));
  const nlohmann::json json = read_json(file);
  if (!json.is_object()) fail_file(file, "a config must be a JSON object, got ", json.type_name());
  return build_model(read_huggingface(json, file, options));
}

}  // namespace rotary
