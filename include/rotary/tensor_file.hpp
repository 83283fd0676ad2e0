// Reading and writing tensors: .npy, .npz, safetensors (one file, or several behind an index).
//
// Reading maps the file into memory; nothing is copied unless the file itself forces it: a member of an archive, a foreign
// byte order, data at an address that does not suit their type. No number in a file is trusted: sizes are computed with
// overflow checks and compared with the bytes that are there. docs/formats.md lists what is accepted, the limits, and where
// the rules come from. Errors: Error (invalid_file) with the path and the broken rule; Error (unsupported) where a file is
// well formed and yet not read.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "rotary/dtype.hpp"
#include "rotary/export.hpp"
#include "rotary/tensor.hpp"

namespace rotary {

/// One tensor of a file. `name` and `data` live as long as its TensorFile. Elements are little-endian and `data` is aligned
/// for them. A .npy array of two-byte void is taken for bfloat16 (so ml_dtypes saves it); one of uint16 stays uint16.
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

/// An open file (or a family of shards), read-only. The kind is told from the content, not from the name. May be used from
/// several threads at once.
class ROTARY_API TensorFile {
 public:
  /// A file, an index of shards, or a folder with model.safetensors or model.safetensors.index.json in it. The file may be
  /// renamed, replaced or deleted meanwhile; one that is cut short while it is open ends the program, as with every
  /// mapping.
  explicit TensorFile(const char* path);
  TensorFile(TensorFile&& other) noexcept;
  TensorFile& operator=(TensorFile&& other) noexcept;
  ~TensorFile();

  /// In the order of their data. A .npy file has one tensor, named "".
  const std::vector<StoredTensor>& tensors() const noexcept;
  const StoredTensor* find(const char* name) const noexcept;  ///< nullptr where there is none
  const StoredTensor& at(const char* name) const;             ///< throws Error (invalid_file) naming what there is
  /// Of safetensors, sorted by key; of shards, that of the first.
  const std::vector<std::pair<const char*, const char*>>& metadata() const noexcept;
  /// What was tolerated: unknown fields, tensors of a shard that the index does not map there, members that are no arrays.
  const std::vector<const char*>& warnings() const noexcept;

 private:
  struct Contents;
  Contents* contents_;
};

struct TensorToWrite {
  const char* name = "";
  ConstTensorView view;
};

/// Each writes beside the target and renames, so that a reader never sees half a file and an error leaves the old one.
/// Elements are written in the order of the view's axes, whatever its strides. The bytes are those of the reference
/// writers: numpy.save (a column-major view becomes a column-major array); safetensors, widest type first, then by name;
/// the members of an .npz are numpy.save's, stored without compression. Errors: Error (invalid_argument) for names that are
/// not UTF-8 or not different, and for views that are not given; Error (unsupported) for a type that the format cannot
/// name; Error (invalid_file) when the file cannot be written.
ROTARY_API void write_npy(const char* path, const ConstTensorView& view);
ROTARY_API void write_npz(const char* path, const std::vector<TensorToWrite>& tensors);  // at least one
ROTARY_API void write_safetensors(const char* path, const std::vector<TensorToWrite>& tensors,
                                  const std::vector<std::pair<const char*, const char*>>& metadata = {});
/// By the path's ending: .npy (one tensor), .npz or .safetensors.
ROTARY_API void write_tensors(const char* path, const std::vector<TensorToWrite>& tensors);

}  // namespace rotary
