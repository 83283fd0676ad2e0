#include "formats/sharded_safetensors.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "rotary/tensor_file.hpp"
#include "support/cases.h"
#include "support/error_sentence.h"
#include "support/sha256.h"
#include "support/temporary_folder.h"

namespace rotary {
namespace {

const std::string folder = ROTARY_TEST_DATA "/safetensors";

/// A shard beside the index: one value under each name.
void write_shard(const TemporaryFolder& checkpoint, const std::string& file, const std::vector<const char*>& names) {
  const float value = 1;
  std::vector<TensorToWrite> tensors;
  for (const char* name : names) tensors.push_back({name, ConstTensorView(&value, "N", {1})});
  write_safetensors(checkpoint.path(file).c_str(), tensors, {{"format", "pt"}});
}

TEST(ShardedSafetensors, ReadsEveryGoodIndexToItsValues) {
  const auto good = cases(folder, "accept", ".json");
  ASSERT_EQ(good.size(), 1u);
  const TensorFile file((folder + "/" + good[0].at("file").get<std::string>()).c_str());
  EXPECT_EQ(file.tensors().size(), good[0].at("tensors").size());
  for (const auto& [key, expected] : good[0].at("tensors").items()) {
    const StoredTensor& tensor = file.at(key.c_str());
    EXPECT_EQ(tensor.shape, expected.at("shape").get<std::vector<std::int64_t>>()) << key;
    const std::string_view bytes(static_cast<const char*>(tensor.data), static_cast<std::size_t>(tensor.num_bytes));
    EXPECT_EQ(sha256(bytes).substr(0, 16), expected.at("sha256").get<std::string>()) << key;
  }
  ASSERT_EQ(file.metadata().size(), 1u) << "of the first shard";
  EXPECT_TRUE(file.warnings().empty());
}

TEST(ShardedSafetensors, RefusesEveryBadIndexForItsRule) {
  const std::string index = "/model.safetensors.index.json";
  expect_refusals(folder, ".json",
                  {{"bad/index-outside" + index, "without a path, got \"../f32.safetensors\""},
                   {"bad/index-absolute" + index, "without a path, got \"/evil.safetensors\""},
                   {"bad/index-missing-shard" + index, "model-00002-of-00002.safetensors: cannot be opened: No such file"},
                   {"bad/index-missing-tensor" + index, "weight_map must name tensors that are there: \"b\" is not in"}});
}

TEST(ShardedSafetensors, RefusesNamesThatCouldLeadOutOfTheFolder) {
  const TemporaryFolder checkpoint;
  for (const char* shard : {"..", ".", "", "a/b", "/a", R"(..\\a)", R"(a\u0000b)", "../x/s.safetensors"}) {
    const std::string path = checkpoint.write("i.json", std::string(R"({"weight_map":{"a":")") + shard + "\"}}");
    EXPECT_NE(error_sentence(ErrorCode::invalid_file, [&] { TensorFile(path.c_str()); })
                  .find("weight_map must name files beside the index, without a path"),
              std::string::npos)
        << shard;
  }
}

TEST(ShardedSafetensors, RefusesAnIndexOfAnotherForm) {
  const TemporaryFolder checkpoint;
  const auto said = [&](const char* index) {
    const std::string path = checkpoint.write("i.json", index);
    return error_sentence(ErrorCode::invalid_file, [&] { TensorFile(path.c_str()); });
  };
  EXPECT_NE(said("{}").find("must have a weight_map"), std::string::npos);
  EXPECT_NE(said(R"({"weight_map": ["a"]})").find("must have a weight_map"), std::string::npos);
  EXPECT_NE(said(R"({"weight_map": {"a": 1}})").find("weight_map must hold file names, got \"a\": 1"), std::string::npos);
  EXPECT_NE(said(R"({"weight_map": {"a": "s", "a": "t"}})").find("must not have a key twice"), std::string::npos);
}

TEST(ShardedSafetensors, LeavesOutTensorsThatTheIndexDoesNotMapThereAndSaysSo) {
  const TemporaryFolder checkpoint;
  write_shard(checkpoint, "1.safetensors", {"a", "b"});
  write_shard(checkpoint, "2.safetensors", {"b", "c"});
  const std::string path = checkpoint.write("i.json", R"({"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}})");
  const TensorFile file(path.c_str());
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_STREQ(file.tensors()[0].name, "a");
  EXPECT_STREQ(file.tensors()[1].name, "b");
  ASSERT_EQ(file.warnings().size(), 2u);
  EXPECT_EQ(file.warnings()[0], checkpoint.path("1.safetensors") + ": tensor \"b\" is not in the index and was left out");
  EXPECT_EQ(file.warnings()[1], checkpoint.path("2.safetensors") + ": tensor \"c\" is not in the index and was left out");
}

TEST(ShardedSafetensors, ReadsAnIndexNamedWithoutAFolder) {
  const TemporaryFolder checkpoint;
  write_shard(checkpoint, "s.safetensors", {"a"});
  checkpoint.write("i.json", R"({"weight_map": {"a": "s.safetensors"}})");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(checkpoint.path(""));
  EXPECT_EQ(TensorFile("i.json").tensors().size(), 1u);
  std::filesystem::current_path(before);
}

TEST(ShardedSafetensors, FollowsLinksAsDownloadCachesMakeThem) {
  const TemporaryFolder checkpoint, cache;
  write_shard(cache, "blob", {"a"});
  std::filesystem::create_symlink(cache.path("blob"), checkpoint.path("s.safetensors"));
  const std::string path = checkpoint.write("i.json", R"({"weight_map": {"a": "s.safetensors"}})");
  EXPECT_EQ(TensorFile(path.c_str()).tensors().size(), 1u);
}

}  // namespace
}  // namespace rotary
