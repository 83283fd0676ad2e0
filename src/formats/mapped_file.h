// A file's bytes, mapped into memory for reading.
#pragma once

#include <string>
#include <string_view>

namespace rotary {

/// Owns the mapping, not the file: the file may be renamed or deleted meanwhile. One that is cut short by another program
/// while it is mapped ends this one with SIGBUS, as with every mapping.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);  ///< throws Error (invalid_file)
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::string_view bytes() const noexcept { return bytes_; }

 private:
  std::string_view bytes_;
};

}  // namespace rotary
