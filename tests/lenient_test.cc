// Lenient reading: faults that real loaders let pass become warnings, and the numbers are those of the loaders; what is
// dangerous or has no numbers at all stays refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "rotary/frequencies.hpp"
#include "rotary/model.hpp"
#include "support/error_sentence.h"
#include "support/small_llama.h"
#include "support/temporary_folder.h"

namespace rotary {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const fs::path errors = fs::path(ROTARY_TEST_DATA) / "models" / "errors";

class Lenient : public testing::Test {
 protected:
  std::string file(const std::string& config) const { return folder_.write("config.json", config); }

  /// Strict reading must refuse the file.
  ModelRotations tolerated(const std::string& config, const std::string& id,
                           ErrorCode strict = ErrorCode::invalid_file) const {
    const std::string path = file(config);
    error_sentence(strict, [&] { read_model(path.c_str()); });
    ModelRotations model = read_model(path.c_str(), {.lenient = true});
    const auto& warnings = model.warnings();
    EXPECT_TRUE(std::any_of(warnings.begin(), warnings.end(), [&](const Warning& warning) { return warning.id == id; }))
        << "no " << id;
    return model;
  }
  ModelRotations tolerated(const json& changes, const std::string& id, ErrorCode strict = ErrorCode::invalid_file) const {
    return tolerated(small_llama(changes).dump(), id, strict);
  }
  void refused(const json& changes) const {
    const std::string path = file(small_llama(changes).dump());
    error_sentence(ErrorCode::invalid_file, [&] { read_model(path.c_str(), {.lenient = true}); });
  }

  TemporaryFolder folder_;
};

TEST_F(Lenient, TurnsOneChannelMoreWhereTheWidthIsOdd) {
  // 64 * 0.33 = 21.12: transformers turns 22 channels, with the exponents of 21.
  const auto model = tolerated({{"model_type", "stablelm"}, {"partial_rotary_factor", 0.33}}, "RP013");
  const Rotation& rotation = model.layer(0).rotation();
  EXPECT_EQ(rotation.rotary_dim(), 22);
  ASSERT_EQ(rotation.num_pairs(), 11);
  EXPECT_NEAR(rotation.inv_freq()[1], 0.41596, 5e-6);
  for (std::size_t j = 0; j < 11; ++j) {
    EXPECT_NEAR(rotation.inv_freq()[j], std::pow(10000.0, -2 * static_cast<double>(j) / 21), 1e-15);
  }
}

TEST_F(Lenient, TakesRopeTypeOverType_C1) {
  const json scaling = {{"type", "linear"}, {"rope_type", "dynamic"}, {"factor", 2.0}};
  EXPECT_TRUE(tolerated({{"rope_scaling", scaling}}, "RP011").layer(0).depends_on_length());
}

TEST_F(Lenient, LetsRopeScalingWinOverRopeParameters) {
  const auto model = tolerated({{"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}},
                                {"rope_parameters", {{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 500.0}}}},
                               "RP012");
  EXPECT_EQ(model.layer(0).rotation().inv_freq(), linear_frequencies(10000, 64, 2).inv_freq);
}

TEST_F(Lenient, TakesTheBaseThatStandsInside_C5) {
  const auto model = tolerated({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 500.0}}}}, "RP012");
  EXPECT_EQ(model.layer(0).rotation().inv_freq(), default_frequencies(500, 64).inv_freq);
}

TEST_F(Lenient, TakesTheShareThatStandsInside) {
  const auto model = tolerated({{"model_type", "stablelm"},
                                {"partial_rotary_factor", 0.25},
                                {"rope_parameters", {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}}}},
                               "RP017");
  EXPECT_EQ(model.layer(0).rotation().rotary_dim(), 32);
}

TEST_F(Lenient, TakesTheOriginalLengthThatStandsOutside) {
  const json yarn = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 2048}};
  const auto model = tolerated({{"original_max_position_embeddings", 1024}, {"rope_scaling", yarn}}, "RP012");
  EXPECT_EQ(model.original_max_position_embeddings(), 1024);
}

TEST_F(Lenient, ReadsNumbersWrittenAsStrings_C7) {
  const auto model = tolerated(
      {{"rope_theta", "500"}, {"num_attention_heads", "4"}, {"rope_scaling", {{"type", "linear"}, {"factor", "4.0"}}}},
      "RP023");
  EXPECT_EQ(model.layer(0).num_q_heads(), 4);
  EXPECT_EQ(model.layer(0).rotation().inv_freq(), linear_frequencies(500, 128, 4).inv_freq);
  for (const char* no_number : {"", "8x", "NaN", "Infinity", "-8", "0", "1e999", "[8]", "true"}) {
    refused({{"rope_theta", no_number}});
  }
}

TEST_F(Lenient, ReadsAnObjectWrittenInsideAString_C2) {
  const auto model = tolerated({{"rope_scaling", R"({"rope_type": "linear", "factor": 4.0})"}}, "RP023");
  EXPECT_EQ(model.layer(0).rotation().inv_freq()[0], 0.25);
  for (const char* no_object : {"", "linear", "[]", "7", "{", R"({"rope_type": "linear"})"}) {
    refused({{"rope_scaling", no_object}});
  }
}

TEST_F(Lenient, TakesTheLastOfTwoEqualKeys) {
  std::string config = small_llama().dump();
  config.insert(config.size() - 1, R"(, "rope_theta": 500)");
  EXPECT_EQ(tolerated(config, "RP025").layer(0).rotation().inv_freq(), default_frequencies(500, 64).inv_freq);
}

TEST_F(Lenient, TurnsTheWholeHeadWhereTheCodeReadsNoShare) {
  const json half = {{"partial_rotary_factor", 0.5}};
  EXPECT_EQ(tolerated(half, "RP025", ErrorCode::unsupported).layer(0).rotation().rotary_dim(), 64);
  // Under any other rule transformers makes a table of half the width, and fails on it.
  const std::string path =
      file(small_llama({{"partial_rotary_factor", 0.5}, {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}).dump());
  error_sentence(ErrorCode::unsupported, [&] { read_model(path.c_str(), {.lenient = true}); });
}

TEST_F(Lenient, PairsHalvesWhereTheCodeReadsNoOtherLayout) {
  const auto model = tolerated({{"rope_interleaved", true}}, "RP025", ErrorCode::unsupported);
  EXPECT_EQ(model.layer(0).rotation().pairing_in(), Pairing::half);
}

TEST_F(Lenient, TurnsByThePlainRuleWhereTheCodeHasNoOther) {
  const auto model = tolerated({{"model_type", "gptj"}, {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}}, "RP025",
                               ErrorCode::unsupported);
  EXPECT_EQ(model.layer(0).rotation().inv_freq(), default_frequencies(10000, 64).inv_freq);
}

class OddFileReadLeniently : public testing::TestWithParam<std::string> {};

std::vector<std::string> refused_files() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(errors)) {
    const json expected = json::parse(std::ifstream(entry.path() / "expected.json"));
    if (expected["verdict"] == "refuse") names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Of what strict reading refuses, only these have numbers that a loader would go on with.
TEST_P(OddFileReadLeniently, IsStillRefusedUnlessLoadersHaveNumbersForIt) {
  static const std::set<std::string> with_numbers{"duplicate-key", "linear-factor-string", "rotary-width-odd",
                                                  "theta-string", "type-and-rope-type-contradict"};
  const std::string path = (errors / GetParam() / "config.json").string();
  if (!with_numbers.contains(GetParam())) {
    EXPECT_THROW(read_model(path.c_str(), {.lenient = true}), Error);
    return;
  }
  const ModelRotations model = read_model(path.c_str(), {.lenient = true});
  EXPECT_TRUE(std::any_of(model.warnings().begin(), model.warnings().end(),
                          [](const Warning& warning) { return warning.severity == Severity::warning; }));
}

INSTANTIATE_TEST_SUITE_P(Errors, OddFileReadLeniently, testing::ValuesIn(refused_files()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_F(Lenient, TakesTheNumberThatSwitchesLlama4sTemperature) {
  const json llama4 = {{"model_type", "llama4_text"}, {"attn_temperature_tuning", 4}};
  const auto kind = [](const ModelRotations& model) { return model.layer(3).query_temperature().kind; };
  EXPECT_EQ(kind(tolerated(llama4, "RP023")), QueryTemperature::Kind::steps);
  EXPECT_EQ(kind(tolerated({{"model_type", "llama4_text"}, {"attn_temperature_tuning", 0}}, "RP023")),
            QueryTemperature::Kind::none);
}

}  // namespace
}  // namespace rotary
