#include "rotary/tensor_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <utility>
#include <vector>

#include "support/error_sentence.h"
#include "support/file_bytes.h"
#include "support/stored_values.h"
#include "support/temporary_folder.h"

namespace rotary {
namespace {

const std::string npy = ROTARY_TEST_DATA "/npy", safetensors = ROTARY_TEST_DATA "/safetensors";

std::string refusal(const std::string& path) {
  return error_sentence(ErrorCode::invalid_file, [&] { TensorFile(path.c_str()); });
}

TEST(TensorFile, TellsTheKindFromTheContentWhateverTheName) {
  const TemporaryFolder folder;
  for (const std::string& original : {npy + "/f4.npy", npy + "/stored.npz", safetensors + "/f32.safetensors"}) {
    const std::string path = folder.write("a.txt", file_bytes(original));
    EXPECT_EQ(TensorFile(path.c_str()).tensors().size(), TensorFile(original.c_str()).tensors().size()) << original;
  }
}

TEST(TensorFile, SaysOfAnotherKindOfFileWhatItWouldTake) {
  const TemporaryFolder folder;
  EXPECT_NE(refusal(folder.write("x.png", "\x89PNG\r\n\x1a\n and so on")).find("got a file that begins with \"\\x89PNG"),
            std::string::npos);
  EXPECT_NE(refusal(folder.write("x.json", R"({"model_type": "llama"})")).find("must have a weight_map"),
            std::string::npos);
  EXPECT_NE(refusal(folder.write("x", "")).find("is truncated, or no tensor file: it has 0 bytes"), std::string::npos);
}

TEST(TensorFile, TakesAnIndexWhoseInnerBraceStandsWhereASafetensorsHeaderWould) {
  const TemporaryFolder folder;
  const std::string index = R"({"meta":{"x":"y"}})";
  ASSERT_EQ(index.substr(8, 2), "{\"");
  EXPECT_NE(refusal(folder.write("x.json", index)).find("must have a weight_map"), std::string::npos);
}

TEST(TensorFile, OpensACheckpointsFolder) {
  const TensorFile sharded((safetensors + "/sharded").c_str());
  EXPECT_EQ(sharded.tensors().size(), 3u);

  const TemporaryFolder folder;
  EXPECT_EQ(refusal(folder.path("")),
            folder.path("") + ": a folder must hold model.safetensors or model.safetensors.index.json");
  folder.write("model.safetensors", file_bytes(safetensors + "/bf16.safetensors"));
  EXPECT_EQ(TensorFile(folder.path("").c_str()).tensors().size(), 1u);
  folder.write("model.safetensors.index.json", "{}");
  EXPECT_EQ(TensorFile(folder.path("").c_str()).tensors().size(), 1u) << "one file comes before an index";
}

TEST(TensorFile, RefusesWhatIsNoFileAndDoesNotWaitForAPipe) {
  const TemporaryFolder folder;
  EXPECT_EQ(refusal("/no/such.npy"), "/no/such.npy: cannot be opened: No such file or directory");
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(refusal(folder.path("pipe")), folder.path("pipe") + ": must be a regular file");
  EXPECT_EQ(refusal("/dev/null"), "/dev/null: must be a regular file");
}

TEST(TensorFile, FindsTensorsByNameAndSaysWhichThereAre) {
  const std::string path = safetensors + "/f32.safetensors";
  const TensorFile file(path.c_str());
  ASSERT_NE(file.find("q"), nullptr);
  EXPECT_EQ(file.find("q"), &file.at("q"));
  EXPECT_EQ(file.find("Q"), nullptr);
  EXPECT_EQ(error_sentence(ErrorCode::invalid_file, [&] { file.at("x"); }),
            path + ": has no tensor \"x\", it has \"q\", \"k\"");
  const std::string many = safetensors + "/every-dtype.safetensors";
  EXPECT_NE(error_sentence(ErrorCode::invalid_file, [&] { TensorFile(many.c_str()).at("x"); }).find(" and 3 more"),
            std::string::npos);
  const std::string none = safetensors + "/no-tensors.safetensors";
  EXPECT_NE(error_sentence(ErrorCode::invalid_file, [&] { TensorFile(none.c_str()).at("x"); }).find("it has none"),
            std::string::npos);
}

TEST(TensorFile, GivesViewsWithNamedAxesAndTheFilesOwnStrides) {
  const TensorFile file((npy + "/f8-fortran.npy").c_str());
  const ConstTensorView view = file.at("").view("BSD");
  EXPECT_EQ(view.size('S'), 3);
  EXPECT_EQ(view.stride('B'), 1);
  EXPECT_EQ(view.stride('S'), 2);
  EXPECT_EQ(view.stride('D'), 6);
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument, [&] { file.at("").view("SD"); }),
            "view: must name every axis of tensor \"\", which has 3, got \"SD\"");
}

TEST(TensorFile, CanBeMovedAndItsTensorsStayWhereTheyAre) {
  TensorFile first((safetensors + "/f32.safetensors").c_str());
  const StoredTensor* const q = first.find("q");
  const void* const data = q->data;
  TensorFile second(std::move(first));
  EXPECT_EQ(second.find("q"), q);
  EXPECT_EQ(second.find("q")->data, data);
  TensorFile third((npy + "/f4.npy").c_str());
  third = std::move(second);
  EXPECT_EQ(third.find("q"), q);
}

TEST(TensorFile, OutlivesTheFilesName) {
  const TemporaryFolder folder;
  const std::string path = folder.write("x.npy", file_bytes(npy + "/f4.npy"));
  const TensorFile file(path.c_str());
  std::filesystem::remove(path);
  EXPECT_EQ(stored_values(file.at("")), stored_values(TensorFile((npy + "/f4.npy").c_str()).at("")));
}

TEST(TensorFile, IsWrittenInTheFormatThatThePathNames) {
  const TemporaryFolder folder;
  const float value = 3;
  const ConstTensorView view(&value, "N", {1});
  for (const char* name : {"x.npy", "x.npz", "x.safetensors"}) {
    write_tensors(folder.path(name).c_str(), {{"a", view}});
    EXPECT_EQ(TensorFile(folder.path(name).c_str()).tensors().size(), 1u);
  }
  EXPECT_TRUE(file_bytes(folder.path("x.npy")).starts_with("\x93NUMPY"));
  EXPECT_TRUE(file_bytes(folder.path("x.npz")).starts_with("PK"));
  EXPECT_NE(TensorFile(folder.path("x.safetensors").c_str()).find("a"), nullptr);
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument,
                           [&] {
                             write_tensors("x.npy", {{"a", view}, {"b", view}});
                           }),
            "write_tensors: a .npy file holds one tensor, got 2");
  EXPECT_EQ(error_sentence(ErrorCode::invalid_argument,
                           [&] {
                             write_tensors("x.pt", {{"a", view}});
                           }),
            "write_tensors: the path must end in .npy, .npz or .safetensors, got \"x.pt\"");
}

}  // namespace
}  // namespace rotary
