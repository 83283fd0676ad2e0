// Writing a file so that nobody ever sees half of it.
#pragma once

#include <string>
#include <string_view>

#include "formats/file_descriptor.h"

namespace rotary {

/// Bytes go to a new file beside the target, which takes the target's place in commit(): readers see the old file or the
/// new one, programs that have the old one mapped keep it, and without commit() (an error, an exception) the old one stays
/// and the new one is removed. A link stays a link: the file it leads to is replaced. One that leads to no file is
/// refused, as is a target that exists and is no regular file. Errors: Error (invalid_file).
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::string_view bytes);
  /// For a library that writes by itself, and puts a new file under this path; reopen() then goes on with that one.
  const std::string& temporary_path() const noexcept { return temporary_; }
  void reopen();
  /// On the disk when it returns, under the target's name and with the permissions that the target had.
  void commit();

 private:
  [[noreturn]] void fail(const char* what) const;

  std::string path_;       // as given, for errors
  std::string target_;     // with links followed
  std::string temporary_;  // empty once it is no longer ours to remove
  FileDescriptor file_;
};

}  // namespace rotary
