// The tensor formats: .npy, .npz and safetensors, told apart by their first bytes.
#include <string_view>

#include "formats/file_contents.h"
#include "formats/npy.h"
#include "formats/npz.h"
#include "formats/safetensors.h"
#include "fuzz_target.h"
#include "model_input.h"

namespace {

/// Every byte that a tensor claims must be there.
void touch(const rotary::StoredTensor& tensor) {
  const auto* bytes = static_cast<const volatile unsigned char*>(tensor.data);
  if (tensor.num_bytes > 0) (void)(bytes[0] + bytes[tensor.num_bytes - 1]);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rotary;
  return answer([&] {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    FileContents contents;
    if (bytes.starts_with("\x93NUMPY")) return touch(read_npy(bytes, "x.npy", contents));
    if (bytes.starts_with("PK")) {
      read_npz(bytes, "x.npz", contents);
      for (const StoredTensor& tensor : contents.tensors) touch(tensor);
      return;
    }
    for (const StoredTensor& tensor : read_safetensors(bytes, "x.safetensors", contents).tensors) touch(tensor);
  });
}
