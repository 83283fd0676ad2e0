#include "models/huggingface/families.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

namespace rotary {
namespace {

/// How many letters one must insert, drop or change.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, changed}));
    }
  }
  return row[b.size()];
}

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
    for (const Family& row : table) by_distance.emplace_back(distance(model_type, row.model_type), row.model_type);
  }
  std::sort(by_distance.begin(), by_distance.end());
  std::string names;
  for (std::size_t i = 0; i < 3 && i < by_distance.size(); ++i) {
    names.append(names.empty() ? "" : ", ").append(by_distance[i].second);
  }
  return names;
}

}  // namespace rotary
