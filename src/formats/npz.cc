#include "formats/npz.h"

#include <zip.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "base/fail.h"
#include "base/text.h"
#include "formats/npy.h"

namespace rotary {
namespace {

struct CloseArchive {
  void operator()(zip_t* archive) const noexcept { zip_discard(archive); }
};
struct CloseMember {
  void operator()(zip_file_t* member) const noexcept { zip_fclose(member); }
};
using Archive = std::unique_ptr<zip_t, CloseArchive>;

Archive open_archive(std::string_view bytes, const std::string& path) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* const source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  zip_t* const archive = source == nullptr ? nullptr : zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error);
  if (archive == nullptr) {
    const std::string reason = zip_error_strerror(&error);
    zip_source_free(source);
    zip_error_fini(&error);
    fail_file(path, "must be a sound zip archive: ", reason);
  }
  return Archive(archive);
}

/// A member's entry in the archive's directory. Nothing in it is believed before it was compared with something.
struct Member {
  zip_uint64_t index = 0;
  std::string where;  // for errors
  std::uint64_t size = 0;
};

/// Counts what all members together take, so that an archive cannot inflate without bound.
class InflateLimit {
 public:
  explicit InflateLimit(std::size_t archive_size)
      : archive_size_(archive_size),
        left_(std::max<std::uint64_t>(std::uint64_t{1} << 30, archive_size * 16)),
        limit_(left_) {}

  void check(const zip_stat_t& entry, const std::string& where) {
    // No DEFLATE stream is more than 1032 times shorter than its text: 258 bytes take at least two bits.
    const std::uint64_t factor = entry.comp_method == ZIP_CM_STORE ? 1 : 1032;
    if (entry.comp_size > archive_size_ || entry.size > entry.comp_size * factor) {
      fail_file(where, "zip member's size must be possible: ", entry.size, " bytes cannot come from ", entry.comp_size,
                " in an archive of ", archive_size_);
    }
    if (entry.size > left_) fail_file(where, "zip members must inflate to at most ", limit_, " bytes together");
    left_ -= entry.size;
  }

 private:
  std::uint64_t archive_size_, left_, limit_;
};

/// The member's bytes, its checksum verified.
std::string_view inflate(zip_t* archive, const Member& member, FileContents& contents) {
  const std::unique_ptr<zip_file_t, CloseMember> file(zip_fopen_index(archive, member.index, 0));
  if (!file) fail_file(member.where, "zip member cannot be opened: ", zip_strerror(archive));
  char* const bytes = contents.allocate(member.size);
  const auto read = [&](char* to, std::uint64_t count) {
    const zip_int64_t got = zip_fread(file.get(), to, count);
    if (got < 0)
      fail_file(member.where, "zip member must inflate to its checksum and size: ", zip_file_strerror(file.get()));
    return static_cast<std::uint64_t>(got);
  };
  std::uint64_t filled = 0;
  while (filled < member.size) {
    const std::uint64_t got = read(bytes + filled, member.size - filled);
    if (got == 0) fail_file(member.where, "zip member's size must be right: ", member.size, " bytes, got ", filled);
    filled += got;
  }
  char beyond = 0;  // reading past the end makes libzip compare the checksum
  if (read(&beyond, 1) != 0) fail_file(member.where, "zip member's size must be right: ", member.size, " bytes, got more");
  return {bytes, member.size};
}

}  // namespace

void read_npz(std::string_view bytes, const std::string& path, FileContents& contents) {
  const Archive archive = open_archive(bytes, path);
  const auto count = static_cast<zip_uint64_t>(zip_get_num_entries(archive.get(), 0));
  InflateLimit limit(bytes.size());
  for (zip_uint64_t i = 0; i < count; ++i) {
    zip_stat_t entry;
    zip_stat_init(&entry);
    if (zip_stat_index(archive.get(), i, ZIP_FL_ENC_RAW, &entry) != 0) {
      fail_file(path, "must be a sound zip archive: ", zip_strerror(archive.get()));
    }
    std::string name = entry.name;
    const std::string where = path + ", member " + in_quotes(name);
    constexpr std::string_view ending = ".npy";
    if (!name.ends_with(ending)) {
      contents.warnings.push_back(contents.keep(where + " is no .npy array and was left out"));
      continue;
    }
    if (entry.encryption_method != ZIP_EM_NONE) fail_unsupported(where, "zip member is encrypted");
    if (entry.comp_method != ZIP_CM_STORE && entry.comp_method != ZIP_CM_DEFLATE) {
      fail_unsupported(where, "zip member must be stored or deflated, got method ", entry.comp_method);
    }
    limit.check(entry, where);
    StoredTensor tensor = read_npy(inflate(archive.get(), {i, where, entry.size}, contents), where, contents);
    name.resize(name.size() - ending.size());
    tensor.name = contents.keep(std::move(name));
    contents.tensors.push_back(std::move(tensor));
  }
  if (count > 0 && contents.tensors.empty()) {  // a PyTorch checkpoint, a document
    fail_file(path, "a zip archive must hold .npy arrays, as numpy.savez writes them, got ", count, " other members");
  }
}

}  // namespace rotary
