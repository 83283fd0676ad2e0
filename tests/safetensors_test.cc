#include "formats/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/component.h"
#include "formats/layout.h"
#include "formats/safetensors_dtype.h"
#include "rotary/tensor_file.hpp"
#include "support/allocation_watch.h"
#include "support/cases.h"
#include "support/damage.h"
#include "support/error_sentence.h"
#include "support/file_bytes.h"
#include "support/sha256.h"
#include "support/stored_values.h"
#include "support/temporary_folder.h"

namespace rotary {
namespace {

const std::string folder = ROTARY_TEST_DATA "/safetensors";

void read(std::string_view bytes, FileContents& contents) {
  contents.tensors = read_safetensors(bytes, "x.safetensors", contents).tensors;
}

std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data;
}

std::string refusal(const std::string& bytes, ErrorCode code = ErrorCode::invalid_file) {
  FileContents contents;
  return error_sentence(code, [&] { read(bytes, contents); });
}

std::string refusal(const std::string& header, std::size_t data_size, ErrorCode code = ErrorCode::invalid_file) {
  return refusal(file_of(header, std::string(data_size, '\0')), code);
}

/// A header of one tensor "a".
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

std::string bytes_of(const StoredTensor& tensor) {
  return {static_cast<const char*>(tensor.data), static_cast<std::size_t>(tensor.num_bytes)};
}

bool is_byte_float(DType dtype) { return dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2; }

TEST(Sha256, AgreesWithTheStandardsOwnExamples) {
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Safetensors, ReadsEveryGoodFileToItsValues) {
  const auto good = cases(folder, "accept", ".safetensors");
  ASSERT_EQ(good.size(), 13u);
  for (const auto& entry : good) {
    const std::string name_of_file = entry.at("file");
    const TensorFile file((folder + "/" + name_of_file).c_str());
    EXPECT_EQ(file.tensors().size(), entry.at("tensors").size()) << name_of_file;
    for (const auto& [key, expected] : entry.at("tensors").items()) {
      const StoredTensor& tensor = file.at(key.c_str());
      const auto* const dtype = std::find_if(std::begin(safetensors_dtypes), std::end(safetensors_dtypes),
                                             [&](const auto& known) { return known.dtype == tensor.dtype; });
      EXPECT_EQ(dtype->name, expected.at("dtype").get<std::string>()) << name_of_file << " " << key;
      EXPECT_EQ(tensor.shape, expected.at("shape").get<std::vector<std::int64_t>>()) << name_of_file << " " << key;
      EXPECT_EQ(sha256(bytes_of(tensor)).substr(0, 16), expected.at("sha256").get<std::string>())
          << name_of_file << " " << key;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data) % static_cast<std::uintptr_t>(component_size(tensor.dtype)),
                0u);
      if (expected.contains("first_last") && !is_byte_float(tensor.dtype)) {
        const std::vector<double> values = stored_values(tensor);
        EXPECT_EQ(values.front(), expected.at("first_last").at(0).get<double>()) << name_of_file << " " << key;
        EXPECT_EQ(values.back(), expected.at("first_last").at(1).get<double>()) << name_of_file << " " << key;
      }
    }
    nlohmann::json metadata = nullptr;
    for (const auto& [key, value] : file.metadata()) metadata[key] = value;
    EXPECT_EQ(metadata, entry.at("metadata")) << name_of_file;
    EXPECT_TRUE(file.warnings().empty()) << name_of_file;
  }
}

TEST(Safetensors, RefusesEveryBadFileForItsRule_V8) {
  expect_refusals(
      folder, ".safetensors",
      {{"bad/empty.safetensors", "is truncated"},
       {"bad/seven-bytes.safetensors", "is truncated, or no tensor file: it has 7 bytes"},
       {"bad/header-longer-than-file.safetensors", "header length must fit in the file, got 5000 with 73 bytes there"},
       {"bad/header-length-wraps.safetensors", "header length must be at most 100000000, got 18446744073709551611"},
       {"bad/header-over-100mb.safetensors", "header length must be at most 100000000, got 100000001"},
       {"bad/header-not-json.safetensors", "must be JSON in UTF-8: parse error at line 1, column 8"},
       {"bad/header-not-object.safetensors", "header must begin with {, got \"[\""},
       {"bad/header-leading-space.safetensors", "header must begin with {, got \" \""},
       {"bad/header-not-utf8.safetensors", "ill-formed UTF-8 byte"},
       {"bad/header-garbage-after.safetensors", "expected end of input"},
       {"bad/json-nested-bomb.safetensors", "must nest at most 64 levels deep"},
       {"bad/key-duplicate.safetensors", "must not have a key twice in one object, got \"a\" again"},
       {"bad/field-duplicate.safetensors", "must not have a key twice in one object, got \"shape\" again"},
       {"bad/field-missing.safetensors", "tensor \"a\": must have the field data_offsets"},
       {"bad/metadata-not-string.safetensors", "__metadata__ must hold strings only, got \"version\": 1"},
       {"bad/offsets-overlap.safetensors", "data must not overlap: \"b\" begins at 8"},
       {"bad/offsets-gap.safetensors", "data must not have holes: \"b\" begins at 20"},
       {"bad/offsets-start-late.safetensors", "data must not have holes: \"a\" begins at 8"},
       {"bad/offsets-reversed.safetensors", "data_offsets must not be reversed, got 16 and 0"},
       {"bad/offsets-beyond-eof.safetensors", "is truncated: \"a\" ends at 64 and 16 bytes of data are there"},
       {"bad/shape-mismatch.safetensors", "data_offsets must span the tensor's size: float32 (2, 3) has 24 bytes"},
       {"bad/shape-negative.safetensors", "shape must be whole numbers >= 0, got -2"},
       {"bad/shape-fraction.safetensors", "shape must be whole numbers >= 0, got 2."},
       {"bad/shape-overflow.safetensors", "shape must have a representable size"},
       {"bad/dtype-unknown.safetensors", "dtype must be one of the format's, got \"F7\""},
       {"bad/trailing-bytes.safetensors", "must end with its last tensor, got 3 more bytes"}},
      {"bad/field-unknown.safetensors"});
}

TEST(Safetensors, WarnsOfAnUnknownField) {
  const TensorFile file((folder + "/bad/field-unknown.safetensors").c_str());
  ASSERT_EQ(file.warnings().size(), 1u);
  EXPECT_NE(std::string(file.warnings()[0]).find("tensor \"a\" has an unknown field: \"strides\""), std::string::npos);
}

TEST(Safetensors, RefusesFieldsOfAnotherKind_V8) {
  EXPECT_NE(refusal(R"({"a":[]})", 0).find("must be an object of dtype, shape and data_offsets"), std::string::npos);
  EXPECT_NE(refusal(R"({"a":{"dtype":4,"shape":[],"data_offsets":[0,4]}})", 4).find("dtype must be a string, got 4"),
            std::string::npos);
  EXPECT_NE(refusal(one("F32", "4", "[0,16]"), 16).find("shape must be a list, got 4"), std::string::npos);
  EXPECT_NE(refusal(one("F32", "[\"4\"]", "[0,16]"), 16).find("shape must be whole numbers >= 0, got \"4\""),
            std::string::npos);
  EXPECT_NE(refusal(one("F32", "[true]", "[0,4]"), 4).find("shape must be whole numbers >= 0, got true"),
            std::string::npos);
  EXPECT_NE(refusal(one("F32", "[4e0]", "[0,16]"), 16).find("shape must be whole numbers >= 0"), std::string::npos);
  for (const char* offsets : {"[0]", "[0,4,4]", "{}", "[-4,0]", "[0,4.0]", "[\"0\",4]", "4", "null"}) {
    EXPECT_NE(refusal(one("F32", "[1]", offsets), 4).find("data_offsets must be two whole numbers >= 0"), std::string::npos)
        << offsets;
  }
  EXPECT_NE(refusal(R"({"__metadata__":[]})", 0).find("__metadata__ must be an object of strings"), std::string::npos);
  EXPECT_NE(refusal(R"({"__metadata__":null})", 0).find("__metadata__ must be an object of strings"), std::string::npos);
}

TEST(Safetensors, RefusesLengthsPastTheFormatsOwnLimit_V4) {
  FileContents contents;
  EXPECT_NO_THROW(read(file_of(one("F32", "[0,281474976710655]", "[0,0]"), ""), contents));
  EXPECT_NE(refusal(one("F32", "[0,281474976710656]", "[0,0]"), 0).find("shape must be numbers below 2^48"),
            std::string::npos);
  EXPECT_NE(refusal(one("F32", "[18446744073709551616]", "[0,4]"), 4).find("whole numbers"), std::string::npos);
}

TEST(Safetensors, RefusesSizesThatOverflowOnlyWhenSummed_V2) {
  EXPECT_NE(refusal(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                    R"("b":{"dtype":"U8","shape":[4],"data_offsets":[18446744073709551612,18446744073709551615]}})",
                    4)
                .find("data_offsets must span the tensor's size"),
            std::string::npos);
  EXPECT_NE(refusal(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                    R"("b":{"dtype":"U8","shape":[0],"data_offsets":[18446744073709551615,18446744073709551615]}})",
                    4)
                .find("data must not have holes"),
            std::string::npos);
}

TEST(Safetensors, RefusesElementsThatFillNoWholeByte) {
  FileContents contents;
  EXPECT_NO_THROW(read(file_of(one("F4", "[2,3]", "[0,3]"), "abc"), contents));
  EXPECT_NE(refusal(one("F4", "[3]", "[0,2]"), 2).find("a representable size in whole bytes"), std::string::npos);
  EXPECT_NO_THROW(read(file_of(one("F6_E2M3", "[4]", "[0,3]"), "abc"), contents));
  EXPECT_NE(refusal(one("F6_E3M2", "[5]", "[0,4]"), 4).find("a representable size in whole bytes"), std::string::npos);
}

TEST(Safetensors, RefusesWhatNoCStringCanHold) {
  EXPECT_NE(refusal(R"({"a\u0000b":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0, ErrorCode::unsupported)
                .find("a tensor's name must not hold a zero byte, got \"a\\x00b\""),
            std::string::npos);
  EXPECT_NE(
      refusal(R"({"__metadata__":{"k":"a\u0000b"}})", 0, ErrorCode::unsupported).find("metadata must not hold a zero byte"),
      std::string::npos);
}

TEST(Safetensors, AllowsZeroLengthsAnywhereAmongTheTensors_V6) {
  FileContents contents;
  read(file_of(
           R"({"b":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"a":{"dtype":"F32","shape":[0,4],"data_offsets":[3,3]},)"
           R"("z":{"dtype":"F64","shape":[0],"data_offsets":[0,0]},"c":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})",
           "abcd"),
       contents);
  EXPECT_EQ(contents.tensors.size(), 4u);
}

TEST(Safetensors, CopiesOnlyTensorsThatLieAtAnAddressThatDoesNotSuitThem) {
  FileContents contents;
  const std::string_view bytes = contents.map(folder + "/f32.safetensors");
  read(bytes, contents);
  EXPECT_TRUE(contents.copies.empty());
  EXPECT_GE(static_cast<const char*>(contents.tensors[0].data), bytes.data());
  EXPECT_LT(static_cast<const char*>(contents.tensors[0].data), bytes.data() + bytes.size());

  FileContents odd;
  read(odd.map(folder + "/header-unaligned.safetensors"), odd);
  EXPECT_EQ(odd.copies.size(), 1u) << "of abc, and not of the bytes d";
}

/// `count` tensors of one byte each.
std::string many(std::size_t count) {
  std::string header = "{", data(count, 'x');
  for (std::size_t i = 0; i < count; ++i) {
    header += (i > 0 ? ",\"t" : "\"t") + std::to_string(i) + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" +
              std::to_string(i) + "," + std::to_string(i + 1) + "]}";
  }
  return file_of(header + "}", data);
}

TEST(Safetensors, ReadsAHundredThousandEntriesInLinearTime_V9) {
  const auto seconds = [](std::size_t count) {
    const std::string bytes = many(count);
    const std::clock_t start = std::clock();  // of this process: other tests run beside it
    FileContents contents;
    read(bytes, contents);
    EXPECT_EQ(contents.tensors.size(), count);
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  const double small = seconds(10'000), large = seconds(100'000);
  EXPECT_LT(large, 40 * small) << "10 times the entries: linear, not quadratic";
}

TEST(Safetensors, RefusesMoreEntriesThanAnyCheckpointHas_V9) {
  EXPECT_NE(refusal(many(max_safetensors_entries + 1), ErrorCode::unsupported).find("may list at most 262144 tensors"),
            std::string::npos);
}

TEST(Safetensors, AsksForNoMemoryOnTheWordOfAFile_V4) {
  const std::string files[] = {
      file_of(one("F32", "[281474976710655]", "[0,1125899906842620]"), "abcd"),
      file_of(one("F32", "[4194305,4194305,211106198978564]", "[0,16]"), std::string(16, 'x')),
      file_bytes(folder + "/bad/header-over-100mb.safetensors"),
      file_bytes(folder + "/bad/header-length-wraps.safetensors"),
  };
  for (const std::string& bytes : files) {
    largest_allocation = 0;
    EXPECT_FALSE(accepts(bytes, read));
    EXPECT_LT(largest_allocation.load(), 64u * 1024);
  }
}

TEST(Safetensors, SurvivesEveryTruncationAndEveryChangedByte_V8) {
  for (const char* file : {"f32.safetensors", "header-reversed.safetensors", "metadata-unicode.safetensors",
                           "empty-tensor.safetensors", "scalar.safetensors", "header-unaligned.safetensors"}) {
    SCOPED_TRACE(file);
    expect_damage_to_be_survived(file_bytes(folder + "/" + file), read);
  }
}

/// The tensors of a file, in another order, as something to write.
std::vector<TensorToWrite> shuffled(const TensorFile& file) {
  std::vector<TensorToWrite> tensors;
  const char* const axes[] = {"", "N", "SD", "BSD"};
  for (const StoredTensor& tensor : file.tensors())
    tensors.push_back({tensor.name, tensor.view(axes[tensor.shape.size()])});
  std::reverse(tensors.begin(), tensors.end());
  if (tensors.size() > 2) std::swap(tensors[0], tensors[tensors.size() / 2]);
  return tensors;
}

TEST(Safetensors, WritesTheSameFilesAsTheReference) {
  const TemporaryFolder temporary;
  const std::string copy = temporary.path("copy.safetensors");
  std::vector<std::string> files = {"every-dtype", "ordered-by-name", "escapes"};
  for (int length = 1; length <= 8; ++length) files.push_back("padding-" + std::to_string(length));
  for (const std::string& name_of_file : files) {
    const std::string path = folder + "/written/" + name_of_file + ".safetensors";
    const TensorFile original(path.c_str());
    write_safetensors(copy.c_str(), shuffled(original), original.metadata());
    EXPECT_EQ(file_bytes(copy), file_bytes(path)) << name_of_file;
  }
}

TEST(Safetensors, KeepsEveryTypeBitForBit) {
  const TemporaryFolder temporary;
  const std::string path = temporary.path("x.safetensors");
  std::vector<std::uint64_t> memory;
  for (std::uint64_t i = 0; i < 16; ++i) memory.push_back(0x9e3779b97f4a7c15u * (i + 1));
  std::vector<TensorToWrite> tensors;
  for (const SafetensorsDType& known : safetensors_dtypes) {
    tensors.push_back({name(known.dtype), ConstTensorView(memory.data(), known.dtype, "SD", {2, 8})});
  }
  write_safetensors(path.c_str(), tensors, {{"format", "pt"}, {"note", "a \"b\" µ"}});
  const TensorFile file(path.c_str());
  ASSERT_EQ(file.tensors().size(), 22u);
  for (const SafetensorsDType& known : safetensors_dtypes) {
    const StoredTensor& tensor = file.at(name(known.dtype));
    EXPECT_EQ(tensor.dtype, known.dtype);
    EXPECT_EQ(tensor.num_bytes, 2 * bit_size(known.dtype));
    EXPECT_EQ(std::memcmp(tensor.data, memory.data(), static_cast<std::size_t>(tensor.num_bytes)), 0) << known.name;
  }
  ASSERT_EQ(file.metadata().size(), 2u);
  EXPECT_STREQ(file.metadata()[1].second, "a \"b\" µ");
}

TEST(Safetensors, WritesStridedViewsRowByRow) {
  const TemporaryFolder temporary;
  const std::string path = temporary.path("x.safetensors");
  const float memory[] = {0, 1, 2, 3, 4, 5};
  write_safetensors(path.c_str(), {{"t", ConstTensorView(memory, "SD", {2, 3}).permuted("DS")}});
  const TensorFile file(path.c_str());
  EXPECT_EQ(file.at("t").shape, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(stored_values(file.at("t")), (std::vector<double>{0, 3, 1, 4, 2, 5}));
}

TEST(Safetensors, WritesAFileWithoutTensors) {
  const TemporaryFolder temporary;
  const std::string path = temporary.path("x.safetensors");
  write_safetensors(path.c_str(), {}, {{"format", "pt"}});
  const TensorFile file(path.c_str());
  EXPECT_TRUE(file.tensors().empty());
  EXPECT_EQ(file.metadata().size(), 1u);
  write_safetensors(path.c_str(), {});
  EXPECT_TRUE(TensorFile(path.c_str()).tensors().empty());
}

TEST(Safetensors, RefusesToWriteWhatItWouldNotRead) {
  const float x = 0;
  const ConstTensorView view(&x, "N", {1});
  const auto refuses = [&](const std::vector<TensorToWrite>& tensors,
                           const std::vector<std::pair<const char*, const char*>>& m) {
    return error_sentence(ErrorCode::invalid_argument, [&] { write_safetensors("/nowhere/x.safetensors", tensors, m); });
  };
  EXPECT_EQ(refuses({{"a", view}, {"a", view}}, {}), "write_safetensors: names must differ, got \"a\" twice");
  EXPECT_EQ(refuses({{"a\xff", view}}, {}), "write_safetensors: names must be UTF-8, got \"a\\xff\"");
  EXPECT_EQ(refuses({{"a", {}}}, {}), "write_safetensors: the view of \"a\" must be given");
  EXPECT_EQ(refuses({{"__metadata__", view}}, {}), "write_safetensors: a tensor must not be called __metadata__");
  EXPECT_EQ(refuses({}, {{"k", "1"}, {"k", "1"}}), "write_safetensors: metadata keys must differ, got \"k\" twice");
  EXPECT_EQ(refuses({}, {{"k", "\xff"}}), "write_safetensors: metadata must be UTF-8, got \"k\"");
  EXPECT_EQ(error_sentence(ErrorCode::unsupported,
                           [&] {
                             write_safetensors("/x", {{"a", ConstTensorView(&x, DType::c128, "N", {0})}});
                           }),
            "safetensors: has no name for the dtype complex128");
  EXPECT_EQ(error_sentence(ErrorCode::unsupported,
                           [&] {
                             write_safetensors("/x", {{"a", ConstTensorView(&x, DType::f4, "SD", {2, 2}, {4, 1})}});
                           }),
            "write: elements of float4_e2m1 must lie densely and fill whole bytes");
  EXPECT_EQ(error_sentence(ErrorCode::unsupported,
                           [&] {
                             write_safetensors("/x", {{"a", ConstTensorView(&x, DType::f4, "N", {3})}});
                           }),
            "write: elements of float4_e2m1 must lie densely and fill whole bytes");
}

}  // namespace
}  // namespace rotary
