// verify() on captures of a real model, and on captures that were tampered with.
#include "rotary/verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "reference/attention.h"
#include "rotary/frequencies.hpp"
#include "rotary/rotate.hpp"
#include "rotary/tensor_file.hpp"
#include "support/error_sentence.h"
#include "support/temporary_folder.h"
#include "tools/rounding_bound.h"

namespace rotary {
namespace {

const std::string data = std::string(ROTARY_TEST_DATA) + "/smollm2/";

ModelRotations smollm2() { return read_model((data + "config.json").c_str()); }

/// Layer 0 of SmolLM2, with copies of the tensors that tests change.
class VerifyCapture : public testing::Test {
 protected:
  VerifyCapture() : file_((data + "layer-00.safetensors").c_str()) {
    for (const StoredTensor& tensor : file_.tensors()) {
      if (tensor.dtype != DType::f32 || tensor.shape.size() != 4) continue;
      const auto* first = static_cast<const float*>(tensor.data);
      (*owner(tensor.name)).assign(first, first + tensor.num_bytes / 4);
    }
  }

  std::vector<float>* owner(const std::string& name) {
    if (name == "q") return &q_;
    if (name == "k") return &k_;
    if (name == "v") return &v_;
    if (name == "q_rot") return &q_rot_;
    if (name == "k_rot") return &k_rot_;
    return &attn_out_;
  }

  Capture capture() {
    const Dims query{1, 9, tokens_, 64}, key{1, 3, tokens_, 64};
    return {.q = {q_.data(), "BHSD", query},
            .k = {k_.data(), "BHSD", key},
            .v = {v_.data(), "BHSD", key},
            .q_rot = {q_rot_.data(), "BHSD", query},
            .k_rot = {k_rot_.data(), "BHSD", key},
            .attn_out = {attn_out_.data(), "BHSD", query},
            .positions = {.position_ids = file_.at("position_ids").view("BS")}};
  }
  static std::size_t index(std::int64_t head, std::int64_t token, std::int64_t channel) {
    return static_cast<std::size_t>((head * tokens_ + token) * 64 + channel);
  }

  static constexpr std::int64_t tokens_ = 173;
  TensorFile file_;
  std::vector<float> q_, k_, v_, q_rot_, k_rot_, attn_out_;
  const ModelRotations model_ = smollm2();
};

TEST_F(VerifyCapture, AgreesWithBothLayersOfTheRealModel) {
  for (const char* name : {"layer-00.safetensors", "layer-15.safetensors"}) {
    const TensorFile file((data + name).c_str());
    const Capture real{.q = file.at("q").view("BHSD"),
                       .k = file.at("k").view("BHSD"),
                       .v = file.at("v").view("BHSD"),
                       .q_rot = file.at("q_rot").view("BHSD"),
                       .k_rot = file.at("k_rot").view("BHSD"),
                       .attn_out = file.at("attn_out").view("BHSD"),
                       .positions = {.position_ids = file.at("position_ids").view("BS")}};
    const VerifyReport report = verify(real, model_.layer(0));
    ASSERT_EQ(report.tensors.size(), 3u);
    for (const TensorCheck& check : report.tensors) {
      EXPECT_TRUE(check.ok()) << name << " " << check.name << ": " << check.max_abs_diff << " of " << check.bound;
      EXPECT_LE(check.max_abs_diff, check.bound);
      EXPECT_GT(check.typical_diff, 0) << "float32 against double must differ somewhere";
      EXPECT_LT(check.max_abs_diff, 5e-5);  // what the makers of the capture measured against double: 3.4e-5
    }
    EXPECT_TRUE(report.ok());
  }
}

/// That capture has the model's first key head and the three query heads that share it.
TEST_F(VerifyCapture, AgreesWithLlamaCppInItsOwnPairingOnly) {
  const TemporaryFolder folder;
  const std::string config = folder.write("config.json", R"({"model_type": "llama", "hidden_size": 576, "head_dim": 64,
      "num_hidden_layers": 30, "num_attention_heads": 3, "num_key_value_heads": 1, "max_position_embeddings": 8192,
      "rope_theta": 100000})");
  const ModelRotations model = read_model(config.c_str());
  const TensorFile file((data + "layer-00.llamacpp.safetensors").c_str());
  const Capture real{.q = file.at("q").view("BHSD"),
                     .k = file.at("k").view("BHSD"),
                     .q_rot = file.at("q_rot").view("BHSD"),
                     .k_rot = file.at("k_rot").view("BHSD")};
  EXPECT_TRUE(verify(real, model.layer(0), {.pairing = Pairing::interleaved, .precision = Precision::ggml}).ok());
  EXPECT_FALSE(verify(real, model.layer(0)).ok());
}

TEST_F(VerifyCapture, NothingMatchesInTheWrongPairing) {
  const VerifyReport report = verify(capture(), model_.layer(0), {.pairing = Pairing::interleaved});
  for (const TensorCheck& check : report.tensors) {
    EXPECT_FALSE(check.ok()) << check.name;
    EXPECT_GT(check.num_outside, check.num_elements * 9 / 10) << check.name;
  }
  EXPECT_FALSE(report.ok());
}

TEST_F(VerifyCapture, FindsTheOneElementThatWasChanged) {
  q_rot_[index(7, 101, 13)] += 0.01f;
  const VerifyReport report = verify(capture(), model_.layer(0));
  const TensorCheck& q_rot = report.tensors[0];
  EXPECT_EQ(q_rot.num_outside, 1);
  EXPECT_EQ(q_rot.head, 7);
  EXPECT_EQ(q_rot.token, 101);
  EXPECT_EQ(q_rot.position, 101);
  EXPECT_EQ(q_rot.channel, 13);
  EXPECT_NEAR(q_rot.max_abs_diff, 0.01, 1e-4);
  EXPECT_GT(q_rot.max_ratio, 1);
  EXPECT_TRUE(report.tensors[1].ok());
  EXPECT_TRUE(report.tensors[2].ok()) << "attn_out is computed from q, k and v, not from q_rot";
}

TEST_F(VerifyCapture, CountsNumbersThatAreNoneAsDifferent) {
  attn_out_[index(0, 172, 63)] = std::numeric_limits<float>::quiet_NaN();
  k_rot_[index(2, 5, 0)] = std::numeric_limits<float>::infinity();
  const VerifyReport report = verify(capture(), model_.layer(0));
  for (const std::size_t tensor : {std::size_t{1}, std::size_t{2}}) {
    EXPECT_EQ(report.tensors[tensor].num_outside, 1);
    EXPECT_TRUE(std::isinf(report.tensors[tensor].max_abs_diff));
    EXPECT_TRUE(std::isfinite(report.tensors[tensor].typical_diff));
  }
}

/// The faults that people meet: each is far beyond rounding in the tensors it touches.
TEST_F(VerifyCapture, NoticesAWrongBaseScaleCausalityOrPosition) {
  const LayerRotation& layer = model_.layer(0);
  const double scale = layer.softmax_scale();

  RotationSpec spec{.head_dim = 64, .pairing_in = Pairing::half, .inv_freq = layer.rotation().inv_freq()};
  for (double& inv_freq : spec.inv_freq) inv_freq *= 1 + 1e-4;
  EXPECT_FALSE(verify(capture(), Rotation(spec), scale).tensors[0].ok());

  const VerifyReport scaled = verify(capture(), layer.rotation(), scale * 1.01);
  EXPECT_TRUE(scaled.tensors[0].ok());
  EXPECT_FALSE(scaled.tensors[2].ok());

  EXPECT_FALSE(verify(capture(), layer, {.causal = Causal::none}).tensors[2].ok());

  Capture moved = capture();
  moved.positions = {.offset = 1};
  const VerifyReport shifted = verify(moved, layer);
  EXPECT_FALSE(shifted.tensors[0].ok());
  EXPECT_FALSE(shifted.tensors[1].ok());
  EXPECT_TRUE(shifted.tensors[2].ok()) << "scores depend on distances alone";
}

TEST_F(VerifyCapture, MatchesQueryHeadsWithTheirKeyHeads_M7) {
  std::swap_ranges(v_.begin(), v_.begin() + tokens_ * 64, v_.begin() + tokens_ * 64);
  const VerifyReport report = verify(capture(), model_.layer(0));
  EXPECT_FALSE(report.tensors[2].ok());
  EXPECT_NEAR(static_cast<double>(report.tensors[2].num_outside) / static_cast<double>(report.tensors[2].num_elements),
              2. / 3, 0.02)
      << "heads 6 to 8 use the third key head, which was left alone";
}

TEST_F(VerifyCapture, ChecksWhatIsThere) {
  Capture keys_only{.k = capture().k, .k_rot = capture().k_rot};
  const VerifyReport report = verify(keys_only, model_.layer(0));
  ASSERT_EQ(report.tensors.size(), 1u);
  EXPECT_STREQ(report.tensors[0].name, "k_rot");
  EXPECT_TRUE(report.ok());

  Capture output_only = capture();
  output_only.q_rot = output_only.k_rot = {};
  EXPECT_EQ(verify(output_only, model_.layer(0)).tensors.size(), 1u);
  EXPECT_TRUE(verify(output_only, model_.layer(0)).ok());
}

TEST_F(VerifyCapture, DoesNotDependOnTheOrderOfAxesOrTheThreads) {
  ThreadPool pool(2);
  Capture reordered = capture();
  for (ConstTensorView* x :
       {&reordered.q, &reordered.k, &reordered.v, &reordered.q_rot, &reordered.k_rot, &reordered.attn_out}) {
    *x = x->select('B', 0).permuted("SHD");
  }
  reordered.positions.position_ids = reordered.positions.position_ids.select('B', 0);
  const VerifyReport one = verify(capture(), model_.layer(0));
  const VerifyReport other = verify(reordered, model_.layer(0), {.executor = &pool});
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(one.tensors[i].max_abs_diff, other.tensors[i].max_abs_diff);
    EXPECT_EQ(one.tensors[i].typical_diff, other.tensors[i].typical_diff);
  }
}

/// A capture in bfloat16 is allowed bfloat16's rounding, and no more.
TEST_F(VerifyCapture, AllowsForTheRoundingOfA16BitCapture) {
  std::vector<bfloat16> q, q_rot;
  for (const float x : q_) q.push_back(to_bfloat16(x));
  Capture narrow{.q = {q.data(), "BHSD", {1, 9, tokens_, 64}}};
  std::vector<float> widened;
  widened.reserve(q.size());
  for (const bfloat16 x : q) widened.push_back(to_float(x));
  // Rotated as transformers does in bfloat16: cos and sin from the capture, everything rounded on the way.
  const auto* cos = static_cast<const float*>(file_.at("cos").data);
  const auto* sin = static_cast<const float*>(file_.at("sin").data);
  const auto rounded = [](float x) { return to_float(to_bfloat16(x)); };
  for (std::int64_t h = 0; h < 9; ++h) {
    for (std::int64_t s = 0; s < tokens_; ++s) {
      for (std::int64_t c = 0; c < 64; ++c) {
        const float other = c < 32 ? -widened[index(h, s, c + 32)] : widened[index(h, s, c - 32)];
        const float turned = rounded(rounded(widened[index(h, s, c)] * rounded(cos[s * 64 + c])) +
                                     rounded(other * rounded(sin[s * 64 + c])));
        q_rot.push_back(to_bfloat16(turned));
      }
    }
  }
  narrow.q_rot = {q_rot.data(), "BHSD", {1, 9, tokens_, 64}};
  const VerifyReport report = verify(narrow, model_.layer(0));
  EXPECT_TRUE(report.ok()) << report.tensors[0].max_ratio;
  EXPECT_GT(report.tensors[0].max_ratio, 0.2) << "the bound should not be far off";
  EXPECT_FALSE(verify(narrow, model_.layer(0), {.pairing = Pairing::interleaved}).ok());
}

/// As transformers: by the largest position of the call + 1.
TEST_F(VerifyCapture, PicksTheFrequenciesOfItsLengthWhereTheRuleDependsOnIt) {
  const TemporaryFolder folder;
  const ModelRotations dynamic = read_model(folder
                                                .write("config.json", R"({"model_type": "llama", "hidden_size": 576,
      "num_hidden_layers": 1, "num_attention_heads": 9, "num_key_value_heads": 3, "max_position_embeddings": 100,
      "rope_theta": 100000, "rope_scaling": {"type": "dynamic", "factor": 2.0}})")
                                                .c_str());
  RotationSpec spec;
  spec.head_dim = 64;
  spec.pairing_in = Pairing::half;
  spec.inv_freq = DynamicNtk{100000, 64, 2, 100}.at(tokens_).inv_freq;
  k_rot_ = k_;
  rotate(TensorView(k_rot_.data(), "BHSD", {1, 3, tokens_, 64}), Rotation(spec));
  const Capture keys{.k = capture().k, .k_rot = capture().k_rot};
  EXPECT_TRUE(verify(keys, dynamic.layer(0)).ok());
  EXPECT_FALSE(verify(keys, model_.layer(0)).ok());
}

TEST_F(VerifyCapture, FollowsWindowsChunksAndFactorsOfALayer) {
  const TemporaryFolder folder;
  std::vector<double> factors, others;
  for (int p = 0; p < tokens_; ++p) {
    factors.push_back(1 + 0.1 * std::log(1 + std::floor(p / 60.0)));
    others.push_back(1 + 0.1 * std::log(1 + std::floor(p / 61.0)));
  }
  const auto per_query = [](const std::vector<double>& numbers) {
    return ConstTensorView(numbers.data(), "S", {static_cast<std::int64_t>(numbers.size())});
  };
  const struct {
    const char* config;
    AttentionOptions right, wrong;
  } cases[] = {
      {R"("model_type": "mistral", "sliding_window": 50)", {.window_left = 49}, {.window_left = 48}},
      {R"("model_type": "llama4_text", "attention_chunk_size": 60, "use_qk_norm": false)",
       {.chunk_size = 60},
       {.chunk_size = 59}},
      {R"("model_type": "ministral3", "rope_parameters": {"rope_type": "yarn", "factor": 16, "rope_theta": 1000000,
          "original_max_position_embeddings": 60, "llama_4_scaling_beta": 0.1})",
       {.temperatures = per_query(factors)},
       {.temperatures = per_query(others)}},
      {R"("model_type": "gemma2", "attn_logit_softcapping": 2, "sliding_window": 512)", {.softcap = 2}, {.softcap = 2.02}},
  };
  for (const auto& one : cases) {
    const ModelRotations model = read_model(folder
                                                .write("config.json", R"({"hidden_size": 576, "num_hidden_layers": 1,
        "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64, )" +
                                                                          std::string(one.config) + "}")
                                                .c_str());
    const LayerRotation& layer = model.layer(0);
    const Rotation rotation = layer.rotation(tokens_);
    Capture seen = capture();
    seen.q_rot = seen.k_rot = {};
    const auto agrees_with = [&](AttentionOptions how) {
      how.rotation = &rotation;
      how.q_positions = how.k_positions = seen.positions;
      how.causal = Causal::bottom_right;
      how.scale = layer.softmax_scale();
      reference::attention(seen.q, seen.k, seen.v, TensorView(attn_out_.data(), "BHSD", seen.attn_out.shape()), how);
      return verify(seen, layer).ok();
    };
    EXPECT_TRUE(agrees_with(one.right)) << one.config;
    EXPECT_FALSE(agrees_with(one.wrong)) << one.config;
  }
}

TEST_F(VerifyCapture, NeedsTheSinksOfALayerThatHasThem) {
  const TemporaryFolder folder;
  const ModelRotations model = read_model(
      folder
          .write("config.json", R"({"model_type": "gpt_oss", "hidden_size": 576, "num_hidden_layers": 1, "head_dim": 64,
                                    "num_attention_heads": 9, "num_key_value_heads": 3, "sliding_window": 512})")
          .c_str());
  const LayerRotation& layer = model.layer(0);
  const Rotation rotation = layer.rotation(tokens_);
  std::vector<double> sinks(9);
  for (std::size_t h = 0; h < 9; ++h) sinks[h] = 0.5 * static_cast<double>(h) - 1;
  Capture seen = capture();
  seen.q_rot = seen.k_rot = {};
  seen.sinks = ConstTensorView(sinks.data(), "H", {9});
  reference::attention(seen.q, seen.k, seen.v, TensorView(attn_out_.data(), "BHSD", seen.attn_out.shape()),
                       {.rotation = &rotation,
                        .q_positions = seen.positions,
                        .k_positions = seen.positions,
                        .causal = Causal::bottom_right,
                        .scale = layer.softmax_scale(),
                        .sinks = seen.sinks});
  EXPECT_TRUE(verify(seen, layer).ok());
  std::swap(sinks[3], sinks[4]);
  EXPECT_FALSE(verify(seen, layer).ok());
  const auto refusal = [&](const ConstTensorView& given) {
    Capture bad = seen;
    bad.sinks = given;
    return error_sentence(ErrorCode::invalid_argument, [&] { verify(bad, layer); });
  };
  EXPECT_EQ(refusal({}), "verify: sinks must be given to check attn_out: the layer has one per query head");
  EXPECT_EQ(refusal(seen.sinks.slice('H', 0, 8)), "verify: H of sinks must be H of q, got 8 and 9");
  EXPECT_EQ(refusal(ConstTensorView(sinks.data(), "S", {9})), "verify: sinks must have the axis H alone, got \"S\"");
  const Capture keys{.k = capture().k, .k_rot = capture().k_rot};
  verify(keys, layer);  // no sum is looked at
}

TEST_F(VerifyCapture, RefusesWhatDoesNotFitTogether) {
  const auto refusal = [&](const Capture& bad) {
    return error_sentence(ErrorCode::invalid_argument, [&] { verify(bad, model_.layer(0)); });
  };
  Capture bad = capture();
  bad.v = {};
  EXPECT_NE(refusal(bad).find("v must be given"), std::string::npos);
  bad = capture();
  bad.q = {};
  EXPECT_NE(refusal(bad).find("q must be given"), std::string::npos);
  bad = capture();
  bad.q_rot = bad.k_rot = bad.attn_out = {};
  EXPECT_NE(refusal(bad).find("nothing to compare"), std::string::npos);
  bad = capture();
  bad.q = bad.q.slice('H', 0, 8);
  EXPECT_NE(refusal(bad).find("num_q_heads"), std::string::npos);
  bad = capture();
  bad.q = bad.q.slice('D', 0, 32);
  EXPECT_NE(refusal(bad).find("head_dim"), std::string::npos);
  bad = capture();
  bad.q_rot = bad.q_rot.slice('S', 0, 172);
  EXPECT_NE(refusal(bad).find("q_rot"), std::string::npos);
  bad = capture();
  bad.positions.position_ids = bad.positions.position_ids.slice('S', 0, 172);
  refusal(bad);
  refusal(Capture{});
  bad = capture();
  for (ConstTensorView* x : {&bad.q, &bad.k, &bad.v, &bad.q_rot, &bad.k_rot, &bad.attn_out}) *x = x->slice('S', 0, 0);
  bad.positions = {};
  EXPECT_NE(refusal(bad).find("q_rot must have elements"), std::string::npos) << "no token agrees with nothing";
  bad.q_rot = bad.k_rot = {};
  EXPECT_NE(refusal(bad).find("attn_out must have elements"), std::string::npos);
  error_sentence(ErrorCode::invalid_argument, [&] { verify(capture(), model_.layer(0).rotation(), 0); });
}

TEST(VerifyReport, IsNotRightWhereNothingWasCompared) {
  EXPECT_FALSE(VerifyReport{}.ok());
  EXPECT_FALSE(VerifyReport{{TensorCheck{}}}.ok());
}

/// The derivation in src/tools/rounding_bound.h, at a pair and a position where it can be worked out by hand.
TEST(RoundingBound, GrowsWithTheAngle) {
  const Rotation rotation({.head_dim = 4, .pairing_in = Pairing::half, .inv_freq = {1, 0}, .amplitude = 2});
  const double position = 1024;
  const std::vector<double> bounds = pair_rounding(rotation, &position, 0x1p-24);
  EXPECT_DOUBLE_EQ(bounds[0], 2 * (1024 * 8 + 7) * 0x1p-24);
  EXPECT_DOUBLE_EQ(bounds[1], 2 * 7 * 0x1p-24) << "a pair that never turns has no angle to get wrong";
  EXPECT_EQ(rounding_unit(DType::bf16), 0x1p-8);
  EXPECT_EQ(rounding_unit(DType::f16), 0x1p-11);
}

}  // namespace
}  // namespace rotary
