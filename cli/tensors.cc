#include "tensors.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <thread>

#include "base/checked.h"
#include "command.h"
#include "output.h"
#include "rotary/error.hpp"

namespace rotary::cli {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t length : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(length);
  return text + "]";
}

/// The axes that position ids of this rank have beside a tensor with tokens: "S", "BS", "ABS"; "T", "AT".
Axes axes_of_ids(const StoredTensor& ids, const ConstTensorView& x, const std::string& where) {
  const bool packed = x.has('T');
  switch (ids.shape.size()) {
    case 1: return packed ? "T" : "S";
    case 2: return packed ? "AT" : x.has('B') ? "BS" : "AS";
    case 3:
      if (!packed && x.has('B')) return "ABS";
      [[fallthrough]];
    default:
      throw Error(
          ErrorCode::invalid_argument,
          ("position ids (" + where + ") must have a number per token, got the shape " + shape_text(ids.shape)).c_str());
  }
}

}  // namespace

ConstTensorView view_of(const TensorFile& file, const std::string& path, const std::string& name, const Axes& axes) {
  const StoredTensor* tensor = file.find(name.c_str());
  if (tensor == nullptr) {
    std::string names;
    for (const StoredTensor& known : file.tensors()) names += (names.empty() ? "" : ", ") + std::string(known.name);
    throw Error(ErrorCode::invalid_argument, (path + ": holds no tensor " + name + ", but " + names).c_str());
  }
  if (static_cast<int>(tensor->shape.size()) != axes.rank()) {
    throw Error(ErrorCode::invalid_argument,
                (path + ": " + tensor_name(name) + " has the shape " + shape_text(tensor->shape) +
                 ", which does not fit the axes " + axes.c_str() + ": name its axes with --axes")
                    .c_str());
  }
  return tensor->view(axes);
}

const StoredTensor& stored_in(const TensorFile& file, const std::string& name, std::optional<TensorFile>& other) {
  if (const StoredTensor* tensor = file.find(name.c_str())) return *tensor;
  other.emplace(name.c_str());
  if (other->tensors().size() != 1) {
    throw Error(ErrorCode::invalid_file, (name + ": must hold one tensor, to be taken by its path").c_str());
  }
  return other->tensors().front();
}

ConstTensorView view_as(const StoredTensor& tensor, const std::string& name, const Axes& axes) {
  if (static_cast<int>(tensor.shape.size()) == axes.rank()) return tensor.view(axes);
  throw Error(ErrorCode::invalid_argument,
              (name + ": must have the axes " + axes.c_str() + ", got the shape " + shape_text(tensor.shape)).c_str());
}

ConstTensorView view_per_token(const StoredTensor& tensor, const std::string& name, const ConstTensorView& x) {
  return view_as(tensor, name, x.has('T') ? "T" : tensor.shape.size() == 1 ? "S" : "BS");
}

bool is_token(const ConstTensorView& mask, std::int64_t b, std::int64_t s) {
  if (!mask) return true;
  return static_cast<const bool*>(
      mask.data())[(mask.size('B') > 1 ? b * mask.stride('B') : 0) + s * mask.stride(mask.has('T') ? 'T' : 'S')];
}

std::string tensor_name(const std::string& name) { return name.empty() ? "the tensor" : name; }

OwnTensor::OwnTensor(const Axes& axes, const Dims& shape, DType dtype) : axes_(axes), shape_(shape), dtype_(dtype) {
  const auto count = checked_product(shape);
  const auto num_bytes = count ? checked_mul(*count, bit_size(dtype) / 8) : count;
  if (!num_bytes) throw std::bad_alloc();  // an axis without elements lets a file state lengths of any size
  bytes_.resize(static_cast<std::size_t>(*num_bytes));
}

OwnTensor OwnTensor::copy_of(const ConstTensorView& x) {
  OwnTensor copy(x.axes(), x.shape(), x.dtype());
  const auto size = static_cast<std::size_t>(bit_size(x.dtype()) / 8);
  const auto* from = static_cast<const std::byte*>(x.data());
  std::vector<std::int64_t> index(static_cast<std::size_t>(x.rank()), 0);
  for (std::size_t at = 0; at < copy.bytes_.size(); at += size) {
    std::int64_t element = 0;
    for (int axis = 0; axis < x.rank(); ++axis) element += index[static_cast<std::size_t>(axis)] * x.strides()[axis];
    std::memcpy(copy.bytes_.data() + at, from + element * static_cast<std::int64_t>(size), size);
    for (int axis = x.rank() - 1; axis >= 0 && ++index[static_cast<std::size_t>(axis)] == x.shape()[axis]; --axis) {
      index[static_cast<std::size_t>(axis)] = 0;
    }
  }
  return copy;
}

void PositionOptions::add_to(CLI::App& app, const std::string& prefix, const std::string& token) {
  auto* counted = app.add_option("--" + prefix + "offset", offset, "The position of the first " + token);
  app.add_option("--" + prefix + "position-ids", position_ids, "Tensor of FILE, or a file, with a position per " + token)
      ->excludes(counted);
}

void PositionOptions::add_cu_seqlens_to(CLI::App& app) {
  app.add_option("--cu-seqlens", cu_seqlens,
                 "Of packed tokens (axis T): tensor of FILE, or a file, with where sequences end: 0, 5, 9, …")
      ->excludes(app.get_option("--position-ids"));
}

ChosenPositions::ChosenPositions(const TensorFile& file, const PositionOptions& options, const ConstTensorView& x,
                                 const std::string& name_in_file) {
  const std::string where = choose(file, options, x, name_in_file);
  const PositionRange range = position_range(x, positions_);
  length_ = range.length();
  const bool empty = range.highest < range.lowest;
  description_ = where + (empty ? ", no token" : ", " + number(range.lowest, 17) + " to " + number(range.highest, 17));
}

std::string ChosenPositions::choose(const TensorFile& file, const PositionOptions& options, const ConstTensorView& x,
                                    const std::string& name_in_file) {
  const auto take = [&](const StoredTensor& ids, const std::string& where) {
    positions_.position_ids = ids.view(axes_of_ids(ids, x, where));
    return where;
  };
  if (!options.position_ids.empty()) {
    const StoredTensor& ids = stored_in(file, options.position_ids, own_file_);
    return take(ids, own_file_ ? options.position_ids : options.position_ids + " in the file");
  }
  if (!options.cu_seqlens.empty()) {
    const StoredTensor& cu_seqlens = stored_in(file, options.cu_seqlens, own_file_);
    if (cu_seqlens.shape.size() != 1) {
      throw Error(
          ErrorCode::invalid_argument,
          (options.cu_seqlens + ": --cu-seqlens must be a list, got the shape " + shape_text(cu_seqlens.shape)).c_str());
    }
    positions_ = {.offset = options.offset.value_or(0), .cu_seqlens = cu_seqlens.view("N")};
    return "counted in every sequence of " + options.cu_seqlens;
  }
  if (const StoredTensor* ids = file.find(name_in_file.c_str()); ids != nullptr && !options.offset) {
    return take(*ids, name_in_file + " in the file");
  }
  positions_.offset = options.offset.value_or(0);
  return "counted";
}

CLI::Option* add_causal(CLI::App& app, Causal& causal, const std::string& help) {
  return add_choice<Causal>(
      app, "--causal", causal,
      {{"none", Causal::none}, {"top_left", Causal::top_left}, {"bottom_right", Causal::bottom_right}}, help);
}

void add_axes(CLI::App& app, Axes& axes) {
  const auto take = [&axes](const std::string& letters) {
    axes = Axes(letters.c_str());
    const bool known = letters.find_first_not_of("BSTHD") == letters.npos;
    if (!known || axes.find('D') < 0 || (axes.find('S') < 0) == (axes.find('T') < 0)) {
      throw Error(
          ErrorCode::invalid_argument,
          ("--axes must name D and one of S and T, beside them B and H where there are several, got " + letters).c_str());
    }
  };
  app.add_option_function<std::string>("--axes", take,
                                       "Axes of the tensors: B batch, S or T tokens, H heads, D channels (default: BHSD)");
}

void ThreadOptions::add_to(CLI::App& app) {
  app.add_option("--threads", count, "Threads (default: one per core)")->check(at_least(1));
}

ThreadPool ThreadOptions::pool() const {
  return ThreadPool(count > 0 ? count : std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
}

}  // namespace rotary::cli
