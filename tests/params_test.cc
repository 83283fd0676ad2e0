// params.json of Meta and Mistral. Expected values: V1 to V3 and V17 of docs/frequencies.md's sources, worked out in float64
// from the formulas.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include <nlohmann/json.hpp>

#include "rotary/frequencies.hpp"
#include "rotary/model.hpp"
#include "support/error_sentence.h"
#include "support/temporary_folder.h"

namespace rotary {
namespace {

using nlohmann::json;

class Params : public testing::Test {
 protected:
  std::string file(json params, const char* changes = "{}") const {
    params.merge_patch(json::parse(changes));
    return folder_.write("params.json", params.dump());
  }
  ModelRotations read(const json& params, const char* changes = "{}") const {
    return read_model(file(params, changes).c_str());
  }
  std::string refusal(const json& params, const char* changes) const {
    const std::string path = file(params, changes);
    return error_sentence(ErrorCode::invalid_file, [&] { read_model(path.c_str()); });
  }
  static std::string source_of(const LayerRotation& layer, const std::string& name) {
    for (const ValueSource& value : layer.provenance()) {
      if (value.name == name) return value.source;
    }
    return "nowhere";
  }
  static bool warns(const ModelRotations& model, const std::string& id) {
    for (const Warning& warning : model.warnings()) {
      if (warning.id == id) return true;
    }
    return false;
  }

  const json llama2_ = json::parse(R"({"dim": 4096, "multiple_of": 256, "n_heads": 32, "n_layers": 32, "norm_eps": 1e-5,
                                       "vocab_size": -1})");
  const json llama31_ = json::parse(R"({"dim": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 8, "multiple_of": 1024,
                                        "rope_theta": 500000.0, "use_scaled_rope": true})");
  const json scout_ = json::parse(R"({"dim": 5120, "n_layers": 48, "n_heads": 40, "n_kv_heads": 8, "multiple_of": 2048,
                                      "rope_theta": 500000.0, "use_scaled_rope": true, "rope_scaling_factor": 16.0,
                                      "rope_high_freq_factor": 1, "nope_layer_interval": 4, "use_qk_norm": true,
                                      "attention_chunk_size": 8192, "attn_temperature_tuning": true, "floor_scale": 8192.0,
                                      "attn_scale": 0.1})");
  const json mistral_ = json::parse(R"({"dim": 4096, "n_layers": 34, "head_dim": 128, "hidden_dim": 14336, "n_heads": 32,
                                        "n_kv_heads": 8, "rope_theta": 1000000.0})");
  TemporaryFolder folder_;
};

TEST_F(Params, OfLlama2TurnNeighboursByTheBaseOfItsCode) {
  const ModelRotations model = read(llama2_);
  EXPECT_STREQ(model.model_type(), "llama");
  EXPECT_STREQ(model.format(), "params.json");
  ASSERT_EQ(model.num_layers(), 32);
  const Rotation& rotation = model.layer(31).rotation();
  EXPECT_EQ(rotation.pairing_in(), Pairing::interleaved);
  EXPECT_EQ(rotation.head_dim(), 128);
  EXPECT_NEAR(rotation.inv_freq()[1], std::pow(1e4, -2.0 / 128), 1e-15);
  EXPECT_EQ(model.layer(0).num_kv_heads(), 32);
  EXPECT_TRUE(warns(model, "RP009"));
}

TEST_F(Params, OfLlama31AreScaledByMetasOwnNumbers_V1) {
  const ModelRotations model = read(llama31_);
  const auto& inv_freq = model.layer(0).rotation().inv_freq();
  EXPECT_NEAR(inv_freq[28], 3.21144599475e-3, 1e-13);
  EXPECT_NEAR(inv_freq[31], 8.5675141292e-4, 1e-14);
  EXPECT_NEAR(inv_freq[63], 3.06892598891e-7, 1e-17);
  EXPECT_EQ(model.original_max_position_embeddings(), 8192);
  EXPECT_TRUE(warns(model, "RP024")) << "the factor is Meta's 8, and Llama 3.2 has 32 elsewhere";
}

TEST_F(Params, TakeTheFactorThatTheFileNames_V2) {
  const ModelRotations model = read(llama31_, R"({"dim": 2048, "n_layers": 16, "rope_scaling_factor": 32.0})");
  const auto& inv_freq = model.layer(0).rotation().inv_freq();
  EXPECT_NEAR(inv_freq[15], 1.29054792821e-3, 1e-13);
  EXPECT_NEAR(inv_freq[31], 9.41830672543e-8, 1e-18);
  EXPECT_FALSE(warns(model, "RP024"));
}

TEST_F(Params, OfLlama4LeaveEveryFourthLayerUnturnedAndWarmItsQueries_V3) {
  const ModelRotations model = read(scout_);
  const LayerRotation turning = model.layer(0), still = model.layer(3);
  EXPECT_NEAR(turning.rotation().inv_freq()[34], 9.384738703573802e-4, 1e-18);
  EXPECT_NEAR(turning.rotation().inv_freq()[35], 4.7781061769823416e-5, 1e-19);
  EXPECT_EQ(turning.attention_chunk_size(), 8192);
  EXPECT_EQ(turning.norm_order(), NormOrder::after_rotation);
  EXPECT_EQ(turning.query_temperature().at(1e6), 1);

  ASSERT_EQ(still.turning(), Turning::no_rotation);
  EXPECT_EQ(still.attention_chunk_size(), 0);
  EXPECT_EQ(still.query_temperature().at(8190), 1);
  EXPECT_NEAR(still.query_temperature().at(8191), 1.0693147180559945, 1e-15);
  EXPECT_NEAR(still.query_temperature().at(10485759), 1.7155396301896735, 1e-15);
  EXPECT_EQ(model.groups().size(), 24u);
}

TEST_F(Params, OfMistralCallBetaFastBetaAndBetaSlowAlpha) {
  const ModelRotations model = read(mistral_, R"({"yarn": {"factor": 16, "original_max_position_embeddings": 16384,
      "beta": 32, "alpha": 1, "apply_scale": false},
      "llama_4_scaling": {"beta": 0.1, "original_max_position_embeddings": 16384}})");
  EXPECT_STREQ(model.model_type(), "mistral");
  const LayerRotation& layer = model.layer(0);
  EXPECT_STREQ(layer.rule(), "yarn");
  EXPECT_EQ(layer.rotation().amplitude(), 1);
  EXPECT_EQ(source_of(layer, "beta_fast"), "params.json: yarn.beta");
  EXPECT_EQ(source_of(layer, "beta_slow"), "params.json: yarn.alpha");
  const Frequencies expected = yarn_frequencies(1e6, 128, {.factor = 16, .original_max_position_embeddings = 16384});
  EXPECT_EQ(layer.rotation().inv_freq(), expected.inv_freq);
  EXPECT_NEAR(layer.query_temperature().at(262143), 1.2772588722239782, 1e-15);
  EXPECT_EQ(layer.query_temperature().at(16383), 1);
}

TEST_F(Params, ScaleTheAmplitudeWhereApplyScaleSaysSo) {
  const ModelRotations model = read(mistral_, R"({"yarn": {"factor": 4, "original_max_position_embeddings": 8192,
                                                           "apply_scale": true}})");
  EXPECT_NEAR(model.layer(0).rotation().amplitude(), 1.138629436111989, 1e-15);
}

TEST_F(Params, RepeatAListOfWindowsOverTheLayers) {
  const ModelRotations model = read(mistral_, R"({"n_layers": 8, "sliding_window": [4096, null, null, null]})");
  EXPECT_EQ(model.layer(4).sliding_window(), 4096);
  EXPECT_EQ(model.layer(5).sliding_window(), 0);
}

TEST_F(Params, HaveLayersOfFewSorts) {
  json windows = json::array();
  for (int i = 1; i <= 1025; ++i) windows.push_back(i);
  const std::string path = file({{"dim", 64}, {"n_heads", 4}, {"n_layers", 1025}, {"sliding_window", windows}});
  const std::string said = error_sentence(ErrorCode::unsupported, [&] { read_model(path.c_str()); });
  EXPECT_NE(said.find("few sorts"), std::string::npos) << said;
}

TEST_F(Params, ChooseMistralsBaseByTheWindowWhereItIsMissing) {
  EXPECT_NEAR(read(mistral_, R"({"rope_theta": null})").layer(0).rotation().inv_freq()[1], std::pow(1e6, -1.0 / 64), 1e-15);
  EXPECT_NEAR(read(mistral_, R"({"rope_theta": null, "sliding_window": 4096})").layer(0).rotation().inv_freq()[1],
              std::pow(1e4, -1.0 / 64), 1e-15);
}

TEST_F(Params, AreTheHuggingFaceModelButForThePairing) {
  const std::string config = folder_.write("config.json", R"({"model_type": "llama", "hidden_size": 4096,
      "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072,
      "rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
      "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})");
  const ModelRotations here = read_model(config.c_str()), meta = read(llama31_);
  EXPECT_EQ(with_pairing(meta.layer(0).rotation(), Pairing::half).inv_freq(), here.layer(0).rotation().inv_freq());
  EXPECT_STRNE(meta.fingerprint(), here.fingerprint());
}

TEST_F(Params, HaveAWindowUnderTheNameThatOtherSystemsDoNotRead) {
  const ModelRotations model = read(mistral_, R"({"n_layers": 4, "_sliding_window": [4096, null]})");
  EXPECT_EQ(model.layer(0).sliding_window(), 4096);
  EXPECT_EQ(model.layer(1).sliding_window(), 0);
  EXPECT_EQ(source_of(model.layer(0), "sliding_window"), "params.json: _sliding_window");
}

TEST_F(Params, SayWhichPartsAreLeftOut) {
  EXPECT_FALSE(warns(read(mistral_), "RP026"));
  EXPECT_TRUE(warns(read(mistral_, R"({"vision_encoder": {"hidden_size": 1024}})"), "RP026"));
  EXPECT_TRUE(warns(read(mistral_, R"({"multimodal": {"whisper_model_args": {}}})"), "RP026"));
  EXPECT_TRUE(warns(read(llama31_, R"({"vision_num_cross_attention_layers": 8})"), "RP026"));
}

TEST_F(Params, MayBeOfAModelWithoutAttention) {
  const ModelRotations model = read(json::parse(R"({"dim": 4096, "n_layers": 64, "n_groups": 8, "model_type": "mamba"})"));
  EXPECT_STREQ(model.format(), "params.json");
  EXPECT_EQ(model.num_layers(), 64);
  EXPECT_EQ(model.layer(63).turning(), Turning::no_attention);
  EXPECT_STREQ(read(mistral_, R"({"model_type": "transformer"})").format(), "params.json");
}

TEST_F(Params, RefuseWhatCannotBe) {
  EXPECT_NE(refusal(llama2_, R"({"n_layers": 1099511627776})").find("n_layers"), std::string::npos);
  EXPECT_NE(refusal(llama2_, R"({"n_heads": 31})").find("dim must be a multiple of n_heads"), std::string::npos);
  EXPECT_NE(refusal(llama31_, R"({"n_kv_heads": 5})").find("n_kv_heads must divide n_heads"), std::string::npos);
  EXPECT_NE(refusal(llama31_, R"({"rope_theta": "500000"})").find("rope_theta"), std::string::npos);
  EXPECT_NE(refusal(llama31_, R"({"rope_scaling_factor": -8})").find("rope_scaling_factor"), std::string::npos);
  EXPECT_NE(refusal(mistral_, R"({"yarn": {"factor": 4}})").find("yarn.original_max_position_embeddings"),
            std::string::npos);
  EXPECT_NE(refusal(mistral_, R"({"head_dim": 33})").find("head_dim must be even"), std::string::npos);
  EXPECT_NE(refusal(mistral_, R"({"sliding_window": [1, 2, 3]})").find("sliding_window"), std::string::npos);
}

}  // namespace
}  // namespace rotary
