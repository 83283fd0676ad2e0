#include "models/checkpoint/folder.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/fail.h"

namespace rotary {
namespace {

namespace fs = std::filesystem;

bool is_later_part(const std::string& name) {
  return name.find("-of-") != name.npos && name.find("-00001-of-") == name.npos;
}

std::vector<std::string> ggufs_of(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".gguf") && !is_later_part(name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::string find_model_file(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  for (const char* name : {"config.json", "params.json"}) {
    const fs::path file = fs::path(path) / name;
    if (fs::exists(file, ignored)) return file.string();
  }
  const std::vector<std::string> ggufs = ggufs_of(path);
  if (ggufs.empty()) fail_file(path, "a model's folder must hold config.json, params.json or a GGUF, got none of them");
  if (ggufs.size() > 1) {
    fail_file(path, "one GGUF must be named where a folder holds several, such as ", ggufs[0], " and ", ggufs[1]);
  }
  return (fs::path(path) / ggufs.front()).string();
}

}  // namespace rotary
