// rotary attend, as a shell sees it: softmax attention with its biases, and linear attention.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "rotary/tensor_file.hpp"
#include "support/file_bytes.h"
#include "support/program.h"
#include "support/stored_values.h"

namespace rotary {
namespace {

using nlohmann::json;

/// The golden cases of tests/data/attention, in float64 from another implementation; float32 is good for 2e-6 of a result
/// that is at most 1 or so (see the README there).
class Attend : public Program {
 protected:
  std::string golden(const std::string& name) const { return data + "/attention/" + name + ".npz"; }
  std::string command(const std::string& name, const std::string& options) const {
    return "attend " + golden(name) + " --base 10000 --pairing half -o " + made("out.npz") + " " + options;
  }
  void expect_golden(const std::string& name, const std::string& options) const {
    const Result result = run(command(name, options));
    ASSERT_EQ(result.code, 0) << result.err;
    const TensorFile right(golden(name).c_str()), written(made("out.npz").c_str());
    EXPECT_LT(largest_difference(written.at("attn_out"), right.at("out")), 2e-6) << name << ' ' << options;
  }
};

TEST_F(Attend, PutsTheLastQueryWithTheLastKeyUnderBottomRight) {
  expect_golden("decode_1_40", "--head-dim 20 --causal bottom_right");
  expect_golden("decode_1_40", "--head-dim 20 --causal bottom_right --offset 1000");  // distances alone matter
  expect_golden("decode_1_40", "--head-dim 20 --causal none --q-offset 39");
  expect_golden("causal_bottom_right_5_11", "--head-dim 16 --causal bottom_right");
  expect_golden("causal_bottom_right_11_5", "--head-dim 16 --causal bottom_right");
  const Result result = run(command("decode_1_40", "--head-dim 20 --causal bottom_right"));
  EXPECT_NE(result.err.find("keys counted, 0 to 39; the last query with the last key"), std::string::npos) << result.err;
}

TEST_F(Attend, PutsTheLastQueryWithTheLastPositionId) {
  std::vector<std::int64_t> ids(40);
  for (std::int64_t i = 0; i < 40; ++i) ids[static_cast<std::size_t>(i)] = 7 + i;
  write_npy(made("ids.npy").c_str(), ConstTensorView(ids.data(), "S", {40}));
  write_npy(made("last.npy").c_str(), ConstTensorView(&ids.back(), "S", {1}));
  const std::string how = "--head-dim 20 --causal bottom_right --position-ids " + made("ids.npy");
  expect_golden("decode_1_40", how);
  expect_golden("decode_1_40", how + " --q-position-ids " + made("last.npy"));
  expect_golden("decode_1_40", how + " --q-offset 46");
  expect_error(2, command("decode_1_40", "--head-dim 20 --causal bottom_right --position-ids " + made("last.npy")),
               "got 1 for 40 tokens");
  write_npy(made("five.npy").c_str(), ConstTensorView(ids.data(), "S", {5}));
  expect_error(
      2, command("causal_bottom_right_11_5", "--head-dim 16 --causal bottom_right --position-ids " + made("five.npy")),
      "--q-position-ids");
}

TEST_F(Attend, TakesPositionsOfQueriesByThemselves) {
  expect_golden("causal_top_left_5_11", "--head-dim 16 --causal top_left --q-offset 0");
  expect_golden("position_ids_scattered",
                "--head-dim 16 --causal none --position-ids k_position_ids --q-position-ids q_position_ids");
}

TEST_F(Attend, TakesItsScaleFromTheCommandLine) {
  expect_golden("decode_1_40", "--head-dim 20 --causal bottom_right --scale 0.22360679774997896");
  ASSERT_EQ(run(command("decode_1_40", "--head-dim 20 --causal bottom_right --scale 0.5")).code, 0);
  EXPECT_GT(largest_difference(TensorFile(made("out.npz").c_str()).at("attn_out"),
                               TensorFile(golden("decode_1_40").c_str()).at("out")),
            1e-3);
  expect_error(2, command("decode_1_40", "--head-dim 20 --causal bottom_right --scale 0"), "--scale must not be 0");
}

TEST_F(Attend, RefusesALayerThatNormalisesWhatHasTurned) {
  const std::string normed = folder_.write("config.json", R"({"model_type": "hunyuan_v1_dense", "hidden_size": 576,
      "num_hidden_layers": 1, "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64, "rope_theta": 10000})");
  expect_error(4, "attend " + capture + " --model " + normed + " --causal bottom_right -o " + made("a.npz"),
               "after they turn");
}

/// Without channels they have no bytes in the file, but the output would have channels.
TEST_F(Attend, RefusesMoreQueriesThanMemoryHolds) {
  const std::int64_t many = std::int64_t{1} << 60;
  write_npz(made("many.npz").c_str(), {{"q", {nullptr, DType::f32, "BHSD", {1, 1, many, 0}}},
                                       {"k", {nullptr, DType::f32, "BHSD", {1, 0, 1, 20}}},
                                       {"v", {nullptr, DType::f32, "BHSD", {1, 0, 1, 20}}}});
  expect_error(3,
               "attend " + made("many.npz") + " --base 10000 --pairing half --head-dim 20 --causal bottom_right -o " +
                   made("out.npz"),
               "out of memory");
}

TEST_F(Attend, RefusesToGuessWhereQueriesStand) {
  expect_error(2, command("causal_top_left_5_11", "--head-dim 16 --causal top_left"), "5 queries and 11 keys");
  expect_error(2, command("decode_1_40", "--head-dim 20 --causal none"), "--q-offset");
}

TEST_F(Attend, RefusesToTakeAScaleThatItDoesNotKnow) {
  const std::string scaled =
      folder_.write("config.json", R"({"model_type": "timesfm2_5", "head_dim": 64, "rope_theta": 10000,
      "num_hidden_layers": 1, "num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 576})");
  const std::string how = "attend " + capture + " --model " + scaled + " --causal bottom_right -o " + made("a.npz");
  expect_error(2, how, "give --scale");
  expect_error(2, how + " --linear taylor2", "give --scale");
  expect_error(4, how + " --scale 0.125", "after they turn");
  expect_error(4, how + " --linear roformer", "after they turn");
}

TEST_F(Attend, AddsAMaskToTheScores) {
  for (const char* const name : {"bias_per_head", "bias_broadcast_minus_inf"}) {
    expect_golden(name, "--head-dim 16 --causal none --q-offset 0 --mask bias");
  }
  expect_error(2, command("bias_per_head", "--head-dim 16 --causal none --q-offset 0 --mask out"), "attn_mask");
  expect_error(3, command("decode_1_40", "--head-dim 20 --causal bottom_right --mask " + made("none.npy")), "none.npy");
}

TEST_F(Attend, AddsAlibiInPlaceOfARotation) {
  for (const auto& [name, causal] : {std::pair("alibi_causal", "top_left"), std::pair("alibi_6_heads_full", "none")}) {
    const std::string how = "attend " + golden(name) + " --alibi --causal " + causal + " -o " + made("out.npz");
    ASSERT_EQ(run(how).code, 0);
    EXPECT_LT(
        largest_difference(TensorFile(made("out.npz").c_str()).at("attn_out"), TensorFile(golden(name).c_str()).at("out")),
        2e-6);
    expect_error(2, how + " --base 10000", "--base does not go with --alibi");
  }
}

// ---- linear attention ----

/// tests/data/linear, in float64 from another implementation.
class AttendLinear : public Program {
 protected:
  std::string file(const std::string& name) const { return data + "/linear/" + name + ".npz"; }
  std::string command(const std::string& name, const std::string& options) const {
    return "attend " + file(name) + " -o " + made("out.npz") + " " + options;
  }
  StoredTensor written(const std::string& name = "out.npz") {
    files_.emplace_back(made(name).c_str());
    return files_.back().at("attn_out");
  }

  /// What a case is made of, floats as float64, so that the program computes in double.
  void write_in_double(const TensorFile& golden) const {
    std::vector<std::vector<double>> numbers;
    std::vector<TensorToWrite> tensors;
    for (const char* const name : {"q", "k", "v", "projection"}) {
      const StoredTensor* const stored = golden.find(name);
      if (stored == nullptr) continue;
      numbers.push_back(stored_values(*stored));
      const Axes axes = stored->shape.size() == 2 ? "ND" : "BHSD";
      tensors.push_back({name, ConstTensorView(numbers.back().data(), axes, Dims(stored->shape))});
    }
    if (const StoredTensor* mask = golden.find("key_padding_mask"))
      tensors.push_back({"key_padding_mask", mask->view("BS")});
    write_npz(made("in.npz").c_str(), tensors);
  }

  std::vector<TensorFile> files_;  // whose tensors are being looked at
};

/// "" where the program does not have the method.
std::string options_of(const json& c, std::int64_t width) {
  const json& how = c.at("options");
  const std::string method = how.at("method"), map = how.value("feature_map", "relu");
  std::string options = " --causal " + std::string(how.at("is_causal") ? "top_left" : "none");
  if (method == "plain") return options + " --linear elu";
  options += " --offset " + std::to_string(how.at("start_position").get<int>());
  if (method == "cosformer") return options + " --linear cosformer --M " + how.at("M").dump();
  const json& rope = how.at("rope");
  options += " --base " + rope.at("base").dump() + " --head-dim " + std::to_string(width) + " --rotary-dim " +
             rope.at("rotary_dim").dump() + " --pairing " + rope.at("pairing").get<std::string>();
  if (map == "favor_positive") return options + " --linear performer --projection projection";
  if (map == "favor_relu") return options + " --linear performer-relu --projection projection";
  if (method == "rotate_then_map") return "";
  return options + " --linear " + (method == "roformer" ? "roformer" : "rotated") + " --map " +
         (map == "elu_plus_one" ? "elu" : map);
}

TEST_F(AttendLinear, GivesWhatAnotherImplementationGives) {
  int count = 0;
  const json all = json::parse(file_bytes(data + "/linear/cases.json"));
  for (const json& c : all.at("cases")) {
    const std::string name = c.at("name");
    const TensorFile golden(file(name).c_str());
    std::string options = options_of(c, golden.at("q").shape[3]);
    if (options.empty() || golden.find("S0") != nullptr) continue;
    if (golden.find("key_padding_mask") != nullptr) options += " --padding key_padding_mask";
    write_in_double(golden);
    ASSERT_EQ(run("attend " + made("in.npz") + " -o " + made("out.npz") + options).code, 0) << name << options;
    const std::vector<double> right = stored_values(golden.at("out")), made_here = stored_values(written());
    double largest = 1;
    for (const double x : right) largest = std::max(largest, std::abs(x));
    ASSERT_EQ(made_here.size(), right.size());
    const double condition = name.starts_with("both_") ? 750 : 1;
    for (std::size_t i = 0; i < right.size(); ++i) {
      ASSERT_NEAR(made_here[i], right[i], 1e-11 * condition * largest) << name << ", element " << i;
    }
    ++count;
  }
  EXPECT_EQ(count, 17);
}

TEST_F(AttendLinear, ReportsDenominatorsAndWhatIsTrueOfTheWeights) {
  const std::string how = "--base 10000 --head-dim 8 --pairing interleaved --causal none --linear ";
  const Result text = run(command("both_full_relu", how + "rotated --map relu"));
  EXPECT_NE(text.err.find("note: rotated: weights can be negative; what their sum is divided by can come near 0"),
            std::string::npos)
      << text.err;
  EXPECT_NE(text.err.find("48 rows, 0 of them zeros; 3 negative denominators"), std::string::npos) << text.err;
  const Result result = run(command("both_full_relu", how + "rotated --map relu --json"));
  const json report = json::parse(result.out);
  EXPECT_EQ(report["num_negative_denominators"], 3);
  EXPECT_GE(report["worst_condition"], 27.78);
  EXPECT_EQ(report["non_negative"], false);
  EXPECT_EQ(report["sum_to_one"], true);
  const Result roformer = run(command("both_full_relu", how + "roformer"));
  EXPECT_NE(roformer.err.find("note: roformer: weights can be negative, need not sum to 1\n"), std::string::npos)
      << roformer.err;
  EXPECT_EQ(run(command("both_full_relu", how + "taylor2")).err.find("note"), std::string::npos);
  EXPECT_NE(run(command("both_full_relu", how + "roformer --map identity"))
                .err.find("need not sum to 1; what their sum is divided by can come near 0"),
            std::string::npos);
  const Result lrpe = run(command("both_full_relu", "--base 10000 --causal none --linear lrpe"));
  EXPECT_NE(lrpe.err.find("negative beyond the distance 1.57"), std::string::npos) << lrpe.err;
  EXPECT_EQ(run(command("both_full_relu", "--causal none --linear elu")).err.find("positions"), std::string::npos);
}

/// The error of one weight is sqrt((e^|q' + k'|^2 - 1) / m): a hundred times the features, a tenth of the error.
TEST_F(AttendLinear, SaysHowFarAPerformersWeightsAreFromSoftmax_A4) {
  const std::string how = "--base 10000 --head-dim 8 --pairing interleaved --causal none --linear performer";
  const auto error = [&](const std::string& features) {
    const std::string text = run(command("both_full_relu", how + " --features " + features)).err;
    const std::string before = "one weight is off by about ";
    return std::stod(text.substr(text.find(before) + before.size()));
  };
  EXPECT_NEAR(error("40") / error("4000"), 10, 0.5);
}

/// q, k and v of one width; without a v, ones.
void write_rows(const std::string& path, const std::vector<float>& q, const std::vector<float>& k,
                const std::vector<bool>& tokens, std::vector<float> v = {}) {
  const auto length = static_cast<std::int64_t>(tokens.size()), width = static_cast<std::int64_t>(k.size()) / length;
  v.resize(k.size(), 1);
  const auto mask = std::make_unique<bool[]>(tokens.size());
  std::copy(tokens.begin(), tokens.end(), mask.get());
  const auto rows = [&](const std::vector<float>& x) {
    return ConstTensorView(x.data(), "SD", {static_cast<std::int64_t>(x.size()) / width, width});
  };
  write_npz(path.c_str(), {{"q", rows(q)},
                           {"k", rows(k)},
                           {"v", rows(v)},
                           {"tokens", ConstTensorView(mask.get(), DType::boolean, "S", {length})}});
}

TEST_F(AttendLinear, SaysThatAPerformersWeightsAreRelativeOnlyOnAverage) {
  const std::string how = "--base 10000 --head-dim 8 --pairing interleaved --causal none --json --linear ";
  const Result performer = run(command("both_full_relu", how + "performer --features 16"));
  EXPECT_NE(performer.err.find("depend on distances alone only on average"), std::string::npos) << performer.err;
  const json drawn = json::parse(performer.out), exact = json::parse(run(command("both_full_relu", how + "taylor2")).out);
  EXPECT_EQ(drawn["relative"], false);
  EXPECT_EQ(drawn["relative_on_average"], true);
  EXPECT_EQ(exact["relative"], true);
  EXPECT_EQ(exact["relative_on_average"], true);
}

TEST_F(AttendLinear, SaysNoPercentageThatIsNone) {
  const auto note = [&](float size, bool token) {
    write_rows(made("in.npz"), {size, 2}, {size, 2}, {token});
    return run("attend " + made("in.npz") + " --axes SD --causal none --base 10000 --head-dim 2 --pairing half -o " +
               made("out.npz") + " --linear performer --features 16 --padding tokens")
        .err;
  };
  EXPECT_NE(note(1, true).find("one weight is off by about"), std::string::npos);
  EXPECT_NE(note(1000, true).find("one weight is off beyond all use: 16 features"), std::string::npos) << note(1000, true);
  EXPECT_EQ(note(1, false).find("one weight"), std::string::npos) << "no key";
}

TEST_F(AttendLinear, DrawsTheSameFeaturesFromTheSameSeed_A5) {
  const std::string how = "--base 10000 --head-dim 8 --pairing interleaved --causal none --linear performer --features 16";
  const auto out = [&](const std::string& seed) {
    EXPECT_EQ(run(command("both_full_relu", how + seed)).code, 0);
    return stored_values(written());
  };
  EXPECT_EQ(out(" --seed 5"), out(" --seed 5"));
  EXPECT_EQ(out(""), out(" --seed 0"));
  EXPECT_NE(out(" --seed 5"), out(" --seed 6"));
  EXPECT_NE(out(" --seed 18446744073709551615"), out(" --seed 6"));
  const std::string seeded = how + " --seed=";
  for (const std::string seed : {"-1", "18446744073709551616", "1.5", "99999999999999999999999"}) {
    expect_error(2, command("both_full_relu", seeded + seed), "from 0 to 2^64 - 1, got " + seed);
  }
}

TEST_F(AttendLinear, DoesNotReadThePaddingForItsNote_A12) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  write_rows(made("in.npz"), {1, 2, 3, 4}, {1, 2, nan, nan}, {true, false});
  const std::string how = "attend " + made("in.npz") +
                          " --axes SD --causal none --base 10000 --head-dim 2 --pairing half -o " + made("out.npz") +
                          " --linear performer --features 16 --padding tokens";
  const Result result = run(how);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err.find("nan"), std::string::npos) << result.err;
  // |q|^2 is 5 and 25, |k|^2 of the one token 5, the scale 1 / sqrt 2
  EXPECT_NE(result.err.find("|q'|^2 + |k'|^2 = 14.1 on average"), std::string::npos) << result.err;
  write_rows(made("in.npz"), {1, 2, nan, nan}, {1, 2, nan, nan}, {true, false});
  const Result padded_queries = run(how);
  EXPECT_NE(padded_queries.err.find("|q'|^2 + |k'|^2 = 7.07 on average"), std::string::npos) << padded_queries.err;
}

TEST_F(AttendLinear, SaysWhereResultsAreNoNumbers) {
  write_rows(made("in.npz"), {1, 2, 1e30f, 1e30f}, {1e30f, 1e30f, 1, 2}, {true, true});
  const std::string how = "attend " + made("in.npz") + " --axes SD --causal none -o " + made("out.npz") + " --linear elu";
  const Result text = run(how), result = run(how + " --json");
  EXPECT_NE(text.err.find("note: elu: infinity or NaN in 1 of 2 rows"), std::string::npos) << text.err;
  const json report = json::parse(result.out);
  EXPECT_EQ(report["num_non_finite_rows"], 1);
  EXPECT_EQ(report["num_non_finite_denominators"], 1);
}

/// Cross attention: queries stand nowhere, and need not be as many as keys.
TEST_F(AttendLinear, TakesAnyNumberOfQueriesWhereNothingTurns) {
  // elu + 1 of the query is (2, 3), of the keys (2, 3), (4, 5), (6, 7): products 13, 23 and 33
  write_rows(made("in.npz"), {1, 2}, {1, 2, 3, 4, 5, 6}, {true, true, true}, {69, 0, 0, 69, 0, 0});
  const std::string how = "attend " + made("in.npz") + " --axes SD -o " + made("out.npz");
  const Result result = run(how + " --causal none --linear elu");
  EXPECT_EQ(result.code, 0) << result.err;
  const std::vector<double> out = stored_values(written());
  ASSERT_EQ(out.size(), 2u);
  EXPECT_NEAR(out[0], 13, 1e-5);
  EXPECT_NEAR(out[1], 23, 1e-5);
  expect_error(2, how + " --causal top_left --linear elu", "as many queries as keys");
  expect_error(2, how + " --causal none --linear roformer --base 10000 --head-dim 2 --pairing half", "--q-offset");
}

TEST_F(AttendLinear, SaysThatThereAreNoTokens) {
  write_npz(made("none.npz").c_str(), {{"q", {nullptr, DType::f32, "SD", {0, 2}}},
                                       {"k", {nullptr, DType::f32, "SD", {0, 2}}},
                                       {"v", {nullptr, DType::f32, "SD", {0, 2}}}});
  const Result result = run("attend " + made("none.npz") + " --axes SD --causal none --linear roformer --base 10000 " +
                            "--head-dim 2 --pairing half -o " + made("out.npz"));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("positions: counted, no token\n"), std::string::npos) << result.err;
}

/// The capture's first tokens as two packed sequences.
TEST_F(AttendLinear, KeepsPackedSequencesApart) {
  const TensorFile real(capture.c_str());
  const auto part = [&](const char* name, std::int64_t begin, std::int64_t end) {
    return real.at(name).view("BHSD").select('B', 0).slice('S', begin, end);
  };
  const auto packed = [&](const char* name) {
    const ConstTensorView x = part(name, 0, 50);
    return ConstTensorView(x.data(), x.dtype(), "HTD", x.shape(), x.strides());
  };
  const std::int32_t ends[] = {0, 20, 50};
  write_npz(made("packed.npz").c_str(),
            {{"q", packed("q")}, {"k", packed("k")}, {"v", packed("v")}, {"ends", ConstTensorView(ends, "N", {3})}});
  write_npz(made("second.npz").c_str(), {{"q", part("q", 20, 50)}, {"k", part("k", 20, 50)}, {"v", part("v", 20, 50)}});
  for (const std::string& method : {model, model + " --linear roformer", std::string(" --alibi")}) {
    const std::string how = " --causal top_left -o " + made("out.npz") + method;
    ASSERT_EQ(run("attend " + made("packed.npz") + " --axes HTD --cu-seqlens ends" + how).code, 0);
    const StoredTensor together = written();
    ASSERT_EQ(run("attend " + made("second.npz") + " --axes HSD" + how).code, 0);
    const StoredTensor alone = written();
    for (std::int64_t h = 0; h < 9; ++h) {
      for (std::int64_t i = 0; i < 30 * 64; ++i) {
        ASSERT_EQ(static_cast<const float*>(together.data)[h * 50 * 64 + 20 * 64 + i],
                  static_cast<const float*>(alone.data)[h * 30 * 64 + i]);
      }
    }
  }
}

TEST_F(AttendLinear, DecaysByAlibi) {
  const std::string alibi = data + "/attention/alibi_causal.npz";
  const std::string how = "attend " + alibi + " --causal top_left --linear elu -o " + made("out.npz");
  ASSERT_EQ(run(how + " --alibi").code, 0);
  const TensorFile in(alibi.c_str());
  const std::vector<double> q = stored_values(in.at("q")), k = stored_values(in.at("k")), v = stored_values(in.at("v")),
                            slopes = stored_values(in.at("alibi_slopes")), out = stored_values(written());
  const std::size_t length = 19, width = 16;
  const auto feature = [](double x) { return x > 0 ? x + 1 : std::exp(x); };
  for (std::size_t h = 0; h < 4; ++h) {
    for (std::size_t i = 0; i < length; ++i) {
      std::vector<double> sum(width);
      double divisor = 0;
      for (std::size_t j = 0; j <= i; ++j) {
        double weight = 0;
        for (std::size_t d = 0; d < width; ++d) {
          weight += feature(q[(h * length + i) * width + d]) * feature(k[(h * length + j) * width + d]);
        }
        weight *= std::exp(-slopes[h] * static_cast<double>(i - j));
        divisor += weight;
        for (std::size_t d = 0; d < width; ++d) sum[d] += weight * v[(h * length + j) * width + d];
      }
      for (std::size_t d = 0; d < width; ++d) ASSERT_NEAR(out[(h * length + i) * width + d], sum[d] / divisor, 2e-6);
    }
  }
  const std::string full = "attend " + alibi + " --causal none --linear elu -o " + made("a.npz");
  expect_error(4, full + " --alibi", "cannot be pre-summed");
  expect_error(2, how + " --alibi --decay 0.5", "--alibi does not go with --decay");
  expect_error(4, full + " --mask v", "keys are summed before any query comes");
  expect_error(4, "attend " + capture + " --causal top_left --linear elu --alibi -o " + made("a.npz"), "9 for 3");
  std::int64_t apart[19];
  for (std::int64_t i = 0; i < 19; ++i) apart[i] = 2 * i;
  write_npz(made("apart.npz").c_str(), {{"q", in.at("q").view("BHSD")},
                                        {"k", in.at("k").view("BHSD")},
                                        {"v", in.at("v").view("BHSD")},
                                        {"position_ids", ConstTensorView(apart, "S", {19})}});
  expect_error(4, "attend " + made("apart.npz") + " --causal top_left --linear elu --alibi -o " + made("a.npz"),
               "positions must grow by 1");
}

/// A decay skips what is no token, ALiBi counts it: the same only where no token stands on the other side.
TEST_F(AttendLinear, RefusesAlibiWithPaddingBetweenTokens) {
  const std::string how = "attend " + made("in.npz") +
                          " --axes SD --causal top_left --linear elu --alibi --padding tokens -o " + made("out.npz");
  const std::vector<float> q = {1, 2, -1, 1, 0, 1, 2, 0};
  const auto with = [&](const std::vector<bool>& tokens) {
    write_rows(made("in.npz"), q, q, tokens);
    return run(how);
  };
  for (const std::vector<bool>& tokens : {std::vector<bool>{false, false, true, true},
                                          {true, true, false, false},
                                          {false, true, true, false},
                                          {false, false, false, false}}) {
    EXPECT_EQ(with(tokens).code, 0);
  }
  const Result between = with({true, false, false, true});
  EXPECT_EQ(between.code, 4);
  EXPECT_NE(between.err.find("skips what --padding leaves out"), std::string::npos) << between.err;

  const std::int32_t ends[] = {0, 2, 4};
  const bool mask[] = {true, false, true, true};
  const auto packed = [&](const std::int32_t* cu_seqlens, std::int64_t count) {
    const ConstTensorView rows(q.data(), "TD", {4, 2});
    write_npz(made("in.npz").c_str(), {{"q", rows},
                                       {"k", rows},
                                       {"v", rows},
                                       {"ends", ConstTensorView(cu_seqlens, "N", {count})},
                                       {"tokens", ConstTensorView(mask, DType::boolean, "T", {4})}});
    return run("attend " + made("in.npz") + " --axes TD --cu-seqlens ends --causal top_left --linear elu --alibi " +
               "--padding tokens -o " + made("out.npz"))
        .code;
  };
  const std::int32_t one[] = {0, 4};
  EXPECT_EQ(packed(ends, 3), 0);
  EXPECT_EQ(packed(one, 2), 4);
}

TEST_F(AttendLinear, TakesRetNetsDecayOrOneThatIsGiven) {
  const std::string how = "attend " + capture + model + " --causal top_left --linear retention -o ";
  ASSERT_EQ(run(how + made("default.npz")).code, 0);
  ASSERT_EQ(run(how + made("given.npz") + " --decay 0.96875,0.984375,0.9921875").code, 0);
  ASSERT_EQ(run(how + made("one.npz") + " --decay 0.96875").code, 0);
  EXPECT_EQ(largest_difference(written("default.npz"), written("given.npz")), 0);
  EXPECT_GT(largest_difference(written("default.npz"), written("one.npz")), 0);
  expect_error(2, how + made("a.npz") + " --decay 0.5,0.5", "decay");
  expect_error(2, how + made("a.npz") + " --decay ,", "--decay must be one number, or several");
  expect_error(2, how + made("a.npz") + " --decay 0.5,", "--decay must be one number, or several");
  expect_error(2, "attend " + capture + model + " --causal none --linear retention -o " + made("a.npz"),
               "--linear retention needs --causal top_left");
}

TEST_F(AttendLinear, RefusesByNameWhatAMethodDoesNotHave) {
  const std::string how = "--causal none --linear ", by_hand = " --base 10000 --head-dim 8 --pairing half";
  const auto refused = [&](const std::string& options, const std::string& words) {
    expect_error(2, command("both_full_relu", options), words);
  };
  refused(how + "elu" + by_hand, "--head-dim does not go with --linear elu: nothing turns");
  refused(how + "elu --offset 1", "--offset does not go with --linear elu");
  refused(how + "cosformer --M 8" + by_hand, "--head-dim does not go with --linear cosformer");
  refused(how + "cosformer", "--linear cosformer needs --M: the distance at which a weight reaches 0");
  refused(how + "cosformer --M 0", "M must be above 0");
  refused(how + "lrpe", "--linear lrpe needs --base");
  refused(how + "lrpe --base 10000 --pairing half", "--pairing does not go with --linear lrpe");
  refused(how + "roformer --M 8" + by_hand, "--M does not go with --linear roformer");
  refused(how + "roformer --features 8" + by_hand, "--features does not go with --linear roformer");
  refused(how + "roformer --scale 1" + by_hand, "--scale does not go with --linear roformer");
  refused(how + "roformer --lse" + by_hand, "--lse does not go with --linear roformer");
  refused(how + "roformer --precision ggml" + by_hand, "--precision does not go with --linear roformer");
  refused(how + "taylor2 --map relu" + by_hand, "--map does not go with --linear taylor2");
  refused(how + "performer" + by_hand, "--linear performer needs --features N");
  expect_error(2, command("both_full_relu", how + "performer --projection q" + by_hand), "q: must have the axes ND");
  refused(how + "roformer", "give --model, or --base");
  refused("--causal none --M 8" + by_hand, "--linear");
  refused(how + "linear", "performer");
}

}  // namespace
}  // namespace rotary
