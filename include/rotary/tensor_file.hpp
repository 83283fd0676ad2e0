// Reading and writing tensors: .npy, .npz, safetensors (one file, or several behind an index).
//
// Reading maps the file into memory; nothing is copied unless the file itself forces it (a compressed member, a foreign
// byte order). No number in a file is trusted: sizes are computed with overflow checks and compared with the bytes that are
// there. Errors: Error (invalid_file) with the path and the broken rule.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "rotary/dtype.hpp"
#include "rotary/export.hpp"
#include "rotary/tensor.hpp"

namespace rotary {

/// One tensor of a file. `name` and `data` live as long as its TensorFile.
struct ROTARY_API StoredTensor {
  const char* name = "";
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< in elements; column-major .npy arrays have their own
  const void* data = nullptr;
  std::int64_t num_bytes = 0;

  /// The tensor with its axes named; throws Error (invalid_argument) when their number differs.
  ConstTensorView view(Axes axes) const;
};

/// An open file (or a family of shards), read-only. The kind is told from the content, not from the name.
class ROTARY_API TensorFile {
 public:
  explicit TensorFile(const char* path);
  TensorFile(TensorFile&& other) noexcept;
  TensorFile& operator=(TensorFile&& other) noexcept;
  ~TensorFile();

  /// In the order of the file. A .npy file has one tensor, named "".
  const std::vector<StoredTensor>& tensors() const noexcept;
  const StoredTensor* find(const char* name) const noexcept;
  const StoredTensor& at(const char* name) const;  ///< throws Error (invalid_file) naming what there is
  const std::vector<std::pair<const char*, const char*>>& metadata() const noexcept;  ///< of safetensors
  const std::vector<const char*>& warnings()
      const noexcept;  ///< what was tolerated: unknown fields, extra tensors of a shard

 private:
  struct Contents;
  Contents* contents_;
};

struct TensorToWrite {
  const char* name = "";
  ConstTensorView view;
};

/// Each writes beside the target and renames, so that a reader never sees half a file and an error leaves the old one.
/// The bytes are those of the reference writers: numpy.save; safetensors.
ROTARY_API void write_npy(const char* path, const ConstTensorView& view);
ROTARY_API void write_npz(const char* path, const std::vector<TensorToWrite>& tensors);
ROTARY_API void write_safetensors(const char* path, const std::vector<TensorToWrite>& tensors,
                                  const std::vector<std::pair<const char*, const char*>>& metadata = {});
/// By the path's ending: .npy (one tensor), .npz or .safetensors.
ROTARY_API void write_tensors(const char* path, const std::vector<TensorToWrite>& tensors);

}  // namespace rotary
