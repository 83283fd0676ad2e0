// What a layer's attention does beside rotation, scale and causality is refused where it would change the result, and only
// there.
#include "models/plain_attention.h"

#include <gtest/gtest.h>

#include <string>

#include "support/error_sentence.h"
#include "support/temporary_folder.h"

namespace rotary {
namespace {

class PlainAttention : public testing::Test {
 protected:
  ModelRotations model(const char* config) const { return read_model(folder_.write("config.json", config).c_str()); }
  static std::string refusal(const LayerRotation& layer, std::int64_t num_keys, std::int64_t length) {
    return error_sentence(ErrorCode::unsupported, [&] { require_plain_attention("attend", layer, num_keys, length); });
  }
  TemporaryFolder folder_;
};

TEST_F(PlainAttention, IsThatOfLlamaAtAnyLength) {
  const auto llama = model(R"({"model_type": "llama", "rope_theta": 10000})");
  require_plain_attention("attend", llama.layer(0), 1'000'000, 1'000'000);
}

TEST_F(PlainAttention, EndsWhereAWindowHidesAKey) {
  const auto mistral = model(R"({"model_type": "mistral", "rope_theta": 10000, "sliding_window": 100})");
  require_plain_attention("attend", mistral.layer(0), 100, 100);
  EXPECT_EQ(refusal(mistral.layer(0), 101, 101),
            "attend: the layer's sliding window of 100 keys hides some of the 101, which attention does not support yet");
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
  EXPECT_NE(refusal(llama4.layer(0), 101, 101).find("chunks of 100 positions"), std::string::npos);
}

TEST_F(PlainAttention, EndsWhereQueriesAreScaledByTheirPosition) {
  const auto ministral = model(R"({"model_type": "ministral3", "rope_parameters": {"rope_type": "yarn", "factor": 16,
      "rope_theta": 1000000, "original_max_position_embeddings": 100, "llama_4_scaling_beta": 0.1}})");
  require_plain_attention("attend", ministral.layer(0), 100, 100);  // the last position is 99
  EXPECT_NE(refusal(ministral.layer(0), 101, 101).find("multiplies queries by a factor of their position, 1.069"),
            std::string::npos);
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
