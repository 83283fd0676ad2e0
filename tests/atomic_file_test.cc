#include "formats/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "rotary/tensor_file.hpp"
#include "support/error_sentence.h"
#include "support/file_bytes.h"
#include "support/temporary_folder.h"

namespace rotary {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const TemporaryFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path(""))) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

/// No file may grow past a few bytes, as on a full disk, while it lives.
class SmallFilesOnly {
 public:
  explicit SmallFilesOnly(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SmallFilesOnly() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

TEST(AtomicFile, ShowsTheNewFileOnlyWhenItIsWhole) {
  const TemporaryFolder folder;
  const std::string path = folder.write("x", "old");
  AtomicFile file(path);
  file.write("ne");
  file.write("w");
  EXPECT_EQ(file_bytes(path), "old");
  file.commit();
  EXPECT_EQ(file_bytes(path), "new");
}

TEST(AtomicFile, LeavesNothingBehind) {
  const TemporaryFolder folder;
  {
    AtomicFile file(folder.path("x"));
    file.write("new");
    EXPECT_EQ(names_in(folder).size(), 1u);
    file.commit();
  }
  EXPECT_EQ(names_in(folder), std::vector<std::string>{"x"});
}

TEST(AtomicFile, KeepsTheOldFileWhenItIsAbandoned) {
  const TemporaryFolder folder;
  const std::string path = folder.write("x", "old");
  try {
    AtomicFile file(path);
    file.write("new");
    throw std::runtime_error("something else went wrong");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(file_bytes(path), "old");
  EXPECT_EQ(names_in(folder), std::vector<std::string>{"x"});
}

TEST(AtomicFile, KeepsTheOldFileWhenTheDiskIsFullWhateverTheFormat) {
  const TemporaryFolder folder;
  const std::vector<float> data(100'000);
  const ConstTensorView view(data.data(), "N", {100'000});
  for (const char* name : {"x.npy", "x.npz", "x.safetensors"}) {
    const std::string path = folder.write(name, "old");
    {
      const SmallFilesOnly full_disk(4096);
      EXPECT_NE(error_sentence(ErrorCode::invalid_file,
                               [&] {
                                 write_tensors(path.c_str(), {{"a", view}});
                               })
                    .find(path + ": cannot be written: "),
                std::string::npos);
    }
    EXPECT_EQ(file_bytes(path), "old") << name;
  }
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{"x.npy", "x.npz", "x.safetensors"}));
}

TEST(AtomicFile, LetsAReaderKeepTheFileThatItHasOpen) {
  const TemporaryFolder folder;
  const std::string path = folder.path("x.safetensors");
  const float old = 1, replacement = 2;
  write_safetensors(path.c_str(), {{"a", ConstTensorView(&old, "N", {1})}});
  const TensorFile reader(path.c_str());
  write_safetensors(path.c_str(), {{"a", ConstTensorView(&replacement, "N", {1})}});
  EXPECT_EQ(*static_cast<const float*>(reader.at("a").data), 1);
  EXPECT_EQ(*static_cast<const float*>(TensorFile(path.c_str()).at("a").data), 2);
}

TEST(AtomicFile, CanReplaceTheVeryFileThatItsTensorsAreMappedFrom) {
  const TemporaryFolder folder;
  const std::string path = folder.path("x.npy");
  const float data[] = {1, 2, 3, 4, 5, 6};
  write_npy(path.c_str(), ConstTensorView(data, "SD", {2, 3}));
  const TensorFile file(path.c_str());
  write_npy(path.c_str(), file.at("").view("SD").slice('S', 1, 2));
  EXPECT_EQ(static_cast<const float*>(TensorFile(path.c_str()).at("").data)[0], 4);
}

TEST(AtomicFile, KeepsPermissionsAndFollowsTheUmaskForNewFiles) {
  const TemporaryFolder folder;
  const std::string path = folder.write("x.npz", "old");
  fs::permissions(path, fs::perms(0640));
  const float value = 1;
  const ConstTensorView view(&value, "N", {1});
  write_tensors(path.c_str(), {{"a", view}});
  EXPECT_EQ(fs::status(path).permissions(), fs::perms(0640));

  const mode_t before = umask(027);
  for (const char* name : {"new.npy", "new.npz"}) write_tensors(folder.path(name).c_str(), {{"a", view}});
  umask(before);
  EXPECT_EQ(fs::status(folder.path("new.npy")).permissions(), fs::perms(0640));
  EXPECT_EQ(fs::status(folder.path("new.npz")).permissions(), fs::perms(0640));
}

TEST(AtomicFile, LeavesALinkALink) {
  const TemporaryFolder folder, other;
  const std::string target = other.write("target", "old");
  fs::create_symlink(target, folder.path("link"));
  AtomicFile file(folder.path("link"));
  file.write("new");
  file.commit();
  EXPECT_TRUE(fs::is_symlink(folder.path("link")));
  EXPECT_EQ(file_bytes(target), "new");
}

TEST(AtomicFile, RefusesALinkThatLeadsNowhere) {
  const TemporaryFolder folder;
  for (const char* target : {"missing", "link"}) {  // the second: to itself
    fs::remove(folder.path("link"));
    fs::create_symlink(target, folder.path("link"));
    const std::string sentence = error_sentence(ErrorCode::invalid_file, [&] { AtomicFile(folder.path("link")); });
    EXPECT_EQ(sentence.rfind(folder.path("link") + ": cannot be written: it is a link that cannot be followed: ", 0), 0u)
        << sentence;
    EXPECT_TRUE(fs::is_symlink(folder.path("link")));
    EXPECT_FALSE(fs::exists(folder.path("missing")));
  }
}

TEST(AtomicFile, WritesBesideANameOfTheGreatestLength) {
  const TemporaryFolder folder;
  const std::string path = folder.path(std::string(255, 'x'));
  AtomicFile file(path);
  file.commit();
  EXPECT_TRUE(fs::exists(path));
}

TEST(AtomicFile, RefusesWhatIsNoRegularFile) {
  EXPECT_EQ(error_sentence(ErrorCode::invalid_file, [] { AtomicFile("/dev/null"); }),
            "/dev/null: cannot be written: it is there and is no regular file");
  const TemporaryFolder folder;
  EXPECT_EQ(error_sentence(ErrorCode::invalid_file, [&] { AtomicFile(folder.path("")); }),
            folder.path("") + ": cannot be written: it is there and is no regular file");
  EXPECT_EQ(error_sentence(ErrorCode::invalid_file, [] { AtomicFile("/no/such/x"); }),
            "/no/such/x: cannot be written: No such file or directory");
}

}  // namespace
}  // namespace rotary
