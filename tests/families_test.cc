// read_model against transformers' own classes, family by family (tests/data/families/README.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "rotary/model.hpp"
#include "support/expected_layers.h"
#include "support/temporary_folder.h"
#include "support/test_name.h"

namespace rotary {
namespace {

using nlohmann::json;

const json& cases() {
  static const json all = [] {
    json merged = json::object();
    for (const char* file : {"text.json", "towers.json"}) {
      const std::string path = std::string(ROTARY_TEST_DATA "/families/") + file;
      merged.update(json::parse(std::ifstream(path)));
    }
    return merged;
  }();
  return all;
}

/// "0-2 5" -> [0, 1, 2, 5]
json layers_in(const std::string& ranges) {
  json layers = json::array();
  std::istringstream words(ranges);
  for (std::string word; words >> word;) {
    const std::size_t dash = word.find('-');
    const int first = std::stoi(word), last = dash == word.npos ? first : std::stoi(word.substr(dash + 1));
    for (int layer = first; layer <= last; ++layer) layers.push_back(layer);
  }
  return layers;
}

/// A group in the form of tests/data/models.
json group_in_full(json group) {
  group["layers"] = layers_in(group["layers"]);
  if (!group.contains("inv_freq") && !group.contains("by_length")) return group;
  const json plain = {{"rotary_offset", 0}, {"direction", 1}, {"attention_factor", 1.0}, {"pairing", "as in and out"}};
  for (const auto& [key, value] : plain.items()) {
    if (!group.contains(key)) group[key] = value;
  }
  if (!group.contains("pairing_out")) group["pairing_out"] = group["pairing_in"];
  if (group.contains("axis")) {
    json axes = json::array();
    for (const char digit : group["axis"].get<std::string>()) axes.push_back(digit - '0');
    group["axis"] = axes;
  }
  return group;
}

json in_full(json expected) {
  for (json& group : expected["groups"]) group = group_in_full(group);
  return expected;
}

/// A part by its name in the file; the main part is the model itself.
ModelRotations part_of(const ModelRotations& model, const std::string& name) {
  const auto& names = model.part_names();
  const bool beside = std::any_of(names.begin(), names.end(), [&](const char* part) { return part == name; });
  return beside ? model.part(name.c_str()) : model;
}

std::vector<std::string> names_of(const json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return names;
}

class ReadFamily : public testing::TestWithParam<std::string> {
 protected:
  ModelRotations model_of(const json& config) const {
    return read_model(folder_.write("config.json", config.dump()).c_str());
  }
  TemporaryFolder folder_;
};

TEST_P(ReadFamily, IsReadAsTransformersReadsIt) {
  const json expected = in_full(cases()[GetParam()]);
  const ModelRotations part = part_of(model_of(expected["config"]), expected.value("part", ""));
  const bool whole_heads = !expected.contains("where") && !expected.contains("rotating_heads");
  if (whole_heads) return expect_same_as(part, expected);
  // Hidden states, or some heads only: nothing that turns q and k layer by layer can express it, and the reading says so.
  ASSERT_EQ(part.num_layers(), expected["num_layers"].get<std::int64_t>());
  EXPECT_EQ(part.layer(0).turning(), Turning::not_a_rotation);
  EXPECT_STRNE(part.layer(0).reason(), "");
}

INSTANTIATE_TEST_SUITE_P(Transformers, ReadFamily, testing::ValuesIn(names_of(cases())), test_name);

}  // namespace
}  // namespace rotary
