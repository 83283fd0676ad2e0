// Exact values, computed from the published rules in float64 or better and apart from this library, through whole config
// files: the keys must reach the rule as the model's own code would take them there.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "rotary/model.hpp"
#include "support/exact_frequencies.h"
#include "support/temporary_folder.h"

namespace rotary {
namespace {

using nlohmann::json;

class CheckValues : public testing::Test {
 protected:
  ModelRotations model(const std::string& config) const { return read_model(folder_.write("config.json", config).c_str()); }
  TemporaryFolder folder_;
};

/// The printed values have ten digits or more.
void expect_pairs(const Rotation& rotation, const std::vector<exact::PairValue>& values, double tolerance = 1e-11) {
  for (const auto& [pair, value] : values) {
    ASSERT_LT(pair, rotation.inv_freq().size());
    EXPECT_NEAR(rotation.inv_freq()[pair], value, tolerance * value) << "pair " << pair;
  }
}

std::string axes_of(const Rotation& rotation) {
  std::string axes;
  for (const std::uint8_t axis : rotation.axis()) axes += "thw"[axis];
  return axes;
}

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST_F(CheckValues, OfLlama31_V1) {
  const auto llama = model(R"({"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32,
      "max_position_embeddings": 131072, "rope_theta": 500000, "rope_scaling": {"rope_type": "llama3", "factor": 8,
      "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 8192}})");
  expect_pairs(llama.layer(0).rotation(), exact::llama31);
}

TEST_F(CheckValues, OfLlama32_V2) {
  const auto llama = model(R"({"model_type": "llama", "hidden_size": 2048, "num_attention_heads": 32,
      "max_position_embeddings": 131072, "rope_parameters": {"rope_theta": 500000, "rope_type": "llama3", "factor": 32,
      "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 8192}})");
  expect_pairs(llama.layer(0).rotation(), exact::llama32_1b);
}

TEST_F(CheckValues, OfLlama4ScoutCutHardWhereBothFactorsAreEqual_V3) {
  const auto scout = model(R"({"model_type": "llama4_text", "num_hidden_layers": 4, "rope_theta": 500000, "rope_scaling":
      {"rope_type": "llama3", "factor": 16, "low_freq_factor": 1, "high_freq_factor": 1,
       "original_max_position_embeddings": 8192}})");
  expect_pairs(scout.layer(0).rotation(), {{34, 9.384738703573802e-4}, {35, 4.7781061769823416e-5}});
  EXPECT_FALSE(scout.layer(3).rotates());
}

TEST_F(CheckValues, OfQwen25WithTheYarnOfItsModelCard_V4) {
  const auto qwen = model(R"({"model_type": "qwen2", "hidden_size": 3584, "num_attention_heads": 28,
      "num_key_value_heads": 4, "rope_theta": 1000000, "max_position_embeddings": 131072,
      "rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 32768}})");
  const Rotation& rotation = qwen.layer(0).rotation();
  expect_pairs(rotation, exact::qwen25_yarn);
  EXPECT_NEAR(rotation.amplitude(), 1.138629436111989, 1e-15);
}

TEST_F(CheckValues, OfDeepSeekV3AndV2LiteWithTheirScaleOfScores_V5) {
  const auto v3 = model(R"({"model_type": "deepseek_v3", "max_position_embeddings": 163840, "rope_theta": 10000,
      "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 32,
                       "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0}})");
  const LayerRotation& layer = v3.layer(0);
  expect_pairs(layer.rotation(), exact::deepseek_v3);
  EXPECT_EQ(layer.rotation().amplitude(), 1);
  EXPECT_NEAR(layer.softmax_scale(), 0.1352337788608801, 1e-16);

  const auto lite = model(R"({"model_type": "deepseek_v2", "num_hidden_layers": 27, "num_attention_heads": 16,
      "rope_theta": 10000, "max_position_embeddings": 163840, "rope_scaling": {"type": "yarn", "factor": 40,
      "original_max_position_embeddings": 4096, "mscale": 0.707, "mscale_all_dim": 0.707}})");
  EXPECT_EQ(lite.layer(0).rotation().amplitude(), 1);
  EXPECT_NEAR(lite.layer(0).softmax_scale(), 0.1147213867929261, 1e-16);
}

TEST_F(CheckValues, OfKimiK2StepHard_V6) {
  const auto kimi = model(R"({"model_type": "kimi_k2", "num_hidden_layers": 61, "num_attention_heads": 64,
      "num_key_value_heads": 64, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "max_position_embeddings": 131072,
      "rope_theta": 50000, "rope_scaling": {"type": "yarn", "factor": 32, "original_max_position_embeddings": 4096,
      "beta_fast": 1, "beta_slow": 1, "mscale": 1, "mscale_all_dim": 1}})");
  // Ten printed digits.
  expect_pairs(kimi.layer(0).rotation(), exact::kimi_k2, 1e-9);
  EXPECT_NEAR(kimi.layer(0).softmax_scale(), 1.8132604340394958 / std::sqrt(192.0), 1e-15);
}

TEST_F(CheckValues, OfGptOssWithoutTruncation_V7) {
  // The class itself has the rule; files state it, too.
  const auto oss = model(R"({"model_type": "gpt_oss", "num_hidden_layers": 24})");
  const Rotation& rotation = oss.layer(0).rotation();
  expect_pairs(rotation, exact::gpt_oss);
  EXPECT_NEAR(rotation.amplitude(), 1.3465735902799727, 1e-15);
}

TEST_F(CheckValues, OfYarnLlama2_V8) {
  const auto llama = model(R"({"model_type": "llama", "rope_theta": 10000, "max_position_embeddings": 131072,
      "rope_scaling": {"type": "yarn", "factor": 32, "original_max_position_embeddings": 4096}})");
  const Rotation& rotation = llama.layer(0).rotation();
  expect_pairs(rotation, exact::yarn_llama2_128k);
  EXPECT_NEAR(rotation.amplitude(), 1.3465735902799727, 1e-15);
}

TEST_F(CheckValues, OfMistral4FromItsClass_V9) {
  const auto mistral = model(R"({"model_type": "mistral4"})");
  expect_pairs(mistral.layer(0).rotation(), exact::mistral4);
  EXPECT_NEAR(mistral.layer(0).softmax_scale(), 2.2058280296038424 / std::sqrt(128.0), 1e-15);
}

TEST_F(CheckValues, OfDeepSeekV4sTwoSets_V10) {
  const auto deepseek = model(R"({"model_type": "deepseek_v4", "num_hidden_layers": 3, "compress_ratios": [0, 4, 128],
      "rope_theta": 10000, "compress_rope_theta": 160000, "rope_scaling": {"type": "yarn", "factor": 16,
      "original_max_position_embeddings": 65536, "beta_fast": 32, "beta_slow": 1}})");
  for (const int compressed : {1, 2}) {
    const Rotation& rotation = deepseek.layer(compressed).rotation();
    expect_pairs(rotation, exact::deepseek_v4_compress);
    EXPECT_EQ(rotation.amplitude(), 1);
    EXPECT_EQ(rotation.rotary_offset(), 448);
  }
  expect_pairs(deepseek.layer(0).rotation(), {{31, std::pow(10000.0, -31.0 / 32)}});
  EXPECT_TRUE(deepseek.layer(0).rotates_values());
  EXPECT_TRUE(deepseek.layer(0).unrotates_output());
}

TEST_F(CheckValues, OfYarnAmplitudesDerivedAndGiven_V11) {
  const auto olmo = model(R"({"model_type": "olmo3", "num_hidden_layers": 4, "max_position_embeddings": 65536,
      "rope_theta": 500000, "rope_scaling":
      {"rope_type": "yarn", "factor": 8, "original_max_position_embeddings": 8192}})");
  EXPECT_NEAR(olmo.layer(3).rotation().amplitude(), 1.2079441541679836, 1e-15);
  EXPECT_EQ(olmo.layer(0).rotation().amplitude(), 1);

  json laguna = {{"model_type", "laguna"},
                 {"num_hidden_layers", 2},
                 {"rope_parameters",
                  {{"full_attention",
                    {{"rope_type", "yarn"},
                     {"rope_theta", 500000},
                     {"factor", 64},
                     {"original_max_position_embeddings", 4096},
                     {"partial_rotary_factor", 0.5}}}}}};
  EXPECT_NEAR(model(laguna.dump()).layer(0).rotation().amplitude(), 1.4158883083359672, 1e-15);
  laguna["rope_parameters"]["full_attention"]["attention_factor"] = 1.0;
  EXPECT_EQ(model(laguna.dump()).layer(0).rotation().amplitude(), 1);
}

TEST_F(CheckValues, OfLongRopeAmplitudes_V12) {
  const auto phi = [&](std::int64_t original, std::int64_t length, const json& more = json::object()) {
    json config = {{"model_type", "phi3"},
                   {"hidden_size", 3072},
                   {"num_attention_heads", 32},
                   {"original_max_position_embeddings", original},
                   {"max_position_embeddings", length},
                   {"rope_scaling",
                    {{"type", "longrope"},
                     {"short_factor", std::vector<double>(48, 1.0)},
                     {"long_factor", std::vector<double>(48, 2.0)}}}};
    config["rope_scaling"].update(more);
    return model(config.dump());
  };
  EXPECT_NEAR(phi(4096, 131072).layer(0).rotation(1).amplitude(), 1.1902380714238083, 1e-15);
  EXPECT_NEAR(phi(8192, 131072).layer(0).rotation(9000).amplitude(), 1.1435437497937313, 1e-15);
  const auto given = phi(4096, 131072, {{"short_mscale", 1.243163121016122}, {"long_mscale", 1.243163121016122}});
  for (const int length : {1, 5000}) EXPECT_EQ(given.layer(0).rotation(length).amplitude(), 1.243163121016122);
}

TEST_F(CheckValues, OfHunyuansAlpha_V13) {
  const auto hunyuan = model(R"({"model_type": "hunyuan_v1_dense", "head_dim": 128, "rope_theta": 10000,
      "rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}})");
  EXPECT_FALSE(hunyuan.layer(0).depends_on_length());
  expect_pairs(hunyuan.layer(0).rotation(), exact::hunyuan_alpha_1000);
}

TEST_F(CheckValues, OfDynamicNtkInInternLM2_V14) {
  const auto intern = model(R"({"model_type": "internlm2", "hidden_size": 4096, "num_hidden_layers": 32,
      "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 32768, "rope_theta": 1000000,
      "rope_scaling": {"type": "dynamic", "factor": 2.0}})");
  const LayerRotation& layer = intern.layer(0);
  expect_pairs(layer.rotation(32768), {{63, std::pow(1e6, -126.0 / 128)}});
  expect_pairs(layer.rotation(32769), {{1, std::pow(1000062.0039982884, -2.0 / 128)}});
  expect_pairs(layer.rotation(65536), {{63, 4.136459202505732e-7}});
  expect_pairs(layer.rotation(131072), {{63, 1.772768229645314e-7}});
}

TEST_F(CheckValues, OfGemma4sSilentPairsAndGemma3sGlobalLayers_V16) {
  const auto gemma4 = model(R"({"model_type": "gemma4_text", "num_hidden_layers": 6})");
  const Rotation& full = gemma4.layer(5).rotation();
  ASSERT_EQ(full.num_pairs(), 256);
  expect_pairs(full, {{1, 0.947463525655}, {31, 0.187688429358}, {63, 0.0333762469429}});
  for (std::size_t j = 64; j < 256; ++j) EXPECT_EQ(full.inv_freq()[j], 0);
  EXPECT_EQ(gemma4.layer(0).head_dim(), 256);

  const auto gemma3 = model(R"({"model_type": "gemma3_text", "num_hidden_layers": 12, "rope_theta": 1000000,
      "rope_local_base_freq": 10000, "rope_scaling": {"rope_type": "linear", "factor": 8.0}})");
  for (const int global : {5, 11}) {
    expect_pairs(gemma3.layer(global).rotation(), exact::gemma3_global);
  }
  const auto large = model(R"({"model_type": "gemma3_text", "num_hidden_layers": 6, "head_dim": 128, "rope_theta": 1000000,
      "rope_local_base_freq": 10000, "rope_scaling": {"rope_type": "linear", "factor": 8.0}})");
  expect_pairs(large.layer(5).rotation(), {{63, 1.55117220094e-7}});
}

TEST_F(CheckValues, OfQueryTemperatures_V17) {
  const auto llama4 = model(R"({"model_type": "llama4_text", "rope_theta": 500000})");
  const QueryTemperature& steps = llama4.layer(3).query_temperature();
  for (const auto& [position, factor] : std::vector<std::pair<double, double>>{{0, 1},
                                                                               {8190, 1},
                                                                               {8191, 1.0693147180559945},
                                                                               {16383, 1.109861228866811},
                                                                               {131071, 1.2833213344056216},
                                                                               {1048575, 1.4859812404361672},
                                                                               {10485759, 1.7155396301896735}}) {
    EXPECT_NEAR(steps.at(position), factor, 1e-15) << position;
  }
  EXPECT_EQ(llama4.layer(0).query_temperature().kind, QueryTemperature::Kind::none);

  const auto ministral = model(R"({"model_type": "ministral3"})");
  for (const auto& [position, factor] : std::vector<std::pair<double, double>>{
           {16383, 1}, {16384, 1.0693147180559945}, {32768, 1.109861228866811}, {262143, 1.2772588722239782}}) {
    EXPECT_NEAR(ministral.layer(0).query_temperature().at(position), factor, 1e-15) << position;
  }
}

TEST_F(CheckValues, OfModelsWithSlicesAndBasesOfTheirOwn_V18) {
  const auto modernbert = model(R"({"model_type": "modernbert"})");
  expect_pairs(modernbert.layer(0).rotation(), {{1, 0.687656021934}, {31, 9.08884645906e-6}});
  expect_pairs(modernbert.layer(1).rotation(), {{31, 1.33352143216e-4}});
  const auto minimax = model(R"({"model_type": "minimax_m2", "rotary_dim": 64, "rope_theta": 5000000})");
  expect_pairs(minimax.layer(0).rotation(), {{1, 0.617528758126}, {31, 3.23871556374e-7}});
  const auto neox = model(R"({"model_type": "gpt_neox", "rotary_pct": 0.25, "rotary_emb_base": 10000})");
  EXPECT_EQ(neox.layer(0).rotation().rotary_dim(), 24);
  expect_pairs(neox.layer(0).rotation(), {{11, 2.15443469003e-4}});
  const auto gptj = model(R"({"model_type": "gptj"})");
  expect_pairs(gptj.layer(0).rotation(), {{31, 1.33352143216e-4}});
}

TEST_F(CheckValues, OfTheAxesOfMRope_V20) {
  const auto qwen2 = model(R"({"model_type": "qwen2_vl_text"})");
  EXPECT_EQ(axes_of(qwen2.layer(0).rotation()), repeated("t", 16) + repeated("h", 24) + repeated("w", 24));
  const auto qwen3 = model(R"({"model_type": "qwen3_vl_text", "rope_theta": 5000000})");
  EXPECT_EQ(axes_of(qwen3.layer(0).rotation()), repeated("thw", 20) + "tttt");
  const auto qwen35 = model(R"({"model_type": "qwen3_5_text"})");
  EXPECT_EQ(axes_of(qwen35.layer(3).rotation()), repeated("thw", 10) + "th");
  const auto ernie = model(R"({"model_type": "ernie4_5_vl_moe_text"})");
  EXPECT_EQ(axes_of(ernie.layer(0).rotation()), repeated("hw", 22) + repeated("t", 20));
  const auto glm = model(R"({"model_type": "glm4v_moe_text", "head_dim": 128})");
  EXPECT_EQ(axes_of(glm.layer(0).rotation()), repeated("t", 8) + repeated("h", 12) + repeated("w", 12));
  // Angles at (t, h, w) = (5, 7, 9).
  const Rotation& rotation = qwen3.layer(0).rotation();
  const double position[] = {5, 7, 9};
  for (const auto& [pair, angle] : std::vector<std::pair<std::size_t, double>>{{1, 5.50080986294},
                                                                               {2, 5.55775882314},
                                                                               {3, 2.42636305953},
                                                                               {59, 6.00661140943e-6},
                                                                               {60, 2.6223196257e-6},
                                                                               {63, 1.27253989402e-6}}) {
    EXPECT_NEAR(position[rotation.axis()[pair]] * rotation.inv_freq()[pair], angle, 1e-11 * angle) << pair;
  }
}

}  // namespace
}  // namespace rotary
