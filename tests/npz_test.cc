#include "formats/npz.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rotary/tensor_file.hpp"
#include "support/allocation_watch.h"
#include "support/cases.h"
#include "support/damage.h"
#include "support/error_sentence.h"
#include "support/file_bytes.h"
#include "support/stored_values.h"
#include "support/temporary_folder.h"

namespace rotary {
namespace {

const std::string folder = ROTARY_TEST_DATA "/npy";

void read(std::string_view bytes, FileContents& contents) { read_npz(bytes, "x.npz", contents); }

std::string refusal(const std::string& bytes, ErrorCode code = ErrorCode::invalid_file) {
  FileContents contents;
  return error_sentence(code, [&] { read(bytes, contents); });
}

/// Writes a little-endian number over the bytes at an offset from the first local header and from its directory entry.
/// In a zip archive the two repeat each other: PKWARE's APPNOTE.TXT, 4.3.7 and 4.3.12.
template <class T>
std::string with_field(std::string zip, std::size_t local_offset, std::size_t directory_offset, T value) {
  std::memcpy(zip.data() + local_offset, &value, sizeof value);
  std::memcpy(zip.data() + zip.find("PK\1\2") + directory_offset, &value, sizeof value);
  return zip;
}

constexpr std::size_t flags_at[] = {6, 8}, method_at[] = {8, 10}, size_at[] = {22, 24};

/// An archive of one stored member of so many data bytes, without ZIP64 fields.
std::string archive(std::int64_t size) {
  const TemporaryFolder temporary;
  const std::string path = temporary.path("x.npz");
  const std::vector<std::uint8_t> data(static_cast<std::size_t>(size));
  write_npz(path.c_str(), {{"q", ConstTensorView(data.data(), DType::u8, "N", {size})}});
  return file_bytes(path);
}

TEST(Npz, ReadsEveryGoodFileToItsValues) {
  const auto good = cases(folder, "accept", ".npz");
  ASSERT_EQ(good.size(), 2u);
  for (const auto& entry : good) {
    const std::string name_of_file = entry.at("file");
    const TensorFile file((folder + "/" + name_of_file).c_str());
    ASSERT_EQ(file.tensors().size(), 3u);
    EXPECT_STREQ(file.tensors()[0].name, "q") << "in the order of the archive";
    for (const auto& [key, shape] : entry.at("arrays").items()) {
      EXPECT_EQ(file.at(key.c_str()).shape, shape.get<std::vector<std::int64_t>>()) << name_of_file << " " << key;
    }
    const auto q = entry.at("q_values").get<std::vector<double>>();
    EXPECT_EQ(stored_values(file.at("q")), q) << name_of_file;
    EXPECT_EQ(file.at("q").dtype, DType::f32);
    EXPECT_EQ(stored_values(file.at("k")), std::vector<double>(q.begin(), q.begin() + 12)) << name_of_file;
    EXPECT_EQ(stored_values(file.at("position_ids")), (std::vector<double>{0, 1, 2})) << name_of_file;
  }
}

TEST(Npz, RefusesEveryBadFileForItsRule) {
  expect_refusals(
      folder, ".npz",
      {{"bad/npz-not-zip.npz", "must be a sound zip archive"},
       {"bad/npz-crc.npz", "member \"q.npy\": zip member must inflate to its checksum and size: CRC error"},
       {"bad/npz-size-lie.npz", "zip member's size must be possible: 4294967280 bytes cannot come from 137"},
       {"bad/npz-short-member.npz", "member \"q.npy\": .npy is truncated: float32 (2, 3, 4) needs 96 bytes and 88"},
       {"bad/npz-object.npz", "member \"q.npy\": .npy header must not name the dtype object"}},
      {"bad/npz-bomb.npz"});  // 16 MiB are within our limit
}

TEST(Npz, LeavesOutMembersThatAreNoArraysAndSaysSo) {
  std::string bytes = file_bytes(folder + "/stored.npz");
  for (std::size_t at = bytes.find("k.npy"); at != bytes.npos; at = bytes.find("k.npy")) bytes.replace(at, 5, "k.txt");
  FileContents contents;
  read(bytes, contents);
  EXPECT_EQ(contents.tensors.size(), 2u);
  ASSERT_EQ(contents.warnings.size(), 1u);
  EXPECT_STREQ(contents.warnings[0], "x.npz, member \"k.txt\" is no .npy array and was left out");
}

TEST(Npz, RefusesAnotherProgramsZipArchive) {
  std::string bytes = archive(8);
  for (std::size_t at = bytes.find("q.npy"); at != bytes.npos; at = bytes.find("q.npy")) bytes.replace(at, 5, "q.pkl");
  EXPECT_EQ(refusal(bytes), "x.npz: a zip archive must hold .npy arrays, as numpy.savez writes them, got 1 other members");
}

TEST(Npz, RefusesTwoMembersOfOneName) {
  std::string bytes = file_bytes(folder + "/stored.npz");
  for (std::size_t at = bytes.find("k.npy"); at != bytes.npos; at = bytes.find("k.npy")) bytes.replace(at, 5, "q.npy");
  EXPECT_EQ(refusal(bytes), "x.npz: must be a sound zip archive: File already exists");
}

TEST(Npz, RefusesEncryptedMembersAndUnusualMethods) {
  const std::string good = archive(8);
  const auto encrypted = with_field<std::uint16_t>(good, flags_at[0], flags_at[1], 1);
  EXPECT_NE(refusal(encrypted, ErrorCode::unsupported).find("zip member is encrypted"), std::string::npos);
  const auto bzip2 = with_field<std::uint16_t>(good, method_at[0], method_at[1], 12);
  EXPECT_NE(refusal(bzip2, ErrorCode::unsupported).find("must be stored or deflated, got method 12"), std::string::npos);
}

TEST(Npz, RefusesMoreThanItsLimitBeforeAskingForTheMemory_V9) {
  // 2 MiB could inflate to 2 GiB: possible, and too much for an archive of this size.
  std::string bytes = archive(2 << 20);
  bytes = with_field<std::uint16_t>(bytes, method_at[0], method_at[1], 8);
  bytes = with_field<std::uint32_t>(bytes, size_at[0], size_at[1], (1u << 30) + 1);
  largest_allocation = 0;
  EXPECT_NE(refusal(bytes).find("must inflate to at most 1073741824 bytes together"), std::string::npos) << refusal(bytes);
  EXPECT_LT(largest_allocation.load(), 64u * 1024);
}

TEST(Npz, AsksForNoMemoryOnTheWordOfAFile_V4) {
  largest_allocation = 0;
  EXPECT_FALSE(accepts(file_bytes(folder + "/bad/npz-size-lie.npz"), read));
  EXPECT_LT(largest_allocation.load(), 64u * 1024);
}

TEST(Npz, RefusesAStoredMemberOfAnotherSize) {
  const auto larger = with_field<std::uint32_t>(archive(8), size_at[0], size_at[1], 137);
  EXPECT_NE(refusal(larger).find("size must be possible: 137 bytes cannot come from 136"), std::string::npos)
      << refusal(larger);
  const auto smaller = with_field<std::uint32_t>(archive(8), size_at[0], size_at[1], 135);
  EXPECT_NE(refusal(smaller).find("x.npz, member \"q.npy\""), std::string::npos) << refusal(smaller);
}

TEST(Npz, SurvivesEveryTruncationAndEveryChangedByte_V4) {
  for (const char* file : {"stored.npz", "deflated.npz"}) {
    SCOPED_TRACE(file);
    expect_damage_to_be_survived(file_bytes(folder + "/" + file), read);
  }
}

TEST(Npz, NoticesEveryChangedByteOfTheDataByTheChecksum) {
  const std::string good = file_bytes(folder + "/stored.npz");
  const std::size_t data = good.find("\x93NUMPY");
  for (std::size_t i = data; i < data + 128 + 96; ++i) {
    std::string bad = good;
    bad[i] ^= 0x10;
    EXPECT_FALSE(accepts(bad, read)) << i;
  }
}

TEST(Npz, ReadsAnArchiveWithoutMembers) {
  FileContents contents;
  read(std::string("PK\5\6") + std::string(18, '\0'), contents);
  EXPECT_TRUE(contents.tensors.empty());
}

TEST(Npz, HoldsTheSameArrayBytesAsNumPys) {
  const TemporaryFolder temporary;
  const std::string path = temporary.path("x.npz");
  const TensorFile f4((folder + "/f4.npy").c_str()), f8((folder + "/f8-fortran.npy").c_str());
  write_npz(path.c_str(), {{"rows", f4.at("").view("BSD")}, {"columns", f8.at("").view("BSD")}});
  const std::string bytes = file_bytes(path);
  EXPECT_NE(bytes.find(file_bytes(folder + "/f4.npy")), std::string::npos);
  EXPECT_NE(bytes.find(file_bytes(folder + "/f8-fortran.npy")), std::string::npos);
  const TensorFile copy(path.c_str());
  EXPECT_EQ(stored_values(copy.at("rows")), stored_values(f4.at("")));
  EXPECT_EQ(stored_values(copy.at("columns")), stored_values(f8.at("")));
}

TEST(Npz, WritesTheSameBytesForTheSameTensorsBecauseItNamesNoTime) {
  const std::string zip = archive(1000);
  EXPECT_EQ(archive(1000), zip);
  EXPECT_EQ(zip.substr(10, 4), std::string("\0\0\x21\0", 4)) << "midnight of 1 January 1980, in MS-DOS's form";
}

TEST(Npz, KeepsEveryTypeBitForBitAndEveryName) {
  const TemporaryFolder temporary;
  const std::string path = temporary.path("x.npz");
  std::vector<std::uint64_t> memory;
  for (std::uint64_t i = 0; i < 32; ++i) memory.push_back(0x9e3779b97f4a7c15u * (i + 1));
  const DType dtypes[] = {DType::f64, DType::f32, DType::f16,     DType::bf16, DType::i64,
                          DType::i32, DType::i16, DType::i8,      DType::u64,  DType::u32,
                          DType::u16, DType::u8,  DType::boolean, DType::c128, DType::c64};
  std::vector<TensorToWrite> tensors = {{"größe/µ", ConstTensorView(memory.data(), DType::i32, "", {})}};
  for (const DType dtype : dtypes) tensors.push_back({name(dtype), ConstTensorView(memory.data(), dtype, "SD", {3, 5})});
  write_npz(path.c_str(), tensors);
  const TensorFile file(path.c_str());
  ASSERT_EQ(file.tensors().size(), tensors.size());
  EXPECT_EQ(file.at("größe/µ").shape.size(), 0u);
  for (const DType dtype : dtypes) {
    const StoredTensor& tensor = file.at(name(dtype));
    EXPECT_EQ(tensor.dtype, dtype);
    EXPECT_EQ(std::memcmp(tensor.data, memory.data(), static_cast<std::size_t>(tensor.num_bytes)), 0) << name(dtype);
  }
}

TEST(Npz, RefusesToWriteWhatItCannotHold) {
  const TemporaryFolder temporary;
  const std::string path = temporary.path("x.npz");
  const std::uint8_t byte = 0;
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument, [&] { write_npz(path.c_str(), {}); }),
            "write_npz: needs at least one tensor");
  EXPECT_EQ(error_sentence(ErrorCode::unsupported,
                           [&] {
                             write_npz(path.c_str(), {{"a", {&byte, DType::f8_e5m2, "N", {1}}}});
                           }),
            ".npy: has no name for the dtype float8_e5m2");
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace rotary
