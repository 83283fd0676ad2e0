// read_model against transformers' own reading of the same files (tests/data/models/README.md), and against files that must
// be refused.
#include "rotary/model.hpp"

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
#include "support/error_sentence.h"
#include "support/expected_layers.h"
#include "support/small_llama.h"
#include "support/temporary_folder.h"
#include "support/test_name.h"

namespace rotary {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const fs::path data = fs::path(ROTARY_TEST_DATA) / "models";

json read(const fs::path& path) { return json::parse(std::ifstream(path)); }

std::vector<std::string> folders_with(const fs::path& root, const std::string& file) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(root)) {
    if (fs::exists(entry.path() / file)) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// The part of a composite file that a case is about: the tower, where it is named so.
ModelRotations part_for(const ModelRotations& model, const std::string& name_of_case) {
  const bool tower = name_of_case.find("vision") != name_of_case.npos;
  return tower && !model.part_names().empty() ? model.part("vision_config") : model;
}

class RealModel : public testing::TestWithParam<std::string> {};

TEST_P(RealModel, MeansTheSameAsInTransformers) {
  const fs::path folder = data / GetParam();
  const json expected = read(folder / "expected.json");
  const ModelRotations model = read_model((folder / "config.json").c_str());
  EXPECT_STREQ(model.model_type(), expected["model_type"].get<std::string>().c_str());
  expect_same_as(part_for(model, GetParam()), expected);
}

TEST_P(RealModel, MeansTheSameInTheNewSpelling_C5) {
  const fs::path folder = data / GetParam();
  if (!fs::exists(folder / "config.v5.json")) return;  // only one spelling is published
  const ModelRotations old_spelling = read_model((folder / "config.json").c_str());
  const ModelRotations new_spelling = read_model((folder / "config.v5.json").c_str());
  expect_same_as(part_for(new_spelling, GetParam()), read(folder / "expected.json"));
  EXPECT_STREQ(new_spelling.fingerprint(), old_spelling.fingerprint());
}

INSTANTIATE_TEST_SUITE_P(Models, RealModel, testing::ValuesIn(folders_with(data, "config.json")), test_name);

class OddFile : public testing::TestWithParam<std::string> {};

/// Every case is refused, warned about or accepted as its `verdict` says.
TEST_P(OddFile, IsRefusedWarnedAboutOrAccepted) {
  const fs::path folder = data / "errors" / GetParam();
  const json expected = read(folder / "expected.json");
  const std::string path = (folder / "config.json").string();
  const std::string verdict = expected["verdict"];

  std::string said;
  try {
    const ModelRotations model = read_model(path.c_str());
    for (const Warning& warning : model.warnings()) {
      if (warning.severity == Severity::warning) said.append(warning.text).append("\n");
    }
    EXPECT_NE(verdict, "refuse") << "it was accepted";
    EXPECT_EQ(verdict == "warn", !said.empty() && GetParam() != "unknown-extra-keys") << said;
    expect_frequencies(model.layer(0).rotation(), expected["rotation"]["all"]);
  } catch (const Error& error) {
    said = error.what();
    EXPECT_EQ(verdict, "refuse") << said;
  }
  for (const std::string name : expected["names"]) EXPECT_NE(said.find(name), said.npos) << name << " in: " << said;
}

INSTANTIATE_TEST_SUITE_P(Errors, OddFile, testing::ValuesIn(folders_with(data / "errors", "config.json")), test_name);

class ReadModel : public testing::Test {
 protected:
  /// A small Llama with these keys changed; null removes one.
  std::string llama(const char* changes = "{}") const {
    return folder_.write("config.json", small_llama(json::parse(changes)).dump());
  }
  ModelRotations model(const char* changes = "{}") const { return read_model(llama(changes).c_str()); }
  std::string refusal(const char* changes, ErrorCode code = ErrorCode::invalid_file) const {
    const std::string path = llama(changes);
    return error_sentence(code, [&] { read_model(path.c_str()); });
  }
  static std::string source_of(const ModelRotations& model, const std::string& name) {
    for (const ValueSource& value : model.layer(0).provenance()) {
      if (value.name == name) return std::string(value.value) + " from " + value.source;
    }
    return "nowhere";
  }
  static bool warns(const ModelRotations& model, const std::string& about) {
    return std::any_of(model.warnings().begin(), model.warnings().end(),
                       [&](const Warning& warning) { return std::string(warning.text).find(about) != std::string::npos; });
  }

  TemporaryFolder folder_;
};

void expect_names(const std::string& sentence, std::initializer_list<const char*> words) {
  for (const char* word : words) EXPECT_NE(sentence.find(word), sentence.npos) << word << " in: " << sentence;
}

TEST_F(ReadModel, SaysWhereEveryValueComesFrom) {
  const auto from_file = model();
  EXPECT_EQ(source_of(from_file, "base"), "10000.0 from config.json: rope_theta");
  EXPECT_EQ(source_of(from_file, "num_kv_heads"), "2 from config.json: num_key_value_heads");
  EXPECT_EQ(source_of(from_file, "head_dim"), "64 from config.json: hidden_size / num_attention_heads");
  EXPECT_EQ(source_of(model(R"({"rope_theta": null})"), "base"), "10000.0 from default of llama in transformers: 10000");
  EXPECT_EQ(source_of(model(R"({"model_type": "mixtral", "rope_theta": null})"), "base"),
            "1000000.0 from default of mixtral in transformers: 1000000");
  EXPECT_EQ(source_of(model(R"({"model_type": "qwen3"})"), "head_dim"), "128 from default of qwen3 in transformers: 128");
  EXPECT_EQ(source_of(model(R"({"rope_scaling": {"type": "linear", "factor": 4}})"), "factor"),
            "4.0 from config.json: rope_scaling.factor");
}

TEST_F(ReadModel, TakesTheFolderThatHoldsTheConfig) {
  const std::string file = llama();
  EXPECT_EQ(read_model(fs::path(file).parent_path().c_str()).num_layers(), 4);
}

TEST_F(ReadModel, AcceptsTypeAndRopeTypeButNotTwoDifferentRules_C1) {
  for (const char* scaling :
       {R"("type": "linear")", R"("rope_type": "linear")", R"("type": "linear", "rope_type": "linear")"}) {
    const std::string changes = std::string(R"({"rope_scaling": {"factor": 4.0, )") + scaling + "}}";
    EXPECT_DOUBLE_EQ(model(changes.c_str()).layer(0).rotation().inv_freq()[0], 0.25) << scaling;
  }
  expect_names(refusal(R"({"rope_scaling": {"factor": 4.0, "type": "linear", "rope_type": "dynamic"}})"),
               {"type", "rope_type"});
}

TEST_F(ReadModel, RefusesAnObjectWrittenInsideAString_C2) {
  expect_names(refusal(R"({"rope_scaling": "{\"rope_type\": \"linear\", \"factor\": 4.0}"})"), {"rope_scaling", "string"});
}

TEST_F(ReadModel, TakesDefaultAsTheNameOfThePlainRule_C3) {
  const auto plain = model(R"({"rope_scaling": {"type": "default", "mrope_section": [16, 8, 8]}})");
  EXPECT_EQ(plain.layer(3).rotation().inv_freq(), model().layer(3).rotation().inv_freq());
  EXPECT_TRUE(warns(plain, "mrope_section"));
}

TEST_F(ReadModel, NeverReplacesAStatedBaseByADefault_C5) {
  const auto inside = model(R"({"model_type": "mixtral", "rope_theta": null, "rope_parameters": {"rope_theta": 10000.0}})");
  EXPECT_EQ(source_of(inside, "base"), "10000.0 from config.json: rope_parameters.rope_theta");
  expect_names(refusal(R"({"rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}})"),
               {"rope_theta", "10000", "1000000"});
}

TEST_F(ReadModel, ReadsParametersForEachSortOfLayer_C6) {
  const char* by_sort = R"({"model_type": "olmo3", "layer_types": ["full_attention", "sliding_attention",
      "full_attention", "sliding_attention"], "rope_theta": null, "rope_parameters": {
      "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 4},
      "sliding_attention": {"rope_type": "default", "rope_theta": 500}}})";
  const auto mixed = model(by_sort);
  EXPECT_EQ(mixed.layer(0).rotation().inv_freq()[0], 0.25);
  EXPECT_EQ(mixed.layer(2), mixed.layer(0));
  EXPECT_EQ(mixed.layer(1).rotation().inv_freq(), default_frequencies(500, 64).inv_freq);
  EXPECT_STREQ(mixed.layer(1).label(), "sliding_attention");
  EXPECT_EQ(source_of(mixed, "base"), "1000000.0 from config.json: rope_parameters.full_attention.rope_theta");
  expect_names(refusal(R"({"rope_parameters": {"sliding_attention": {"rope_theta": 1e6}}})"),
               {"rope_parameters", "full_attention"});
}

TEST_F(ReadModel, AcceptsEverySpellingOfANumber_C7) {
  for (const char* theta : {"10000", "10000.0", "1e4", "1.0E+4"}) {
    const auto same = model((std::string(R"({"max_position_embeddings": 4096.0, "rope_theta": )") + theta + "}").c_str());
    EXPECT_EQ(same.layer(0).rotation().inv_freq(), model().layer(0).rotation().inv_freq()) << theta;
    EXPECT_EQ(same.max_position_embeddings(), 4096);
  }
}

TEST_F(ReadModel, RefusesNumbersThatCannotBeMeantWithTheirKey_C7) {
  for (const char* bad : {"0", "-1", "\"8\"", "true", "[8]", "1.5", "99999999999999"}) {
    for (const char* key : {"num_attention_heads", "num_key_value_heads", "num_hidden_layers", "max_position_embeddings"}) {
      expect_names(refusal((std::string("{\"") + key + "\": " + bad + "}").c_str()), {key});
    }
  }
  for (const char* bad : {"0", "-10000.0", "\"10000\"", "false", "{}"}) {
    expect_names(refusal((std::string("{\"rope_theta\": ") + bad + "}").c_str()), {"rope_theta"});
  }
  for (const char* bad : {"NaN", "Infinity", "1e999"}) {
    const std::string path =
        folder_.write("config.json", std::string("{\"model_type\": \"llama\", \"rope_theta\": ") + bad + "}");
    expect_names(error_sentence(ErrorCode::invalid_file, [&] { read_model(path.c_str()); }), {"rope_theta"});
  }
}

/// Published files of models with state-space layers have "time_step_limit": [0.0, Infinity].
TEST_F(ReadModel, PassesOverPythonsConstantsUnderKeysThatItDoesNotRead) {
  const std::string path = folder_.write("config.json", R"({"time_step_limit": [0.0, Infinity, -Infinity, NaN],
      "_name_or_path": "NaN/Infinity", "model_type": "llama", "hidden_size": 512, "num_hidden_layers": 4,
      "num_attention_heads": 8, "max_position_embeddings": 4096, "rope_theta": 10000.0})");
  EXPECT_EQ(read_model(path.c_str()).layer(0).rotation().head_dim(), 64);
}

TEST_F(ReadModel, NamesPythonsConstantsWhereItNeedsANumber) {
  const std::string path = folder_.write("config.json", R"({"model_type": "llama", "hidden_size": 512,
      "num_hidden_layers": 4, "num_attention_heads": 8, "max_position_embeddings": 4096, "rope_theta": -Infinity})");
  expect_names(error_sentence(ErrorCode::invalid_file, [&] { read_model(path.c_str()); }), {"rope_theta", "-Infinity"});
}

TEST_F(ReadModel, WarnsAboutABaseBelowEveryModels_C10) {
  EXPECT_TRUE(warns(model(R"({"rope_theta": 1})"), "rope_theta 1"));
}

TEST_F(ReadModel, ShowsTheTrainedAndTheOriginalLength_C13) {
  const auto yarn = model(R"({"max_position_embeddings": 16384, "rope_scaling":
      {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}})");
  EXPECT_EQ(source_of(yarn, "max_position_embeddings"), "16384 from config.json: max_position_embeddings");
  EXPECT_EQ(source_of(yarn, "original_max_position_embeddings"),
            "4096 from config.json: rope_scaling.original_max_position_embeddings");
  EXPECT_TRUE(yarn.warnings().empty());
}

TEST_F(ReadModel, RefusesTwoGenerationsThatDisagree) {
  expect_names(refusal(R"({"rope_scaling": {"type": "linear", "factor": 2.0},
                           "rope_parameters": {"rope_type": "linear", "factor": 4.0}})"),
               {"rope_scaling", "rope_parameters"});
  const auto agreeing = model(R"({"rope_scaling": {"type": "linear", "factor": 2.0},
                                  "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000}})");
  EXPECT_EQ(agreeing.layer(0).rotation().inv_freq()[0], 0.5);
}

TEST_F(ReadModel, RefusesParametersWithoutARule) {
  expect_names(refusal(R"({"rope_scaling": {"factor": 4.0}})"), {"rope_scaling.rope_type"});
}

TEST_F(ReadModel, RefusesMissingKeysOfARule) {
  for (const char* key : {"factor", "low_freq_factor", "high_freq_factor"}) {
    json scaling = {{"rope_type", "llama3"},
                    {"factor", 8},
                    {"low_freq_factor", 1},
                    {"high_freq_factor", 4},
                    {"original_max_position_embeddings", 2048}};
    scaling.erase(key);
    expect_names(refusal(json{{"rope_scaling", scaling}}.dump().c_str()), {"llama3", key});
  }
  expect_names(refusal(R"({"rope_scaling": {"rope_type": "dynamic"}})"), {"dynamic", "factor"});
}

TEST_F(ReadModel, ReadsLongRopeWithItsOriginalLengthInEitherPlace) {
  json lists = {{"rope_type", "longrope"},
                {"short_factor", std::vector<double>(32, 1.0)},
                {"long_factor", std::vector<double>(32, 8.0)}};
  json config = {{"original_max_position_embeddings", 1024}, {"rope_scaling", lists}};
  const auto outside = model(config.dump().c_str());
  EXPECT_EQ(outside.layer(0).rotation(1024).inv_freq()[0], 1);
  EXPECT_EQ(outside.layer(0).rotation(1025).inv_freq()[0], 0.125);
  // sqrt(1 + ln 4 / ln 1024), Ding et al. 2024
  EXPECT_DOUBLE_EQ(outside.layer(0).rotation(1).amplitude(), std::sqrt(1 + std::log(4.0) / std::log(1024.0)));

  lists["original_max_position_embeddings"] = 2048;
  config["rope_scaling"] = lists;
  expect_names(refusal(config.dump().c_str()), {"original_max_position_embeddings", "1024", "2048"});
}

TEST_F(ReadModel, AsksForTheLengthWhereTheRuleDependsOnIt) {
  const auto dynamic = model(R"({"rope_scaling": {"type": "dynamic", "factor": 2.0}})");
  EXPECT_TRUE(dynamic.layer(0).depends_on_length());
  error_sentence(ErrorCode::invalid_argument, [&] { dynamic.layer(0).rotation(); });
  EXPECT_EQ(dynamic.layer(0).rotation(4096).inv_freq(), model().layer(0).rotation().inv_freq());
  EXPECT_NE(dynamic.layer(0).rotation(4097).inv_freq(), model().layer(0).rotation().inv_freq());
  error_sentence(ErrorCode::invalid_argument, [&] { dynamic.layer(0).rotation(-1); });
}

TEST_F(ReadModel, KeepsTheScaleOfTheSoftmaxWhereYarnHasMscaleAllDim) {
  const auto yarn = model(R"({"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024,
                                               "mscale": 1.0, "mscale_all_dim": 1.0}})");
  EXPECT_EQ(yarn.layer(0).softmax_scale(), 0.125);
  EXPECT_EQ(yarn.layer(0).rotation().amplitude(), 1);
}

TEST_F(ReadModel, RefusesFamiliesByNameInsteadOfGuessing) {
  for (const char* type : {"gemma9_text", "coherent", "Llama", ""}) {
    expect_names(refusal((std::string("{\"model_type\": \"") + type + "\"}").c_str(), ErrorCode::unsupported),
                 {(std::string("\"") + type + "\"").c_str()});
  }
  expect_names(refusal(R"({"model_type": null})", ErrorCode::unsupported), {"model_type"});
  refusal(R"({"model_type": 7})");
}

TEST_F(ReadModel, RefusesWhatTheFamilysCodeCannotDo) {
  expect_names(refusal(R"({"partial_rotary_factor": 0.5})", ErrorCode::unsupported), {"partial_rotary_factor"});
  expect_names(refusal(R"({"rope_interleaved": true})", ErrorCode::unsupported), {"rope_interleaved"});
  model(R"({"partial_rotary_factor": 1.0, "rope_interleaved": false})");
}

TEST_F(ReadModel, RefusesHeadsThatCannotBe) {
  expect_names(refusal(R"({"num_key_value_heads": 3})"), {"num_key_value_heads", "num_attention_heads"});
  expect_names(refusal(R"({"head_dim": 7})"), {"head_dim"});
  expect_names(refusal(R"({"num_hidden_layers": 65537})"), {"num_hidden_layers"});
}

TEST_F(ReadModel, TakesNumbersThatTheFileLeavesOutFromTheClassAndSaysSo) {
  const auto bare = model(R"({"hidden_size": null, "num_hidden_layers": null})");
  EXPECT_EQ(bare.num_layers(), 32);
  EXPECT_EQ(bare.layer(0).head_dim(), 512);
  for (const char* key : {"hidden_size", "num_hidden_layers"}) EXPECT_TRUE(warns(bare, key)) << key;
  EXPECT_EQ(source_of(bare, "num_layers"), "32 from default of llama in transformers: 32");
}

TEST_F(ReadModel, NamesKeysThatOtherFamiliesWouldRead) {
  EXPECT_TRUE(warns(model(R"({"rope_ratio": 50})"), "rope_ratio"));
  EXPECT_TRUE(warns(model(R"({"auto_map": {"AutoModel": "x.Y"}})"), "auto_map"));
}

TEST_F(ReadModel, GroupsLayersBySlidingWindow) {
  const auto qwen =
      model(R"({"model_type": "qwen2", "use_sliding_window": true, "sliding_window": 128, "max_window_layers": 3})");
  ASSERT_EQ(qwen.groups().size(), 2u);
  EXPECT_EQ(qwen.layer(2).sliding_window(), 0);
  EXPECT_EQ(qwen.layer(3).sliding_window(), 128);
  EXPECT_EQ(model(R"({"model_type": "qwen2", "sliding_window": 128})").layer(3).sliding_window(), 0);
  EXPECT_EQ(model(R"({"model_type": "mistral"})").layer(0).sliding_window(), 4096);
  EXPECT_EQ(model(R"({"model_type": "mistral", "sliding_window": 256})").layer(0).sliding_window(), 256);
  const auto typed = model(R"({"model_type": "qwen3", "use_sliding_window": true, "sliding_window": 64, "layer_types":
      ["full_attention", "sliding_attention", "full_attention", "full_attention"]})");
  EXPECT_EQ(typed.layer(1).sliding_window(), 64);
  EXPECT_EQ(typed.layer(2).sliding_window(), 0);
  expect_names(refusal(R"({"model_type": "qwen3", "layer_types": ["full_attention"]})"), {"layer_types"});
}

TEST_F(ReadModel, NamesTheLayersThereAre) {
  expect_names(error_sentence(ErrorCode::invalid_argument, [&] { model().layer(4); }), {"0 to 3"});
  error_sentence(ErrorCode::invalid_argument, [&] { model().layer(-1); });
}

TEST_F(ReadModel, CopiesShareTheirLayers) {
  auto first = model();
  const ModelRotations second = first;
  first = model(R"({"num_hidden_layers": 2})");
  EXPECT_EQ(first.num_layers(), 2);
  EXPECT_EQ(second.num_layers(), 4);
  EXPECT_EQ(second.layer(3).head_dim(), 64);
}

TEST_F(ReadModel, RefusesWhatIsNoConfig) {
  for (const char* text : {"", "[]", "7", "{", "{\"model_type\": \"llama\"} x"}) {
    const std::string path = folder_.write("config.json", text);
    error_sentence(ErrorCode::invalid_file, [&] { read_model(path.c_str()); });
  }
  error_sentence(ErrorCode::invalid_file, [&] { read_model(folder_.path("missing.json").c_str()); });
}

}  // namespace
}  // namespace rotary
