#include "rotary/gguf.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/ggml_type.h"
#include "formats/gguf_header.h"
#include "support/allocation_watch.h"
#include "support/cases.h"
#include "support/damage.h"
#include "support/error_sentence.h"
#include "support/file_bytes.h"
#include "support/gguf_builder.h"
#include "support/temporary_folder.h"

namespace rotary {
namespace {

using nlohmann::json;

const std::string folder = ROTARY_TEST_DATA "/gguf";
constexpr std::uint32_t u8 = 0, u32 = 4, i32 = 5, f32 = 6, boolean = 7, text = 8, u64 = 10;

std::string to_string(GgufText value) { return {value.data, value.size}; }

/// What a reader does in full: every value in its own type, every byte of every tensor.
void read(std::string_view bytes, FileContents& contents) {
  const GgufHeader header = read_gguf_header(bytes, "x.gguf", contents);
  for (const GgufValue& value : header.values) {
    if (value.type == GgufType::string) {
      for (const GgufText& string : value.is_array ? value.strings() : std::vector{value.string()}) to_string(string);
    } else {
      for (std::int64_t i = 0; i < value.size; ++i) {
        if (value.type == GgufType::boolean) value.boolean(i);
        else value.number(i);
      }
    }
  }
  for (const GgufTensor& tensor : header.tensors) {
    StoredTensor stored;
    stored.name = tensor.name;
    stored.data = tensor.data;
    stored.num_bytes = tensor.num_bytes;
    contents.tensors.push_back(stored);
  }
}

std::string refusal(const std::string& bytes, ErrorCode code = ErrorCode::invalid_file) {
  FileContents contents;
  return error_sentence(code, [&] { read(bytes, contents); });
}

#define EXPECT_SAYS(sentence, words) EXPECT_NE((sentence).find(words), std::string::npos) << (sentence)

/// The keys of a sound file, read once more in the simplest way there is.
class Walk {
 public:
  explicit Walk(std::string file) : file_(std::move(file)) {
    at_ = 8;
    num_tensors = number<std::uint64_t>();
    const auto num_keys = number<std::uint64_t>();
    for (std::uint64_t i = 0; i < num_keys; ++i) {
      std::string key = string();
      const auto type = number<std::uint32_t>();
      keys.emplace_back(std::move(key), value(type));
    }
  }

  std::vector<std::pair<std::string, json>> keys;
  std::uint64_t num_tensors = 0;

 private:
  template <class T>
  T number() {
    T result;
    std::memcpy(&result, file_.data() + at_, sizeof result);
    at_ += sizeof result;
    return result;
  }
  std::string string() {
    const auto length = number<std::uint64_t>();
    at_ += length;
    return file_.substr(at_ - length, length);
  }
  json value(std::uint32_t type) {
    switch (type) {
      case 0: return number<std::uint8_t>();
      case 1: return number<std::int8_t>();
      case 2: return number<std::uint16_t>();
      case 3: return number<std::int16_t>();
      case 4: return number<std::uint32_t>();
      case 5: return number<std::int32_t>();
      case 6: return number<float>();
      case 7: return number<std::uint8_t>() != 0;
      case 8: return string();
      case 10: return number<std::uint64_t>();
      case 11: return number<std::int64_t>();
      case 12: return number<double>();
      default: break;
    }
    const auto element = number<std::uint32_t>();
    const auto count = number<std::uint64_t>();
    json elements = json::array();
    for (std::uint64_t i = 0; i < count; ++i) elements.push_back(value(element));
    return elements;
  }

  std::string file_;
  std::size_t at_ = 0;
};

json element_as_json(const GgufValue& value, std::int64_t i) {
  switch (value.type) {
    case GgufType::boolean: return value.boolean(i);
    case GgufType::f32: return static_cast<float>(value.number(i));
    case GgufType::f64: return value.number(i);
    case GgufType::u64: return value.unsigned_integer(i);
    default: return value.integer(i);
  }
}

json as_json(const GgufValue& value) {
  if (!value.is_array) return value.type == GgufType::string ? json(to_string(value.string())) : element_as_json(value, 0);
  json elements = json::array();
  if (value.type == GgufType::string) {
    for (const GgufText& string : value.strings()) elements.push_back(to_string(string));
  } else {
    for (std::int64_t i = 0; i < value.size; ++i) elements.push_back(element_as_json(value, i));
  }
  return elements;
}

std::vector<json> good_cases() { return json::parse(file_bytes(folder + "/cases.json")).at("cases"); }

TEST(Gguf, ReadsEveryGoodFileToTheValuesThatAPlainWalkFinds) {
  const auto good = good_cases();
  ASSERT_EQ(good.size(), 35u);
  for (const json& entry : good) {
    const std::string path = folder + "/" + entry.at("file").get<std::string>();
    const GgufFile file(path.c_str());
    const Walk walk(file_bytes(path));
    ASSERT_EQ(file.values().size(), walk.keys.size()) << path;
    for (std::size_t i = 0; i < walk.keys.size(); ++i) {
      EXPECT_EQ(file.values()[i].key, walk.keys[i].first) << path;
      EXPECT_EQ(as_json(file.values()[i]), walk.keys[i].second) << path << " " << walk.keys[i].first;
    }
    EXPECT_EQ(file.tensors().size(), walk.num_tensors) << path;
    EXPECT_TRUE(file.warnings().empty()) << file.warnings().front();
    ASSERT_EQ(file.parts().size(), 1u);
    EXPECT_EQ(file.parts()[0].path, path);
    EXPECT_EQ(file.parts()[0].version, path.ends_with("container-v2.gguf") ? 2u : 3u);
  }
}

/// What llama.cpp made of the same files (cases.json), from the keys that it takes these from.
TEST(Gguf, FindsTheKeysThatDecideAModelsRotation) {
  for (const json& entry : good_cases()) {
    const std::string path = folder + "/" + entry.at("file").get<std::string>();
    const json& expected = entry.at("expected");
    const GgufFile file(path.c_str());
    const std::string architecture = to_string(file.at("general.architecture").string());
    EXPECT_EQ(architecture, expected.at("architecture").get<std::string>()) << path;
    const auto find = [&](const char* key) { return file.find((architecture + "." + key).c_str()); };

    ASSERT_NE(find("block_count"), nullptr) << path;
    EXPECT_EQ(find("block_count")->integer(), expected.at("layers").get<std::int64_t>()) << path;
    if (const GgufValue* base = find("rope.freq_base")) {
      EXPECT_EQ(base->number(), expected.at("freq_base").get<double>()) << path;
    }
    if (const GgufValue* count = find("rope.dimension_count")) {
      EXPECT_EQ(count->integer(), expected.at("n_rot").get<std::int64_t>()) << path;
    }
    if (const GgufValue* type = find("rope.scaling.type")) {
      EXPECT_EQ(to_string(type->string()), expected.at("scaling_type").get<std::string>()) << path;
    }
    const GgufValue* original = find("rope.scaling.original_context_length");
    if (original == nullptr) original = find("context_length");
    EXPECT_EQ(original->integer(), expected.at("n_ctx_orig").get<std::int64_t>()) << path;
    if (expected.contains("sections")) {
      EXPECT_EQ(as_json(*find("rope.dimension_sections")), expected.at("sections")) << path;
    }
    if (expected.contains("tensors")) {
      for (const auto& [name, tensor] : expected.at("tensors").items()) {
        ASSERT_NE(file.find_tensor(name.c_str()), nullptr) << path << " " << name;
        EXPECT_EQ(file.find_tensor(name.c_str())->dims, tensor.at("dims").get<std::vector<std::int64_t>>()) << path;
        EXPECT_EQ(file.find_tensor(name.c_str())->type_name, tensor.at("type").get<std::string>()) << path;
      }
    }
  }
}

TEST(Gguf, FindsTheDivisorsThatAreATensor) {
  for (const json& entry : good_cases()) {
    const GgufFile file((folder + "/" + entry.at("file").get<std::string>()).c_str());
    const GgufTensor* const divisors = file.find_tensor("rope_freqs.weight");
    if (divisors == nullptr || !entry.at("expected").contains("inv_freq")) continue;
    const auto inv_freq = entry.at("expected").at("inv_freq").get<std::vector<double>>();
    const double base = entry.at("expected").at("freq_base");
    ASSERT_EQ(divisors->dims, std::vector<std::int64_t>{static_cast<std::int64_t>(inv_freq.size())});
    ASSERT_EQ(divisors->num_bytes, divisors->dims[0] * 4);
    const auto* const values = static_cast<const float*>(divisors->data);
    for (std::size_t i = 0; i < inv_freq.size(); ++i) {
      const double plain = std::pow(base, -static_cast<double>(i) / static_cast<double>(inv_freq.size()));
      EXPECT_NEAR(inv_freq[i] * values[i], plain, 1e-12 * plain);
    }
  }
}

TEST(Gguf, ReadsAKeyOfEveryType) {
  const GgufFile file((folder + "/container-every-type.gguf").c_str());
  std::map<std::string, json> found;  // by type, as the maker of the file names them
  std::vector<json> arrays;
  for (const GgufValue& value : file.values()) {
    const std::string key = value.key;
    if (!key.starts_with("general.x_")) continue;
    if (value.is_array) arrays.push_back(as_json(value));
    else found[key.substr(10, key.rfind('_') - 10)] = as_json(value);
  }
  EXPECT_EQ(found, (std::map<std::string, json>{{"uint8", 255},
                                                {"int8", -128},
                                                {"uint16", 65535},
                                                {"int16", -32768},
                                                {"int32", -2147483647 - 1},
                                                {"uint64", std::numeric_limits<std::uint64_t>::max()},
                                                {"int64", std::numeric_limits<std::int64_t>::min()},
                                                {"float64", 0.1},
                                                {"bool", true},
                                                {"string", "naïve ∮"}}));
  EXPECT_EQ(arrays, (std::vector<json>{{1, -2, 3}, {"a", "", "ü"}, {true, false}, {0.5, -0.25}}));
  EXPECT_EQ(file.at("llama.attention.head_count").integer(1), 4) << "one per layer";
}

TEST(Gguf, PlacesTensorsAtEveryAlignment) {
  for (const char* name : {"container-v2", "container-align64", "container-align8"}) {
    const GgufFile file((folder + "/" + name + ".gguf").c_str());
    const GgufPart& part = file.parts()[0];
    EXPECT_EQ(part.alignment, std::string(name).ends_with("64") ? 64 : std::string(name).ends_with("8") ? 8 : 32);
    EXPECT_EQ(part.data_start % part.alignment, 0);
    const GgufTensor &a = *file.find_tensor("a.weight"), &b = *file.find_tensor("b.weight");
    EXPECT_EQ(a.num_bytes, 24);
    EXPECT_EQ(b.num_bytes, 8);
    EXPECT_EQ(b.offset, std::max<std::int64_t>(24, part.alignment));
    for (int i = 0; i < 6; ++i) EXPECT_EQ(static_cast<const float*>(a.data)[i], static_cast<float>(i)) << name;
    const std::uint16_t halves[] = {0x0000, 0x3C00, 0x4000, 0x4200};  // 0, 1, 2, 3
    EXPECT_EQ(std::memcmp(b.data, halves, sizeof halves), 0) << name;
  }
}

/// Sizes of a real file's tensors (SmolLM2-135M-Instruct, Q4_1), and the blocks as ggml documents them.
TEST(Gguf, KnowsTheSizeOfEveryTypeOfTensor) {
  const auto num_bytes = [](std::uint32_t type, const std::vector<std::uint64_t>& dims) {
    FileContents contents;
    return read_gguf_header(gguf_file({}, {gguf_tensor("a", dims, type)}, 1 << 20), "x", contents).tensors[0].num_bytes;
  };
  EXPECT_EQ(num_bytes(3, {1536, 576}), 552'960);
  EXPECT_EQ(num_bytes(3, {576, 192}), 69'120);
  EXPECT_EQ(num_bytes(0, {576}), 2'304);
  EXPECT_EQ(num_bytes(8, {576, 192}), 30'081'024 / 256) << "of 49152 rows in the file";
  EXPECT_EQ(num_bytes(0, {}), 4) << "a scalar";
  const std::map<std::string, std::int64_t> bytes_of_512 = {
      {"F32", 2048}, {"F16", 1024}, {"BF16", 1024}, {"F64", 4096},  {"I8", 512},    {"I64", 4096}, {"Q4_0", 288},
      {"Q4_1", 320}, {"Q5_0", 352}, {"Q5_1", 384},  {"Q8_0", 544},  {"Q4_K", 288},  {"Q5_K", 352}, {"Q6_K", 420},
      {"Q2_K", 168}, {"Q3_K", 220}, {"Q8_K", 584},  {"MXFP4", 272}, {"NVFP4", 288}, {"Q1_0", 72},  {"Q2_0", 144}};
  std::size_t known = 0;
  for (const GgmlType& type : ggml_types) {
    const auto expected = bytes_of_512.find(type.name);
    if (expected == bytes_of_512.end()) continue;
    EXPECT_EQ(num_bytes(type.id, {512}), expected->second) << type.name;
    ++known;
  }
  EXPECT_EQ(known, bytes_of_512.size());
}

TEST(Gguf, RefusesEveryBadFileForItsRule_V1_V4) {
  const std::map<std::string, std::string> rules = {
      {"magic", "must begin with GGUF, got \"GGUX\""},
      {"empty", "GGUF is truncated: the mark GGUF takes 4 bytes from byte 0 on, and 0 are there"},
      {"version-1", "GGUF version must be 2 or 3, got 1"},
      {"version-99", "GGUF version must be 2 or 3, got 99"},
      {"big-endian", "GGUF must be little-endian, and this one is big-endian"},
      {"truncated-magic", "GGUF is truncated: the mark GGUF takes 4 bytes from byte 0 on, and 3 are there"},
      {"truncated-counts", "GGUF is truncated: the number of keys takes 8 bytes from byte 16 on, and 1 are there"},
      {"truncated-key", "GGUF is truncated, or its number of keys is wrong: got 7 of at least 14 bytes each, and 12"},
      {"truncated-value", "GGUF is truncated: key \"llama.rope.freq_base\" takes 4 bytes"},
      {"truncated-tensor-info", "GGUF is truncated: tensor \"a.weight\": the type takes 4 bytes"},
      {"truncated-data", "GGUF is truncated: tensor \"b.weight\" (F32 4 x 2) takes 32 bytes of data from 32 on, and 54"},
      {"kv-count-2p63", "its number of keys is wrong: got 9223372036854775808 of at least 14 bytes each"},
      {"tensor-count-huge", "its number of tensors is wrong: got 1099511627776 of at least 24 bytes each"},
      {"string-beyond-eof", "GGUF is truncated: a string of key \"llama.name\" takes 4294967296 bytes"},
      {"array-nested", "key \"general.nested\": an array must not hold arrays"},
      {"array-nested-5000", "key \"general.deep\": an array must not hold arrays"},
      {"array-2p40", "the array must fit in the file, got 1099511627776 elements of at least 4 bytes"},
      {"dims-overflow", "the size must be below 2^63 elements and bytes, got F32 8589934592 x 8589934592"},
      {"dims-negative", "dims must be below 2^63, got 18446744073709551615"},
      {"offset-overflow", "the offset must lie in the file, got 18446744073709551584"},
      {"offset-beyond-eof", "the offset must lie in the file, got 4096 of 416 bytes"},
      {"offset-misaligned", "the offset must be a multiple of the alignment, got 4 and 32"},
      {"alignment-0", "general.alignment must be a power of two from 8 on, got 0"},
      {"alignment-24", "general.alignment must be a power of two from 8 on, got 24"},
      {"key-duplicate", "keys must be different, got \"llama.rope.freq_base\" twice"},
      {"tensor-duplicate", "tensors must have different names, got \"a.weight\" twice"},
      {"value-type-13", "key \"general.x\": the value's type must be 0 ... 12, got 13"},
      {"tensor-type-9999", "the type must be one of ggml's, below 43 and not removed, got 9999"},
      {"key-not-utf8", "a key must be ASCII without control characters, got \"general.\\xff\\xfe\""},
      {"key-empty", "a key must not be empty"}};
  // Well formed, as far as anyone can tell who does not read them.
  const std::set<std::string> unsupported = {"version-1",    "version-99",        "big-endian",
                                             "array-nested", "array-nested-5000", "tensor-type-9999"};

  const std::string bad = folder + "/bad/";
  const std::vector<json> refused = cases(bad, "refuse", ".gguf");
  ASSERT_EQ(refused.size(), 36u);
  std::size_t sound = 0;
  for (const json& entry : refused) {
    const std::string file = entry.at("file"), path = bad + file, stem = file.substr(0, file.size() - 5);
    if (entry.value("container", "") == "sound") {  // only the rotation is not
      EXPECT_NO_THROW(GgufFile(path.c_str())) << file;
      ++sound;
      continue;
    }
    ASSERT_TRUE(rules.contains(stem)) << file << " has no rule in the test";
    const ErrorCode code = unsupported.contains(stem) ? ErrorCode::unsupported : ErrorCode::invalid_file;
    largest_allocation = 0;
    const std::string said = error_sentence(code, [&] { GgufFile(path.c_str()); });
    EXPECT_LT(largest_allocation, 4096u) << file;
    EXPECT_SAYS(said, rules.at(stem)) << file << " (" << entry.at("rule") << ")";
    EXPECT_TRUE(said.starts_with(path + ": ")) << said;
  }
  EXPECT_EQ(sound + rules.size(), refused.size());
  EXPECT_EQ(GgufFile((bad + "control-good.gguf").c_str()).values().size(), 7u);
}

TEST(Gguf, HandsOutUnsoundValuesAsTheyAre) {
  const std::string bad = folder + "/bad/";
  EXPECT_TRUE(std::isnan(GgufFile((bad + "freq-base-nan.gguf").c_str()).at("llama.rope.freq_base").number()));
  EXPECT_EQ(GgufFile((bad + "head-count-0.gguf").c_str()).at("llama.attention.head_count").integer(), 0);
  const std::string path = bad + "freq-base-string.gguf";
  EXPECT_EQ(error_sentence(ErrorCode::invalid_file, [&] { GgufFile(path.c_str()).at("llama.rope.freq_base").number(); }),
            path + ": key \"llama.rope.freq_base\": must be a number, got string");
}

TEST(Gguf, SurvivesAnyCutAndAnyWrongByte) {
  expect_damage_to_be_survived(file_bytes(folder + "/bad/control-good.gguf"), read);
  const std::string quants = gguf_file({gguf_array("a", text, 2, gguf_string("x") + gguf_string("yz")),
                                        gguf_array("b", boolean, 3, std::string("\1\0\1", 3))},
                                       {gguf_tensor("q", {256, 2}, 12), gguf_tensor("r", {32}, 2, 288)}, 306);
  expect_damage_to_be_survived(quants, read);
}

TEST(Gguf, SurvivesWrongBytesInEveryTypeOfValue) {
  const std::string good = file_bytes(folder + "/container-every-type.gguf");
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (int wrong = 0; wrong < 256; wrong += 15) {
      std::string bad = good;
      bad[i] = static_cast<char>(wrong);
      accepts(bad, read);
    }
  }
}

TEST(Gguf, RefusesTooManyDimsUnknownTypesAndEndlessStrings_V1) {
  EXPECT_SAYS(refusal(gguf_file({}, {gguf_tensor("a", {1, 1, 1, 1, 1})}, 64)), "must have at most 4 dims, got 5");
  for (const std::uint32_t type : {4u, 5u, 31u, 33u, 36u, 38u, 43u, 0xFFFFFFFFu}) {
    EXPECT_SAYS(refusal(gguf_file({}, {gguf_tensor("a", {256}, type)}, 4096), ErrorCode::unsupported),
                "the type must be one of ggml's, below 43 and not removed, got " + std::to_string(type));
  }
  constexpr std::uint64_t endless = std::numeric_limits<std::uint64_t>::max();
  EXPECT_SAYS(refusal(gguf_file({gguf_key("a", text, le(endless) + "abc")})),
              "a string of key \"a\" takes 18446744073709551615 bytes");
  EXPECT_SAYS(refusal(gguf_file({le(endless) + std::string(20, 'a')})), "a key takes 18446744073709551615 bytes");
  EXPECT_SAYS(refusal(gguf_file({}, {le(endless) + std::string(20, 'a')})),
              "a tensor's name takes 18446744073709551615 bytes");
  EXPECT_SAYS(refusal(gguf_file({gguf_array("a", text, 2, gguf_string("x") + le(endless - 7) + "abc")})),
              "a string of key \"a\" takes 18446744073709551608 bytes");
}

TEST(Gguf, RefusesSizesThatOverflowOnlyWhenSummed_V2) {
  // Each dim, product and offset fits; data start + offset + size do not.
  constexpr std::uint64_t large = (std::uint64_t{1} << 61) - 8;  // times 4: 2^63 - 32
  EXPECT_SAYS(refusal(gguf_file({}, {gguf_tensor("a", {large})}, 64)), "takes 9223372036854775776 bytes of data from 0 on");
  EXPECT_SAYS(refusal(gguf_file({}, {gguf_tensor("a", {8}), gguf_tensor("b", {large}, 0, 32)}, 64)),
              "takes 9223372036854775776 bytes of data from 32 on, and 64 bytes of data are there");
  EXPECT_SAYS(refusal(gguf_file({}, {gguf_tensor("a", {std::uint64_t{1} << 61})}, 64)), "must be below 2^63 elements");
  // Blocks make the bytes fewer than the elements, and the elements overflow.
  EXPECT_SAYS(refusal(gguf_file({}, {gguf_tensor("a", {256, std::uint64_t{1} << 55}, 41)}, 64)),
              "must be below 2^63 elements");
  // An array whose size in bytes wraps to 8.
  EXPECT_SAYS(refusal(gguf_file({gguf_array("a", u64, (std::uint64_t{1} << 61) + 1, le<std::uint64_t>(1))})),
              "the array must fit in the file, got 2305843009213693953");
}

TEST(Gguf, RefusesTensorsThatReachPastTheFile_V4) {
  EXPECT_NO_THROW({
    FileContents contents;
    read(gguf_file({}, {gguf_tensor("a", {16})}, 64), contents);
  });
  EXPECT_SAYS(refusal(gguf_file({}, {gguf_tensor("a", {17})}, 64)), "takes 68 bytes of data from 0 on, and 64");
  EXPECT_SAYS(refusal(gguf_file({}, {gguf_tensor("a", {9}, 0, 32)}, 64)), "takes 36 bytes of data from 32 on, and 64");
  EXPECT_SAYS(refusal(gguf_file({}, {gguf_tensor("a", {1}, 0, 64)}, 64)), "takes 4 bytes of data from 64 on, and 64");
  EXPECT_SAYS(refusal(gguf_file({}, {gguf_tensor("a", {1})})), "takes 4 bytes of data from 0 on, and 0");
}

TEST(Gguf, TakesZeroWhereItMeansNothingAndRefusesItWhereItDivides_V6) {
  FileContents contents;
  const std::string zeros =
      gguf_file({gguf_array("a", u32, 0, ""), gguf_array("b", text, 0, ""), gguf_key("c", text, le<std::uint64_t>(0))},
                {gguf_tensor("d", {0}), gguf_tensor("e", {32, 0, 1u << 31, 1u << 31}, 2), gguf_tensor("f", {0, 5}, 12)});
  const GgufHeader header = read_gguf_header(zeros, "x", contents);
  EXPECT_EQ(header.values[0].size, 0);
  EXPECT_TRUE(header.values[1].strings().empty());
  EXPECT_EQ(header.values[2].string().size, 0u);
  for (const GgufTensor& tensor : header.tensors) {
    EXPECT_EQ(tensor.num_bytes, 0);
    EXPECT_EQ(tensor.data, nullptr);
  }
  const std::string nothing = gguf_file({});
  EXPECT_TRUE(read_gguf_header(nothing, "x", contents).values.empty());
  const std::string merged =
      gguf_file({gguf_key("split.count", 2, le<std::uint16_t>(0)), gguf_key("split.no", 2, le<std::uint16_t>(0))});
  const TemporaryFolder place;
  EXPECT_EQ(GgufFile(place.write("merged.gguf", merged).c_str()).parts().size(), 1u) << "as gguf-split --merge leaves it";
  EXPECT_SAYS(refusal(gguf_file({gguf_key("general.alignment", u32, le(0u))})), "must be a power of two from 8 on, got 0");
}

TEST(Gguf, RefusesAlignmentsThatReadersDisagreeOn) {
  for (const std::uint32_t alignment : {1u, 4u, 12u, 40u, 0xFFFFFFFFu}) {
    EXPECT_SAYS(refusal(gguf_file({gguf_key("general.alignment", u32, le(alignment))})),
                "general.alignment must be a power of two from 8 on, got " + std::to_string(alignment));
  }
  EXPECT_SAYS(refusal(gguf_file({gguf_key("general.alignment", u64, le<std::uint64_t>(32))})),
              "must be a uint32, got uint64");
  EXPECT_SAYS(refusal(gguf_file({gguf_array("general.alignment", u32, 1, le(32u))})), "must be a uint32, got an array");
  FileContents contents;
  const std::string widest = gguf_file({gguf_key("general.alignment", u32, le(1u << 31))});
  EXPECT_EQ(read_gguf_header(widest, "x", contents).part.data_start, std::int64_t{1} << 31) << "nothing lies there";
}

TEST(Gguf, RefusesTextThatIsNotWhatTheFormatWants) {
  EXPECT_SAYS(refusal(gguf_file({gguf_key("a", text, gguf_string("\xff"))})), "key \"a\": a string must be UTF-8");
  EXPECT_SAYS(refusal(gguf_file({gguf_key("a\n", u8, "1")})),
              "a key must be ASCII without control characters, got \"a\\x0a\"");
  EXPECT_SAYS(refusal(gguf_file({gguf_key(std::string("a\0b", 3), u8, "1")})), "a key must be ASCII");
  EXPECT_SAYS(refusal(gguf_file({gguf_key("ä", u8, "1")})), "a key must be ASCII");
  EXPECT_SAYS(refusal(gguf_file({gguf_key(std::string(65'536, 'a'), u8, "1")})), "at most 65535 bytes long, got 65536");
  EXPECT_SAYS(refusal(gguf_file({gguf_key("a", boolean, "\2")})), "key \"a\": a boolean must be 0 or 1, got 2");
  EXPECT_SAYS(refusal(gguf_file({gguf_array("a", boolean, 2, "\1\xff")})), "a boolean must be 0 or 1, got 255");
  EXPECT_SAYS(refusal(gguf_file({}, {gguf_tensor("\xff", {0})})), "the name must be UTF-8");
  EXPECT_SAYS(refusal(gguf_file({}, {gguf_tensor(std::string(65, 'a'), {0})})), "at most 64 bytes long, got 65");
  EXPECT_SAYS(refusal(gguf_file({}, {gguf_tensor(std::string("a\0b", 3), {0})}), ErrorCode::unsupported), "zero byte");
}

TEST(Gguf, LeavesPiecesOfCharactersInVocabulariesAlone) {
  FileContents contents;
  const std::string file = gguf_file(
      {gguf_array("tokens", text, 3, gguf_string("\xe2\x88") + gguf_string(std::string("\0", 1)) + gguf_string("\xae"))});
  const GgufHeader header = read_gguf_header(file, "x", contents);
  const std::vector<GgufText> tokens = header.values[0].strings();
  ASSERT_EQ(tokens.size(), 3u);
  EXPECT_EQ(to_string(tokens[0]) + to_string(tokens[2]), "∮");
  EXPECT_EQ(tokens[1].size, 1u);
}

TEST(Gguf, RefusesRowsThatEndInsideABlockAndDataThatOverlap) {
  EXPECT_SAYS(refusal(gguf_file({}, {gguf_tensor("a", {48, 2}, 2)}, 4096)),
              "dims[0] must be a multiple of 32, the block of Q4_0, got 48");
  EXPECT_SAYS(refusal(gguf_file({}, {gguf_tensor("a", {576, 256}, 12)}, 1 << 17)),
              "dims[0] must be a multiple of 256, the block of Q4_K");
  EXPECT_SAYS(refusal(gguf_file({}, {gguf_tensor("a", {8}, 0, 32), gguf_tensor("b", {9})}, 64)),
              "tensors must not overlap: \"a\" begins at 32, before \"b\" ends at 36");
  EXPECT_SAYS(refusal(gguf_file({}, {gguf_tensor("a", {8}), gguf_tensor("b", {8})}, 64)), "tensors must not overlap");
}

TEST(Gguf, SaysWhatTheFormatAllowsAndLlamaCppRefuses) {
  const auto warnings = [](const std::string& file) {
    FileContents contents;
    read_gguf_header(file, "x.gguf", contents);
    return std::vector<std::string>(contents.warnings.begin(), contents.warnings.end());
  };
  EXPECT_EQ(warnings(gguf_file({}, {gguf_tensor("a", {8}), gguf_tensor("b", {8}, 0, 64)}, 96)),
            std::vector<std::string>{"x.gguf: tensor \"b\" has its data at 64, and llama.cpp takes only 32, right behind "
                                     "the tensor before it"});
  EXPECT_EQ(warnings(gguf_file({}, {gguf_tensor("a", {8}, 0, 32), gguf_tensor("b", {8})}, 64)).size(), 1u) << "order";
  EXPECT_EQ(warnings(gguf_file({}, {gguf_tensor(std::string(64, 'a'), {8})}, 32)).size(), 1u);
  EXPECT_TRUE(warnings(gguf_file({}, {gguf_tensor(std::string(63, 'a'), {8}), gguf_tensor("b", {1}, 0, 32)}, 36)).empty());
}

TEST(Gguf, ValuesAreNeverTakenForAnotherType) {
  const TemporaryFolder place;
  const std::string path = place.write(
      "x.gguf", gguf_file({gguf_key("u", u64, le(std::numeric_limits<std::uint64_t>::max())), gguf_key("i", i32, le(-1)),
                           gguf_key("f", f32, le(2.0f)), gguf_key("b", boolean, "\1"), gguf_array("l", u32, 1, le(7u))}));
  const GgufFile file(path.c_str());
  const auto said = [&](const auto& call) { return error_sentence(ErrorCode::invalid_file, call); };
  EXPECT_EQ(said([&] { file.at("u").integer(); }),
            path + ": key \"u\": must be an integer that fits in int64, got 18446744073709551615");
  EXPECT_EQ(said([&] { file.at("i").unsigned_integer(); }),
            path + ": key \"i\": must be an integer that fits in uint64, got -1");
  EXPECT_EQ(said([&] { file.at("f").integer(); }), path + ": key \"f\": must be an integer, got float32");
  EXPECT_EQ(said([&] { file.at("b").number(); }), path + ": key \"b\": must be a number, got bool");
  EXPECT_EQ(said([&] { file.at("b").integer(); }), path + ": key \"b\": must be an integer, got bool");
  EXPECT_EQ(said([&] { file.at("i").boolean(); }), path + ": key \"i\": must be a bool, got int32");
  EXPECT_EQ(said([&] { file.at("i").string(); }), path + ": key \"i\": must be a string, got int32");
  EXPECT_EQ(said([&] { file.at("i").strings(); }), path + ": key \"i\": must be an array of strings, got int32");
  EXPECT_EQ(said([&] { file.at("l").integer(); }), path + ": key \"l\": must be an integer, got an array of uint32");
  EXPECT_EQ(said([&] { file.at("l").number(); }), path + ": key \"l\": must be a number, got an array of uint32");
  EXPECT_EQ(said([&] { file.at("none"); }), path + ": must have the key \"none\"");
  EXPECT_EQ(file.at("l").integer(0), 7);
  EXPECT_EQ(file.at("i").number(), -1);
  for (const std::int64_t index : {-1, 1}) {
    expect_refused([&] { file.at("l").integer(index); }, "the index must be below 1, got " + std::to_string(index));
  }
}

TEST(Gguf, ReadsOnlyTheHeaderHoweverLargeTheFile) {
  const TemporaryFolder place;
  constexpr std::uint64_t elements = std::uint64_t{1} << 33;  // 32 GiB of float32, none of them on disk
  const std::string path =
      place.write("x.gguf", gguf_file({gguf_key("a", u8, "1")}, {gguf_tensor("t", {1u << 20, elements >> 20})}, 32));
  std::error_code failed;
  std::filesystem::resize_file(path, elements * 4 + 4096, failed);
  if (failed) GTEST_SKIP() << "no room for a sparse file: " << failed.message();
  largest_allocation = 0;
  const GgufFile file(path.c_str());
  EXPECT_EQ(file.tensors()[0].num_bytes, static_cast<std::int64_t>(elements * 4));
  EXPECT_LT(largest_allocation, 4096u);
}

TEST(Gguf, CapsWhatOneFileMayList) {
  const auto listing = [](std::uint64_t tensors, std::uint64_t keys) {
    return "GGUF" + le(3u) + le(tensors) + le(keys) + std::string(8 << 20, '\0');
  };
  EXPECT_SAYS(refusal(listing(0, (1 << 18) + 1), ErrorCode::unsupported), "GGUF may list at most 262144 keys, got 262145");
  EXPECT_SAYS(refusal(listing((1 << 18) + 1, 0), ErrorCode::unsupported), "at most 262144 tensors, got 262145");

  const TemporaryFolder place;
  constexpr std::uint64_t most = std::uint64_t{1} << 30;
  for (const std::uint64_t count : {most, most + 1}) {
    const std::string path = place.write("x.gguf", gguf_file({gguf_array("a", u8, count, "")}));
    std::error_code failed;
    std::filesystem::resize_file(path, most + 4096, failed);
    if (failed) GTEST_SKIP() << "no room for a sparse file: " << failed.message();
    if (count == most) {
      EXPECT_EQ(GgufFile(path.c_str()).at("a").size, static_cast<std::int64_t>(most));
    } else {
      EXPECT_SAYS(error_sentence(ErrorCode::unsupported, [&] { GgufFile(path.c_str()); }),
                  "an array may have at most 1073741824 elements, got 1073741825");
    }
  }
}

TEST(Gguf, CopiesNoVocabulary) {
  constexpr int count = 50'000;
  std::string tokens, scores;
  for (int i = 0; i < count; ++i) {
    tokens += gguf_string("token " + std::to_string(i));
    scores += le(static_cast<float>(i));
  }
  const TemporaryFolder place;
  const std::string path = place.write(
      "x.gguf", gguf_file({gguf_array("tokens", text, count, tokens), gguf_array("scores", f32, count, scores)}));
  largest_allocation = 0;
  const GgufFile file(path.c_str());
  EXPECT_LT(largest_allocation, 4096u);
  const std::vector<GgufText> read = file.at("tokens").strings();
  EXPECT_EQ(to_string(read.at(count - 1)), "token 49999");
  EXPECT_EQ(file.at("scores").number(count - 1), count - 1);
}

TEST(Gguf, OutlivesItsNameAndMoves) {
  const TemporaryFolder place;
  const std::string path = place.write("x.gguf", gguf_file({gguf_key("a", u32, le(7u))}));
  GgufFile first(path.c_str());
  std::filesystem::remove(path);
  GgufFile second(std::move(first));
  GgufFile third((folder + "/mpt-7b.gguf").c_str());
  third = std::move(second);
  EXPECT_EQ(third.at("a").integer(), 7);
}

/// A part of a split model with one tensor of its name.
std::string part(const std::string& tensor, std::uint16_t number, std::uint16_t count, std::int32_t tensors = 3) {
  std::vector<std::string> keys;
  if (number == 0) keys.push_back(gguf_key("general.architecture", text, gguf_string("llama")));
  keys.push_back(gguf_key("split.no", 2, le(number)));
  keys.push_back(gguf_key("split.count", 2, le(count)));
  keys.push_back(gguf_key("split.tensors.count", i32, le(tensors)));
  return gguf_file(keys, {gguf_tensor(tensor, {8})}, 32);
}

TEST(GgufSplit, IsReadWholeFromAnyOfItsParts) {
  const TemporaryFolder place;
  place.write("m-00001-of-00003.gguf", part("a", 0, 3));
  place.write("m-00002-of-00003.gguf", part("b", 1, 3));
  place.write("m-00003-of-00003.gguf", part("c", 2, 3));
  for (const char* opened : {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"}) {
    const GgufFile file(place.path(opened).c_str());
    ASSERT_EQ(file.parts().size(), 3u);
    EXPECT_EQ(file.parts()[2].path, place.path("m-00003-of-00003.gguf"));
    EXPECT_EQ(to_string(file.at("general.architecture").string()), "llama");
    ASSERT_EQ(file.tensors().size(), 3u);
    EXPECT_STREQ(file.tensors()[1].name, "b");
    EXPECT_EQ(file.find_tensor("c")->part, 2u);
    EXPECT_EQ(std::memcmp(file.find_tensor("c")->data, "\1\1\1\1", 4), 0);
  }
}

TEST(GgufSplit, RefusesPartsThatDoNotBelongTogether) {
  const auto said = [](const std::string& second, const char* second_name = "m-00002-of-00002.gguf",
                       const char* first_name = "m-00001-of-00002.gguf", std::int32_t tensors = 2) {
    const TemporaryFolder place;
    const std::string path = place.write(first_name, part("a", 0, 2, tensors));
    place.write(second_name, second);
    return error_sentence(ErrorCode::invalid_file, [&] { GgufFile(path.c_str()); });
  };
  EXPECT_SAYS(said("", "other"), "m-00002-of-00002.gguf: cannot be opened: No such file");
  EXPECT_SAYS(said(part("b", 1, 2), "m-00002-of-00002.gguf", "m.gguf"),
              "one of 2 parts must be named like NAME-00001-of-00002.gguf");
  EXPECT_SAYS(said(part("b", 0, 2)), "split.no must agree with the name, got 0 in part 1 of 2");
  EXPECT_SAYS(said(part("b", 1, 3)), "all parts must have the same split.count, 2");
  EXPECT_SAYS(said(gguf_file({})), "all parts must have the same split.count, 2");
  EXPECT_SAYS(said(gguf_file({gguf_key("split.count", 2, le<std::uint16_t>(2))})), "must have the key split.no");
  EXPECT_SAYS(said(part("a", 1, 2)), "tensors must have different names in all parts, got \"a\" twice");
  EXPECT_SAYS(said(part("b", 1, 2), "m-00002-of-00002.gguf", "m-00001-of-00002.gguf", 5),
              "all parts together must have split.tensors.count tensors, 5, got 2");

  const TemporaryFolder place;
  for (const std::int32_t count : {-1, 100'000}) {
    const std::string path = place.write("x.gguf", gguf_file({gguf_key("split.count", i32, le(count))}));
    EXPECT_SAYS(error_sentence(ErrorCode::invalid_file, [&] { GgufFile(path.c_str()); }),
                "split.count must be 0 ... 99999, got " + std::to_string(count));
  }
}

}  // namespace
}  // namespace rotary
