// What a layer's attention does beside rotation, scale and causality: done by attention(), and refused to linear attention
// where it would change the result, and only there.
#include "models/layer_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "support/error_sentence.h"
#include "support/temporary_folder.h"

namespace rotary {
namespace {

class LayerAttentionTest : public testing::Test {
 protected:
  ModelRotations model(const char* config) const { return read_model(folder_.write("config.json", config).c_str()); }
  static std::string refusal(const LayerRotation& layer, std::int64_t num_keys, std::int64_t length) {
    return error_sentence(ErrorCode::unsupported, [&] { require_plain_attention("attend", layer, num_keys, length); });
  }
  TemporaryFolder folder_;
};
using PlainAttention = LayerAttentionTest;

/// The options of a layer for queries at 0 … length - 1.
AttentionOptions options_of(const LayerAttention& attention) {
  AttentionOptions options;
  attention.add_to(options);
  return options;
}

ConstTensorView queries(std::int64_t batch, std::int64_t length) {
  static const float zero = 0;
  return {&zero, DType::f32, "BSHD", {batch, length, 1, 64}, {0, 0, 0, 0}};
}

TEST_F(LayerAttentionTest, SaysAWindowAsTheKeysBeforeTheQuerysOwn) {
  const auto mistral = model(R"({"model_type": "mistral", "rope_theta": 10000, "sliding_window": 100})");
  const AttentionOptions last = options_of(LayerAttention("attend", mistral.layer(0), queries(1, 5), {}));
  EXPECT_EQ(last.window_left, 99);
  EXPECT_EQ(last.window_right, -1);
  const auto bert = model(R"({"model_type": "modernbert"})");
  const AttentionOptions both = options_of(LayerAttention("attend", bert.layer(1), queries(1, 5), {}));
  EXPECT_EQ(both.window_left, 64);
  EXPECT_EQ(both.window_right, 64);
  const auto llama = model(R"({"model_type": "llama", "rope_theta": 10000})");
  const AttentionOptions plain = options_of(LayerAttention("attend", llama.layer(0), queries(1, 5), {}));
  EXPECT_EQ(plain.window_left, -1);
  EXPECT_EQ(plain.window_right, -1);
  EXPECT_EQ(plain.chunk_size, 0);
  EXPECT_FALSE(plain.temperatures);
}

TEST_F(LayerAttentionTest, SaysChunks) {
  const auto llama4 = model(R"({"model_type": "llama4_text", "attention_chunk_size": 100, "rope_theta": 500000,
                                "use_qk_norm": false})");
  EXPECT_EQ(options_of(LayerAttention("attend", llama4.layer(0), queries(1, 5), {})).chunk_size, 100);
}

TEST_F(LayerAttentionTest, SaysACap) {
  const auto gemma = model(R"({"model_type": "gemma2"})");
  EXPECT_EQ(options_of(LayerAttention("attend", gemma.layer(0), queries(1, 5), {})).softcap, 50);
  const auto llama = model(R"({"model_type": "llama"})");
  EXPECT_EQ(options_of(LayerAttention("attend", llama.layer(0), queries(1, 5), {})).softcap, 0);
}

TEST_F(LayerAttentionTest, SaysATemperaturePerPosition) {
  const auto ministral = model(R"({"model_type": "ministral3", "rope_parameters": {"rope_type": "yarn", "factor": 16,
      "rope_theta": 1000000, "original_max_position_embeddings": 100, "llama_4_scaling_beta": 0.1}})");
  const std::int64_t starts[] = {99, 300};
  const Positions positions{.offsets = ConstTensorView(starts, "B", {2})};
  const LayerAttention attention("attend", ministral.layer(0), queries(2, 3), positions);
  const AttentionOptions options = options_of(attention);
  ASSERT_EQ(options.temperatures.num_elements(), 6);
  const auto* factors = static_cast<const double*>(options.temperatures.data());
  const double expected[] = {1,
                             1 + 0.1 * std::log(2.0),
                             1 + 0.1 * std::log(2.0),
                             1 + 0.1 * std::log(4.0),
                             1 + 0.1 * std::log(4.0),
                             1 + 0.1 * std::log(4.0)};
  for (int i = 0; i < 6; ++i) {
    EXPECT_DOUBLE_EQ(factors[i], expected[i]) << i;
    EXPECT_EQ(attention.temperature(i / 3, i % 3), factors[i]);
  }
}

TEST_F(LayerAttentionTest, CountsPositionsInEveryPackedSequence) {
  const auto ministral = model(R"({"model_type": "ministral3", "rope_parameters": {"rope_type": "yarn", "factor": 16,
      "rope_theta": 1000000, "original_max_position_embeddings": 2, "llama_4_scaling_beta": 0.1}})");
  const std::int32_t ends[] = {0, 3, 5};
  const float zero = 0;
  const ConstTensorView packed(&zero, DType::f32, "THD", {5, 1, 64}, {0, 0, 0});
  const LayerAttention attention("attend", ministral.layer(0), packed, {.cu_seqlens = ConstTensorView(ends, "N", {3})});
  const AttentionOptions options = options_of(attention);
  ASSERT_EQ(options.temperatures.size('T'), 5);
  const double later = 1 + 0.1 * std::log(2.0), expected[] = {1, 1, later, 1, 1};
  for (int i = 0; i < 5; ++i) EXPECT_DOUBLE_EQ(static_cast<const double*>(options.temperatures.data())[i], expected[i]);
}

TEST_F(LayerAttentionTest, RefusesWhatAttentionDoesNotHave) {
  const auto falcon = model(R"({"model_type": "falcon_h1", "key_multiplier": 0.5, "rope_theta": 10000})");
  EXPECT_NE(error_sentence(ErrorCode::unsupported, [&] { LayerAttention("attend", falcon.layer(0), queries(1, 1), {}); })
                .find("attend: the layer multiplies keys by 0.5"),
            std::string::npos);
}

TEST_F(PlainAttention, IsThatOfLlamaAtAnyLength) {
  const auto llama = model(R"({"model_type": "llama", "rope_theta": 10000})");
  require_plain_attention("attend", llama.layer(0), 1'000'000, 1'000'000);
}

TEST_F(PlainAttention, EndsWhereAWindowHidesAKey) {
  const auto mistral = model(R"({"model_type": "mistral", "rope_theta": 10000, "sliding_window": 100})");
  require_plain_attention("attend", mistral.layer(0), 100, 100);
  EXPECT_EQ(
      refusal(mistral.layer(0), 101, 101),
      "attend: the layer's sliding window of 100 keys can hide some of the 101, which linear attention does not have");
}

/// 64 keys on each side, 129 in all: the first of 66 keys is hidden from the last.
TEST_F(PlainAttention, CountsAWindowToBothSidesFromItsMiddle) {
  const auto bert = model(R"({"model_type": "modernbert"})");
  const LayerRotation& sliding = bert.layer(1);
  ASSERT_TRUE(sliding.window_is_symmetric());
  ASSERT_EQ(sliding.sliding_window(), 129);
  require_plain_attention("attend", sliding, 65, 65);
  EXPECT_NE(refusal(sliding, 66, 66).find("sliding window"), std::string::npos);
}

TEST_F(PlainAttention, EndsWhereAChunkDoes) {
  const auto llama4 = model(R"({"model_type": "llama4_text", "attention_chunk_size": 100, "rope_theta": 500000,
                                "use_qk_norm": false})");
  require_plain_attention("attend", llama4.layer(0), 100, 100);
  EXPECT_EQ(refusal(llama4.layer(0), 101, 101),
            "attend: the layer's chunks of 100 positions, of 101, hide keys of other chunks, which linear attention does "
            "not have");
  EXPECT_NE(refusal(llama4.layer(0), 37, 101).find("chunks of 100 positions, of 101"), std::string::npos);
}

TEST_F(PlainAttention, EndsWhereQueriesAreScaledByTheirPosition) {
  const auto ministral = model(R"({"model_type": "ministral3", "rope_parameters": {"rope_type": "yarn", "factor": 16,
      "rope_theta": 1000000, "original_max_position_embeddings": 100, "llama_4_scaling_beta": 0.1}})");
  require_plain_attention("attend", ministral.layer(0), 100, 100);  // the last position is 99
  EXPECT_NE(refusal(ministral.layer(0), 101, 101).find("multiplies queries by a factor of their position, 1.069"),
            std::string::npos);
}

TEST_F(PlainAttention, IsNotThatOfCapsAndSinks) {
  const auto gemma = model(R"({"model_type": "gemma2", "attn_logit_softcapping": 30})");
  EXPECT_EQ(refusal(gemma.layer(0), 1, 1), "attend: the layer caps its scores at 30, which linear attention does not have");
  const auto oss = model(R"({"model_type": "gpt_oss"})");
  EXPECT_EQ(refusal(oss.layer(0), 1, 1),
            "attend: the layer has sinks in the sum of its softmax, which linear attention does not have");
}

TEST_F(PlainAttention, IsNotThatOfScaledKeys) {
  const auto falcon = model(R"({"model_type": "falcon_h1", "key_multiplier": 0.5, "rope_theta": 10000})");
  EXPECT_NE(refusal(falcon.layer(0), 1, 1).find("multiplies keys by 0.5"), std::string::npos);
}

TEST_F(PlainAttention, IsNotThatOfNormsAfterTheRotation) {
  const auto hunyuan = model(R"({"model_type": "hunyuan_v1_dense", "rope_theta": 10000})");
  EXPECT_NE(refusal(hunyuan.layer(0), 1, 1).find("after they turn"), std::string::npos);
}

TEST_F(PlainAttention, IsNotThatOfValuesThatTurn) {
  const auto roformer = model(R"({"model_type": "roformer", "rotary_value": true})");
  EXPECT_NE(refusal(roformer.layer(0), 1, 1).find("turns values"), std::string::npos);
}

}  // namespace
}  // namespace rotary
