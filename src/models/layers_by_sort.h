// The layers of a model by sort: groups that alternate are brought together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "rotary/model.hpp"

namespace rotary {

/// Every layer that does the same, in one place.
struct LayerSort {
  LayerRotation layer;
  std::vector<LayerRange> ranges;
};

/// In the order in which they first appear.
inline std::vector<LayerSort> layers_by_sort(const ModelRotations& model) {
  std::vector<LayerSort> sorts;
  for (const LayerGroup& group : model.groups()) {
    const auto same = [&](const LayerSort& sort) { return sort.layer == group.layer; };
    const auto known = std::find_if(sorts.begin(), sorts.end(), same);
    if (known == sorts.end()) sorts.push_back({group.layer, {{group.first, group.last}}});
    else known->ranges.push_back({group.first, group.last});
  }
  return sorts;
}

/// "layer 7", "layers 0-4, 6-10"; of many ranges the first ones, the last one and the number of layers.
inline std::string in_words(const std::vector<LayerRange>& ranges, std::size_t most_ranges = 6) {
  const auto words = [](const LayerRange& range) {
    std::string text = std::to_string(range.first);
    if (range.last != range.first) text.append("-").append(std::to_string(range.last));
    return text;
  };
  std::int64_t count = 0;
  std::string list;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    count += ranges[i].last - ranges[i].first + 1;
    const bool shown = ranges.size() <= most_ranges || i + 2 < most_ranges || i + 1 == ranges.size();
    if (shown) list += (list.empty() ? "" : ", ") + words(ranges[i]);
    else if (i + 2 == most_ranges) list += ", …";
  }
  if (ranges.size() > most_ranges) list += " (" + std::to_string(count) + " layers)";
  return (count == 1 ? "layer " : "layers ") + list;
}

}  // namespace rotary
