// The program, as a shell sees it: stdout, stderr and exit code of every command.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/element.h"
#include "rotary/tensor_file.hpp"
#include "support/program.h"
#include "support/well_formed_xml.h"

namespace rotary {
namespace {

using nlohmann::json;

TEST_F(Program, SaysItsVersionCommitAndInstructionSet) {
  const Result result = run("--version");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out.rfind("rotary 0.", 0), 0u) << result.out;
  const Result forced = shell("ROTARY_ISA=scalar '" + program + "' --version > '" + folder_.path("out") + "'");
  EXPECT_NE(forced.out.find("scalar"), std::string::npos) << forced.out;
}

TEST_F(Program, BeginsItsHelpWithAnExample) {
  for (const char* command :
       {"", "inspect", "compare", "frequencies", "plot", "explain", "rotate", "attend", "verify", "precision", "claims"}) {
    const Result result = run(std::string(command) + " --help");
    EXPECT_EQ(result.code, 0) << command;
    EXPECT_EQ(result.out.rfind("Example: ", 0), 0u) << result.out;
    const std::string called = std::string("rotary") + (*command ? " " : "") + command;
    EXPECT_NE(result.out.find("Usage: " + called + " ["), std::string::npos) << result.out;
    EXPECT_EQ(result.err, "");
  }
}

TEST_F(Program, RefusesWrongUsage) {
  expect_error(2, "", "--help");
  expect_error(2, "turn", "turn");
  expect_error(2, "inspect", "PATH");
  expect_error(2, "inspect x --layer two", "--layer: must be a whole number, at least 0, got two");
  expect_error(2, "inspect x --layer -1", "--layer: must be a whole number, at least 0, got -1");
  expect_error(2, "verify x --model y --layer 0 --threads 0", "--threads: must be a whole number, at least 1, got 0");
  expect_error(2, "rotate missing.npy -o turned.txt", "--out: must end in .safetensors, .npz or .npy, got turned.txt");
  expect_error(2, "attend missing.npz --causal none -o turned", "--out: must end in .safetensors, .npz or .npy");
  expect_error(2, "inspect " + data + "/smollm2/config.json --part vision_config", "vision_config");
  expect_error(2, "inspect " + data + "/smollm2/config.json --layer 30", "--layer must be 0 to 29, got 30");
  expect_error(2, "inspect " + data + "/smollm2/config.json --length 0", "--length: must be a whole number, at least 1");
  expect_error(2, "inspect ''", "PATH: must not be empty");
  expect_error(2, "explain ''", "ID: must not be empty");
  expect_error(2, "inspct x", "unknown command inspct; did you mean inspect?");
  expect_error(2, "turn x", "unknown command turn; see rotary --help");
  expect_error(2, "verify " + capture + model, "--layer");
  expect_error(2, "verify " + capture + model + " --layer 0 --pairing both", "half");
  expect_error(2, "verify " + capture + model + " --layer 0 --axes BHSS", "axes");
  expect_error(2, "verify " + capture + model + " --layer 0 --map queries=q", "--map");
  expect_error(2, "verify " + capture + model + " --layer 30", "0 to 29");
  expect_error(2, "attend " + capture + model + " -o " + made("a.npz"), "--causal");
  expect_error(2, "rotate " + capture + model + " -o " + made("a.npz"), "--tensor");
  expect_error(2, "rotate " + capture + " --tensor q -o " + made("a.npz"), "--model");
  expect_error(2, "precision --base 10000 --head-dim 7 --pairing half", "rotary_dim");
}

/// Each names an axis of every tensor in the file, and yet is not what a head's tensor has.
TEST_F(Program, RefusesAxesWithoutTokensOrChannels) {
  for (const char* axes : {"BHSN", "BHTN", "BHND", "BSTD", "KHSD", "D", "S"}) {
    const std::string wrong = std::string(" --axes ") + axes;
    expect_error(2, "attend " + capture + model + " --causal none -o " + made("a.npz") + wrong, "--axes must name D");
    expect_error(2, "rotate " + capture + model + " --tensor q -o " + made("a.npz") + wrong, "--axes must name D");
    expect_error(2, "verify " + capture + model + " --layer 0" + wrong, "--axes must name D");
  }
}

TEST_F(Program, RefusesAnInstructionSetThatThereIsNot) {
  for (const std::string& arguments :
       {"verify " + capture + model + " --layer 0", "rotate " + capture + model + " --tensor q -o " + made("a.npz"),
        "attend " + capture + model + " --causal none -o " + made("a.npz"), "precision" + model,
        std::string("--version")}) {
    const Result result =
        shell("ROTARY_ISA=sse3 '" + program + "' " + arguments + " > '" + made("out") + "' 2> '" + made("err") + "'");
    EXPECT_EQ(result.code, 4) << arguments;
    EXPECT_EQ(result.out, "") << arguments;
    EXPECT_EQ(result.err.rfind("rotary: ROTARY_ISA: must name an instruction set of this machine (scalar", 0), 0u)
        << result.err;
  }
}

TEST_F(Program, RefusesFilesThatCannotBeRead) {
  expect_error(3, "inspect " + made("missing.json"), "missing.json");
  expect_error(3, "verify " + made("missing.safetensors") + model + " --layer 0", "missing.safetensors");
  expect_error(3, "inspect " + folder_.write("broken.json", "{"), "broken.json");
  expect_error(3, "verify " + folder_.write("short.safetensors", "abc") + model + " --layer 0", "short.safetensors");
  expect_error(3, "rotate " + capture + model + " --tensor q -o " + made("no/such/folder.npy"), "folder.npy");
}

TEST_F(Program, RefusesPositionsThatAreNotRepresentable) {
  for (const char* offset : {"9223372036854775807", "-9223372036854775808", "9007199254740992"}) {
    const std::string far = std::string(" --offset ") + offset;
    expect_error(2, "rotate " + capture + model + " --tensor q -o " + made("a.npz") + far, "at most 2^53");
    expect_error(2, "rotate " + capture + model + " --tensor k --shift 1 -o " + made("a.npz") + far, "at most 2^53");
    expect_error(2, "attend " + capture + model + " --causal none -o " + made("a.npz") + far, "at most 2^53");
    expect_error(2, "verify " + capture + model + " --layer 0" + far, "at most 2^53");
  }
}

TEST_F(Program, RefusesFamiliesThatItDoesNotKnow) {
  expect_error(4, "inspect " + folder_.write("config.json", R"({"model_type": "unheard_of"})"), "unheard_of");
}

TEST_F(Program, ReportsAFullDisk) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  const Result result =
      shell("'" + program + "' inspect " + data + "/smollm2/config.json > /dev/full 2> '" + made("err") + "'");
  EXPECT_EQ(result.code, 3);
  EXPECT_NE(result.err.find("standard output"), std::string::npos) << result.err;
}

TEST_F(Program, ReportsAClosedOutputAndEndsQuietlyWhereItsReaderHasGone) {
  const Result result = shell("'" + program + "' inspect " + data + "/smollm2/config.json >&- 2> '" + made("err") + "'");
  EXPECT_NE(result.code, 0);
  // More than a pipe holds (64 KiB), so that the program is still writing when the reader has gone.
  std::string command = "'" + program + "' precision --json" + model;
  for (int position = 1; position <= 20; ++position) command += " --position " + std::to_string(position);
  ASSERT_GT(shell(command + " > '" + made("out") + "'").out.size(), std::size_t{128} << 10);
  const Result piped = shell("{ " + command + "; echo $? > '" + made("out") + "'; } 2> '" + made("err") + "' | true");
  EXPECT_EQ(piped.out, "0\n");
  EXPECT_EQ(piped.err, "");
}

TEST_F(Program, InspectPrintsTheRotationAndItsSources) {
  const Result text = run("inspect " + data + "/smollm2/config.json");
  EXPECT_EQ(text.code, 0);
  EXPECT_NE(text.out.find("config.json: rope_theta"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("pairing half"), std::string::npos) << text.out;

  const Result result = run("inspect " + data + "/smollm2/config.json --json");
  ASSERT_EQ(result.code, 0);
  const json model_json = json::parse(result.out);
  EXPECT_EQ(model_json["schema"], 1);
  EXPECT_EQ(model_json["model_type"], "llama");
  ASSERT_EQ(model_json["layers"].size(), 1u);
  const json& layers = model_json["layers"][0];
  EXPECT_EQ(layers["first"], 0);
  EXPECT_EQ(layers["last"], 29);
  EXPECT_EQ(layers["rotates"], true);
  EXPECT_EQ(layers["pairing_in"], "half");
  EXPECT_EQ(layers["softmax_scale"], 0.125);
  EXPECT_EQ(layers["num_q_heads"], 9);
  EXPECT_EQ(layers["num_kv_heads"], 3);
  EXPECT_EQ(layers["provenance"]["base"], json({{"value", 100000.0}, {"source", "config.json: rope_theta"}}));
  ASSERT_EQ(layers["inv_freq"].size(), 32u);
  EXPECT_EQ(layers["inv_freq"][31].get<double>(), 1.4330125702369627e-05);  // 100000^(-62/64), mpmath
}

/// A .npy file has one tensor, without a name.
TEST_F(Program, NamesTheTensorOfANpyFileInErrors) {
  const std::vector<std::int32_t> whole(8);
  write_npy(made("whole.npy").c_str(), {whole.data(), "SD", {1, 8}});
  expect_error(4, "rotate " + made("whole.npy") + " --axes SD --base 10000 --head-dim 8 --pairing half -o " + made("a.npy"),
               "whole.npy: the tensor must hold floats");
}

/// docs/inspect.md promises these keys; a new one needs no new schema, a lost or renamed one does.
TEST_F(Program, InspectKeepsItsSchema) {
  const json whole = json::parse(run("inspect " + data + "/models/llama-2-dynamic-ntk/config.json --json").out);
  const auto keys_of = [](const json& object) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : object.items()) keys.push_back(key);
    return keys;
  };
  EXPECT_EQ(keys_of(whole),
            (std::vector<std::string>{"fingerprint", "format", "layers", "length", "max_position_embeddings", "model_type",
                                      "num_layers", "original_max_position_embeddings", "parts", "schema", "source",
                                      "warnings"}));
  EXPECT_EQ(keys_of(whole["layers"][0]), (std::vector<std::string>{"amplitude",
                                                                   "attention_chunk_size",
                                                                   "axis",
                                                                   "depends_on_length",
                                                                   "direction",
                                                                   "first",
                                                                   "has_sinks",
                                                                   "head_dim",
                                                                   "inv_freq",
                                                                   "key_scale",
                                                                   "label",
                                                                   "last",
                                                                   "norm_order",
                                                                   "num_kv_heads",
                                                                   "num_q_heads",
                                                                   "pairing_in",
                                                                   "pairing_out",
                                                                   "provenance",
                                                                   "query_temperature",
                                                                   "reason",
                                                                   "rotary_dim",
                                                                   "rotary_offset",
                                                                   "rotates",
                                                                   "rotates_values",
                                                                   "rule",
                                                                   "sliding_window",
                                                                   "softcap",
                                                                   "softmax_scale",
                                                                   "turning",
                                                                   "unrotates_output",
                                                                   "window_is_symmetric"}));
  EXPECT_EQ(whole["fingerprint"].get<std::string>().size(), 16u);
  EXPECT_EQ(whole["layers"][0]["sliding_window"], json());
  EXPECT_EQ(whole["length"], json());
}

TEST_F(Program, InspectSaysWhichScaleIsNotKnownAndWhichWindowsAreOnBothSides) {
  const std::string beit = made("beit.json"), modernbert = made("modernbert.json");
  std::ofstream(beit) << R"({"model_type": "beit", "num_hidden_layers": 1})";
  std::ofstream(modernbert) << R"({"model_type": "modernbert", "num_hidden_layers": 2, "local_attention": 128})";
  EXPECT_EQ(json::parse(run("inspect --json " + beit).out)["layers"][0]["softmax_scale"], json());
  EXPECT_NE(run("inspect " + beit).out.find("not known"), std::string::npos);
  EXPECT_NE(run("inspect " + modernbert).out.find("64 keys on each side"), std::string::npos);
  const json layer = json::parse(run("inspect --json " + modernbert).out)["layers"][1];
  EXPECT_EQ(layer["window_is_symmetric"], true);
  EXPECT_EQ(layer["sliding_window"], 129);
}

TEST_F(Program, InspectSaysWhatIsDoneToScoresAndSums) {
  const std::string gemma = made("gemma2.json"), oss = made("gpt_oss.json");
  std::ofstream(gemma) << R"({"model_type": "gemma2", "attn_logit_softcapping": 30})";
  std::ofstream(oss) << R"({"model_type": "gpt_oss"})";
  EXPECT_NE(run("inspect " + gemma).out.find("times 0.0625; then 30 tanh(score / 30)"), std::string::npos);
  EXPECT_NE(run("inspect " + oss).out.find("a weight per query head"), std::string::npos);
  const json capped = json::parse(run("inspect --json " + gemma).out)["layers"][0];
  const json with_sinks = json::parse(run("inspect --json " + oss).out)["layers"][0];
  EXPECT_EQ(capped["softcap"], 30);
  EXPECT_EQ(capped["has_sinks"], false);
  EXPECT_EQ(with_sinks["softcap"], json());
  EXPECT_EQ(with_sinks["has_sinks"], true);
}

TEST_F(Program, InspectFitsATerminalAndHasNoColourInAFile) {
  const Result result = run("inspect " + data + "/models/llama-2-dynamic-ntk/config.json");
  EXPECT_EQ(result.out.find('\033'), std::string::npos);
  std::istringstream lines(result.out.substr(result.out.find('\n')));  // the first has the path
  for (std::string line; std::getline(lines, line);) {
    const auto columns = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; });
    EXPECT_LE(columns, 100) << line;
  }
}

TEST_F(Program, InspectShowsControlBytesOfAPathWithoutSendingThem) {
  const std::filesystem::path folder = made("a\033[31mb");
  std::filesystem::create_directory(folder);
  std::filesystem::copy_file(data + "/smollm2/config.json", folder / "config.json");
  const Result result = run("inspect '" + folder.string() + "'");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out.find('\033'), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("\\x1b[31m"), std::string::npos) << result.out;
}

TEST_F(Program, InspectPrintsJsonForAPathThatIsNotUtf8) {
  const std::filesystem::path folder = made("\xff");
  std::filesystem::create_directory(folder);
  std::filesystem::copy_file(data + "/smollm2/config.json", folder / "config.json");
  const Result result = run("inspect --json '" + folder.string() + "'");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(json::parse(result.out)["num_layers"], 30);
}

TEST_F(Program, CompareNamesTheRuleOfLlama31AndExitsWith1) {
  const std::string models = data + "/models/";
  const std::string both = models + "llama-3-8b/config.json " + models + "llama-3.1-8b-llama3/config.json";
  const Result text = run("compare " + both);
  EXPECT_EQ(text.code, 1);
  EXPECT_NE(text.out.find("llama3 (config.json: rope_scaling.rope_type)"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("differs: rule, inv_freq; rotated keys differ by more than a bfloat16 step from position 5 on\n"),
            std::string::npos)
      << text.out;

  const Result result = run("compare --json " + both);
  EXPECT_EQ(result.code, 1);
  const json comparison = json::parse(result.out);
  EXPECT_EQ(comparison["schema"], 1);
  EXPECT_EQ(comparison["same"], false);
  EXPECT_EQ(comparison["same_keys"], false);
  EXPECT_EQ(comparison["only_pairing_differs"], false);
  EXPECT_EQ(comparison["first_position"], 5);
  ASSERT_EQ(comparison["layers"].size(), 1u);
  EXPECT_EQ(comparison["layers"][0]["part"], json());
  EXPECT_EQ(comparison["layers"][0]["layers"], json::parse(R"([{"first": 0, "last": 31}])"));
  EXPECT_EQ(comparison["layers"][0]["differences"][0]["name"], "rule");
  EXPECT_EQ(comparison["layers"][0]["differences"][0]["effect"], "keys");
  EXPECT_NE(comparison["a"]["fingerprint"], comparison["b"]["fingerprint"]);
}

TEST_F(Program, CompareSaysThatAPermutedGgufDiffersInItsPairingAlone) {
  const Result result =
      run("compare " + data + "/models/llama-3.1-8b-llama3/config.json " + data + "/gguf/llama-3.1-8b.gguf");
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(
      result.out.find("\nthe pairing is the only difference: half against interleaved; the rows of q and k are permuted\n"),
      std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("a GGUF stores float32"), std::string::npos) << result.out;
  EXPECT_EQ(run("compare " + data + "/models/gpt-j-6b-interleaved-64/config.json " + data + "/gguf/gptj-6b.gguf").code, 0);
}

TEST_F(Program, CompareExitsWith0ForBothSpellings) {
  const std::string as_new = folder_.write("new.json", R"({"model_type": "llama", "hidden_size": 576, "head_dim": 64,
      "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "max_position_embeddings": 8192,
      "rope_parameters": {"rope_type": "default", "rope_theta": 100000}})");
  const Result result = run("compare " + data + "/smollm2/config.json " + as_new);
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_NE(result.out.find("\nthe same rotation\n"), std::string::npos) << result.out;
  expect_error(2, "compare " + as_new, "B");
  expect_error(3, "compare " + as_new + " " + made("missing.json"), "missing.json");
}

TEST_F(Program, FrequenciesWritesWhatInspectShows) {
  const std::string path = data + "/models/llama-3.1-8b-llama3/config.json";
  const json layer = json::parse(run("inspect --json " + path).out)["layers"][0];
  ASSERT_EQ(run("frequencies " + path + " -o " + made("inv_freq.npy")).code, 0);
  const TensorFile file(made("inv_freq.npy").c_str());
  ASSERT_EQ(file.at("").shape, (std::vector<std::int64_t>{64}));
  for (std::int64_t j = 0; j < 64; ++j) {
    EXPECT_EQ(load_element(DType::f64, file.at("").data, j), layer["inv_freq"][static_cast<std::size_t>(j)].get<double>());
  }
  const Result csv = run("frequencies " + path);
  EXPECT_EQ(csv.out.rfind("pair,channel_u,channel_v,inv_freq,wavelength,axis,amplitude\n0,0,64,1,", 0), 0u) << csv.out;
  ASSERT_EQ(run("frequencies " + path + " -o " + made("table.csv")).code, 0);
  EXPECT_EQ(contents(made("table.csv")), csv.out);

  const std::string dynamic = data + "/models/llama-2-dynamic-ntk/config.json";
  EXPECT_NE(run("frequencies " + dynamic).err.find("--length"), std::string::npos);
  EXPECT_EQ(run("frequencies --length 8192 " + dynamic).err, "");
  expect_error(2, "frequencies missing.json -o table.txt", "--out: must end in .csv or .npy, got table.txt");
  expect_error(2, "frequencies " + data + "/models/gemma-3-4b-text/config.json", "--layer");
  expect_error(3, "frequencies " + path + " -o " + made("no/such/table.csv"), "table.csv");
}

TEST_F(Program, PlotWritesAPicture) {
  const std::string path = data + "/models/llama-3.1-8b-llama3/config.json";
  ASSERT_EQ(run("plot " + path + " -o " + made("a.svg")).code, 0);
  const std::string picture = contents(made("a.svg"));
  EXPECT_EQ(fault_in_xml(picture), "");
  EXPECT_EQ(run("plot " + path).out, picture);
  EXPECT_EQ(picture.find("href"), std::string::npos) << "complete in itself";
  expect_error(2, "plot missing.json -o picture.png", "--out: must end in .svg, got picture.png");
  expect_error(2, "plot " + path + " --layer 32", "0 to 31");
}

TEST_F(Program, ExplainSaysWhatAWarningMeans) {
  const Result one = run("explain rp003");
  EXPECT_EQ(one.code, 0);
  EXPECT_EQ(one.out.rfind("RP003, warning: original length is missing", 0), 0u) << one.out;
  EXPECT_NE(one.out.find("what to do"), std::string::npos);
  EXPECT_EQ(json::parse(run("explain RP003 --json").out)["id"], "RP003");

  const json all = json::parse(run("explain --json").out);
  const std::string list = run("explain").out;
  for (const json& kind : all) {
    EXPECT_NE(list.find(kind["id"].get<std::string>()), std::string::npos) << kind;
    for (const char* key : {"severity", "title", "meaning", "advice"}) EXPECT_NE(kind[key], "") << kind;
  }
  expect_error(2, "explain RP3", "did you mean RP003?");
  expect_error(2, "explain RP999", "rotary explain lists them all");
}

TEST_F(Program, InspectShowsOneLayerAtOneLength) {
  const std::string path = data + "/models/llama-2-dynamic-ntk/config.json";
  const json at_4096 = json::parse(run("inspect " + path + " --layer 7 --length 4096 --json").out);
  const json at_8192 = json::parse(run("inspect " + path + " --layer 7 --length 8192 --json").out);
  EXPECT_EQ(at_4096["layers"][0]["first"], 7);
  EXPECT_EQ(at_4096["layers"][0]["depends_on_length"], true);
  EXPECT_GT(at_4096["layers"][0]["inv_freq"][63].get<double>(), at_8192["layers"][0]["inv_freq"][63].get<double>());
}

TEST_F(Program, VerifyAgreesWithBothCapturedLayers) {
  const std::pair<std::string, std::string> layers[]{{"00", "0 to 172"}, {"15", "0 to 96"}};
  for (const auto& [layer, positions] : layers) {
    const Result result = run("verify " + data + "/smollm2/layer-" + layer + ".safetensors" + model + " --layer 0 --json");
    ASSERT_EQ(result.code, 0) << result.err;
    const json report = json::parse(result.out);
    EXPECT_EQ(report["ok"], true);
    EXPECT_EQ(report.size(), 2u);
    ASSERT_EQ(report["tensors"].size(), 3u);
    for (const char* tensor : {"q_rot", "k_rot", "attn_out"}) {
      const json& check = report["tensors"][tensor];
      EXPECT_EQ(check["ok"], true) << tensor;
      EXPECT_LE(check["max_abs_diff"].get<double>(), check["bound"].get<double>()) << tensor;
      EXPECT_LT(check["max_abs_diff"].get<double>(), 5e-5) << tensor;
    }
    EXPECT_NE(result.err.find("position_ids in the file, " + positions), std::string::npos) << result.err;
  }
}

TEST_F(Program, VerifySaysThatNothingMatchesInTheWrongPairing) {
  const Result json_result = run("verify " + capture + model + " --layer 0 --pairing interleaved --json");
  EXPECT_EQ(json_result.code, 1);
  EXPECT_EQ(json::parse(json_result.out)["ok"], false);
  EXPECT_NE(json_result.err.find("nothing matches"), std::string::npos) << json_result.err;
  const Result text = run("verify " + capture + model + " --layer 0 --pairing interleaved");
  EXPECT_EQ(text.code, 1);
  EXPECT_NE(text.out.find("nothing matches"), std::string::npos) << text.out;
}

TEST_F(Program, VerifyNamesWhatDiffersWhereMostOfItMatches) {
  const TensorFile file(capture.c_str());
  const auto q_rot = file.at("q_rot").view("BHSD");
  const auto* from = static_cast<const float*>(q_rot.data());
  std::vector<float> changed(from, from + q_rot.num_elements());
  changed[12345] += 0.1f;
  const std::string path = made("changed.safetensors");
  write_tensors(path.c_str(),
                {{"q", file.at("q").view("BHSD")}, {"q_rot", ConstTensorView(changed.data(), "BHSD", q_rot.shape())}});
  const Result result = run("verify " + path + model + " --layer 0");
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.out.find("differs: q_rot beyond rounding"), std::string::npos) << result.out;
}

TEST_F(Program, VerifyFindsTensorsUnderOtherNames) {
  const TensorFile file(capture.c_str());
  const std::string renamed = made("renamed.safetensors");
  write_tensors(renamed.c_str(),
                {{"layers.0.query", file.at("q").view("BHSD")}, {"turned", file.at("q_rot").view("BHSD")}});
  EXPECT_EQ(run("verify " + renamed + model + " --layer 0 --map q=layers.0.query,q_rot=turned").code, 0);
  EXPECT_EQ(run("verify " + renamed + model + " --layer 0 --map q=layers.0.query --map q_rot=turned").code, 0);
  expect_error(3, "verify " + renamed + model + " --layer 0", "q_rot");
  expect_error(3, "verify " + renamed + model + " --layer 0 --map q_rot=turned", "q is missing");
  expect_error(2, "verify " + renamed + model + " --layer 0 --map q=lost,q_rot=turned", "holds no tensor lost");
  // Without position_ids they are counted, which says so.
  EXPECT_NE(
      run("verify " + renamed + model + " --layer 0 --map q=layers.0.query,q_rot=turned").err.find("counted, 0 to 172"),
      std::string::npos);
  // And an offset that is not there is noticed.
  EXPECT_EQ(run("verify " + renamed + model + " --layer 0 --map q=layers.0.query,q_rot=turned --offset 1").code, 1);
}

TEST_F(Program, VerifyRefusesHeadsThatAreNotTheModels) {
  expect_error(2, "verify " + capture + " --model " + data + "/models/llama-3-8b/config.json --layer 0", "num_q_heads");
}

TEST_F(Program, RotateGivesWhatTheModelComputedAndTakesItBack) {
  const TensorFile real(capture.c_str());
  ASSERT_EQ(run("rotate " + capture + model + " --tensor q --tensor k -o " + made("turned.safetensors")).code, 0);
  const TensorFile turned(made("turned.safetensors").c_str());
  EXPECT_LT(largest_difference(turned.at("q"), real.at("q_rot")), 5e-5);
  EXPECT_LT(largest_difference(turned.at("k"), real.at("k_rot")), 5e-5);
  EXPECT_EQ(turned.tensors().size(), 2u);

  ASSERT_EQ(run("rotate " + made("turned.safetensors") + model + " --tensor q --inverse -o " + made("back.npy")).code, 0);
  EXPECT_LT(largest_difference(TensorFile(made("back.npy").c_str()).at(""), real.at("q")), 5e-6);
}

TEST_F(Program, RotateShiftsAsIfTheTokensStoodElsewhere) {
  const std::string by_hand = " --base 100000 --head-dim 64 --pairing half --tensor k -o ";
  ASSERT_EQ(run("rotate " + capture + by_hand + made("near.npz")).code, 0);
  ASSERT_EQ(run("rotate " + capture + " --offset 1000" + by_hand + made("far.npz")).code, 0);
  ASSERT_EQ(run("rotate " + made("near.npz") + " --shift 1000" + by_hand + made("shifted.npz")).code, 0);
  EXPECT_LT(
      largest_difference(TensorFile(made("far.npz").c_str()).at("k"), TensorFile(made("shifted.npz").c_str()).at("k")),
      1e-5);
}

TEST_F(Program, RotateTakesPositionsFromAnotherFile) {
  const TensorFile real(capture.c_str());
  write_npy(made("ids.npy").c_str(), real.at("position_ids").view("BS"));
  write_npy(made("q.npy").c_str(), real.at("q").view("BHSD"));
  ASSERT_EQ(
      run("rotate " + made("q.npy") + model + " --position-ids " + made("ids.npy") + " -o " + made("turned.npy")).code, 0);
  EXPECT_LT(largest_difference(TensorFile(made("turned.npy").c_str()).at(""), real.at("q_rot")), 5e-5);
  expect_error(3, "rotate " + made("q.npy") + model + " --position-ids lost.npy -o " + made("turned.npy"), "lost.npy");
  expect_error(2, "rotate " + made("q.npy") + model + " --axes HSD -o " + made("turned.npy"), "--axes");
}

/// The first tokens of the capture behind all of them, "THD": two packed sequences.
std::vector<float> packed_with_its_first(std::int64_t num_tokens, const ConstTensorView& x) {
  std::vector<float> packed;
  for (const std::int64_t length : {x.size('S'), num_tokens}) {
    for (std::int64_t s = 0; s < length; ++s) {
      for (std::int64_t h = 0; h < x.size('H'); ++h) {
        const auto* row = static_cast<const float*>(x.data()) + h * x.stride('H') + s * x.stride('S');
        packed.insert(packed.end(), row, row + x.size('D'));
      }
    }
  }
  return packed;
}

TEST_F(Program, RotateCountsInEveryPackedSequence) {
  const TensorFile real(capture.c_str());
  const std::vector<float> q = packed_with_its_first(50, real.at("q").view("BHSD"));
  const std::vector<float> q_rot = packed_with_its_first(50, real.at("q_rot").view("BHSD"));
  const ConstTensorView packed(q.data(), "THD", {223, 9, 64});
  const std::vector<std::int32_t> cu_seqlens{0, 173, 223};
  const std::string file = made("packed.safetensors");
  write_tensors(
      file.c_str(),
      {{"q", packed}, {"right", {q_rot.data(), "THD", {223, 9, 64}}}, {"cu_seqlens", {cu_seqlens.data(), "N", {3}}}});
  write_npy(made("short.npy").c_str(), {cu_seqlens.data(), "N", {2}});
  const std::string command = "rotate " + file + model + " --axes THD --tensor q -o " + made("turned.npy");

  const Result result = run(command + " --cu-seqlens cu_seqlens");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.err, "rotary: positions: counted in every sequence of cu_seqlens, 0 to 172\n");
  const TensorFile right(file.c_str());
  EXPECT_LT(largest_difference(TensorFile(made("turned.npy").c_str()).at(""), right.at("right")), 5e-5);

  std::vector<std::int64_t> ids(223);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i < 173 ? i : i - 173);
  write_npy(made("ids.npy").c_str(), {ids.data(), "T", {223}});
  ASSERT_EQ(run(command + " --position-ids " + made("ids.npy")).code, 0);
  EXPECT_LT(largest_difference(TensorFile(made("turned.npy").c_str()).at(""), right.at("right")), 5e-5);

  expect_error(2, command, "cu_seqlens");
  expect_error(2, command + " --cu-seqlens " + made("short.npy"), "223");
  expect_error(2, command + " --cu-seqlens right", "must be a list");
  expect_error(2, command + " --cu-seqlens cu_seqlens --position-ids " + made("ids.npy"), "--position-ids");
}

TEST_F(Program, AttendGivesWhatTheModelComputed) {
  const TensorFile real(capture.c_str());
  ASSERT_EQ(run("attend " + capture + model + " --causal bottom_right --lse -o " + made("out.safetensors")).code, 0);
  const TensorFile out(made("out.safetensors").c_str());
  EXPECT_LT(largest_difference(out.at("attn_out"), real.at("attn_out")), 2e-5);
  EXPECT_EQ(out.at("lse").shape, (std::vector<std::int64_t>{1, 9, 173}));
  ASSERT_EQ(run("attend " + capture + model + " --causal none -o " + made("all.safetensors")).code, 0);
  EXPECT_GT(largest_difference(TensorFile(made("all.safetensors").c_str()).at("attn_out"), real.at("attn_out")), 0.01);
}

TEST_F(Program, PrecisionNeedsNoModelAndNoPairing) {
  const Result bare = run("precision --json");
  ASSERT_EQ(bare.code, 0) << bare.err;
  EXPECT_NE(bare.err.find("base 10000, head_dim 128"), std::string::npos) << bare.err;
  EXPECT_EQ(json::parse(bare.out)["inv_freq"].size(), 64u);
  EXPECT_EQ(json::parse(bare.out), json::parse(run("precision --base 10000 --head-dim 128 --json").out));
  expect_error(2, "precision --base 10000", "--head-dim");
}

TEST_F(Program, PrecisionShowsExactTablesWithinOneUlp) {
  const Result result = run("precision --json" + model);
  ASSERT_EQ(result.code, 0) << result.err;
  const json report = json::parse(result.out);
  std::vector<double> positions;
  for (const json& row : report["rows"]) {
    if (row["recipe"] != "exact") continue;
    positions.push_back(row["position"]);
    EXPECT_LE(row["worst"]["ulp"].get<double>(), 1) << row["position"];
  }
  EXPECT_EQ(positions, (std::vector<double>{1, 1e5, 1e6, 1e9}));
  const Result text = run("precision --position 131072 --pairs" + model);
  EXPECT_NE(text.out.find("131072"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("bfloat16"), std::string::npos);
}

}  // namespace
}  // namespace rotary
