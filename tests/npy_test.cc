#include "formats/npy.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/npy_header.h"
#include "rotary/tensor_file.hpp"
#include "support/cases.h"
#include "support/damage.h"
#include "support/error_sentence.h"
#include "support/file_bytes.h"
#include "support/stored_values.h"
#include "support/temporary_folder.h"

namespace rotary {
namespace {

const std::string folder = ROTARY_TEST_DATA "/npy";

void read(std::string_view bytes, FileContents& contents) {
  contents.tensors.push_back(read_npy(bytes, "x.npy", contents));
}

std::string refusal(const std::string& bytes) {
  FileContents contents;
  return error_sentence(ErrorCode::invalid_file, [&] { read(bytes, contents); });
}

/// A version 1.0 array with any literal as its header.
std::string npy(std::string literal, const std::string& data = "") {
  literal += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(literal.size() % 256) +
         static_cast<char>(literal.size() / 256) + literal + data;
}

std::string header(const std::string& descr, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + "}";
}

DType dtype_named(const std::string& wanted) {
  for (int i = 0;; ++i) {
    if (name(static_cast<DType>(i)) == wanted) return static_cast<DType>(i);
  }
}

TEST(Npy, ReadsEveryGoodFileToItsValues) {
  const auto good = cases(folder, "accept", ".npy");
  ASSERT_EQ(good.size(), 16u);
  for (const auto& entry : good) {
    const std::string file = entry.at("file");
    const TensorFile npy((folder + "/" + file).c_str());
    ASSERT_EQ(npy.tensors().size(), 1u) << file;
    const StoredTensor& tensor = npy.at("");
    EXPECT_EQ(tensor.shape, entry.at("shape").get<std::vector<std::int64_t>>()) << file;
    if (file == "bf16-as-u2.npy") {  // only the caller can know: it is what it says it is
      EXPECT_EQ(tensor.dtype, DType::u16);
      StoredTensor told = tensor;
      told.dtype = DType::bf16;
      EXPECT_EQ(stored_values(told), entry.at("values").get<std::vector<double>>());
      continue;
    }
    EXPECT_EQ(name(tensor.dtype), entry.at("dtype").get<std::string>()) << file;
    EXPECT_EQ(stored_values(tensor), entry.at("values").get<std::vector<double>>()) << file;
    EXPECT_TRUE(npy.warnings().empty()) << file;
  }
}

TEST(Npy, RefusesEveryBadFileForItsRule) {
  expect_refusals(folder, ".npy",
                  {{"bad/object-pickle.npy", "must not name the dtype object"},
                   {"bad/empty.npy", "is truncated"},
                   {"bad/magic.npy", "must be .npy (beginning with \\x93NUMPY)"},
                   {"bad/version-9.npy", "version must be 1.0, 2.0 or 3.0, got 9.0"},
                   {"bad/truncated-header.npy", "is truncated: the header is 118 bytes long and 30 bytes are there"},
                   {"bad/truncated-data.npy", "is truncated: float32 (2, 3, 4) needs 96 bytes and 91 are there"},
                   {"bad/header-length-4gib.npy", "header length must be at most 65535, got 4294967295"},
                   {"bad/header-not-dict.npy", "must be a dictionary: expected {"},
                   {"bad/header-call.npy", "expected ( at \"__import__"},
                   {"bad/header-missing-shape.npy", "must have the key shape"},
                   {"bad/header-extra-key.npy", "once and no other, got \"x\""},
                   {"bad/header-nested.npy", "must have a shape of whole numbers >= 0, got \"(((("},
                   {"bad/shape-overflow.npy", "shape must have a representable size"},
                   {"bad/shape-negative.npy", "must have a shape of whole numbers >= 0, got \"-2"},
                   {"bad/shape-huge-digits.npy", "must have a shape whose size is representable"},
                   {"bad/descr-unknown.npy", "must name a dtype that rotary knows, such as '<f4', got \"<f3\""},
                   {"bad/descr-structured.npy", "must name one plain dtype, got a structured one"},
                   {"bad/fortran-order-2.npy", "must say True or False for fortran_order, got \"2"}});
}

TEST(Npy, RefusesWhatIsAlmostAHeader) {
  const std::string four(4, '\0');
  EXPECT_NE(
      refusal(npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}", four)).find("once and no other"),
      std::string::npos);
  EXPECT_NE(refusal(npy(header("<f4", "(1)"), four)).find("must have a tuple as shape"), std::string::npos);
  EXPECT_NE(refusal(npy(header("<f4", "[1]"), four)).find("expected ("), std::string::npos);
  EXPECT_NE(refusal(npy(header("<f4", "(1 1)"), four)).find("expected )"), std::string::npos);
  EXPECT_NE(refusal(npy(header("<f4", "(,)"), four)).find("whole numbers"), std::string::npos);
  EXPECT_NE(refusal(npy(header("<f4", "(1,,)"), four)).find("whole numbers"), std::string::npos);
  EXPECT_NE(refusal(npy(header("<f4", "(1.0,)"), four)).find("expected )"), std::string::npos);
  EXPECT_NE(refusal(npy(header("<f4", "()") + " x", four)).find("must end after the dictionary"), std::string::npos);
  EXPECT_NE(refusal(npy("{'descr': '<f4", four)).find("a string must end"), std::string::npos);
  EXPECT_NE(refusal(npy("", four)).find("must be a dictionary"), std::string::npos);
  for (const char* descr : {"f4", "=f4", "|f4", "<f", "", "<", ">V2", "|V4", "<U4", "|S2", "<M8", "<f16", "float32"}) {
    EXPECT_NE(refusal(npy(header(descr, "()"), four)).find("must name a dtype that rotary knows"), std::string::npos)
        << descr;
  }
}

TEST(Npy, ReadsTheLongIntegersOfPython2) {
  FileContents contents;
  const StoredTensor tensor = read_npy(npy(header("|u1", "(2L, 3L)"), "abcdef"), "x.npy", contents);
  EXPECT_EQ(tensor.shape, (std::vector<std::int64_t>{2, 3}));
}

TEST(Npy, RefusesBytesAfterTheArray) {
  EXPECT_EQ(refusal(npy(header("|u1", "(2,)"), "abc")), "x.npy: .npy must end with its array, got 1 more bytes");
}

TEST(Npy, RefusesMoreAxesThanNumPyHas) {
  const auto shape = [](int axes) {
    std::string text = "(";
    for (int i = 0; i < axes; ++i) text += "1,";
    return text + ")";
  };
  FileContents contents;
  EXPECT_EQ(read_npy(npy(header("|u1", shape(64)), "a"), "x.npy", contents).shape.size(), 64u);
  EXPECT_NE(refusal(npy(header("|u1", shape(65)), "a")).find("at most 64 axes"), std::string::npos);
}

TEST(Npy, AllowsAnEmptyArrayWhoseOtherLengthsAreHuge_V6) {
  FileContents contents;
  const StoredTensor tensor =
      read_npy(npy(header("<f8", "(9223372036854775807, 0, 9223372036854775807)")), "x.npy", contents);
  EXPECT_EQ(tensor.num_bytes, 0);
  EXPECT_EQ(tensor.view("BSD").num_elements(), 0);
}

TEST(Npy, GivesOddlyPlacedDataAnAddressThatSuitsThem) {
  const double values[] = {1.5, -2};
  std::string bytes = npy(header("<f8", "(2,)"), std::string(reinterpret_cast<const char*>(values), sizeof values));
  for (int shift = 0; shift < 8; ++shift) {
    const std::string shifted = std::string(static_cast<std::size_t>(shift), ' ') + bytes;
    FileContents contents;
    const StoredTensor tensor =
        read_npy(std::string_view(shifted).substr(static_cast<std::size_t>(shift)), "x.npy", contents);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data) % alignof(double), 0u);
    EXPECT_EQ(stored_values(tensor), (std::vector<double>{1.5, -2}));
  }
}

TEST(Npy, MapsWellPlacedDataWithoutACopy) {
  FileContents contents;
  const std::string_view bytes = contents.map(folder + "/f4.npy");
  const StoredTensor tensor = read_npy(bytes, "f4.npy", contents);
  EXPECT_EQ(tensor.data, bytes.data() + 128);
  EXPECT_TRUE(contents.copies.empty());
}

TEST(Npy, SwapsTheBytesOfEveryWidthAndOfEachHalfOfAComplexNumber) {
  const auto swapped = [](const std::string& descr, const std::string& data) {
    FileContents contents;
    const std::string bytes = npy(header(descr, "(1,)"), data);
    const StoredTensor tensor = read_npy(bytes, "x.npy", contents);
    return std::string(static_cast<const char*>(tensor.data), data.size());
  };
  EXPECT_EQ(swapped(">u1", "a"), "a");
  EXPECT_EQ(swapped(">i2", "ab"), "ba");
  EXPECT_EQ(swapped(">f2", "ab"), "ba");
  EXPECT_EQ(swapped(">u4", "abcd"), "dcba");
  EXPECT_EQ(swapped(">i8", "abcdefgh"), "hgfedcba");
  EXPECT_EQ(swapped(">c8", "abcdefgh"), "dcbahgfe");
  EXPECT_EQ(swapped(">c16", "abcdefghijklmnop"), "hgfedcbaponmlkji");
  EXPECT_EQ(swapped("<c8", "abcdefgh"), "abcdefgh");
}

TEST(Npy, SurvivesEveryTruncationAndEveryChangedByte_V4) {
  for (const char* file : {"f4.npy", "f8-big-endian-fortran.npy", "header-other-spelling.npy", "version-2.npy"}) {
    SCOPED_TRACE(file);
    expect_damage_to_be_survived(file_bytes(folder + "/" + file), read);
  }
}

/// JSON holds text in UTF-8; this text has one character per byte.
std::string bytes_of_latin1(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto lead = static_cast<unsigned char>(text[i]);
    bytes += lead < 0x80 ? text[i] : static_cast<char>((lead & 3) << 6 | (text[++i] & 0x3F));
  }
  return bytes;
}

TEST(Npy, WritesWhatNumPyWritesInFrontOfTheData) {
  const auto written = nlohmann::json::parse(file_bytes(folder + "/written.json"));
  ASSERT_GE(written.size(), 150u);
  for (const auto& entry : written) {
    const std::string expected = bytes_of_latin1(entry.at("bytes"));
    const NpyHeader header{.dtype = dtype_named(entry.at("dtype")),
                           .fortran_order = entry.at("fortran_order"),
                           .shape = entry.at("shape").get<std::vector<std::int64_t>>()};
    EXPECT_EQ(npy_preamble(header), expected) << entry.dump();
  }
}

TEST(Npy, WritesTheSameFilesAsNumPy) {
  const TemporaryFolder temporary;
  const std::string copy = temporary.path("copy.npy");
  for (const char* file : {"f4.npy", "f8-fortran.npy", "f2.npy", "bf16-as-void.npy", "scalar.npy", "empty.npy",
                           "one-axis.npy", "i4.npy", "bool.npy"}) {
    const TensorFile original((folder + "/" + file).c_str());
    const StoredTensor& tensor = original.tensors().front();
    const char* const axes[] = {"", "N", "SD", "BSD"};
    write_npy(copy.c_str(), tensor.view(axes[tensor.shape.size()]));
    EXPECT_EQ(file_bytes(copy), file_bytes(folder + "/" + file)) << file;
  }
}

TEST(Npy, KeepsEveryTypeBitForBit) {
  const TemporaryFolder temporary;
  const std::string path = temporary.path("x.npy");
  std::vector<std::uint64_t> memory;
  for (std::uint64_t i = 0; i < 32; ++i) memory.push_back(0x9e3779b97f4a7c15u * (i + 1));  // NaNs and all
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32, DType::i16, DType::i8,
                            DType::u64, DType::u32, DType::u16, DType::u8, DType::boolean, DType::c128, DType::c64}) {
    const ConstTensorView view(memory.data(), dtype, "SD", {3, 5});
    write_npy(path.c_str(), view);
    const TensorFile file(path.c_str());
    const StoredTensor& tensor = file.at("");
    EXPECT_EQ(tensor.dtype, dtype);
    EXPECT_EQ(tensor.shape, (std::vector<std::int64_t>{3, 5}));
    EXPECT_EQ(std::memcmp(tensor.data, memory.data(), static_cast<std::size_t>(tensor.num_bytes)), 0) << name(dtype);
  }
}

TEST(Npy, WritesAnyStridesInTheOrderOfTheAxes) {
  const TemporaryFolder temporary;
  const std::string path = temporary.path("x.npy");
  std::vector<std::int32_t> memory(2 * 3 * 4);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::int32_t>(i);
  const ConstTensorView whole(memory.data(), "BSD", {2, 3, 4});
  const auto written = [&](const ConstTensorView& view) {
    write_npy(path.c_str(), view);
    const TensorFile file(path.c_str());
    return stored_values(file.at(""));
  };
  EXPECT_EQ(written(whole.select('B', 1).slice('D', 1, 3)), (std::vector<double>{13, 14, 17, 18, 21, 22}));
  EXPECT_EQ(written(whole.select('B', 0).reversed('D').slice('S', 0, 1)), (std::vector<double>{3, 2, 1, 0}));
  EXPECT_EQ(written(whole.select('D', 2)), (std::vector<double>{2, 6, 10, 14, 18, 22}));
  EXPECT_EQ(written(whole.slice('D', 0, 2).select('S', 1).permuted("DB")), (std::vector<double>{4, 16, 5, 17}));
  EXPECT_EQ(written(ConstTensorView(memory.data() + 5, DType::i32, "SD", {2, 3}, {0, 1})),
            (std::vector<double>{5, 6, 7, 5, 6, 7}));
}

TEST(Npy, WritesLongStridedTensorsPieceByPiece) {
  // Rows below and above the length from which a row is written as it lies; totals that no piece divides.
  const TemporaryFolder temporary;
  const std::string path = temporary.path("x.npy");
  for (const std::int64_t width :
       {std::int64_t{1}, std::int64_t{7}, std::int64_t{1023}, std::int64_t{1025}, std::int64_t{50'000}}) {
    const std::int64_t rows = 200'003 / width + 2;
    std::vector<float> memory(static_cast<std::size_t>(rows * (width + 3)));
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
    write_npy(path.c_str(), ConstTensorView(memory.data(), DType::f32, "SD", {rows, width}, {width + 3, 1}));
    const TensorFile file(path.c_str());
    const auto* const data = static_cast<const float*>(file.at("").data);
    std::int64_t wrong = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t d = 0; d < width; ++d) wrong += data[row * width + d] != static_cast<float>(row * (width + 3) + d);
    }
    EXPECT_EQ(wrong, 0) << width;
  }
}

TEST(Npy, RefusesToWriteWhatTheFormatCannotName) {
  const std::uint8_t byte = 0;
  EXPECT_EQ(error_sentence(ErrorCode::unsupported,
                           [&] {
                             write_npy("/x.npy", {&byte, DType::f8_e4m3, "N", {1}});
                           }),
            ".npy: has no name for the dtype float8_e4m3fn");
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument, [] { write_npy("/x.npy", {}); }),
            "write_npy: the view of \"\" must be given");
}

}  // namespace
}  // namespace rotary
