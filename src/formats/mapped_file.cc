#include "formats/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <utility>

#include "base/fail.h"
#include "formats/file_descriptor.h"

namespace rotary {

MappedFile::MappedFile(const std::string& path) {
  // Not blocking, so that a pipe without a writer is refused below and not waited for.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) fail_file(path, "cannot be opened: ", last_system_error());
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_file(path, "cannot be examined: ", last_system_error());
  if (!S_ISREG(status.st_mode)) fail_file(path, "must be a regular file");
  if (status.st_size == 0) return;

  const auto size = static_cast<std::size_t>(status.st_size);
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) fail_file(path, "cannot be mapped into memory: ", last_system_error());
  bytes_ = {static_cast<const char*>(address), size};
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

}  // namespace rotary
