// Every row of the family table, read with nothing but its name: what the class's defaults mean, and what must be said.
#include "models/huggingface/families.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "models/huggingface/family.h"
#include "rotary/error.hpp"
#include "rotary/model.hpp"
#include "support/temporary_folder.h"

namespace rotary::huggingface {
namespace {

using nlohmann::json;

constexpr auto tables = [] {
  return std::array{text_families(), composite_families(), tower_families(), remote_families()};
};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& letter : result) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return result;
}

class FamilyTable : public testing::Test {
 protected:
  ModelRotations model(const json& config) const { return read_model(folder_.write("config.json", config.dump()).c_str()); }
  TemporaryFolder folder_;
};

TEST_F(FamilyTable, HasEachModelTypeOnce) {
  std::set<std::string_view> seen;
  for (const auto& table : tables()) {
    for (const Family& family : table) EXPECT_TRUE(seen.insert(family.model_type).second) << family.model_type;
  }
  EXPECT_GE(seen.size(), 400u);
}

TEST_F(FamilyTable, IsSortedByModelType) {
  for (const auto& table : tables()) {
    for (std::size_t i = 1; i < table.size(); ++i) {
      EXPECT_LT(lower(table[i - 1].model_type), lower(table[i].model_type));
    }
  }
}

TEST_F(FamilyTable, SaysWhyAFamilyDoesNotRotate) {
  for (const auto& table : tables()) {
    for (const Family& family : table) {
      const bool needs_reason = family.positions != PositionKind::rotary;
      EXPECT_TRUE(!needs_reason || !family.why.empty()) << family.model_type;
    }
  }
}

TEST_F(FamilyTable, HoldsTheMainPartOfEveryComposite) {
  for (const auto& table : tables()) {
    for (const Family& family : table) {
      if (family.parts.empty() || family.own_layers) continue;
      std::string_view main = family.parts.substr(family.parts.find('=') + 1);
      main = main.substr(0, main.find(' '));
      if (main.ends_with('*')) main.remove_suffix(1);
      EXPECT_TRUE(main.empty() || find_family(main) != nullptr) << family.model_type << ": " << main;
    }
  }
}

/// A common file is read, or refused as a file: no row breaks a rule of the rotation itself.
TEST_F(FamilyTable, MakesNoRowThatCannotBeBuilt) {
  for (const auto& table : tables()) {
    for (const Family& family : table) {
      SCOPED_TRACE(family.model_type);
      try {
        const ModelRotations common = model({{"model_type", family.model_type},
                                             {"hidden_size", 1024},
                                             {"num_hidden_layers", 4},
                                             {"num_attention_heads", 8},
                                             {"num_key_value_heads", 2},
                                             {"max_position_embeddings", 4096}});
        EXPECT_GT(common.num_layers(), 0);
      } catch (const Error& error) {
        EXPECT_NE(static_cast<int>(error.code()), static_cast<int>(ErrorCode::invalid_argument)) << error.what();
      }
    }
  }
}

/// Either the class's defaults suffice, or the error names a key that must be given.
TEST_F(FamilyTable, ReadsEveryTextFamilyWithItsNameAlone) {
  std::size_t read = 0;
  for (const Family& family : text_families()) {
    SCOPED_TRACE(family.model_type);
    try {
      const ModelRotations alone = model({{"model_type", family.model_type}});
      ++read;
      if (family.positions != PositionKind::rotary) {
        for (const LayerGroup& group : alone.groups()) {
          EXPECT_FALSE(group.layer.rotates());
          EXPECT_STRNE(group.layer.reason(), "");
        }
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_file) << error.what();
      EXPECT_NE(std::string(error.what()).find(" must "), std::string::npos) << error.what();
    }
  }
  EXPECT_GE(read, text_families().size() - 20);
}

/// A base in the file counts wherever the table has a key for it, and is never replaced by the class's.
TEST_F(FamilyTable, TakesTheBaseOfTheFileInEveryTextFamily_F6) {
  std::size_t compared = 0;
  for (const Family& family : text_families()) {
    if (family.positions != PositionKind::rotary || family.base_key.empty() || family.rope_by_sort) continue;
    SCOPED_TRACE(family.model_type);
    json config = {{"model_type", family.model_type}, {"position_embedding_type", "rope"}};
    if (family.turns.kind == Turns::Kind::if_named) config["position_embedding_type"] = family.turns.word;
    std::vector<std::string> fingerprints;
    for (const double base : {4321.0, 54321.0}) {
      json changed = config;
      changed[std::string(family.base_key)] = base;
      for (const SortRope& rope : family.ropes) {
        if (!rope.base_key.empty()) changed[std::string(rope.base_key)] = base;
      }
      try {
        const ModelRotations read = model(changed);
        const auto rotates = [](const LayerGroup& group) { return group.layer.rotates(); };
        if (std::any_of(read.groups().begin(), read.groups().end(), rotates)) fingerprints.emplace_back(read.fingerprint());
      } catch (const Error&) {
        break;  // the class's defaults do not suffice
      }
    }
    if (fingerprints.empty()) continue;
    EXPECT_NE(fingerprints.front(), fingerprints.back());
    ++compared;
  }
  EXPECT_GE(compared, 100u);
}

}  // namespace
}  // namespace rotary::huggingface
