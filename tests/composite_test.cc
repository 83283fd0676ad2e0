// Files of several parts: which one is the model, how the others are read, and what is left out.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "rotary/model.hpp"
#include "support/error_sentence.h"
#include "support/temporary_folder.h"

namespace rotary {
namespace {

using nlohmann::json;

class Composite : public testing::Test {
 protected:
  ModelRotations model(const char* config, const ReadOptions& options = {}) const {
    return read_model(folder_.write("config.json", config).c_str(), options);
  }
  std::string refusal(const char* config, ErrorCode code = ErrorCode::invalid_file) const {
    return error_sentence(code, [&] { model(config); });
  }
  static std::vector<std::string> parts_of(const ModelRotations& model) {
    return {model.part_names().begin(), model.part_names().end()};
  }
  static std::string source_of(const LayerRotation& layer, const std::string& name) {
    for (const ValueSource& value : layer.provenance()) {
      if (value.name == name) return value.source;
    }
    return "nowhere";
  }
  static std::string texts_of(const ModelRotations& model, const std::string& id) {
    std::string texts;
    for (const Warning& warning : model.warnings()) {
      if (warning.id == id) texts.append(warning.text).append("\n");
    }
    return texts;
  }

  TemporaryFolder folder_;
};

using Parts = std::vector<std::string>;

TEST_F(Composite, IsItsTextPartWithTheOthersBesideIt) {
  const auto llava = model(R"({"model_type": "llava",
      "vision_config": {"model_type": "clip_vision_model", "num_hidden_layers": 24},
      "text_config": {"model_type": "qwen2", "num_hidden_layers": 3, "rope_theta": 5e5}})");
  EXPECT_STREQ(llava.model_type(), "llava");
  EXPECT_EQ(llava.num_layers(), 3);
  EXPECT_EQ(source_of(llava.layer(0), "base"), "config.json: text_config.rope_theta");
  EXPECT_EQ(parts_of(llava), Parts{"vision_config"});
  const auto tower = llava.part("vision_config");
  EXPECT_STREQ(tower.model_type(), "clip_vision_model");
  EXPECT_EQ(tower.num_layers(), 24);
  EXPECT_EQ(tower.layer(0).turning(), Turning::no_rotation);
  EXPECT_STREQ(tower.layer(0).reason(), "learned positions");
}

TEST_F(Composite, TakesTheFamilyOfItsClassForAPartThatDoesNotSay) {
  const auto llava = model(R"({"model_type": "llava", "text_config": {"num_hidden_layers": 3}})");
  EXPECT_EQ(llava.layer(0).head_dim(), 128) << "llama";
  EXPECT_NE(
      refusal(R"({"model_type": "exaone4_5", "text_config": {"num_hidden_layers": 3}})").find("text_config.model_type"),
      std::string::npos);
}

/// Qwen2-VL builds its own text class whatever the part calls itself: the base is that class's 1e6, not llama's 1e4.
TEST_F(Composite, TakesTheFamilyOfAFixedClassWhateverThePartSays) {
  const auto qwen = model(R"({"model_type": "qwen2_vl", "text_config": {"model_type": "llama", "hidden_size": 8192}})");
  EXPECT_DOUBLE_EQ(qwen.layer(0).rotation().inv_freq()[32], 1e-3);
}

TEST_F(Composite, LeavesOutAPartOfAnUnknownFamilyButNeverTheMainOne) {
  const auto llava = model(R"({"model_type": "llava", "text_config": {"model_type": "llama"},
                               "vision_config": {"model_type": "resnet"}})");
  EXPECT_TRUE(llava.part_names().empty());
  EXPECT_NE(texts_of(llava, "RP026").find("vision_config"), std::string::npos);
  EXPECT_NE(texts_of(llava, "RP026").find("\"resnet\""), std::string::npos);
  const std::string sentence = refusal(R"({"model_type": "llava", "text_config": {"model_type": "llamb"},
                                           "vision_config": {"model_type": "clip_vision_model"}})",
                                       ErrorCode::unsupported);
  EXPECT_NE(sentence.find("\"llamb\""), sentence.npos) << sentence;
  EXPECT_NE(sentence.find("llama"), sentence.npos) << sentence;
}

TEST_F(Composite, LeavesOutAPartWhoseOwnMainPartIsUnknown) {
  const auto sam = model(R"({"model_type": "sam2_video", "vision_config": {"model_type": "sam2_vision_model",
                             "backbone_config": {"model_type": "sam2_hiera_det_model"}}})");
  EXPECT_EQ(sam.num_layers(), 4);
  EXPECT_TRUE(sam.part_names().empty());
  EXPECT_NE(texts_of(sam, "RP026").find("vision_config.backbone_config"), std::string::npos);
}

TEST_F(Composite, SaysThatItsTextPartIsMissing) {
  const auto tower_only = model(R"({"model_type": "mistral3", "vision_config": {"model_type": "pixtral"}})");
  EXPECT_EQ(tower_only.num_layers(), 24);
  EXPECT_NE(texts_of(tower_only, "RP026").find("text_config is not in the file"), std::string::npos);
  EXPECT_NE(refusal(R"({"model_type": "mistral3"})").find("none"), std::string::npos);
}

/// transformers 5.24 reads flat text keys of five composites, and ignores them in silence in all others.
TEST_F(Composite, RefusesTextKeysAtTheTopLevelWhereTheCodeWouldIgnoreThem) {
  const char* keys = R"("num_hidden_layers": 3, "num_attention_heads": 8, "hidden_size": 1024, "rope_theta": 5e5)";
  const auto flat = model((std::string(R"({"model_type": "qwen2_vl", )") + keys + "}").c_str());
  EXPECT_EQ(source_of(flat.layer(0), "base"), "config.json: rope_theta");
  const std::string sentence = refusal((std::string(R"({"model_type": "mistral3", )") + keys + "}").c_str());
  EXPECT_NE(sentence.find("text_config must stand inside"), sentence.npos) << sentence;
}

TEST_F(Composite, NamesPartsOfPartsByTheirPath) {
  const auto pali = model(R"({"model_type": "colqwen2", "vlm_config": {"model_type": "qwen2_vl",
      "text_config": {"num_hidden_layers": 3, "rope_theta": 5e5}, "vision_config": {"depth": 2}}})");
  EXPECT_EQ(pali.num_layers(), 3);
  EXPECT_EQ(parts_of(pali), Parts{"vlm_config.vision_config"});
  EXPECT_EQ(source_of(pali.layer(0), "base"), "config.json: vlm_config.text_config.rope_theta");
  EXPECT_EQ(source_of(pali.part("vlm_config.vision_config").layer(0), "num_layers"),
            "config.json: vlm_config.vision_config.depth");
}

TEST_F(Composite, MayBeItsMainPartItself) {
  const auto csm = model(R"({"model_type": "csm", "num_hidden_layers": 3, "rope_theta": 5e5,
      "depth_decoder_config": {"num_hidden_layers": 2}, "codec_config": {"model_type": "mimi"}})");
  EXPECT_EQ(csm.num_layers(), 3);
  EXPECT_EQ(source_of(csm.layer(0), "base"), "config.json: rope_theta");
  EXPECT_EQ(parts_of(csm), (Parts{"depth_decoder_config", "codec_config"}));
  EXPECT_EQ(csm.part("depth_decoder_config").num_layers(), 2);
  EXPECT_EQ(csm.part("codec_config").layer(0).sliding_window(), 250);
}

TEST_F(Composite, NestsOnlyAFewDeep) {
  json config = {{"model_type", "llava"}, {"text_config", {{"model_type", "llama"}}}};
  for (int depth = 0; depth < 3; ++depth) config = {{"model_type", "llava"}, {"text_config", config}};
  EXPECT_EQ(model(config.dump().c_str()).num_layers(), 32);
  config = {{"model_type", "llava"}, {"text_config", config}};
  EXPECT_NE(refusal(config.dump().c_str()).find("at most 4"), std::string::npos);
}

TEST_F(Composite, OfAnUnknownFamilyIsReadByTheFamilyOfItsTextPart) {
  const char* config =
      R"({"model_type": "new_vl", "text_config": {"model_type": "new", "num_hidden_layers": 3, "rope_theta": 5e5},
                           "vision_config": {"depth": 2}})";
  EXPECT_NE(refusal(config, ErrorCode::unsupported).find("\"new_vl\""), std::string::npos);
  const auto llama = model(config, {.family = "llama"});
  EXPECT_EQ(source_of(llama.layer(0), "base"), "config.json: text_config.rope_theta");
  EXPECT_NE(texts_of(llama, "RP022").find("new_vl"), std::string::npos);
}

// ---- towers ----------------------------------------------------------------------------------------------------------

TEST_F(Composite, ReadsTheBaseOfATowerFromItsOwnKeys) {
  const auto moved = model(R"({"model_type": "mistral3", "text_config": {}, "vision_config": {"model_type": "pixtral",
      "rope_parameters": {"rope_type": "axial", "rope_theta": 100.0}}})");
  EXPECT_DOUBLE_EQ(moved.layer(0).rotation().inv_freq()[8], 0.1);
}

TEST_F(Composite, RefusesARuleThatATowerCannotFollow) {
  const std::string sentence = refusal(
      R"({"model_type": "pixtral", "rope_scaling": {"rope_type": "linear", "factor": 2.0}})", ErrorCode::unsupported);
  EXPECT_NE(sentence.find("linear"), sentence.npos) << sentence;
  EXPECT_NE(sentence.find("pixtral"), sentence.npos) << sentence;
}

TEST_F(Composite, SaysWhatTowersDoThatNoRotationExpresses) {
  const auto turning = [&](const char* config) { return model(config).layer(0).turning(); };
  EXPECT_EQ(turning(R"({"model_type": "wav2vec2-conformer", "position_embeddings_type": "rotary"})"),
            Turning::not_a_rotation);
  EXPECT_EQ(turning(R"({"model_type": "wav2vec2-conformer"})"), Turning::no_rotation);
  EXPECT_EQ(turning(R"({"model_type": "lightglue"})"), Turning::not_a_rotation);
  EXPECT_EQ(turning(R"({"model_type": "xcodec2"})"), Turning::not_a_rotation);
  EXPECT_EQ(turning(R"({"model_type": "clip_vision_model"})"), Turning::no_rotation);
  EXPECT_EQ(turning(R"({"model_type": "mistral_large4", "text_config": {"num_hidden_layers": 4}})"),
            Turning::not_a_rotation);
  EXPECT_EQ(model(R"({"model_type": "mistral_large4", "text_config": {"num_hidden_layers": 4}})").layer(3).turning(),
            Turning::no_rotation);
  EXPECT_STREQ(model(R"({"model_type": "esm"})").layer(0).reason(), "position_embedding_type is not rotary");
}

TEST_F(Composite, RefusesAMemoryAttentionWhoseHeadsAreNarrower) {
  EXPECT_EQ(model(R"({"model_type": "sam2_video", "memory_attention_downsample_rate": 1})").layer(0).head_dim(), 256);
  EXPECT_NE(refusal(R"({"model_type": "sam2_video", "memory_attention_downsample_rate": 2})", ErrorCode::unsupported)
                .find("memory_attention_downsample_rate"),
            std::string::npos);
}

}  // namespace
}  // namespace rotary
