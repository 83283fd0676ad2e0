// Faults that other projects had between a config file and its frequencies, by the numbers of the list of faults: each as a
// file that is read here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
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

class ModelFaults : public testing::Test {
 protected:
  ModelRotations model(const json& config) const { return read_model(folder_.write("config.json", config.dump()).c_str()); }
  static const std::vector<double>& inv_freq(const ModelRotations& model, std::int64_t layer = 0) {
    return model.layer(layer).rotation().inv_freq();
  }
  static bool warns(const ModelRotations& model, const std::string& id) {
    const auto& warnings = model.warnings();
    return std::any_of(warnings.begin(), warnings.end(), [&](const Warning& warning) { return warning.id == id; });
  }
  TemporaryFolder folder_;
};

/// Release and fast path ran with unscaled frequencies; another port read only `type`.
TEST_F(ModelFaults, Llama3ScalingReachesTheFrequenciesInEverySpelling_F1_F3) {
  json rule = {
      {"factor", 8.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 512}};
  const std::vector<double> scaled = llama3_frequencies(10000, 64, {8, 1, 4, 512}).inv_freq;
  ASSERT_NE(scaled, default_frequencies(10000, 64).inv_freq);
  for (const char* key : {"type", "rope_type"}) {
    json named = rule;
    named[key] = "llama3";
    EXPECT_EQ(inv_freq(model(small_llama({{"rope_scaling", named}}))), scaled) << key;
    EXPECT_EQ(inv_freq(model(small_llama({{"rope_parameters", named}}))), scaled) << key;
  }
}

/// The linear factor was applied nowhere, or everywhere.
TEST_F(ModelFaults, Gemma3ScalesItsGlobalLayersOnly_F5) {
  const auto gemma = model({{"model_type", "gemma3_text"},
                            {"num_hidden_layers", 12},
                            {"head_dim", 128},
                            {"rope_theta", 1e6},
                            {"rope_local_base_freq", 1e4},
                            {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}});
  for (int layer = 0; layer < 12; ++layer) {
    const bool global = layer == 5 || layer == 11;
    EXPECT_EQ(inv_freq(gemma, layer), (global ? linear_frequencies(1e6, 128, 8) : default_frequencies(1e4, 128)).inv_freq)
        << layer;
    EXPECT_EQ(gemma.layer(layer).sliding_window(), global ? 0 : 4096) << layer;
  }
}

/// Constants in the code happened to fit all released models.
TEST_F(ModelFaults, AnotherBaseInTheFileIsAnotherRotation_F6) {
  for (const char* type :
       {"llama", "mixtral", "gemma", "gpt_oss", "olmo3", "cohere2", "phi3", "apertus", "esm", "zamba2"}) {
    const json changes = {{"model_type", type},
                          {"position_embedding_type", "rotary"},
                          {"use_mem_rope", true},
                          {"layer_types", json::array({"hybrid", "hybrid", "hybrid", "hybrid"})}};
    json config = small_llama(changes);
    if (std::string(type) != "zamba2") config.erase("layer_types");
    const auto before = model(config);
    config["rope_theta"] = 20000.0;
    EXPECT_NE(inv_freq(model(config)), inv_freq(before)) << type;
  }
}

/// One table for all layers.
TEST_F(ModelFaults, SlidingLayersOfDeepSeekV4KeepThePlainBase_F7) {
  const auto deepseek =
      model({{"model_type", "deepseek_v4"},
             {"num_hidden_layers", 3},
             {"compress_ratios", {0, 4, 0}},
             {"rope_theta", 10000},
             {"compress_rope_theta", 160000},
             {"rope_scaling", {{"type", "yarn"}, {"factor", 16}, {"original_max_position_embeddings", 65536}}}});
  const auto plain = default_frequencies(10000, 64).inv_freq;
  EXPECT_EQ(inv_freq(deepseek, 0), plain);
  EXPECT_EQ(inv_freq(deepseek, 2), plain);
  EXPECT_NE(inv_freq(deepseek, 1), plain);
}

/// The base was computed once from the longest length; a scale of 2 doubled every position.
TEST_F(ModelFaults, DynamicNtkLeavesShortSequencesAlone_F9_F12) {
  const auto intern = model({{"model_type", "internlm3"},
                             {"max_position_embeddings", 4096},
                             {"rope_theta", 10000},
                             {"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 6.0}}}});
  const auto plain = default_frequencies(10000, 128).inv_freq;
  for (const int length : {1, 100, 4096}) EXPECT_EQ(intern.layer(0).rotation(length).inv_freq(), plain) << length;
  EXPECT_NE(intern.layer(0).rotation(4097).inv_freq(), plain);
}

/// The exponent d / (d - 2) divides by zero.
TEST_F(ModelFaults, DynamicNtkOfTwoChannelsIsAnErrorOfTheFile_F13) {
  const std::string path = folder_.write(
      "config.json", small_llama({{"head_dim", 2}, {"rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}}}).dump());
  error_sentence(ErrorCode::invalid_file, [&] { read_model(path.c_str()); });
}

TEST_F(ModelFaults, SwappedBetasAreWarnedAbout_F15) {
  json yarn = {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 1024}};
  EXPECT_FALSE(warns(model(small_llama({{"rope_scaling", yarn}})), "RP004"));
  yarn["beta_fast"] = 1;
  yarn["beta_slow"] = 32;
  EXPECT_TRUE(warns(model(small_llama({{"rope_scaling", yarn}})), "RP004"));
}

/// One number sized the table and gave the range.
TEST_F(ModelFaults, TheRangeOfYarnComesFromTheOriginalLength_F17) {
  const json yarn = {{"type", "yarn"}, {"factor", 40.0}, {"original_max_position_embeddings", 4096}};
  const auto shorter = model(small_llama({{"max_position_embeddings", 131072}, {"rope_scaling", yarn}}));
  const auto longer = model(small_llama({{"max_position_embeddings", 163840}, {"rope_scaling", yarn}}));
  EXPECT_EQ(inv_freq(shorter), inv_freq(longer));
  EXPECT_EQ(longer.max_position_embeddings(), 163840);
  EXPECT_EQ(longer.original_max_position_embeddings(), 4096);
}

/// DeepSeek has two corrections, of the table and of the scores; ports merged or dropped one.
TEST_F(ModelFaults, TheTwoMagnitudesOfDeepSeekStayApart_F18_F19) {
  const auto deepseek = [&](double mscale, double mscale_all_dim) {
    return model({{"model_type", "deepseek_v3"},
                  {"num_hidden_layers", 1},
                  {"rope_scaling",
                   {{"type", "yarn"},
                    {"factor", 40},
                    {"original_max_position_embeddings", 4096},
                    {"mscale", mscale},
                    {"mscale_all_dim", mscale_all_dim}}}});
  };
  const auto equal = deepseek(1, 1), unequal = deepseek(1, 0.707), alone = deepseek(1, 0);
  const double plain = 1 / std::sqrt(192.0);
  EXPECT_EQ(equal.layer(0).rotation().amplitude(), 1);
  EXPECT_NEAR(equal.layer(0).softmax_scale(), plain * 1.8738542070926265, 1e-15);
  EXPECT_NEAR(unequal.layer(0).rotation().amplitude(), 1.3688879454113936 / 1.2608037774058554, 1e-15);
  EXPECT_NEAR(unequal.layer(0).softmax_scale(), plain * 1.5896261651208736, 1e-15);
  EXPECT_NEAR(alone.layer(0).rotation().amplitude(), 1.3688879454113936, 1e-15);
  EXPECT_NEAR(alone.layer(0).softmax_scale(), plain, 1e-16);
}

TEST_F(ModelFaults, ALinearFactorDividesTheAngles_F24) {
  const auto slower = model(small_llama({{"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}}));
  const auto plain = model(small_llama());
  for (std::size_t j = 0; j < 32; ++j) EXPECT_DOUBLE_EQ(4 * inv_freq(slower)[j], inv_freq(plain)[j]);
}

/// A config was changed after the model had read it, and the log said that it counted.
TEST_F(ModelFaults, WhatWasReadDoesNotFollowTheFile_F25) {
  const std::string path = folder_.write("config.json", small_llama().dump());
  const auto before = read_model(path.c_str());
  const std::vector<double> kept = inv_freq(before);
  folder_.write("config.json", small_llama({{"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}}).dump());
  EXPECT_EQ(inv_freq(before), kept);
  EXPECT_NE(inv_freq(read_model(path.c_str())), kept);
}

/// YaRN under a key that the loader did not read.
TEST_F(ModelFaults, KeysThatNothingReadsAreNamed_F26) {
  const auto yarn = model(small_llama(
      {{"rope_scaling",
        {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 1024}, {"apply_scale", false}}}}));
  ASSERT_TRUE(warns(yarn, "RP005"));
  EXPECT_NE(std::string(yarn.warnings().front().text).find("apply_scale"), std::string::npos);
}

/// Another program's slider ended at 1e6.
TEST_F(ModelFaults, LargeBasesAreTakenAsTheyAre_C11) {
  const auto command_r = model(small_llama({{"model_type", "cohere"}, {"rope_theta", 8000000.0}}));
  EXPECT_EQ(inv_freq(command_r), default_frequencies(8e6, 64).inv_freq);
}

}  // namespace
}  // namespace rotary
