// Families whose code comes with the weights: what their own keys do. Values are those of the formulas in their papers and
// code, worked out apart from this library (tests/data/models has the two that transformers can run).
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "rotary/model.hpp"
#include "support/error_sentence.h"
#include "support/temporary_folder.h"

namespace rotary {
namespace {

class Remote : public testing::Test {
 protected:
  /// A file of this family with small heads of 128 and further keys.
  ModelRotations model(const std::string& model_type, const std::string& keys) const {
    return read_model(file(model_type, keys).c_str());
  }
  std::string refusal(const std::string& model_type, const std::string& keys,
                      ErrorCode code = ErrorCode::invalid_file) const {
    const std::string path = file(model_type, keys);
    return error_sentence(code, [&] { read_model(path.c_str()); });
  }
  static double base_of(const Rotation& rotation) {
    return std::pow(rotation.inv_freq().at(1), -static_cast<double>(rotation.rotary_dim()) / 2);
  }

  TemporaryFolder folder_;

 private:
  std::string file(const std::string& model_type, const std::string& keys) const {
    return folder_.write("config.json", "{\"model_type\": \"" + model_type + "\", " + keys + "}");
  }
};

const std::string small = R"("hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8)";

TEST_F(Remote, QwenStretchesItsBaseInStepsOfThePromptsLength_V14) {
  const std::string shape = R"("n_embd": 1024, "n_layer": 4, "n_head": 8, "kv_channels": 128, "seq_length": 2048, )";
  const auto qwen = model("qwen", shape + R"("use_dynamic_ntk": true, "use_logn_attn": true)");
  const LayerRotation layer = qwen.layer(0);
  EXPECT_TRUE(layer.depends_on_length());
  EXPECT_NEAR(base_of(layer.rotation(2048)), 1e4, 1e-8);
  EXPECT_NEAR(base_of(layer.rotation(2049)), 30527.7367488067, 1e-7);
  EXPECT_NEAR(base_of(layer.rotation(8192)), 72195.86008650938, 1e-7);
  EXPECT_NEAR(base_of(layer.rotation(8193)), 156588.32345714502, 1e-7);
  EXPECT_EQ(layer.query_temperature().at(2047), 1);
  EXPECT_DOUBLE_EQ(layer.query_temperature().at(4095), std::log(4096.0) / std::log(2048.0));

  EXPECT_FALSE(model("qwen", shape + R"("use_dynamic_ntk": false)").layer(0).depends_on_length());
  EXPECT_NE(refusal("qwen", shape + R"("use_logn_attn": true)").find("use_dynamic_ntk must be given"), std::string::npos);
}

TEST_F(Remote, BaichuanTurnsOrNotByItsWidth) {
  const std::string rest = R"("num_hidden_layers": 4, "num_attention_heads": )";
  EXPECT_TRUE(model("baichuan", rest + R"(32, "hidden_size": 4096)").layer(0).rotates());
  const auto large = model("baichuan", rest + R"(40, "hidden_size": 5120)");
  EXPECT_FALSE(large.layer(0).rotates());
  EXPECT_NE(std::string(large.layer(0).reason()).find("ALiBi"), std::string::npos);
  EXPECT_NE(refusal("baichuan", rest + R"(8, "hidden_size": 1024)").find("4096"), std::string::npos);
}

TEST_F(Remote, ChatGlmCountsItsKeyHeadsOnlyWithMultiQueryAttention) {
  const std::string shape = R"("hidden_size": 1024, "num_layers": 4, "num_attention_heads": 8, "multi_query_group_num": 2)";
  EXPECT_EQ(model("chatglm", shape + R"(, "multi_query_attention": true)").layer(0).num_kv_heads(), 2);
  EXPECT_EQ(model("chatglm", shape).layer(0).num_kv_heads(), 8);
}

TEST_F(Remote, RefusesTheFirstChatGlmWhichHasTwoPositions) {
  const std::string sentence = refusal("chatglm", R"("hidden_size": 4096, "num_layers": 28, "num_attention_heads": 32,
      "max_sequence_length": 2048, "position_encoding_2d": true)",
                                       ErrorCode::unsupported);
  EXPECT_NE(sentence.find("position_encoding_2d"), sentence.npos) << sentence;
  EXPECT_NE(sentence.find("two positions"), sentence.npos) << sentence;
}

TEST_F(Remote, Phi3SmallDividesScoresByTheWholeHeadWidth) {
  const auto phi = model(
      "phi3small", small + R"(, "num_key_value_heads": 2, "rope_embedding_base": 1000000, "rope_position_scale": 1.0)");
  EXPECT_DOUBLE_EQ(phi.layer(0).softmax_scale(), 1.0 / 128);
  EXPECT_NEAR(base_of(phi.layer(0).rotation()), 1e6, 1e-5);
  EXPECT_DOUBLE_EQ(model("phi3small", small + R"(, "mup_attn_multiplier": 2.0)").layer(0).softmax_scale(), 2.0 / 128);
  EXPECT_NE(
      refusal("phi3small", small + R"(, "rope_position_scale": 2.0)", ErrorCode::unsupported).find("rope_position_scale"),
      std::string::npos);
}

TEST_F(Remote, TeleChat3HasASmallerMagnitude_V11) {
  const auto telechat =
      model("telechat3", small + R"(, "num_key_value_heads": 2, "max_position_embeddings": 32768, "rope_theta": 1e6,
      "rope_scaling": {"type": "telechat3-yarn", "factor": 4.0, "original_max_position_embeddings": 8192})");
  EXPECT_DOUBLE_EQ(telechat.layer(0).rotation().amplitude(), 1.0970406052783923);
}

TEST_F(Remote, HunyuansAlphaIsAFixedBase_V13) {
  const auto hunyuan = model("hunyuan", small + R"(, "rope_theta": 10000.0, "max_position_embeddings": 32768,
      "rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}, "use_qk_norm": true)");
  EXPECT_FALSE(hunyuan.layer(0).depends_on_length());
  EXPECT_NEAR(base_of(hunyuan.layer(0).rotation()), 11158839.92507748, 1e-4);
  EXPECT_EQ(hunyuan.layer(0).norm_order(), NormOrder::after_rotation);
}

TEST_F(Remote, MiniMaxTurnsItsSoftmaxLayersOnly) {
  const auto minimax = model("minimax_text_01", small + R"(, "head_dim": 128, "rotary_dim": 64, "rope_theta": 1e7,
      "attn_type_list": [0, 0, 0, 1])");
  EXPECT_EQ(minimax.layer(0).turning(), Turning::no_attention);
  EXPECT_TRUE(minimax.layer(3).rotates());
  EXPECT_EQ(minimax.layer(3).rotation().rotary_dim(), 64);
}

TEST_F(Remote, LladaTurnsOnlyWhereItsFileSaysSo) {
  const std::string shape = R"("d_model": 1024, "n_layers": 4, "n_heads": 8, "n_kv_heads": null)";
  EXPECT_FALSE(model("llada", shape).layer(0).rotates());
  const auto turning = model("llada", shape + R"(, "rope": true, "rope_theta": 500000.0)");
  EXPECT_TRUE(turning.layer(0).rotates());
  EXPECT_EQ(turning.layer(0).num_kv_heads(), 8);
}

TEST_F(Remote, KeysOfOldFilesAreReadByTheirOwnNames) {
  const auto phi = model("mixformer-sequential", R"("n_embd": 2048, "n_layer": 24, "n_head": 32, "rotary_dim": 32)");
  EXPECT_EQ(phi.num_layers(), 24);
  EXPECT_EQ(phi.layer(0).rotation().rotary_dim(), 32);
  EXPECT_EQ(phi.layer(0).head_dim(), 64);
  const auto falcon =
      model("RefinedWebModel", R"("hidden_size": 4544, "n_layer": 32, "n_head": 71, "multi_query": true, "alibi": false)");
  EXPECT_EQ(falcon.layer(0).num_kv_heads(), 1);
  EXPECT_FALSE(model("RefinedWeb", R"("hidden_size": 1024, "n_layer": 4, "n_head": 8, "alibi": true)").layer(0).rotates());
}

// Families of transformers whose published files keep the spelling of the code that came with them.

TEST_F(Remote, NomicBertIsTheSameInBothSpellings) {
  const auto own =
      model("nomic_bert", R"("n_embd": 1024, "n_head": 8, "n_layer": 4, "n_positions": 2048, "rotary_emb_base": 500,
      "rotary_emb_fraction": 0.5, "rotary_emb_interleaved": true, "rotary_emb_scale_base": null, "rotary_scaling_factor": null)");
  EXPECT_EQ(own.layer(0).rotation().rotary_dim(), 64);
  EXPECT_EQ(own.layer(0).rotation().pairing_in(), Pairing::interleaved);
  EXPECT_NEAR(base_of(own.layer(0).rotation()), 500, 1e-9);
  const auto theirs = model("nomic_bert", small + R"(, "max_position_embeddings": 2048, "rope_theta": 500)");
  EXPECT_STREQ(
      model("nomic_bert", R"("n_embd": 1024, "n_head": 8, "n_layer": 4, "n_positions": 2048, "rotary_emb_base": 500,
      "rotary_emb_fraction": 1.0)")
          .fingerprint(),
      theirs.fingerprint());
  EXPECT_FALSE(model("nomic_bert", small + R"(, "rotary_emb_fraction": 0.0)").layer(0).rotates());
  EXPECT_NE(refusal("nomic_bert", small + R"(, "rotary_scaling_factor": 2.0)", ErrorCode::unsupported)
                .find("rotary_scaling_factor"),
            std::string::npos);
}

TEST_F(Remote, MiMoIsTheSameInBothSpellings) {
  const std::string shape = small + R"(, "num_key_value_heads": 2, "head_dim": 192, "max_position_embeddings": 4096, )";
  const auto own =
      model("mimo_v2_flash", shape + R"("hybrid_layer_pattern": [0, 1, 1, 0], "rope_theta": 1e6, "swa_rope_theta": 500,
      "swa_num_attention_heads": 8, "swa_num_key_value_heads": 4, "swa_head_dim": 192, "sliding_window_size": 128)");
  const auto theirs = model("mimo_v2_flash", shape + R"("sliding_window": 128,
      "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
      "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e6},
                          "sliding_attention": {"rope_type": "default", "rope_theta": 500}})");
  EXPECT_STREQ(own.fingerprint(), theirs.fingerprint());
  EXPECT_EQ(own.layer(1).sliding_window(), 128);
  EXPECT_NEAR(base_of(own.layer(1).rotation()), 500, 1e-9);
}

TEST_F(Remote, SaysWhereARowIsFromMemory) {
  const auto yi =
      model("Yi", R"("hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4)");
  std::string source;
  for (const ValueSource& value : yi.layer(0).provenance()) {
    if (std::string(value.name) == "base") source = value.source;
  }
  EXPECT_NE(source.find("from memory"), source.npos) << source;
}

}  // namespace
}  // namespace rotary
