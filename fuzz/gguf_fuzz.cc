// A GGUF, from its magic to the rotation of its layers.
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include "fuzz_target.h"
#include "model_input.h"
#include "models/readers.h"

namespace {

/// A file that exists only in memory.
class MemoryFile {
 public:
  MemoryFile(const std::uint8_t* data, std::size_t size) : descriptor_(memfd_create("gguf", MFD_CLOEXEC)) {
    if (descriptor_ < 0 || write(descriptor_, data, size) != static_cast<ssize_t>(size)) throw "no memory file";
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rotary;
  return answer([&] {
    const MemoryFile file(data, size);
    use(read_gguf(file.path(), {}));
  });
}
