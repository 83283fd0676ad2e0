#include <set>
#include <string>
#include <string_view>

#include "base/fail.h"
#include "base/text.h"
#include "formats/writing.h"

namespace rotary {

void check_tensors(const char* operation, const std::vector<TensorToWrite>& tensors) {
  std::set<std::string_view> names;
  for (const TensorToWrite& tensor : tensors) {
    if (!tensor.view) fail_argument(operation, "the view of ", in_quotes(tensor.name), " must be given");
    if (!is_utf8(tensor.name)) fail_argument(operation, "names must be UTF-8, got ", in_quotes(tensor.name));
    if (!names.insert(tensor.name).second) {
      fail_argument(operation, "names must differ, got ", in_quotes(tensor.name), " twice");
    }
  }
}

void write_tensors(const char* path, const std::vector<TensorToWrite>& tensors) {
  const std::string_view name = path;
  if (name.ends_with(".safetensors")) {
    write_safetensors(path, tensors);
  } else if (name.ends_with(".npz")) {
    write_npz(path, tensors);
  } else if (name.ends_with(".npy")) {
    if (tensors.size() != 1) fail_argument("write_tensors", "a .npy file holds one tensor, got ", tensors.size());
    write_npy(path, tensors.front().view);
  } else {
    fail_argument("write_tensors", "the path must end in .npy, .npz or .safetensors, got ", in_quotes(path));
  }
}

}  // namespace rotary
