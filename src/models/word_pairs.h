// The lists in family tables: "num_hidden_layers=n_layer hidden_size=n_embd".
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rotary {

inline std::vector<std::pair<std::string, std::string>> word_pairs(std::string_view list) {
  std::vector<std::pair<std::string, std::string>> pairs;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(' '), list.size());
    const std::string_view entry = list.substr(0, end);
    const std::size_t equal = entry.find('=');
    pairs.emplace_back(entry.substr(0, equal), entry.substr(equal + 1));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return pairs;
}

}  // namespace rotary
