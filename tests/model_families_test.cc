// 81 real model families against what their own code in transformers computes (tests/data/models): the frequencies of their
// rules, and rotated q and k. Every Rotation here is filled from expected.json alone; no family gets a case of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rotary/frequencies.hpp"
#include "rotary/position_axes.hpp"
#include "rotary/rotate.hpp"
#include "rotary/rotation.hpp"
#include "rotary/tensor_file.hpp"
#include "support/test_name.h"

namespace {

using nlohmann::json;
using rotary::Frequencies;
using rotary::FrequencyRule;
using rotary::Pairing;
using rotary::Rotation;
using rotary::StoredTensor;
using rotary::TensorFile;

// ---- the files --------------------------------------------------------------------------------------------------------

const std::filesystem::path data_folder = std::filesystem::path(ROTARY_TEST_DATA) / "models";

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(data_folder)) {
    if (std::filesystem::exists(entry.path() / "rotated.safetensors")) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

json read_json(const std::string& family, const char* file) {
  std::ifstream stream(data_folder / family / file);
  return json::parse(stream);
}

bool turns(const json& group) { return group["rotates"] == true; }

std::vector<json> turning_groups(const json& expected) {
  std::vector<json> groups;
  std::copy_if(expected["groups"].begin(), expected["groups"].end(), std::back_inserter(groups), turns);
  return groups;
}

/// The file's decimals stand for float32 numbers.
std::vector<double> float32_values(const json& list) {
  std::vector<double> values;
  for (const json& value : list) values.push_back(static_cast<float>(value.get<double>()));
  return values;
}

/// inv_freq and attention_factor for calls of that length (largest position + 1).
Frequencies expected_frequencies(const json& group, std::int64_t length) {
  json best = group;
  std::int64_t best_length = -1;
  for (const json& row : group.value("by_length", json::array())) {
    const auto from = row["length"].get<std::int64_t>();
    if (from <= length && from > best_length) best = row, best_length = from;
  }
  return {float32_values(best["inv_freq"]), best["attention_factor"].get<double>()};
}

Rotation rotation_of(const json& group, const Frequencies& frequencies) {
  const std::map<std::string, Pairing> pairings = {
      {"half", Pairing::half}, {"interleaved", Pairing::interleaved}, {"other", Pairing::listed}};
  std::vector<rotary::Pair> pairs;
  for (const json& pair : group.value("pairs", json::array())) pairs.push_back({pair[0], pair[1]});
  return Rotation({.head_dim = group["head_dim"],
                   .rotary_dim = group["rotary_dim"],
                   .rotary_offset = group["rotary_offset"],
                   .pairing_in = pairings.at(group["pairing_in"]),
                   .pairing_out = pairings.at(group["pairing_out"]),
                   .inv_freq = frequencies.inv_freq,
                   .axis = group.value("axis", std::vector<std::uint8_t>{}),
                   .amplitude = frequencies.amplitude,
                   .direction = group["direction"],
                   .pairs_in = pairs,
                   .pairs_out = pairs});
}

// ---- one call of a family: q, k, positions and what came out --------------------------------------------------------

/// The names before q, k, … : "", "full_attention.", "long.".
std::vector<std::string> calls_of(const TensorFile& file) {
  const std::string ending = "position_ids";
  std::vector<std::string> calls;
  for (const StoredTensor& tensor : file.tensors()) {
    const std::string name = tensor.name;
    if (name.size() >= ending.size() && name.ends_with(ending))
      calls.push_back(name.substr(0, name.size() - ending.size()));
  }
  return calls;
}

const json& group_of(const std::vector<json>& groups, const std::string& call) {
  const auto named = std::find_if(groups.begin(), groups.end(),
                                  [&](const json& group) { return call == group["label"].get<std::string>() + "."; });
  return named != groups.end() ? *named : groups.front();
}

rotary::ConstTensorView position_ids(const TensorFile& file, const std::string& call) {
  const StoredTensor& ids = file.at((call + "position_ids").c_str());
  return ids.view(ids.shape.size() == 3 ? "ABS" : "BS");
}

std::int64_t largest(const rotary::ConstTensorView& ids) {
  const auto* begin = static_cast<const std::int64_t*>(ids.data());
  return *std::max_element(begin, begin + ids.num_elements());
}

/// Position of a token on an axis (one batch row; text has one axis for all).
double position_at(const rotary::ConstTensorView& ids, std::int64_t axis, std::int64_t token) {
  return static_cast<double>(static_cast<const std::int64_t*>(ids.data())[axis * ids.stride('A') + token]);
}

template <class T>
std::vector<T> values_of(const StoredTensor& tensor) {
  const auto* data = static_cast<const float*>(tensor.data);
  return {data, data + tensor.num_bytes / static_cast<std::int64_t>(sizeof(float))};
}

constexpr double unit_roundoff = 0x1p-24;  // of float32

/// How far a rotated element may be from the one in the file, in float32 roundoffs times the length of its pair: the file's
/// angles are one float32 product (theta), its tables and its three operations are rounded (4).
/// What we add: nothing in float64; in float32 two table entries within 1 ulp (2), two products (1) and a sum (1).
template <class T>
double allowed_roundoffs(double theta) {
  constexpr double ours = sizeof(T) == sizeof(double) ? 0 : 4;
  return std::abs(theta) + 4 + ours;
}

/// Compares every element; `before` and `after` are [heads, tokens, head_dim].
template <class T>
void expect_rotated(const std::vector<T>& before, const std::vector<T>& actual, const std::vector<double>& expected,
                    const Rotation& rotation, const rotary::ConstTensorView& ids) {
  const std::int64_t tokens = ids.size('S'), head_dim = rotation.head_dim();
  for (std::size_t row = 0; row * static_cast<std::size_t>(head_dim) < before.size(); ++row) {
    const auto token = static_cast<std::int64_t>(row) % tokens;
    const T* x = &before[row * static_cast<std::size_t>(head_dim)];
    const T* y = &actual[row * static_cast<std::size_t>(head_dim)];
    const double* z = &expected[row * static_cast<std::size_t>(head_dim)];
    std::vector<bool> turned(static_cast<std::size_t>(head_dim));
    for (std::size_t j = 0; j < rotation.inv_freq().size(); ++j) {
      const auto [u, v] = rotation.pairs_in()[j];
      const double theta = position_at(ids, rotation.axis()[j], token) * rotation.inv_freq()[j];
      const double length = rotation.amplitude() * std::hypot(static_cast<double>(x[u]), static_cast<double>(x[v]));
      for (const std::int64_t channel : {rotation.pairs_out()[j].first, rotation.pairs_out()[j].second}) {
        turned[static_cast<std::size_t>(channel)] = true;
        ASSERT_NEAR(static_cast<double>(y[channel]), z[channel], length * allowed_roundoffs<T>(theta) * unit_roundoff)
            << "row " << row << ", token " << token << ", pair " << j << ", channel " << channel;
      }
    }
    for (std::int64_t channel = 0; channel < head_dim; ++channel) {
      if (turned[static_cast<std::size_t>(channel)]) continue;
      ASSERT_EQ(static_cast<double>(y[channel]), static_cast<double>(x[channel]))
          << "channel " << channel << " does not turn";
      ASSERT_EQ(static_cast<double>(y[channel]), z[channel]) << "channel " << channel << " does not turn";
    }
  }
}

rotary::Dims shape_of(const StoredTensor& tensor) { return rotary::Dims(tensor.shape); }

template <class T>
void expect_call_rotated(const TensorFile& file, const std::string& call, const Rotation& rotation) {
  const auto ids = position_ids(file, call);
  const StoredTensor& q = file.at((call + "q").c_str());
  const StoredTensor& k = file.at((call + "k").c_str());
  const auto q_before = values_of<T>(q), k_before = values_of<T>(k);
  auto q_after = q_before, k_after = k_before;
  rotary::rotate(rotary::TensorView(q_after.data(), "BHSD", shape_of(q)),
                 rotary::TensorView(k_after.data(), "BHSD", shape_of(k)), rotation, {.position_ids = ids});
  expect_rotated(q_before, q_after, values_of<double>(file.at((call + "q_rotated").c_str())), rotation, ids);
  expect_rotated(k_before, k_after, values_of<double>(file.at((call + "k_rotated").c_str())), rotation, ids);
}

// ---- rotated q and k ----------------------------------------------------------------------------------------------------

class ModelFamily : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Real, ModelFamily, testing::ValuesIn(families()), rotary::test_name);

TEST_P(ModelFamily, RotatesQAndKAsItsOwnCodeDoes) {
  const json expected = read_json(GetParam(), "expected.json");
  const std::vector<json> groups = turning_groups(expected);
  if (groups.empty()) return;  // counted below
  const TensorFile file((data_folder / GetParam() / "rotated.safetensors").c_str());
  const auto calls = calls_of(file);
  ASSERT_FALSE(calls.empty());
  for (const std::string& call : calls) {
    SCOPED_TRACE("call \"" + call + '"');
    const json& group = group_of(groups, call);
    const Rotation rotation = rotation_of(group, expected_frequencies(group, largest(position_ids(file, call)) + 1));
    expect_call_rotated<double>(file, call, rotation);
    expect_call_rotated<float>(file, call, rotation);
  }
}

TEST(ModelFamilies, Are81OfWhich78Turn) {
  std::vector<std::string> still;
  for (const std::string& family : families()) {
    if (turning_groups(read_json(family, "expected.json")).empty()) still.push_back(family);
  }
  EXPECT_EQ(families().size(), 81u);
  EXPECT_EQ(still, (std::vector<std::string>{"gpt2-no-rotation", "granite-4-h-nope", "vjepa2-vitl-not-a-rotation"}));
}

// ---- what is no rotation ------------------------------------------------------------------------------------------------

/// The largest relative change of the length of a row of [rows, head_dim].
double largest_change_of_length(const std::vector<double>& before, const std::vector<double>& after, std::size_t head_dim) {
  double largest = 0;
  for (std::size_t row = 0; row * head_dim < before.size(); ++row) {
    double squared_before = 0, squared_after = 0;
    for (std::size_t c = 0; c < head_dim; ++c) {
      squared_before += before[row * head_dim + c] * before[row * head_dim + c];
      squared_after += after[row * head_dim + c] * after[row * head_dim + c];
    }
    largest = std::max(largest, std::abs(std::sqrt(squared_after / squared_before) - 1));
  }
  return largest;
}

// Any Rotation of amplitude 1 keeps lengths. V-JEPA 2 gives the two members of a pair different angles, so none describes
// it.
TEST(ModelFamilies, RecogniseVJepa2AsNoRotationByTheLengthsThatChange) {
  const std::string family = "vjepa2-vitl-not-a-rotation";
  EXPECT_EQ(read_json(family, "expected.json")["groups"][0]["rotates"], "not a rotation");
  const TensorFile file((data_folder / family / "rotated.safetensors").c_str());
  const double change =
      largest_change_of_length(values_of<double>(file.at("q")), values_of<double>(file.at("q_rotated")), 64);
  EXPECT_GT(change, 0.01);
}

// transformers counts HunyuanVL's sections in channels instead of pairs: with unequal axes the members of a pair follow
// different axes, and what comes out is no rotation either. The published rule, beside it in the file, is.
TEST(ModelFamilies, RecogniseWhatTransformersMakesOfHunyuanVLAsNoRotation) {
  const TensorFile file((data_folder / "hunyuan-vl-xdrope-alpha-ntk" / "rotated.safetensors").c_str());
  const auto before = values_of<double>(file.at("unequal.q"));
  EXPECT_GT(largest_change_of_length(before, values_of<double>(file.at("as_transformers.q")), 128), 0.01);
  EXPECT_LT(largest_change_of_length(before, values_of<double>(file.at("unequal.q_rotated")), 128), 1e-6);
}

// ---- the rules behind the numbers -----------------------------------------------------------------------------------

std::vector<double> list_in_config(const std::string& family, const char* key) {
  return read_json(family, "config.json")["rope_scaling"][key].get<std::vector<double>>();
}

FrequencyRule longrope_of(const std::string& family, std::int64_t rotary_dim, std::int64_t original, std::int64_t maximum) {
  return rotary::LongRope{.base = 1e4,
                          .rotary_dim = rotary_dim,
                          .short_factor = list_in_config(family, "short_factor"),
                          .long_factor = list_in_config(family, "long_factor"),
                          .original_max_position_embeddings = original,
                          .max_position_embeddings = maximum};
}

/// "family" or "family/label of the group" -> its rule, from the keys of the published config.
std::map<std::string, FrequencyRule> rules() {
  using rotary::axial_frequencies, rotary::default_frequencies, rotary::linear_frequencies, rotary::llama3_frequencies,
      rotary::yarn_frequencies;
  std::map<std::string, FrequencyRule> rules = {
      {"apertus-8b-llama3", llama3_frequencies(12e6, 128, {8, 1, 4, 8192})},
      {"bamba-9b-partial", default_frequencies(1e4, 64)},
      {"chatglm3-6b-32k", default_frequencies(1e4 * 50, 64)},
      {"codellama-7b-theta1e6", default_frequencies(1e6, 128)},
      {"cohere-command-r-interleaved", default_frequencies(8e6, 128)},
      {"cohere2-command-r7b-nope-global", default_frequencies(5e4, 128)},
      {"deepseek-v2-lite-yarn-mla",
       yarn_frequencies(
           1e4, 64, {.factor = 40, .original_max_position_embeddings = 4096, .mscale = 0.707, .mscale_all_dim = 0.707})},
      {"deepseek-v2-mscale-unequal",
       yarn_frequencies(1e4, 64,
                        {.factor = 40, .original_max_position_embeddings = 4096, .mscale = 1, .mscale_all_dim = 0.707})},
      {"deepseek-v3-yarn-mla",
       yarn_frequencies(1e4, 64,
                        {.factor = 40, .original_max_position_embeddings = 4096, .mscale = 1, .mscale_all_dim = 1})},
      {"ernie-4.5-0.3b-interleaved", default_frequencies(5e5, 128)},
      {"esm-2-650m", default_frequencies(1e4, 64)},
      {"exaone-4-32b-hybrid", llama3_frequencies(1e6, 128, {16, 1, 4, 8192})},
      {"falcon-7b", default_frequencies(1e4, 64)},
      {"gemma-2-27b", default_frequencies(1e4, 128)},
      {"gemma-2b", default_frequencies(1e4, 256)},
      {"gemma-3-4b-text/sliding_attention", default_frequencies(1e4, 256)},
      {"gemma-3-4b-text/full_attention", linear_frequencies(1e6, 256, 8)},
      {"gemma-3n-e2b-text/sliding_attention", default_frequencies(1e4, 256)},
      {"gemma-3n-e2b-text/full_attention", default_frequencies(1e6, 256)},
      {"gemma-4-text-proportional/sliding_attention", default_frequencies(1e4, 256)},
      {"gemma-4-text-proportional/full_attention",
       rotary::proportional_frequencies(1e6, 512, {.partial_rotary_factor = 0.25})},
      {"gemma-4-vision-2d-blocks", axial_frequencies(100, {32, 32})},
      {"glm-4-0414-partial-interleaved", default_frequencies(1e4, 64)},
      {"glm-4.5-air-partial-half", default_frequencies(1e6, 64)},
      {"glm-4.5v-partial-mrope-half", default_frequencies(1e4, 64)},
      {"gpt-j-6b-interleaved-64", default_frequencies(1e4, 64)},
      {"gpt-neox-20b-partial", default_frequencies(1e4, 24)},
      {"gpt-oss-20b",
       yarn_frequencies(150000, 64, {.factor = 32, .original_max_position_embeddings = 4096, .truncate = false})},
      {"granite-3.3-8b", default_frequencies(1e7, 128)},
      {"helium-1-2b-interleaved", default_frequencies(1e5, 128)},
      {"hunyuan-vl-xdrope-alpha-ntk", rotary::ntk_frequencies(1e4, 128, 1000)},
      {"internlm2-7b-chat-dynamic", rotary::DynamicNtk{1e6, 128, 2, 32768}},
      {"kimi-k2-yarn-hard-step", yarn_frequencies(5e4, 64,
                                                  {.factor = 32,
                                                   .original_max_position_embeddings = 4096,
                                                   .beta_fast = 1,
                                                   .beta_slow = 1,
                                                   .mscale = 1,
                                                   .mscale_all_dim = 1})},
      {"lfm2-1.2b-hybrid", default_frequencies(1e6, 64)},
      {"llama-2-7b", default_frequencies(1e4, 128)},
      {"llama-2-dynamic-ntk", rotary::DynamicNtk{1e4, 128, 2, 4096}},
      {"llama-2-linear-x4", linear_frequencies(1e4, 128, 4)},
      {"llama-3-8b", default_frequencies(5e5, 128)},
      {"llama-3.1-8b-llama3", llama3_frequencies(5e5, 128, {8, 1, 4, 8192})},
      {"llama-3.2-1b-llama3", llama3_frequencies(5e5, 64, {32, 1, 4, 8192})},
      {"llama-4-maverick-nope", default_frequencies(5e5, 128)},
      {"llama-4-scout-nope-chunked", llama3_frequencies(5e5, 128, {16, 1, 1, 8192})},
      {"llama-4-vision-2d", axial_frequencies(1e4, {44, 44})},
      {"longchat-7b-32k-linear-x8", linear_frequencies(1e4, 128, 8)},
      {"minicpm3-4b-longrope-mla-half", longrope_of("minicpm3-4b-longrope-mla-half", 32, 32768, 32768)},
      {"minimax-m2-partial", default_frequencies(5e6, 64)},
      {"ministral-3-yarn-query-factor",
       yarn_frequencies(1e6, 128,
                        {.factor = 16, .original_max_position_embeddings = 16384, .mscale = 1, .mscale_all_dim = 1})},
      {"mistral-7b-v0.1", default_frequencies(1e4, 128)},
      {"mistral-nemo-head128", default_frequencies(1e6, 128)},
      {"mistral-small-3-theta1e8", default_frequencies(1e8, 128)},
      {"mixtral-8x7b", default_frequencies(1e6, 128)},
      {"modernbert-base-two-thetas/full_attention", default_frequencies(160000, 64)},
      {"modernbert-base-two-thetas/sliding_attention", default_frequencies(1e4, 64)},
      {"moonshine-tiny-interleaved", default_frequencies(1e4, rotary::partial_rotary_dim(36, 0.9))},
      {"nemotron-minitron-8b-partial", default_frequencies(1e4, 64)},
      {"nomic-bert", default_frequencies(1000, 64)},
      {"olmo-2-7b", default_frequencies(5e5, 128)},
      {"olmo-3-7b-yarn-on-full/sliding_attention", default_frequencies(5e5, 128)},
      {"olmo-3-7b-yarn-on-full/full_attention",
       yarn_frequencies(5e5, 128, {.factor = 8, .original_max_position_embeddings = 8192})},
      {"persimmon-8b-partial", default_frequencies(25000, 32)},
      {"phi-2-partial", default_frequencies(1e4, rotary::partial_rotary_dim(80, 0.4))},
      {"phi-3-mini-128k-longrope", longrope_of("phi-3-mini-128k-longrope", 96, 4096, 131072)},
      {"phi-3-mini-128k-su-alias", longrope_of("phi-3-mini-128k-su-alias", 96, 4096, 131072)},
      {"phi-3-mini-4k", default_frequencies(1e4, 96)},
      {"phi-4-mini-longrope-partial",
       longrope_of("phi-4-mini-longrope-partial", rotary::partial_rotary_dim(128, 0.75), 4096, 131072)},
      {"pixtral-12b-vision-2d", rotary::pixtral_frequencies(1e4, 64)},
      {"qwen2-vl-7b-mrope", default_frequencies(1e6, 128)},
      {"qwen2-vl-vision-2d", axial_frequencies(1e4, {40, 40})},
      {"qwen2.5-7b", default_frequencies(1e6, 128)},
      {"qwen2.5-vl-7b-mrope-yarn", yarn_frequencies(1e6, 128, {.factor = 4, .original_max_position_embeddings = 32768})},
      {"qwen2.5-yarn-128k", yarn_frequencies(1e6, 128, {.factor = 4, .original_max_position_embeddings = 32768})},
      {"qwen3-0.6b", default_frequencies(1e6, 128)},
      {"qwen3-next-80b-partial", default_frequencies(1e7, rotary::partial_rotary_dim(256, 0.25))},
      {"qwen3-vl-8b-interleaved-mrope", default_frequencies(5e6, 128)},
      {"roformer-chinese-base", default_frequencies(1e4, 64)},
      {"seed-oss-36b", default_frequencies(1e7, 128)},
      {"smollm2-135m", default_frequencies(1e5, 64)},
      {"smollm3-3b-nope-layers", default_frequencies(5e6, 128)},
      {"stablelm-2-1.6b-partial", default_frequencies(1e4, 16)},
      {"starcoder2-3b", default_frequencies(999999.4420358813, 128)},
      {"yarn-llama-2-7b-128k", yarn_frequencies(1e4, 128, {.factor = 32, .original_max_position_embeddings = 4096})},
      {"yi-34b-200k", default_frequencies(5e6, 128)},
  };
  Frequencies dinov3 = rotary::dinov3_frequencies(64);
  for (double& frequency : dinov3.inv_freq) frequency /= 14;  // the file counts positions in 1/14 of the coordinate
  rules.emplace("dinov3-vits16", dinov3);
  return rules;
}

FrequencyRule rule_of(const std::string& family, const json& group) {
  static const std::map<std::string, FrequencyRule> all = rules();
  const auto of_group = all.find(family + "/" + group["label"].get<std::string>());
  return of_group != all.end() ? of_group->second : all.at(family);
}

/// transformers computes in float32: 3.8e-7 is the largest distance from the exact rule over all these families.
void expect_frequencies(const Frequencies& actual, const json& expected) {
  const auto inv_freq = float32_values(expected["inv_freq"]);
  ASSERT_EQ(actual.inv_freq.size(), inv_freq.size());
  for (std::size_t j = 0; j < inv_freq.size(); ++j) {
    EXPECT_NEAR(actual.inv_freq[j], inv_freq[j], 3.8e-7 * inv_freq[j]) << "pair " << j;
  }
  EXPECT_NEAR(actual.amplitude, expected["attention_factor"].get<double>(), 1e-15);
}

TEST_P(ModelFamily, TurnsAsFastAsItsRuleSays) {
  const json expected = read_json(GetParam(), "expected.json");
  for (const json& group : turning_groups(expected)) {
    SCOPED_TRACE(group["label"].get<std::string>());
    const FrequencyRule rule = rule_of(GetParam(), group);
    EXPECT_EQ(rule.depends_on_length(), group.contains("by_length"));
    expect_frequencies(rule.at(1), group);
    for (const json& row : group.value("by_length", json::array())) {
      SCOPED_TRACE("length " + row["length"].dump());
      expect_frequencies(rule.at(row["length"].get<std::int64_t>()), row);
    }
  }
}

// One module of transformers, called again and again, keeps the largest length so far until a call is shorter than L. Here
// the caller says which length counts, and nothing else does.
TEST(ModelFamilies, GiveEveryStateOfTransformersDynamicNtkForTheLengthThatItStandsFor_F9) {
  const json expected = read_json("llama-2-dynamic-ntk", "expected.json");
  const rotary::DynamicNtk rule{1e4, 128, 2, 4096};
  std::int64_t kept = 0;
  for (const json& call : expected["one_module_many_calls"]) {
    const auto length = call["length"].get<std::int64_t>();
    kept = length < rule.max_position_embeddings ? length : std::max(kept, length);
    const auto inv_freq = rule.at(kept).inv_freq;
    EXPECT_NEAR(inv_freq[1], call["inv_freq_1"].get<double>(), 3.8e-7 * inv_freq[1]) << "call of " << length;
    EXPECT_NEAR(inv_freq[63], call["inv_freq_last"].get<double>(), 3.8e-7 * inv_freq[63]) << "call of " << length;
  }
}

TEST(ModelFamilies, FollowTheAxesOfTheirMaps) {
  const std::map<std::string, std::vector<std::uint8_t>> maps = {
      {"dinov3-vits16", rotary::chunked_axes({16, 16})},
      {"gemma-4-vision-2d-blocks", rotary::chunked_axes({16, 16})},
      {"glm-4.5v-partial-mrope-half", rotary::chunked_axes({8, 12, 12})},
      {"hunyuan-vl-xdrope-alpha-ntk", rotary::chunked_axes({16, 16, 16, 16})},
      {"llama-4-vision-2d", rotary::chunked_axes({22, 22})},
      {"pixtral-12b-vision-2d", rotary::chunked_axes({16, 16})},
      {"qwen2-vl-7b-mrope", rotary::chunked_axes({16, 24, 24})},
      {"qwen2-vl-vision-2d", rotary::chunked_axes({20, 20})},
      {"qwen2.5-vl-7b-mrope-yarn", rotary::chunked_axes({16, 24, 24})},
      {"qwen3-vl-8b-interleaved-mrope", rotary::interleaved_axes({24, 20, 20})},
  };
  std::size_t seen = 0;
  for (const std::string& family : families()) {
    for (const json& group : turning_groups(read_json(family, "expected.json"))) {
      if (!group.contains("axis")) continue;
      ++seen;
      EXPECT_EQ(group["axis"].get<std::vector<std::uint8_t>>(), maps.at(family)) << family;
    }
  }
  EXPECT_EQ(seen, maps.size());
  const json gemma = read_json("gemma-4-vision-2d-blocks", "expected.json")["groups"][0];
  const auto pairs = rotary::block_half_pairs({32, 32});
  ASSERT_EQ(gemma["pairs"].size(), pairs.size());
  for (std::size_t j = 0; j < pairs.size(); ++j) EXPECT_EQ(gemma["pairs"][j], json({pairs[j].first, pairs[j].second}));
}

// DeepSeek's attention multiplies its softmax scale by mscale squared; only the part of the head that turns carries
// amplitude.
TEST(ModelFamilies, PutDeepSeeksSecondMagnitudeIntoTheSoftmax_F18) {
  for (const char* family :
       {"deepseek-v2-lite-yarn-mla", "deepseek-v2-mscale-unequal", "deepseek-v3-yarn-mla", "kimi-k2-yarn-hard-step"}) {
    const json group = read_json(family, "expected.json")["groups"][0];
    const double plain = 1 / std::sqrt(group["head_dim"].get<double>());
    EXPECT_NEAR(rule_of(family, group).at(1).logit_scale * plain, group["softmax_scale"].get<double>(), 1e-15) << family;
  }
}

// Gemma 3: linear 8 on the global layers alone; sliding ones turn by another base.
TEST(ModelFamilies, ScaleOnlyTheLayersThatTheConfigNames_F5) {
  std::vector<int> scaled;
  const json expected = read_json("gemma-3-4b-text", "expected.json");
  for (const json& group : expected["groups"]) {
    const bool is_scaled = rule_of("gemma-3-4b-text", group).at(1).inv_freq[0] == 0.125;
    EXPECT_EQ(is_scaled, group["label"] == "full_attention");
    if (is_scaled) scaled = group["layers"].get<std::vector<int>>();
  }
  EXPECT_EQ(scaled, (std::vector<int>{5, 11, 17, 23, 29}));
}

// A real DINOv3 grid: 2 x 3 patches behind one class token and four registers, which stand still.
TEST(ModelFamilies, TurnThePatchesOfAPictureAndNotItsPrefixTokens) {
  const TensorFile file((data_folder / "dinov3-vits16" / "rotated.safetensors").c_str());
  const StoredTensor& coordinates = file.at("image.coordinates");  // [patch, (y, x)]
  const auto coordinate = values_of<double>(coordinates);
  for (std::int64_t patch = 0; patch < 6; ++patch) {
    EXPECT_NEAR(coordinate[static_cast<std::size_t>(2 * patch)], rotary::patch_center(patch / 3, 2), 1e-7);
    EXPECT_NEAR(coordinate[static_cast<std::size_t>(2 * patch + 1)], rotary::patch_center(patch % 3, 3), 1e-7);
  }

  const Rotation rotation({.head_dim = 64,
                           .pairing_in = Pairing::half,
                           .inv_freq = rotary::dinov3_frequencies(64).inv_freq,
                           .axis = rotary::chunked_axes({16, 16})});
  constexpr std::int64_t prefix = 5, tokens = 11;
  for (const std::string name : {"image.q", "image.k"}) {
    auto x = values_of<double>(file.at(name.c_str()));
    const auto before = x;
    const rotary::TensorView view(x.data(), "BHSD", {1, 1, tokens, 64});
    const rotary::ConstTensorView ids(coordinate.data(), "SA", {6, 2});
    rotary::rotate(view.slice('S', prefix, tokens), rotation, {.position_ids = ids.permuted("AS")});
    const auto expected = values_of<double>(file.at((name + "_rotated").c_str()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      // angles below 2 pi, made in three float32 operations; pairs shorter than 2 sqrt 2 (numbers are below 2)
      if (i < prefix * 64) {
        EXPECT_EQ(x[i], before[i]);
      }
      EXPECT_NEAR(x[i], expected[i], 2 * std::sqrt(2.0) * (3 * 6.3 + 4) * unit_roundoff);
    }
  }
}

}  // namespace
