// A checkpoint folder: which file is read, and whether the weights beside it agree with it.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "rotary/dtype.hpp"
#include "rotary/model.hpp"
#include "rotary/tensor_file.hpp"
#include "support/error_sentence.h"
#include "support/temporary_folder.h"

namespace rotary {
namespace {

class Checkpoint : public testing::Test {
 protected:
  void write_config(const char* more = "") const {
    folder_.write("config.json", std::string(R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 8, "num_key_value_heads": 2, "max_position_embeddings": 128, "rope_theta": 10000.0)") +
                                     more + "}");
  }

  struct Weight {
    std::string name;
    std::int64_t rows;
  };
  void write_weights(const std::vector<Weight>& weights, const char* file = "model.safetensors") const {
    std::vector<std::vector<float>> data;
    for (const Weight& weight : weights) data.emplace_back(static_cast<std::size_t>(weight.rows * 4));
    std::vector<TensorToWrite> tensors;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      tensors.push_back({weights[i].name.c_str(), ConstTensorView(data[i].data(), DType::f32, "SD", {weights[i].rows, 4})});
    }
    write_safetensors(folder_.path(file).c_str(), tensors);
  }

  ModelRotations read() const { return read_model(folder_.path("").c_str()); }
  std::string refusal() const {
    return error_sentence(ErrorCode::invalid_file, [&] { read(); });
  }

  TemporaryFolder folder_;
};

TEST_F(Checkpoint, IsReadByItsConfig) {
  write_config();
  EXPECT_EQ(read().num_layers(), 2);
}

TEST_F(Checkpoint, IsAcceptedWhereTheRowsAgree) {
  write_config();
  write_weights({{"model.layers.0.self_attn.q_proj.weight", 64}, {"model.layers.1.self_attn.k_proj.weight", 16}});
  const ModelRotations model = read();
  const auto& warnings = model.warnings();
  EXPECT_TRUE(
      std::none_of(warnings.begin(), warnings.end(), [](const Warning& w) { return std::string(w.id) == "RP027"; }));
}

TEST_F(Checkpoint, IsRefusedWhereKeysHaveOtherHeads_W1) {
  write_config();
  write_weights({{"model.layers.0.self_attn.q_proj.weight", 64}, {"model.layers.1.self_attn.k_proj.weight", 64}});
  const std::string sentence = refusal();
  for (const char* word : {"config.json", "model.layers.1.self_attn.k_proj.weight", "num_key_value_heads", "16", "64"}) {
    EXPECT_NE(sentence.find(word), std::string::npos) << word << " in: " << sentence;
  }
}

TEST_F(Checkpoint, IsRefusedWhereHeadsHaveAnotherWidth) {
  write_config(R"(, "head_dim": 16)");
  write_weights({{"model.layers.0.self_attn.q_proj.weight", 64}});
  EXPECT_NE(refusal().find("num_attention_heads * head_dim = 128 rows, got 64"), std::string::npos) << refusal();
}

TEST_F(Checkpoint, ChecksFusedProjections) {
  write_config();
  write_weights({{"model.layers.0.self_attn.qkv_proj.weight", 96}});
  EXPECT_EQ(read().num_layers(), 2);
  write_weights({{"model.layers.0.self_attn.qkv_proj.weight", 192}});
  EXPECT_NE(refusal().find("(num_attention_heads + 2 * num_key_value_heads) * head_dim = 96"), std::string::npos);
}

TEST_F(Checkpoint, AllowsAGateBesideTheQueries) {
  write_config();
  write_weights({{"model.layers.0.self_attn.q_proj.weight", 128}});
  EXPECT_EQ(read().num_layers(), 2);
}

TEST_F(Checkpoint, PassesOverTowersAndFurtherLayers) {
  write_config();
  write_weights({{"vision_tower.encoder.layers.0.self_attn.q_proj.weight", 32},
                 {"model.layers.2.self_attn.q_proj.weight", 32},
                 {"model.layers.0.self_attn.q_proj.weight", 64}});
  EXPECT_EQ(read().num_layers(), 2);
}

TEST_F(Checkpoint, SaysWhenNothingCouldBeCompared) {
  write_config();
  write_weights({{"wte.weight", 100}});
  const auto model = read();
  ASSERT_FALSE(model.warnings().empty());
  EXPECT_STREQ(model.warnings().back().id, "RP027");
}

TEST_F(Checkpoint, SaysWhenTheWeightsHaveAnotherNumberOfLayers) {
  write_config();
  const auto text_of_rp028 = [&](const std::vector<Weight>& weights) {
    write_weights(weights);
    const ModelRotations model = read();
    std::string text;
    for (const Warning& warning : model.warnings()) text += std::string(warning.id) == "RP028" ? warning.text : "";
    return text;
  };
  const Weight first{"model.layers.0.self_attn.q_proj.weight", 64}, second{"model.layers.1.mlp.up_proj.weight", 7};
  EXPECT_EQ(text_of_rp028({first, second}), "");
  EXPECT_NE(text_of_rp028({first}).find("the weights have 1 layers, and the file says 2"), std::string::npos);
  const std::string more = text_of_rp028({first, second, {"model.layers.3.mlp.up_proj.weight", 7}});
  EXPECT_NE(more.find("the weights have 4 layers, and the file says 2; the further ones may"), std::string::npos) << more;
}

TEST_F(Checkpoint, OfMetaIsReadByItsParams) {
  folder_.write("params.json", R"({"dim": 64, "n_layers": 2, "n_heads": 8, "multiple_of": 256})");
  write_weights({{"layers.0.attention.wq.weight", 64}, {"layers.0.attention.wk.weight", 64}}, "consolidated.safetensors");
  EXPECT_STREQ(read().format(), "params.json");
  write_weights({{"layers.0.attention.wk.weight", 16}}, "consolidated.safetensors");
  EXPECT_NE(refusal().find("layers.0.attention.wk.weight"), std::string::npos);
}

TEST_F(Checkpoint, WithNothingToReadIsRefused) {
  EXPECT_NE(refusal().find("config.json, params.json or a GGUF"), std::string::npos);
}

}  // namespace
}  // namespace rotary
