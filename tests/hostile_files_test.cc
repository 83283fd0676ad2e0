// Model files that mean harm, or that only look like model files: they end soon, in one line that a terminal can show.
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "models/findings.h"
#include "rotary/model.hpp"
#include "support/error_sentence.h"
#include "support/gguf_builder.h"
#include "support/small_llama.h"
#include "support/temporary_folder.h"

namespace rotary {
namespace {

using nlohmann::json;

class HostileFiles : public testing::Test {
 protected:
  std::string config(const json& changes) const { return folder_.write("config.json", small_llama(changes).dump()); }
  std::string refusal(const std::string& path, ErrorCode code = ErrorCode::invalid_file) const {
    return error_sentence(code, [&] { read_model(path.c_str()); });
  }
  std::string refusal_of(const json& changes, ErrorCode code = ErrorCode::invalid_file) const {
    return refusal(config(changes), code);
  }
  static std::vector<std::string> texts_of(const ModelRotations& model, const std::string& id) {
    std::vector<std::string> texts;
    for (const Warning& warning : model.warnings()) {
      if (warning.id == id) texts.push_back(warning.text);
    }
    return texts;
  }
  static std::vector<std::string> llama_keys() {
    const auto number = [](const std::string& key, std::uint32_t value) { return gguf_key("llama." + key, 4, le(value)); };
    return {gguf_key("general.architecture", 8, gguf_string("llama")), number("block_count", 1),
            number("context_length", 4096), number("embedding_length", 512), number("attention.head_count", 8)};
  }

  TemporaryFolder folder_;
};

#define EXPECT_SAYS(sentence, words) EXPECT_NE((sentence).find(words), std::string::npos) << (sentence)

TEST_F(HostileFiles, WithManyUnknownKeysGiveOneWarning) {
  json scaling = {{"rope_type", "linear"}, {"factor", 2.0}};
  for (int i = 0; i < 20'000; ++i) scaling["unknown" + std::to_string(i)] = 0;
  const auto texts = texts_of(read_model(config({{"rope_scaling", scaling}}).c_str()), "RP005");
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_SAYS(texts[0], "rope_scaling.unknown0, ");
  EXPECT_SAYS(texts[0], " and 19992 more are no keys of the rule \"linear\"");
}

TEST_F(HostileFiles, WithManyKeysWithoutEffectGiveOneWarning) {
  std::vector<std::string> keys = llama_keys();
  for (int i = 0; i < 20'000; ++i) keys.push_back(gguf_key("llama.rope.k" + std::to_string(i), 4, le(std::uint32_t{1})));
  const auto texts = texts_of(read_model(folder_.write("model.gguf", gguf_file(keys)).c_str()), "RP020");
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_SAYS(texts[0], "llama.rope.k0, ");
  EXPECT_SAYS(texts[0], "llama.rope.k7 and 19992 more have no effect");
}

/// Were each compared with all before it, this would take minutes.
TEST_F(HostileFiles, CauseWarningsInTimeThatGrowsWithTheirNumber) {
  Findings findings(false);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 400'000; ++i) findings.warn("RP005", "key " + std::to_string(i / 2));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  EXPECT_EQ(findings.entries().size(), 200'000u);
}

/// Colours, a bell, a new line, a turned direction of writing, and a zero byte.
const std::string controls{"\x1b[31mred\x07\n\u202e\u0085\0z", 17};

TEST_F(HostileFiles, CannotSteerTheTerminalByAnError) {
  std::vector<std::string> keys = llama_keys();
  keys.push_back(gguf_key("llama.rope.scaling.type", 8, gguf_string(controls)));
  for (const std::string& sentence :
       {refusal_of({{"rope_scaling", {{"rope_type", controls}, {"factor", 2.0}}}}, ErrorCode::unsupported),
        refusal_of({{"model_type", controls}}, ErrorCode::unsupported),
        refusal(folder_.write("model.gguf", gguf_file(keys)), ErrorCode::unsupported)}) {
    EXPECT_SAYS(sentence, R"(\x1b[31mred\x07\x0a\xe2\x80\xae\xc2\x85\x00z)");
  }
}

TEST_F(HostileFiles, CannotSteerTheTerminalByAWarning) {
  const auto model =
      read_model(config({{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}, {controls, 1}}}}).c_str());
  ASSERT_EQ(texts_of(model, "RP005").size(), 1u);
  EXPECT_SAYS(texts_of(model, "RP005")[0], R"(rope_scaling.\x1b[31mred\x07\x0a\xe2\x80\xae\xc2\x85\x00z is no key)");
}

TEST_F(HostileFiles, AreNotEchoedAtAnyLength) {
  const std::string endless(100'000, 'x');
  for (const std::string& sentence : {refusal_of({{"model_type", endless}}, ErrorCode::unsupported),
                                      refusal_of({{"rope_scaling", {{"rope_type", endless}}}}, ErrorCode::unsupported),
                                      refusal_of({{"hidden_act", 1}, {"rope_theta", endless}})}) {
    EXPECT_LT(sentence.size(), 3000u);
  }
  EXPECT_SAYS(refusal_of({{"model_type", endless}}, ErrorCode::unsupported), "is not in the family table");
}

TEST_F(HostileFiles, OfMoreLayersThanAnyModelHasAreRefused) {
  EXPECT_EQ(read_model(config({{"num_hidden_layers", 4096}}).c_str()).num_layers(), 4096);
  EXPECT_SAYS(refusal_of({{"num_hidden_layers", 4097}}), "num_hidden_layers must be at most 4096, got 4097");
}

/// Opening one for reading would wait for a writer. The test's own time limit ends it where it does.
TEST_F(HostileFiles, ThatArePipesAreNotWaitedFor) {
  for (const char* name : {"config.json", "model.gguf"}) {
    ASSERT_EQ(mkfifo(folder_.path(name).c_str(), 0600), 0);
    EXPECT_SAYS(refusal(folder_.path(name)), "must be a regular file");
  }
  EXPECT_SAYS(refusal(folder_.path("")), "config.json: must be a regular file");  // a folder whose config.json is one
}

TEST_F(HostileFiles, WithoutTheMarkOfAGgufAreStillRefusedAsOne) {
  EXPECT_SAYS(refusal(folder_.write("model.gguf", "GARB" + gguf_file(llama_keys()))), "must begin with GGUF, got \"GARB\"");
  for (const char* beginning : {"", "GG", "GGUF"}) {
    EXPECT_SAYS(refusal(folder_.write("model.gguf", beginning)), "GGUF is truncated");
  }
}

TEST_F(HostileFiles, AreToBlameForWhatARuleRefuses) {
  const json sections(std::vector<int>(64, 1));
  const std::string many =
      refusal_of({{"model_type", "qwen2_vl"}, {"rope_scaling", {{"type", "mrope"}, {"mrope_section", sections}}}});
  EXPECT_SAYS(many, "config.json: ");
  EXPECT_SAYS(many, "mrope_section must have 1 to 8 entries, got 64");
  const std::string base = refusal_of({{"rope_theta", 5e-324}});
  EXPECT_SAYS(base, "config.json: default_frequencies: ");
  EXPECT_SAYS(base, "(from config.json: rope_theta)");
  EXPECT_SAYS(refusal_of({{"rope_theta", 5e-324}, {"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}}}),
              "(from config.json: rope_theta and config.json: rope_scaling.rope_type)");
}

TEST_F(HostileFiles, WithARuleAsAStringAreRefusedForThat) {
  const std::string sentence = refusal_of({{"rope_parameters", "default"}});
  EXPECT_SAYS(sentence, "rope_parameters must be an object, got \"default\"");
}

TEST_F(HostileFiles, OfUnknownFamiliesAreComparedWithNearNamesOnly) {
  EXPECT_SAYS(refusal_of({{"model_type", "lama"}}, ErrorCode::unsupported), "(nearest: llama");
  EXPECT_EQ(refusal_of({{"model_type", "new"}}, ErrorCode::unsupported).find("nearest"), std::string::npos);
}

TEST_F(HostileFiles, WithoutAPartAreToldItsKeys) {
  EXPECT_SAYS(refusal_of(json{{"model_type", "qwen2_audio"},
                              {"hidden_size", nullptr},
                              {"num_hidden_layers", nullptr},
                              {"num_attention_heads", nullptr}}),
              "must have one of its parts (text_config and audio_config)");
}

TEST_F(HostileFiles, WithNumbersThatOverflowAreToldWhere) {
  EXPECT_SAYS(refusal(folder_.write("config.json", "{\n  \"rope_theta\": 1e999\n}\n")), "(line 2, column 21)");
}

}  // namespace
}  // namespace rotary
