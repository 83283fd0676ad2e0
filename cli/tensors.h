// Tensors of files, their axes and their positions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "rotary/attention.hpp"
#include "rotary/parallel.hpp"
#include "rotary/positions.hpp"
#include "rotary/tensor_file.hpp"

namespace rotary::cli {

/// A tensor of a file under this name with its axes; Error (invalid_argument) where it is not there, or has another rank:
/// names and axes were said on the command line.
ConstTensorView view_of(const TensorFile& file, const std::string& path, const std::string& name, const Axes& axes);

/// `name` of `file`, or the only tensor of another file with that path, which `other` then holds.
const StoredTensor& stored_in(const TensorFile& file, const std::string& name, std::optional<TensorFile>& other);

/// Error (invalid_argument) where it has another rank: `name` is what the command line calls it.
ConstTensorView view_as(const StoredTensor& tensor, const std::string& name, const Axes& axes);

/// --padding, --document-ids: an entry per token of `x`, of every batch row or of all rows alike.
ConstTensorView view_per_token(const StoredTensor& tensor, const std::string& name, const ConstTensorView& x);

/// What such a view says of token `s` of batch row `b`; one that is not given: true.
bool is_token(const ConstTensorView& mask, std::int64_t b, std::int64_t s);

/// "the tensor" for the one without a name in a .npy file.
std::string tensor_name(const std::string& name);

/// A tensor in memory of its own, row-major.
class OwnTensor {
 public:
  OwnTensor(const Axes& axes, const Dims& shape, DType dtype);
  static OwnTensor copy_of(const ConstTensorView& x);

  TensorView view() { return {bytes_.data(), dtype_, axes_, shape_}; }

 private:
  Axes axes_;
  Dims shape_;
  DType dtype_;
  std::vector<std::byte> bytes_;
};

struct PositionOptions {
  std::optional<std::int64_t> offset;
  std::string position_ids;  ///< the name of a tensor in the file, or a file with one tensor
  std::string cu_seqlens;    ///< the same

  bool given() const { return offset || !position_ids.empty(); }
  /// --offset and --position-ids of a `token`; --q-offset and --q-position-ids where `prefix` is "q-".
  void add_to(CLI::App& app, const std::string& prefix = "", const std::string& token = "token");
  void add_cu_seqlens_to(CLI::App& app);  ///< after add_to
};

/// Where tokens stand: --offset, --position-ids or --cu-seqlens; else `position_ids` of the file, where it is there; else
/// 0, 1, 2, …
class ChosenPositions {
 public:
  /// `x`: a tensor whose tokens are meant. `name_in_file`: what position_ids are called there.
  ChosenPositions(const TensorFile& file, const PositionOptions& options, const ConstTensorView& x,
                  const std::string& name_in_file = "position_ids");

  const Positions& positions() const { return positions_; }
  std::int64_t length() const { return length_; }  ///< PositionRange::length
  const std::string& description() const { return description_; }

 private:
  /// What the options choose, and the words for it.
  std::string choose(const TensorFile& file, const PositionOptions& options, const ConstTensorView& x,
                     const std::string& name_in_file);

  std::optional<TensorFile> own_file_;
  Positions positions_;
  std::int64_t length_ = 0;
  std::string description_;
};

CLI::Option* add_causal(CLI::App& app, Causal& causal, const std::string& help);
/// --axes: one letter per axis, tokens and channels among them.
void add_axes(CLI::App& app, Axes& axes);

/// --threads: by default as many as the machine has cores.
struct ThreadOptions {
  int count = 0;

  void add_to(CLI::App& app);
  ThreadPool pool() const;
};

}  // namespace rotary::cli
