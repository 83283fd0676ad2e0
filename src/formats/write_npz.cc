#include <zip.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <string>

#include "base/fail.h"
#include "base/text.h"
#include "formats/atomic_file.h"
#include "formats/writing.h"

namespace rotary {
namespace {

/// Feeds one .npy array to libzip, which pulls it piece by piece.
class MemberSource {
 public:
  explicit MemberSource(const ConstTensorView& view) : array_(npy_parts(view)) {}

  static zip_int64_t answer(void* self, void* data, zip_uint64_t size, zip_source_cmd_t command) noexcept {
    auto& source = *static_cast<MemberSource*>(self);
    switch (command) {
      case ZIP_SOURCE_OPEN:
        source.array_.elements.rewind();
        source.rest_ = source.array_.preamble;
        return 0;
      case ZIP_SOURCE_READ: return source.read(static_cast<char*>(data), size);
      case ZIP_SOURCE_STAT: return source.describe(static_cast<zip_stat_t*>(data));
      case ZIP_SOURCE_ERROR: std::memset(data, 0, size); return static_cast<zip_int64_t>(size);
      case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT,
                                              ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE, -1);
      case ZIP_SOURCE_CLOSE:
      case ZIP_SOURCE_FREE: return 0;
      default: return -1;
    }
  }

 private:
  zip_int64_t read(char* to, std::size_t size) noexcept {
    std::size_t filled = 0;
    while (filled < size) {
      if (rest_.empty()) rest_ = array_.elements.next();
      if (rest_.empty()) break;
      const std::size_t count = std::min(rest_.size(), size - filled);
      std::memcpy(to + filled, rest_.data(), count);
      rest_.remove_prefix(count);
      filled += count;
    }
    return static_cast<zip_int64_t>(filled);
  }

  zip_int64_t describe(zip_stat_t* entry) const noexcept {
    zip_stat_init(entry);
    entry->size = array_.preamble.size() + static_cast<zip_uint64_t>(array_.elements.num_bytes());
    entry->valid = ZIP_STAT_SIZE;
    return sizeof *entry;
  }

  NpyParts array_;
  std::string_view rest_;  // of the piece that is being read
};

struct Discard {
  void operator()(zip_t* archive) const noexcept { zip_discard(archive); }
};

void add_member(zip_t* archive, const std::string& path, const char* name, MemberSource& member) {
  zip_source_t* const source = zip_source_function(archive, &MemberSource::answer, &member);
  const zip_int64_t index =
      source == nullptr ? -1 : zip_file_add(archive, (std::string(name) + ".npy").c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    const std::string reason = zip_strerror(archive);
    zip_source_free(source);
    fail_file(path, "cannot hold the member ", in_quotes(name), ": ", reason);
  }
  const auto at = static_cast<zip_uint64_t>(index);
  constexpr zip_uint16_t midnight = 0, first_of_1980 = 0x21;  // as numpy.savez: the same arrays, the same file
  if (zip_set_file_compression(archive, at, ZIP_CM_STORE, 0) != 0 ||
      zip_file_set_dostime(archive, at, midnight, first_of_1980, 0) != 0) {
    fail_file(path, "cannot hold the member ", in_quotes(name), ": ", zip_strerror(archive));
  }
}

}  // namespace

void write_npz(const char* path, const std::vector<TensorToWrite>& tensors) {
  check_tensors("write_npz", tensors);
  if (tensors.empty()) fail_argument("write_npz", "needs at least one tensor");
  std::deque<MemberSource> members;  // outlives the archive, which reads from them when it is closed
  for (const TensorToWrite& tensor : tensors) members.emplace_back(tensor.view);

  AtomicFile file(path);
  int error = 0;
  std::unique_ptr<zip_t, Discard> archive(zip_open(file.temporary_path().c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error));
  if (!archive) fail_file(path, "cannot be written as a zip archive (libzip error ", error, ")");
  for (std::size_t i = 0; i < tensors.size(); ++i) add_member(archive.get(), path, tensors[i].name, members[i]);
  if (zip_close(archive.get()) != 0) fail_file(path, "cannot be written: ", zip_strerror(archive.get()));
  static_cast<void>(archive.release());  // zip_close has freed it
  file.reopen();
  file.commit();
}

}  // namespace rotary
