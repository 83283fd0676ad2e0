#include "formats/sharded_safetensors.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/fail.h"
#include "base/text.h"
#include "formats/json.h"
#include "formats/safetensors.h"

namespace rotary {
namespace {

using nlohmann::json;

/// Shards lie beside the index; a name that could lead elsewhere is refused.
void check_plain_name(const std::string& shard, const std::string& path) {
  if (shard.empty() || shard == "." || shard == ".." || shard.find_first_of(std::string_view("/\\\0", 3)) != shard.npos) {
    fail_file(path, "weight_map must name files beside the index, without a path, got ", in_quotes(shard));
  }
}

/// The tensors that the index expects in each shard.
std::map<std::string, std::set<std::string>> tensors_by_shard(const json& index, const std::string& path) {
  const auto weight_map = index.is_object() ? index.find("weight_map") : index.end();
  if (weight_map == index.end() || !weight_map->is_object()) {
    fail_file(path, "must have a weight_map from tensors to files, as an index of safetensors does");
  }
  std::map<std::string, std::set<std::string>> shards;
  for (const auto& item : weight_map->items()) {
    if (!item.value().is_string()) {
      fail_file(path, "weight_map must hold file names, got ", in_quotes(item.key()), ": ", printable(item.value().dump()));
    }
    const auto& shard = item.value().get_ref<const std::string&>();
    check_plain_name(shard, path);
    shards[shard].insert(item.key());
  }
  return shards;
}

}  // namespace

void read_sharded_safetensors(std::string_view index, const std::string& path, FileContents& contents) {
  const std::string folder = path.substr(0, path.rfind('/') + 1);  // "" where there is no slash
  for (auto& [shard, expected] : tensors_by_shard(parse_json(index, path), path)) {
    const std::string shard_path = folder + shard;
    Safetensors file = read_safetensors(contents.map(shard_path), shard_path, contents);
    for (StoredTensor& tensor : file.tensors) {
      if (expected.erase(tensor.name) > 0) {
        contents.tensors.push_back(std::move(tensor));
      } else {
        contents.warnings.push_back(
            contents.keep(shard_path + ": tensor " + in_quotes(tensor.name) + " is not in the index and was left out"));
      }
    }
    if (!expected.empty()) {
      fail_file(path, "weight_map must name tensors that are there: ", in_quotes(*expected.begin()), " is not in ",
                in_quotes(shard));
    }
    if (contents.metadata.empty()) contents.metadata = std::move(file.metadata);
  }
}

}  // namespace rotary
