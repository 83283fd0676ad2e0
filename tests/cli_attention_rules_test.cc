// rotary attend, as a shell sees it: which keys a query sees and what is done to scores, by hand and by the model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "reference/attention.h"
#include "rotary/frequencies.hpp"
#include "rotary/model.hpp"
#include "rotary/tensor_file.hpp"
#include "support/program.h"
#include "support/stored_values.h"

namespace rotary {
namespace {

/// float32 against double, of results of 1 or so: see the README of tests/data/attention.
constexpr double tolerance = 2e-6;
const std::string causal = " --causal top_left ", all = " --causal none ";

class AttentionRules : public Program {
 protected:
  std::string golden(const std::string& name) const { return data + "/attention/" + name + ".npz"; }
  std::string turned(std::int64_t head_dim, const char* pairing = "half", const char* base = "10000") const {
    return " --base " + std::string(base) + " --head-dim " + std::to_string(head_dim) + " --pairing " + pairing;
  }
  std::string command(const std::string& name, const std::string& options) const {
    return "attend " + golden(name) + " -o " + made("out.npz") + " --lse " + options;
  }
  void expect_golden(const std::string& name, const std::string& options, const char* lse = "lse") const {
    const Result result = run(command(name, options));
    ASSERT_EQ(result.code, 0) << name << options << '\n' << result.err;
    const TensorFile right(golden(name).c_str()), written(made("out.npz").c_str());
    EXPECT_LT(largest_difference(written.at("attn_out"), right.at("out")), tolerance) << name << options;
    const std::vector<double> sums = stored_values(written.at("lse")), right_sums = stored_values(right.at(lse));
    ASSERT_EQ(sums.size(), right_sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (std::isinf(right_sums[i])) ASSERT_EQ(sums[i], right_sums[i]) << name << options;
      else ASSERT_NEAR(sums[i], right_sums[i], tolerance * std::max(1.0, std::abs(right_sums[i]))) << name << options;
    }
  }

  /// The same numbers as the plain version's of these options, in double, from q, k and v of a golden case.
  void expect_plain(const std::string& name, const std::string& options, const AttentionOptions& how) const {
    const Result result = run(command(name, options));
    ASSERT_EQ(result.code, 0) << name << options << '\n' << result.err;
    const TensorFile in(golden(name).c_str()), written(made("out.npz").c_str());
    const ConstTensorView q = in.at("q").view("BHSD"), k = in.at("k").view("BHSD"), v = in.at("v").view("BHSD");
    std::vector<double> right(static_cast<std::size_t>(q.num_elements()));
    reference::attention(q, k, v, {right.data(), "BHSD", q.shape()}, how);
    const std::vector<double> out = stored_values(written.at("attn_out"));
    ASSERT_EQ(out.size(), right.size());
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], right[i], tolerance) << name << options << ", " << i;
  }
};

TEST_F(AttentionRules, HidesKeysOutsideOfAWindow) {
  expect_golden("window_causal_left_4", turned(16) + causal + "--window-left 4");
  expect_golden("window_causal_left_4", turned(16) + all + "--window-left 4 --window-right 0");
  expect_golden("window_both_sides_gqa", turned(16, "interleaved") + all + "--window-left 3 --window-right 2");
  expect_golden("window_bottom_right_5_13", turned(16) + " --causal bottom_right --window-left 5");
  expect_golden("mha_causal", turned(20) + causal + "--window-left 32 --window-right 5");
}

TEST_F(AttentionRules, HidesKeysOfOtherChunksOfPositions) {
  const Rotation rotation(
      {.head_dim = 20, .pairing_in = Pairing::half, .inv_freq = default_frequencies(10000, 20).inv_freq});
  for (const std::int64_t offset : {0, 5}) {
    const Positions positions{.offset = offset};
    expect_plain("mha_causal", turned(20) + causal + "--chunk-size 7 --offset " + std::to_string(offset),
                 {.rotation = &rotation,
                  .q_positions = positions,
                  .k_positions = positions,
                  .causal = Causal::top_left,
                  .chunk_size = 7});
  }
}

TEST_F(AttentionRules, HidesPadding) {
  expect_golden("key_padding_right", turned(10) + all + "--padding key_padding_mask");
  expect_golden(
      "key_padding_left_causal",
      turned(10) + causal + "--padding key_padding_mask --position-ids k_position_ids --q-position-ids q_position_ids");
  const bool tokens[] = {true, false, true, true, true, false, true, true, false};
  write_npy(made("tokens.npy").c_str(), ConstTensorView(tokens, DType::boolean, "S", {9}));
  const Rotation rotation(
      {.head_dim = 10, .pairing_in = Pairing::half, .inv_freq = default_frequencies(10000, 10).inv_freq});
  expect_plain("key_padding_right", turned(10) + all + "--padding " + made("tokens.npy"),
               {.rotation = &rotation, .key_padding_mask = ConstTensorView(tokens, DType::boolean, "S", {9})});
}

TEST_F(AttentionRules, HidesKeysOfOtherDocuments) {
  std::vector<std::int32_t> ids(33);
  for (std::size_t i = 0; i < 33; ++i) ids[i] = i < 10 ? 4 : i < 17 ? -1 : i < 20 ? 4 : 0;
  write_npy(made("ids.npy").c_str(), ConstTensorView(ids.data(), "S", {33}));
  const Rotation rotation(
      {.head_dim = 20, .pairing_in = Pairing::half, .inv_freq = default_frequencies(10000, 20).inv_freq});
  const ConstTensorView view(ids.data(), "S", {33});
  expect_plain("mha_causal", turned(20) + causal + "--document-ids " + made("ids.npy"),
               {.rotation = &rotation, .causal = Causal::top_left, .q_document_ids = view, .k_document_ids = view});

  const std::int64_t of_query[] = {4}, of_keys[] = {4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                                    4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  write_npy(made("query.npy").c_str(), ConstTensorView(of_query, "S", {1}));
  write_npy(made("keys.npy").c_str(), ConstTensorView(of_keys, "BS", {1, 40}));
  const std::string decode = turned(20) + " --causal bottom_right --document-ids " + made("keys.npy");
  expect_plain("decode_1_40", decode + " --q-document-ids " + made("query.npy"),
               {.rotation = &rotation,
                .q_positions = {.offset = 39},
                .causal = Causal::bottom_right,
                .q_document_ids = ConstTensorView(of_query, "S", {1}),
                .k_document_ids = ConstTensorView(of_keys, "S", {40})});
  expect_error(2, command("decode_1_40", decode), "attend: give --q-document-ids: there are 1 queries and 40 keys");
}

TEST_F(AttentionRules, HidesWhereAMaskSaysFalse) {
  expect_golden("fully_masked_rows", turned(16) + all + "--q-offset 0 --mask attn_mask");
}

TEST_F(AttentionRules, KeepsPackedSequencesApart) {
  const std::string packed = turned(16) + " --axes THD --cu-seqlens cu_seqlens_q" + causal;
  const auto out_of = [&](const std::string& options) {
    const Result result = run("attend " + golden("packed_causal_7_1_12") + " -o " + made("out.npz") + options);
    EXPECT_EQ(result.code, 0) << result.err;
    return stored_values(TensorFile(made("out.npz").c_str()).at("attn_out"));
  };
  const std::vector<double> together = out_of(packed);
  const std::vector<double> right = stored_values(TensorFile(golden("packed_causal_7_1_12").c_str()).at("out"));
  ASSERT_EQ(together.size(), right.size());
  for (std::size_t i = 0; i < right.size(); ++i) ASSERT_NEAR(together[i], right[i], tolerance);

  const std::string every_token = " --window-left 20 --chunk-size 20";
  EXPECT_EQ(out_of(packed + every_token), together) << "windows and chunks count within a sequence";
  const std::vector<double> itself = out_of(packed + "--window-left 0"), chunks = out_of(packed + "--chunk-size 1");
  EXPECT_EQ(itself, chunks);
  EXPECT_NE(itself, together);
}

TEST_F(AttentionRules, CapsScores) { expect_golden("softcap_5", turned(16) + causal + "--softcap 5"); }

TEST_F(AttentionRules, AddsSinksToTheSums) {
  const std::string with_base = turned(20, "half", "150000");
  expect_golden("sinks_window_gqa", with_base + causal + "--window-left 7 --sinks sinks", "lse_with_sink");
  expect_golden("sinks_empty_row", turned(16) + all + "--q-offset 0 --mask attn_mask --sinks sinks", "lse_with_sink");
  write_npy(made("sinks.npy").c_str(), TensorFile(golden("sinks_window_gqa").c_str()).at("sinks").view("H"));
  expect_golden("sinks_window_gqa", with_base + causal + "--window-left 7 --sinks " + made("sinks.npy"), "lse_with_sink");
}

TEST_F(AttentionRules, RefusesWhatARuleCannotBe) {
  const auto refused = [&](int code, const std::string& options, const std::string& words) {
    expect_error(code, command("mha_causal", turned(20) + causal + options), words);
  };
  refused(2, "--window-left -1", "--window-left: ");
  refused(2, "--window-right -1", "--window-right: ");
  refused(2, "--chunk-size 0", "--chunk-size: ");
  refused(2, "--softcap -1", "attention: softcap must be 0 for none, or 1e-30 to 1e30, got -1");
  refused(2, "--sinks q", "q: must have the axes H, got the shape [1, 2, 33, 20]");
  refused(2, "--padding q", "q: must have the axes BS, got the shape [1, 2, 33, 20]");
  refused(3, "--sinks none.npy", "none.npy");
  refused(3, "--padding none.npy", "none.npy");
  const float numbers[33] = {};
  write_npy(made("three.npy").c_str(), ConstTensorView(numbers, "H", {3}));
  write_npy(made("numbers.npy").c_str(), ConstTensorView(numbers, "S", {33}));
  refused(2, "--sinks " + made("three.npy"), "sinks");
  refused(2, "--padding " + made("numbers.npy"), "key_padding_mask");
  expect_error(2,
               command("packed_bottom_right", turned(16) + " --axes THD --causal bottom_right --cu-seqlens cu_seqlens_k"),
               "attend: packed queries must be as many as keys, got 6 and 14");
}

TEST_F(AttentionRules, AreRefusedToLinearAttention) {
  const std::string linear = "attend " + golden("mha_causal") + causal + "-o " + made("out.npz") + " --linear elu ";
  for (const std::string option :
       {"--window-left 1", "--window-right 1", "--chunk-size 8", "--softcap 5", "--sinks q", "--document-ids q"}) {
    const std::string name = option.substr(0, option.find(' '));
    expect_error(2, linear + option,
                 "attend: " + name + " does not go with --linear elu: keys are summed before any query comes");
  }
}

/// A model for q, k and v of decode_1_40 and of mha_causal.
class RulesOfAModel : public AttentionRules {
 protected:
  std::string config(const std::string& more) const {
    return folder_.write("config.json", R"({"num_hidden_layers": 4, "num_attention_heads": 2, "num_key_value_heads": 2,
        "hidden_size": 40, "head_dim": 20, )" +
                                            more + "}");
  }
  /// The plain version with the layer's rotation and scale, beside `rules`.
  void expect_layer(const std::string& name, const std::string& path, std::int64_t layer, const std::string& options,
                    const AttentionOptions& rules, const Positions& q_positions = {}) const {
    const ModelRotations model = read_model(path.c_str());
    const std::int64_t length = TensorFile(golden(name).c_str()).at("k").shape[2];
    const Rotation rotation = model.layer(layer).rotation(length);
    AttentionOptions how = rules;
    how.rotation = &rotation;
    how.q_positions = q_positions;
    how.scale = model.layer(layer).softmax_scale();
    expect_plain(name, " --model " + path + " --layer " + std::to_string(layer) + options, how);
  }
};

TEST_F(RulesOfAModel, AreItsSlidingWindow) {
  const std::string windowed = config(R"("model_type": "mistral", "rope_theta": 10000, "sliding_window": 9)");
  expect_layer("mha_causal", windowed, 0, causal, {.causal = Causal::top_left, .window_left = 8});
  expect_layer("decode_1_40", windowed, 0, " --causal bottom_right ", {.causal = Causal::bottom_right, .window_left = 8},
               {.offset = 39});
}

TEST_F(RulesOfAModel, AreAWindowToBothSides) {
  const std::string bert = config(R"("model_type": "modernbert", "local_attention": 10)");
  expect_layer("mha_causal", bert, 1, all, {.window_left = 5, .window_right = 5});
}

TEST_F(RulesOfAModel, AreItsChunks) {
  const std::string chunked = config(R"("model_type": "llama4_text", "attention_chunk_size": 9, "use_qk_norm": false)");
  expect_layer("mha_causal", chunked, 0, causal, {.causal = Causal::top_left, .chunk_size = 9});
}

TEST_F(RulesOfAModel, AreItsFactorsOnQueries) {
  const std::string tempered = config(R"("model_type": "ministral3", "rope_parameters": {"rope_type": "yarn", "factor": 16,
      "rope_theta": 1000000, "original_max_position_embeddings": 10, "llama_4_scaling_beta": 0.5})");
  std::vector<double> factors(33);
  for (std::size_t p = 0; p < 33; ++p) factors[p] = 1 + 0.5 * std::log(1 + std::floor(static_cast<double>(p) / 10));
  expect_layer("mha_causal", tempered, 0, causal,
               {.causal = Causal::top_left, .temperatures = ConstTensorView(factors.data(), "S", {33})});
}

TEST_F(RulesOfAModel, AreItsCap) {
  const std::string capped = config(R"("model_type": "gemma2", "attn_logit_softcapping": 1.5)");
  expect_layer("mha_causal", capped, 0, causal, {.causal = Causal::top_left, .softcap = 1.5});
  expect_layer("mha_causal", capped, 0, causal + "--softcap 3", {.causal = Causal::top_left, .softcap = 3});
  expect_layer("mha_causal", capped, 0, causal + "--softcap 0", {.causal = Causal::top_left});
}

TEST_F(RulesOfAModel, NeedTheValuesOfItsSinks) {
  const std::string oss = config(R"("model_type": "gpt_oss", "sliding_window": 64,
      "rope_parameters": {"rope_type": "default", "rope_theta": 10000})");
  const double sinks[] = {0.5, -1};
  write_npy(made("sinks.npy").c_str(), ConstTensorView(sinks, "H", {2}));
  expect_layer("mha_causal", oss, 0, causal + "--sinks " + made("sinks.npy"),
               {.causal = Causal::top_left, .sinks = ConstTensorView(sinks, "H", {2})});
  expect_error(
      2, command("mha_causal", " --model " + oss + " --layer 0" + causal),
      "attend: give --sinks: the layer has a number per query head in its sums, which its checkpoint holds and its "
      "description does not");
}

TEST_F(RulesOfAModel, GiveWayToTheCommandLine) {
  const std::string windowed = config(R"("model_type": "mistral", "rope_theta": 10000, "sliding_window": 9)");
  expect_layer("mha_causal", windowed, 0, causal + "--window-left 2", {.causal = Causal::top_left, .window_left = 2});
  expect_layer("mha_causal", windowed, 0, causal + "--window-left 33", {.causal = Causal::top_left});
}

TEST_F(RulesOfAModel, NeedToKnowWhichKeyIsAQuerysOwn) {
  const std::string windowed = " --model " + config(R"("model_type": "mistral", "rope_theta": 10000, "sliding_window": 9)");
  expect_error(2, command("decode_1_40", windowed + all + "--q-offset 39"),
               "attend: give --window-left: the layer has a sliding window of 9 keys, and neither --causal none nor a "
               "position says which key is a query's own");
}

TEST_F(RulesOfAModel, AreRefusedToLinearAttentionWhereTheyHideKeys) {
  const std::string linear = causal + "--linear roformer -o " + made("out.npz");
  const auto with_window = [&](const char* window) {
    return "attend " + golden("mha_causal") + " --model " +
           config(R"("model_type": "mistral", "rope_theta": 10000, "sliding_window": )" + std::string(window)) + linear;
  };
  expect_error(
      4, with_window("9"),
      "attend: the layer's sliding window of 9 keys can hide some of the 33, which linear attention does not have");
  EXPECT_EQ(run(with_window("33")).code, 0);
  const auto packed_with = [&](const std::string& window) {
    return "attend " + golden("packed_causal_7_1_12") + " --axes THD --cu-seqlens cu_seqlens_q --model " +
           folder_.write("packed.json",
                         R"({"num_hidden_layers": 1, "model_type": "mistral", "num_attention_heads": 2, "hidden_size": 32,
                             "num_key_value_heads": 2, "head_dim": 16, "rope_theta": 10000, "sliding_window": )" +
                             window + "}") +
           linear;
  };
  EXPECT_EQ(run(packed_with("12")).code, 0) << "a window sees within a sequence";
  expect_error(4, packed_with("11"), "window of 11 keys can hide some of the 12,");
}

}  // namespace
}  // namespace rotary
