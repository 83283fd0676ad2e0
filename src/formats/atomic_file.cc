#include "formats/atomic_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>

#include "base/fail.h"

namespace rotary {
namespace {

/// The file that a path leads to; the path itself where nothing is there yet. A link that leads nowhere is refused: it
/// would have to become the file.
std::string follow_links(const std::string& path) {
  struct Free {
    void operator()(char* text) const noexcept { ::free(text); }
  };
  const std::unique_ptr<char, Free> resolved(::realpath(path.c_str(), nullptr));
  if (resolved) return resolved.get();
  const std::string reason = last_system_error();
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode)) {
    fail_file(path, "cannot be written: it is a link that cannot be followed: ", reason);
  }
  return path;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == path.npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
}

/// Short, so that it fits beside any name; the folder's other files are not met in practice, and not overwritten if they
/// are.
std::string temporary_beside(const std::string& target) {
  std::random_device random;
  return sentence(folder_of(target), "/.rotary-", std::hex, random(), random(), ".tmp");
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path)
    : path_(path), target_(follow_links(path)), temporary_(temporary_beside(target_)), file_(-1) {
  struct stat status {};
  const bool exists = ::stat(target_.c_str(), &status) == 0;
  if (exists && !S_ISREG(status.st_mode)) fail_file(path_, "cannot be written: it is there and is no regular file");
  constexpr mode_t everyone = 0666;  // less the process's umask, as for any new file
  file_ = FileDescriptor(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, everyone));
  if (!file_) {
    const std::string reason = last_system_error();
    temporary_.clear();
    fail_file(path_, "cannot be written: ", reason);
  }
  constexpr mode_t permissions = 07777;
  // A file system without permissions refuses this, and then there are none to keep.
  if (exists) static_cast<void>(::fchmod(file_.get(), status.st_mode & permissions));
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot be written: ");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void AtomicFile::reopen() {
  file_ = FileDescriptor(::open(temporary_.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file_) fail("cannot be written: ");
}

void AtomicFile::commit() {
  if (::fsync(file_.get()) != 0 || !file_.close()) fail("cannot be written: ");
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("cannot be replaced: ");
  temporary_.clear();
  // The new name itself. The file is in place already, so that a folder that cannot be synchronised is no error.
  const FileDescriptor folder(::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) ::fsync(folder.get());
}

void AtomicFile::fail(const char* what) const { fail_file(path_, what, last_system_error()); }

}  // namespace rotary
