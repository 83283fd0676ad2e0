// What the words of the family table mean for a config file, where no golden case holds it: patterns of layers, layers with
// heads or bases of their own, windows, and files that break the rule of a word.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "rotary/frequencies.hpp"
#include "rotary/model.hpp"
#include "support/error_sentence.h"
#include "support/temporary_folder.h"

namespace rotary {
namespace {

using nlohmann::json;

class FamilyWords : public testing::Test {
 protected:
  ModelRotations model(const std::string& config) const { return read_model(folder_.write("config.json", config).c_str()); }
  std::string refusal(const std::string& config, ErrorCode code = ErrorCode::invalid_file) const {
    const std::string path = folder_.write("config.json", config);
    return error_sentence(code, [&] { read_model(path.c_str()); });
  }
  TemporaryFolder folder_;
};

/// A letter per layer: T turns, n attends without turning, - does not attend.
std::string turning(const ModelRotations& model) {
  std::string letters;
  for (std::int64_t i = 0; i < model.num_layers(); ++i) {
    const LayerRotation& layer = model.layer(i);
    letters += layer.rotates() ? 'T' : layer.turning() == Turning::no_attention ? '-' : 'n';
  }
  return letters;
}

std::vector<std::int64_t> windows(const ModelRotations& model) {
  std::vector<std::int64_t> keys;
  for (std::int64_t i = 0; i < model.num_layers(); ++i) keys.push_back(model.layer(i).sliding_window());
  return keys;
}

std::string labels(const ModelRotations& model) {
  std::string all;
  for (std::int64_t i = 0; i < model.num_layers(); ++i) all += std::string(i == 0 ? "" : " ") + model.layer(i).label();
  return all;
}

using Keys = std::vector<std::int64_t>;

TEST_F(FamilyWords, LayersAttendWhereTheirPatternSaysSo) {
  EXPECT_EQ(turning(model(R"({"model_type": "jamba", "num_hidden_layers": 9})")), "----n----");
  EXPECT_EQ(turning(model(R"({"model_type": "jamba", "num_hidden_layers": 6, "attn_layer_period": 3,
                             "attn_layer_offset": 1})")),
            "-n--n-");
  EXPECT_EQ(turning(model(R"({"model_type": "zamba", "num_hidden_layers": 14})")), "--n----n-----n");
  EXPECT_EQ(turning(model(R"({"model_type": "bamba", "num_hidden_layers": 5, "attn_layer_indices": [1, 3]})")), "-T-T-");
  EXPECT_EQ(turning(model(R"({"model_type": "lfm2", "num_hidden_layers": 5, "full_attn_idxs": [2, 4]})")), "--T-T");
  EXPECT_EQ(turning(model(R"({"model_type": "lfm2", "num_hidden_layers": 3})")), "TTT");
  EXPECT_EQ(turning(model(R"({"model_type": "minimax", "num_hidden_layers": 5})")), "T-T-T");
  EXPECT_EQ(turning(model(R"({"model_type": "minimax", "num_hidden_layers": 4, "attn_type_list": [0, 0, 0, 1]})")), "---T");
  EXPECT_EQ(turning(model(R"({"model_type": "lara_mini", "num_hidden_layers": 6})")), "-T-nT-");
  EXPECT_EQ(turning(model(R"({"model_type": "flint", "num_hidden_layers": 8})")), "nnTTTnTn");
  EXPECT_EQ(turning(model(R"({"model_type": "recurrent_gemma", "num_hidden_layers": 4})")), "--T-");
  EXPECT_EQ(turning(model(R"({"model_type": "nemotron_h", "num_hidden_layers": 5, "hybrid_override_pattern": "M-M*E"})")),
            "---n-");
}

TEST_F(FamilyWords, ListsThatDoNotFitTheLayersAreRefused) {
  for (const char* config :
       {R"({"model_type": "nemotron_h", "num_hidden_layers": 3, "hybrid_override_pattern": "M*"})",
        R"({"model_type": "nemotron_h", "num_hidden_layers": 2, "hybrid_override_pattern": "Mx"})",
        R"({"model_type": "nemotron_h", "num_hidden_layers": 2})", R"({"model_type": "lfm2_moe"})",
        R"({"model_type": "bamba", "num_hidden_layers": 2, "attn_layer_indices": [2]})",
        R"({"model_type": "minimax", "num_hidden_layers": 2, "attn_type_list": [1]})",
        R"({"model_type": "kimi_linear", "num_hidden_layers": 2})",
        R"({"model_type": "kimi_linear", "num_hidden_layers": 2, "linear_attn_config": {"full_attn_layers": [0],
            "kda_layers": [1, 2]}})",
        R"({"model_type": "kimi_linear", "num_hidden_layers": 3, "linear_attn_config": {"full_attn_layers": [1],
            "kda_layers": [2]}})",
        R"({"model_type": "deepseek_v4", "num_hidden_layers": 2, "compress_ratios": [0]})",
        R"({"model_type": "deepseek_v4", "num_hidden_layers": 2, "compress_ratios": [0, 8]})",
        R"({"model_type": "laguna", "num_hidden_layers": 2, "num_attention_heads_per_layer": [48]})",
        R"({"model_type": "laguna", "num_hidden_layers": 2, "num_attention_heads_per_layer": [48, 0]})",
        R"({"model_type": "laguna", "num_hidden_layers": 2, "num_attention_heads_per_layer": [48, 50]})",
        R"({"model_type": "molmo2_text", "num_hidden_layers": 2, "rope_scaling_layers": [2]})",
        R"({"model_type": "granite_swa", "num_hidden_layers": 2, "layer_rope_theta": [1e4, -1]})"}) {
    EXPECT_NE(refusal(config).find(" must "), std::string::npos) << config;
  }
}

TEST_F(FamilyWords, ListsMayGoOnOverTheLayersThatPredictFurtherTokens) {
  const char* config = R"({"model_type": "olmo3", "num_hidden_layers": 2, "num_nextn_predict_layers": 1,
                           "layer_types": ["full_attention", "sliding_attention", "full_attention"]})";
  EXPECT_EQ(labels(model(config)), "full_attention sliding_attention");
  refusal(R"({"model_type": "olmo3", "num_hidden_layers": 1, "num_nextn_predict_layers": 1,
              "layer_types": ["full_attention", "sliding_attention", "full_attention"]})");
}

TEST_F(FamilyWords, LayersWithoutAWindowTurnOrNotAsTheFamilySays) {
  const std::string windowed = R"({"num_hidden_layers": 4, "model_type": )";
  EXPECT_EQ(turning(model(windowed + R"("cohere2"})")), "TTTn");
  EXPECT_EQ(turning(model(windowed + R"("cohere2", "sliding_window": null})")), "nnnn");
  EXPECT_EQ(turning(model(windowed + R"("exaone4"})")), "TTTn");
  EXPECT_EQ(turning(model(windowed + R"("exaone4", "sliding_window": null})")), "TTTT");
  EXPECT_EQ(turning(model(windowed + R"("smollm3"})")), "TTTn");
  EXPECT_EQ(turning(model(windowed + R"("smollm3", "no_rope_layers": [0, 1, 1, 1]})")), "nTTT");
  EXPECT_EQ(turning(model(windowed + R"("muse_glimmer_text"})")), "TTTn");
  EXPECT_EQ(turning(model(windowed + R"("muse_glimmer_text", "layer_rope_theta": [0, 5, 5, null]})")), "nTTn");
  EXPECT_EQ(turning(model(windowed + R"("olmo_hybrid"})")), "---T");
  EXPECT_EQ(turning(model(windowed + R"("olmo_hybrid", "rope_parameters": {"rope_theta": null}})")), "---n");
  EXPECT_EQ(turning(model(windowed + R"("esm"})")), "nnnn");
  EXPECT_EQ(turning(model(windowed + R"("falcon", "alibi": true})")), "nnnn");
  EXPECT_EQ(turning(model(windowed + R"("mllama_text_model", "cross_attention_layers": [1]})")), "TnTT");
}

TEST_F(FamilyWords, WindowsCountTheKeysThatAQuerySees) {
  EXPECT_EQ(windows(model(R"({"model_type": "modernbert", "num_hidden_layers": 2, "local_attention": 128})")),
            (Keys{0, 129}));
  EXPECT_EQ(windows(model(R"({"model_type": "modernbert-decoder", "num_hidden_layers": 2})")), (Keys{0, 64}));
  EXPECT_EQ(windows(model(R"({"model_type": "openai_privacy_filter", "num_hidden_layers": 1})")), (Keys{257}));
  EXPECT_EQ(windows(model(R"({"model_type": "mistral", "num_hidden_layers": 1})")), (Keys{4096}));
  EXPECT_EQ(windows(model(R"({"model_type": "mistral", "num_hidden_layers": 1, "sliding_window": null})")), (Keys{0}));
  EXPECT_EQ(windows(model(R"({"model_type": "recurrent_gemma", "num_hidden_layers": 3, "attention_window_size": 9})")),
            (Keys{0, 0, 9}));
  // A number under the usual name wins over the halves.
  EXPECT_EQ(windows(model(R"({"model_type": "modernbert-decoder", "num_hidden_layers": 2, "local_attention": 128,
                             "sliding_window": 128})")),
            (Keys{0, 128}));
  for (const char* type : {"mimi", "mimi_decoder", "mimi_encoder"}) {
    const std::string start = R"({"num_hidden_layers": 1, "model_type": ")" + std::string(type) + "\"";
    EXPECT_EQ(windows(model(start + R"(, "sliding_window": 99})")), (Keys{99})) << type;
    EXPECT_EQ(windows(model(start + "}")), (Keys{250})) << type;
  }
}

TEST_F(FamilyWords, WindowsOfBidirectionalAttentionReachToBothSides) {
  EXPECT_TRUE(model(R"({"num_hidden_layers": 2, "model_type": "modernbert"})").layer(1).window_is_symmetric());
  EXPECT_FALSE(model(R"({"num_hidden_layers": 2, "model_type": "modernbert"})").layer(0).window_is_symmetric());
  EXPECT_FALSE(model(R"({"num_hidden_layers": 2, "model_type": "modernbert-decoder"})").layer(1).window_is_symmetric());
  const auto spelled = model(R"({"num_hidden_layers": 2, "model_type": "modernbert", "sliding_window": 99})");
  EXPECT_EQ(spelled.layer(1).sliding_window(), 199);
  // EmbeddingGemma.
  const std::string gemma = R"({"num_hidden_layers": 1, "model_type": "gemma3_text", "sliding_window": 512)";
  const auto causal = model(gemma + "}"), bidirectional = model(gemma + R"(, "use_bidirectional_attention": true})");
  EXPECT_EQ(causal.layer(0).sliding_window(), 512);
  EXPECT_FALSE(causal.layer(0).window_is_symmetric());
  EXPECT_EQ(bidirectional.layer(0).sliding_window(), 513);
  EXPECT_TRUE(bidirectional.layer(0).window_is_symmetric());
}

TEST_F(FamilyWords, WhatMultipliesKeysIsPartOfTheFingerprint) {
  const std::string start = R"({"num_hidden_layers": 1, "model_type": "falcon_h1")";
  const auto plain = model(start + "}"), one = model(start + R"(, "key_multiplier": 1})");
  const auto scaled = model(start + R"(, "key_multiplier": 0.390625})");
  EXPECT_EQ(plain.layer(0).key_scale(), 1);
  EXPECT_EQ(scaled.layer(0).key_scale(), 0.390625);
  EXPECT_STREQ(plain.fingerprint(), one.fingerprint());
  EXPECT_STRNE(plain.fingerprint(), scaled.fingerprint());
  EXPECT_EQ(scaled.layer(0).softmax_scale(), plain.layer(0).softmax_scale());
  refusal(start + R"(, "key_multiplier": 0})");
}

TEST_F(FamilyWords, AttentionThatDoesNotTurnSaysWhatItsFlagsSay) {
  const auto reason = [&](const std::string& config) { return std::string(model(config).layer(0).reason()); };
  EXPECT_EQ(reason(R"({"model_type": "mpt", "attn_config": {"alibi": true}})"), "ALiBi");
  EXPECT_EQ(reason(R"({"model_type": "mpt"})"), "ALiBi");
  EXPECT_EQ(reason(R"({"model_type": "mpt", "attn_config": {"alibi": false}})"), "learned absolute");
  const std::string jais = R"({"model_type": "jais", "n_layer": 1, "n_head": 2, "n_embd": 8)";
  EXPECT_EQ(reason(jais + R"(, "position_embedding_type": "alibi"})"), "ALiBi");
  EXPECT_EQ(reason(jais + R"(, "position_embedding_type": "learned"})"), "learned positions");
  EXPECT_NE(reason(R"({"model_type": "whisper"})").find("encoder"), std::string::npos);
}

TEST_F(FamilyWords, PositionsThatTheCodeOfAFamilyLacksAreRefused) {
  const std::string start = R"({"num_hidden_layers": 1, "model_type": )";
  for (const char* given : {"rotary", "alibi"}) {
    const std::string rest = R"(, "position_embedding_type": ")" + std::string(given) + "\"}";
    EXPECT_NE(refusal(start + R"("bert")" + rest, ErrorCode::unsupported).find(given), std::string::npos);
    refusal(start + R"("xlm-roberta")" + rest, ErrorCode::unsupported);
  }
  model(start + R"("bert", "position_embedding_type": "relative_key"})");
  model(start + R"("bloom", "position_embedding_type": "alibi"})");
  // jina-embeddings-v3: the family that its own code turns like is named, and reads it.
  const std::string jina = R"("xlm-roberta", "auto_map": {"AutoConfig": "x.Y"}, "position_embedding_type": "rotary",
                              "rotary_emb_base": 20000, "hidden_size": 1024, "num_attention_heads": 16,
                              "max_position_embeddings": 8194})";
  EXPECT_NE(refusal(start + jina, ErrorCode::unsupported).find("--family nomic_bert"), std::string::npos);
  const std::string path = folder_.write("config.json", start + jina);
  const auto read = read_model(path.c_str(), {.family = "nomic_bert"});
  EXPECT_EQ(read.layer(0).rotation().inv_freq(), default_frequencies(2e4, 64).inv_freq);
}

TEST_F(FamilyWords, FamiliesThatDoNotTurnAreReadWithTheHeadsOfTheirClass) {
  const auto heads = [&](const std::string& config) {
    const auto read = model(config);
    return std::pair(read.layer(0).num_q_heads(), read.layer(0).head_dim());
  };
  using Heads = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(heads(R"({"model_type": "mllama_vision_model"})"), Heads(16, 80));
  EXPECT_EQ(heads(R"({"model_type": "mllama_vision_model", "attention_heads": 8})"), Heads(8, 160));
  EXPECT_EQ(heads(R"({"model_type": "bridgetower_text_model"})"), Heads(12, 64));
  EXPECT_EQ(heads(R"({"model_type": "bridgetower_vision_model"})"), Heads(12, 64));
  EXPECT_EQ(heads(R"({"model_type": "bridgetower_vision_model", "hidden_size": 1024})"), Heads(16, 64));
  EXPECT_EQ(turning(model(R"({"model_type": "fnet", "num_hidden_layers": 2})")), "--");
}

/// "ID text" of every warning.
std::string said_by(const ModelRotations& model) {
  std::string said;
  for (const Warning& warning : model.warnings()) said.append(warning.id).append(" ").append(warning.text).append("\n");
  return said;
}

TEST_F(FamilyWords, SayWhatIsNotReadOfAFile) {
  EXPECT_NE(said_by(model(R"({"model_type": "bert", "auto_map": {"AutoConfig": "x.Y"}})")).find("RP007"),
            std::string::npos);
  EXPECT_NE(said_by(model(R"({"model_type": "deepseek_v32"})")).find("indexer"), std::string::npos);
  const std::string qwen = said_by(model(R"({"model_type": "qwen2", "dual_chunk_attention_config": {"chunk_size": 9}})"));
  EXPECT_NE(qwen.find("dual_chunk_attention_config"), std::string::npos);
  EXPECT_NE(said_by(model(R"({"model_type": "longcat_flash", "num_layers": 1})")).find("q_lora_rank"), std::string::npos);
}

TEST_F(FamilyWords, HunyuansOwnKeysBesideAlphaAreNoFault) {
  const std::string start = R"({"model_type": "hunyuan_v1_dense", "rope_scaling": {"type": "dynamic", "alpha": 1000.0,
                               "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0, "mscale_all_dim": )";
  EXPECT_EQ(said_by(model(start + "1.0}}")).find("RP005"), std::string::npos);
  EXPECT_NE(said_by(model(start + "2.0}}")).find("RP005"), std::string::npos);
}

TEST_F(FamilyWords, DeepSeeksPlainAttentionIsReadAsLlamas) {
  const auto ocr = model(R"({"model_type": "deepseek_vl_v2", "language_config": {"hidden_size": 1280,
      "num_attention_heads": 10, "num_key_value_heads": 10, "num_hidden_layers": 12, "max_position_embeddings": 8192,
      "qk_nope_head_dim": 0, "qk_rope_head_dim": 0, "use_mla": false}})");
  EXPECT_EQ(ocr.num_layers(), 12);
  EXPECT_EQ(ocr.layer(0).head_dim(), 128);
  EXPECT_EQ(ocr.layer(0).rotation().rotary_dim(), 128);
  EXPECT_EQ(ocr.layer(0).rotation().pairing_in(), Pairing::half);
  EXPECT_NE(said_by(ocr).find("use_mla"), std::string::npos);
  refusal(R"({"model_type": "deepseek_v2", "qk_nope_head_dim": 0})");
}

TEST_F(FamilyWords, Llama4NormalisesOnlyWhatTurns) {
  const auto llama = model(R"({"model_type": "llama4_text", "num_hidden_layers": 4})");
  EXPECT_EQ(llama.layer(0).norm_order(), NormOrder::after_rotation);
  EXPECT_EQ(turning(llama), "TTTn");
  EXPECT_EQ(llama.layer(3).norm_order(), NormOrder::none);
}

TEST_F(FamilyWords, WindowsNeedTheFlagThatSwitchesThemOn) {
  const std::string with = R"("num_hidden_layers": 4, "sliding_window": 64, "use_sliding_window": )";
  EXPECT_EQ(windows(model(R"({"model_type": "qwen3_moe", )" + with + "false}")), (Keys{0, 0, 0, 0}));
  EXPECT_EQ(windows(model(R"({"model_type": "qwen3_moe", )" + with + "true}")), (Keys{64, 64, 64, 64}));
  EXPECT_EQ(windows(model(R"({"model_type": "qwen2_moe", "max_window_layers": 3, )" + with + "true}")),
            (Keys{64, 0, 64, 0}));
  EXPECT_EQ(windows(model(R"({"model_type": "smollm3", )" + with + "true}")), (Keys{0, 0, 0, 64}));
  EXPECT_EQ(windows(model(R"({"model_type": "smollm3", )" + with + "false}")), (Keys{0, 0, 0, 0}));
  EXPECT_EQ(windows(model(R"({"model_type": "dots1", "num_hidden_layers": 3, "max_window_layers": 2})")),
            (Keys{0, 0, 4096}));
}

TEST_F(FamilyWords, ChunksAreOfTheLayersThatTurn) {
  const auto llama4 = model(R"({"model_type": "llama4_text", "num_hidden_layers": 4, "no_rope_layers": [1, 0, 1, 1]})");
  EXPECT_EQ(labels(llama4), "chunked_attention full_attention chunked_attention chunked_attention");
  EXPECT_EQ(llama4.layer(0).attention_chunk_size(), 8192);
  EXPECT_EQ(llama4.layer(1).attention_chunk_size(), 0);
  EXPECT_EQ(llama4.layer(1).query_temperature().kind, QueryTemperature::Kind::steps);
}

TEST_F(FamilyWords, LayersHaveHeadsOfTheirOwn) {
  const auto laguna =
      model(R"({"model_type": "laguna", "num_hidden_layers": 2, "num_attention_heads_per_layer": [48, 64]})");
  EXPECT_EQ(laguna.layer(0).num_q_heads(), 48);
  EXPECT_EQ(laguna.layer(1).num_q_heads(), 64);
  const auto dots = model(R"({"model_type": "dots3_note_text", "num_hidden_layers": 3, "swa_num_attention_heads": 64})");
  EXPECT_EQ(dots.layer(0).head_dim(), 192);
  EXPECT_EQ(dots.layer(2).head_dim(), 256);
  EXPECT_EQ(dots.layer(2).num_q_heads(), 64);
  EXPECT_EQ(dots.layer(2).rotation().rotary_offset(), 192);
  EXPECT_EQ(dots.layer(2).rotation().inv_freq(), default_frequencies(5e4, 64).inv_freq);
  const auto longcat = model(R"({"model_type": "longcat_flash", "num_layers": 3})");
  EXPECT_EQ(longcat.num_layers(), 6);
  EXPECT_EQ(model(R"({"model_type": "longcat_flash", "num_hidden_layers": 4})").num_layers(), 4);
  EXPECT_EQ(model(R"({"model_type": "jetmoe", "num_key_value_heads": 4, "num_experts_per_tok": 3})").layer(0).num_q_heads(),
            12);
}

TEST_F(FamilyWords, FalconHasOneKeyHeadUnlessItsDecoderIsNew) {
  const auto kv_heads = [&](const std::string& more) {
    return model(R"({"model_type": "falcon", "num_attention_heads": 64, "hidden_size": 4096, "num_kv_heads": 8)" + more +
                 "}")
        .layer(0)
        .num_kv_heads();
  };
  EXPECT_EQ(kv_heads(""), 1);
  EXPECT_EQ(kv_heads(R"(, "multi_query": true)"), 1);
  EXPECT_EQ(kv_heads(R"(, "multi_query": false)"), 8);
  EXPECT_EQ(kv_heads(R"(, "multi_query": true, "new_decoder_architecture": true)"), 8);
}

TEST_F(FamilyWords, OnlyListedLayersFollowTheRule) {
  const auto molmo = model(R"({"model_type": "molmo2_text", "num_hidden_layers": 3, "rope_theta": 500000,
      "rope_scaling": {"rope_type": "linear", "factor": 4}, "rope_scaling_layers": [1]})");
  EXPECT_EQ(molmo.layer(0).rotation().inv_freq(), default_frequencies(5e5, 128).inv_freq);
  EXPECT_EQ(molmo.layer(1).rotation().inv_freq(), linear_frequencies(5e5, 128, 4).inv_freq);
  EXPECT_EQ(molmo.layer(2), molmo.layer(0));
}

TEST_F(FamilyWords, ABaseInTheFileCountsBesideTheRuleOfTheClass) {
  const auto apertus = model(R"({"model_type": "apertus", "num_hidden_layers": 1, "rope_theta": 500000})");
  EXPECT_EQ(apertus.layer(0).rotation().inv_freq(), llama3_frequencies(5e5, 128, {8, 1, 4, 8192}).inv_freq);
  const auto of_class = model(R"({"model_type": "apertus", "num_hidden_layers": 1})");
  EXPECT_EQ(of_class.layer(0).rotation().inv_freq(), llama3_frequencies(1.2e7, 128, {8, 1, 4, 8192}).inv_freq);
  // A file with a rope object of its own is read as it stands.
  const auto plain = model(R"({"model_type": "apertus", "num_hidden_layers": 1, "rope_parameters":
                              {"rope_type": "default", "rope_theta": 500000}})");
  EXPECT_EQ(plain.layer(0).rotation().inv_freq(), default_frequencies(5e5, 128).inv_freq);
}

TEST_F(FamilyWords, CodeThatReadsParametersBySortOnlyRefusesAFlatObject) {
  const std::string flat = R"({"model_type": "laguna", "num_hidden_layers": 1,
                               "rope_parameters": {"rope_type": "default", "rope_theta": 500000}})";
  EXPECT_NE(refusal(flat).find("each sort of layer"), std::string::npos);
}

TEST_F(FamilyWords, SlicesFollowTheirOwnKeys) {
  const auto width = [&](const std::string& config) { return model(config).layer(0).rotation().rotary_dim(); };
  EXPECT_EQ(width(R"({"model_type": "clvp_encoder"})"), 32);
  EXPECT_EQ(width(R"({"model_type": "clvp_encoder", "projection_dim": 1152})"), 48);
  EXPECT_EQ(width(R"({"model_type": "minimax_m2", "rotary_dim": 64})"), 64);
  EXPECT_EQ(width(R"({"model_type": "minimax_m2", "partial_rotary_factor": 0.25})"), 32);
  EXPECT_EQ(width(R"({"model_type": "minimax_m2"})"), 128);
  refusal(R"({"model_type": "minimax_m2", "rotary_dim": 64, "partial_rotary_factor": 0.25})");
  refusal(R"({"model_type": "gptj", "rotary_dim": null})");
  EXPECT_EQ(width(R"({"model_type": "dbrx", "attn_config": {"rope_theta": 500000, "kv_n_heads": 8}})"), 128);
}

TEST_F(FamilyWords, DbrxHasItsBaseInsideItsAttentionConfig) {
  const auto dbrx = model(R"({"model_type": "dbrx", "attn_config": {"rope_theta": 500000, "kv_n_heads": 8}})");
  EXPECT_EQ(dbrx.layer(0).rotation().inv_freq(), default_frequencies(5e5, 128).inv_freq);
  EXPECT_EQ(dbrx.layer(0).num_kv_heads(), 8);
}

TEST_F(FamilyWords, ScoresAreCappedWhereTheCodeDoesIt) {
  const auto cap = [&](const std::string& config) { return model(config).layer(0).softcap(); };
  EXPECT_EQ(cap(R"({"model_type": "gemma2"})"), 50);
  EXPECT_EQ(cap(R"({"model_type": "gemma2", "attn_logit_softcapping": 30.5})"), 30.5);
  EXPECT_EQ(cap(R"({"model_type": "gemma2", "attn_logit_softcapping": null})"), 0);
  EXPECT_EQ(cap(R"({"model_type": "vaultgemma"})"), 50);
  EXPECT_EQ(cap(R"({"model_type": "gemma3_text", "attn_logit_softcapping": 50})"), 0) << "its code does not look";
  const auto grok = model(R"({"model_type": "grok-1", "attn_logit_softcapping": 40})");
  EXPECT_EQ(grok.layer(0).softcap(), 30);
  const std::vector<ValueSource>& sources = grok.layer(0).provenance();
  const auto found = std::find_if(sources.begin(), sources.end(),
                                  [](const ValueSource& source) { return source.name == std::string("softcap"); });
  ASSERT_NE(found, sources.end());
  EXPECT_NE(std::string(found->source).find("a constant"), std::string::npos);
  EXPECT_NE(refusal(R"({"model_type": "gemma2", "attn_logit_softcapping": -1})")
                .find("attn_logit_softcapping must be a positive"),
            std::string::npos);
}

TEST_F(FamilyWords, SumsHaveSinksWhereTheCodeAddsThem) {
  const auto sinks = [&](const std::string& config) {
    const auto read = model(config);
    std::vector<bool> found;
    for (std::int64_t i = 0; i < read.num_layers(); ++i) found.push_back(read.layer(i).has_sinks());
    return found;
  };
  using Flags = std::vector<bool>;
  EXPECT_EQ(sinks(R"({"model_type": "gpt_oss", "num_hidden_layers": 2})"), (Flags{true, true}));
  EXPECT_EQ(sinks(R"({"model_type": "llama", "num_hidden_layers": 1})"), (Flags{false}));
  const std::string mimo = R"({"model_type": "mimo_v2_flash", "num_hidden_layers": 3, "hybrid_layer_pattern": [0, 1, 1])";
  EXPECT_EQ(sinks(mimo + "}"), (Flags{false, true, true}));
  EXPECT_EQ(sinks(mimo + R"(, "add_full_attention_sink_bias": true, "add_swa_attention_sink_bias": false})"),
            (Flags{true, false, false}));
}

TEST_F(FamilyWords, ScalesOfScoresFollowTheirOwnKeys) {
  const auto scale = [&](const std::string& config) { return model(config).layer(0).softmax_scale(); };
  EXPECT_EQ(scale(R"({"model_type": "granite", "attention_multiplier": 0.0078125})"), 0.0078125);
  EXPECT_EQ(scale(R"({"model_type": "granite"})"), 1);
  EXPECT_EQ(scale(R"({"model_type": "hyperclovax", "attention_multiplier": null})"), 1 / std::sqrt(128.0));
  EXPECT_EQ(scale(R"({"model_type": "gemma2", "query_pre_attn_scalar": 144})"), 1 / 12.0);
  EXPECT_EQ(scale(R"({"model_type": "t5"})"), 1);
  EXPECT_NEAR(scale(R"({"model_type": "zamba2", "num_hidden_layers": 1, "layer_types": ["hybrid"]})"), 1 / std::sqrt(80.0),
              1e-16);
  // mscale_all_dim counts with every rule but the plain one.
  const std::string deepseek = R"({"model_type": "deepseek_v3", "rope_scaling": {"mscale_all_dim": 1, "factor": 40, )";
  EXPECT_NEAR(scale(deepseek + R"("type": "linear"}})"), 1.8738542070926265 / std::sqrt(192.0), 1e-15);
  EXPECT_NEAR(scale(deepseek + R"("type": "default"}})"), 1 / std::sqrt(192.0), 1e-16);
  EXPECT_NEAR(scale(R"({"model_type": "mistral_large4_text"})"), 1 / std::sqrt(128.0), 1e-16);
  refusal(R"({"model_type": "mistral_large4_text", "rope_parameters": {"rope_type": "yarn", "mscale_all_dim": 1}})",
          ErrorCode::unsupported);
}

TEST_F(FamilyWords, NormsFollowTheFlagThatSwitchesThem) {
  const auto norm = [&](const std::string& config) { return model(config).layer(0).norm_order(); };
  EXPECT_EQ(norm(R"({"model_type": "phi"})"), NormOrder::none);
  EXPECT_EQ(norm(R"({"model_type": "phi", "qk_layernorm": true})"), NormOrder::before_rotation);
  EXPECT_EQ(norm(R"({"model_type": "persimmon"})"), NormOrder::before_rotation);
  EXPECT_EQ(norm(R"({"model_type": "persimmon", "qk_layernorm": false})"), NormOrder::none);
  EXPECT_EQ(norm(R"({"model_type": "llama4_text", "use_qk_norm": false})"), NormOrder::none);
  EXPECT_EQ(norm(R"({"model_type": "nanochat"})"), NormOrder::after_rotation);
}

TEST_F(FamilyWords, RulesThatTheCodeLacksAreRefused) {
  const std::string linear = R"(, "rope_scaling": {"type": "linear", "factor": 2}})";
  for (const char* type : {"gptj", "roformer", "recurrent_gemma", "phi3"}) {
    refusal(R"({"num_hidden_layers": 3, "model_type": ")" + std::string(type) + "\"" + linear, ErrorCode::unsupported);
  }
}

/// Otherwise a file of some kilobytes makes thousands of rotations.
TEST_F(FamilyWords, LayersAreOfFewSorts) {
  json config = json::parse(R"({"model_type": "granite_swa", "num_attention_heads": 4, "hidden_size": 64})");
  const auto with_bases = [&](int count) {
    json bases = json::array();
    for (int i = 0; i < count; ++i) bases.push_back(1e4 + i);
    config["num_hidden_layers"] = count;
    config["layer_rope_theta"] = bases;
    return config.dump();
  };
  EXPECT_EQ(model(with_bases(1024)).groups().size(), 1024u);
  EXPECT_NE(refusal(with_bases(1025), ErrorCode::unsupported).find("few sorts"), std::string::npos);
  config["head_dim"] = 8192;
  EXPECT_EQ(model(with_bases(64)).groups().size(), 64u);
  EXPECT_NE(refusal(with_bases(65), ErrorCode::unsupported).find("few sorts"), std::string::npos);
}

TEST_F(FamilyWords, HeadsOfALayerAreWholeNumbers) {
  json config = json::parse(R"({"model_type": "laguna", "num_hidden_layers": 2, "num_key_value_heads": 1})");
  for (const double heads : {8.5, 65537.0, 1e300}) {
    config["num_attention_heads_per_layer"] = {4.0, heads};
    EXPECT_NE(refusal(config.dump()).find("num_attention_heads_per_layer must hold whole numbers"), std::string::npos)
        << heads;
  }
  config["num_attention_heads_per_layer"] = {4, 6};
  EXPECT_EQ(model(config.dump()).layer(1).num_q_heads(), 6);
}

}  // namespace
}  // namespace rotary
