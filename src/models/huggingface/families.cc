#include "models/huggingface/families.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/edit_distance.h"

namespace rotary::huggingface {
namespace {

std::array<std::span<const Family>, 4> tables() {
  return {text_families(), composite_families(), tower_families(), remote_families()};
}

}  // namespace

const Family* find_family(std::string_view model_type) {
  for (const auto& table : tables()) {
    const auto found =
        std::find_if(table.begin(), table.end(), [&](const Family& row) { return row.model_type == model_type; });
    if (found != table.end()) return &*found;
  }
  return nullptr;
}

std::string nearest_families(std::string_view model_type) {
  model_type = model_type.substr(0, 64);
  std::vector<std::pair<std::size_t, std::string_view>> by_distance;
  for (const auto& table : tables()) {
    for (const Family& row : table) {
      if (is_near(model_type, row.model_type)) {
        by_distance.emplace_back(edit_distance(model_type, row.model_type), row.model_type);
      }
    }
  }
  std::sort(by_distance.begin(), by_distance.end());
  std::string names;
  for (std::size_t i = 0; i < 3 && i < by_distance.size(); ++i) {
    names.append(names.empty() ? "" : ", ").append(by_distance[i].second);
  }
  return names;
}

}  // namespace rotary::huggingface
