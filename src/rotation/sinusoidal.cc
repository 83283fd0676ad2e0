#include "rotary/sinusoidal.hpp"

#include <algorithm>
#include <vector>

#include "base/apart.h"
#include "base/element.h"
#include "base/fail.h"
#include "base/parallel.h"
#include "rotary/frequencies.hpp"
#include "rotation/heads.h"
#include "rotation/positions.h"
#include "rotation/token_angles.h"

namespace rotary {
namespace {

constexpr std::int64_t tokens_per_task = 64;

/// One token's encoding over the whole width.
template <class T>
class Encoding {
 public:
  explicit Encoding(const TokenAngles& angles)
      : angles_(angles),
        row_(static_cast<std::size_t>(angles.rotation().head_dim())),
        cos_(static_cast<std::size_t>(angles.rotation().num_pairs())),
        sin_(cos_.size()) {}

  const std::vector<T>& at(std::int64_t batch_row, std::int64_t token) {
    angles_.read(batch_row, token, cos_.data(), sin_.data());
    const std::vector<Pair>& pairs = angles_.rotation().pairs_out();
    for (std::size_t j = 0; j < pairs.size(); ++j) {
      row_[static_cast<std::size_t>(pairs[j].first)] = sin_[j];
      row_[static_cast<std::size_t>(pairs[j].second)] = cos_[j];
    }
    return row_;
  }

 private:
  const TokenAngles& angles_;
  std::vector<T> row_;  // channels of no pair stay 0
  std::vector<T> cos_, sin_;
};

/// `add`: to what tensor.x holds, which is not read otherwise.
template <class T>
void write(const TensorToRotate& tensor, bool add, const Tokens& tokens, const TokenAngles& angles, Executor* executor) {
  const ConstTensorView& x = tensor.x;
  const TensorView& out = tensor.out;
  const char token_axis = tokens.packed ? 'T' : 'S';
  const std::int64_t blocks = (tokens.length + tokens_per_task - 1) / tokens_per_task;
  parallel_for(executor, tokens.batch * blocks, [&](std::int64_t task) {
    Encoding<T> encoding(angles);
    const std::int64_t b = task / blocks, first = task % blocks * tokens_per_task;
    for (std::int64_t s = first; s < std::min(first + tokens_per_task, tokens.length); ++s) {
      const std::vector<T>& row = encoding.at(b, s);
      for (std::int64_t h = 0; h < out.size('H'); ++h) {
        const std::int64_t from = b * x.stride('B') + s * x.stride(token_axis) + h * x.stride('H');
        const std::int64_t to = b * out.stride('B') + s * out.stride(token_axis) + h * out.stride('H');
        for (std::int64_t d = 0; d < out.size('D'); ++d) {
          T value = row[static_cast<std::size_t>(d)];
          if (add) value += static_cast<T>(load_element(x.dtype(), x.data(), from + d * x.stride('D')));
          store_element(out.dtype(), out.data(), to + d * out.stride('D'), value);
        }
      }
    }
  });
}

void write(const char* operation, const TensorToRotate& tensor, bool add, const Rotation& rotation,
           const Positions& positions, const RotateOptions& options) {
  const Tokens tokens = tokens_of(operation, tensor.out);
  for (const ConstTensorView& read : {positions.position_ids, positions.offsets, positions.cu_seqlens}) {
    check_apart(operation, "what is written", tensor.out, "the positions", read);
  }
  const TokenAngles angles(operation, rotation, positions, tokens, options);
  const bool in_double = tensor.x.dtype() == DType::f64 || tensor.out.dtype() == DType::f64;
  if (in_double) write<double>(tensor, add, tokens, angles, options.executor);
  else write<float>(tensor, add, tokens, angles, options.executor);
}

void check_width(std::int64_t width, std::int64_t least, bool may_be_odd) {
  if (width >= least && width <= max_rotary_dim && (may_be_odd || width % 2 == 0)) return;
  fail_argument("sinusoidal_rotation", "width must be ", may_be_odd ? "" : "even, ", "from ", least, " to ", max_rotary_dim,
                ", got ", width);
}

}  // namespace

const char* name(Sinusoidal sinusoidal) noexcept {
  switch (sinusoidal) {
    case Sinusoidal::interleaved: return "interleaved";
    case Sinusoidal::concatenated: return "concatenated";
    case Sinusoidal::tensor2tensor: return "tensor2tensor";
  }
  return "unknown";
}

Rotation sinusoidal_rotation(Sinusoidal sinusoidal, std::int64_t width) {
  const auto describe = [&](Pairing pairing, Frequencies frequencies) {
    return Rotation({.head_dim = width, .pairing_in = pairing, .inv_freq = std::move(frequencies.inv_freq)});
  };
  switch (sinusoidal) {
    case Sinusoidal::interleaved:
      check_width(width, 2, false);
      return describe(Pairing::interleaved, default_frequencies(10000, width));
    case Sinusoidal::concatenated:
      check_width(width, 2, false);
      return describe(Pairing::half, default_frequencies(10000, width));
    case Sinusoidal::tensor2tensor:  // RetNet took its frequencies from there
      check_width(width, 4, true);
      return describe(Pairing::half, retnet_frequencies(width - width % 2));
  }
  fail_argument("sinusoidal_rotation", "the encoding must be interleaved, concatenated or tensor2tensor, got number ",
                static_cast<int>(sinusoidal));
}

void sinusoidal(const TensorView& out, const Rotation& rotation, const Positions& positions, const RotateOptions& options) {
  write("sinusoidal", turned_in_place("sinusoidal", "out", out, rotation), false, rotation, positions, options);
}

void add_sinusoidal(const TensorView& x, const Rotation& rotation, const Positions& positions,
                    const RotateOptions& options) {
  write("add_sinusoidal", turned_in_place("add_sinusoidal", "x", x, rotation), true, rotation, positions, options);
}

void add_sinusoidal_to(const ConstTensorView& x, const TensorView& out, const Rotation& rotation,
                       const Positions& positions, const RotateOptions& options) {
  write("add_sinusoidal", turned_to("add_sinusoidal", "x", x, out, rotation), true, rotation, positions, options);
}

}  // namespace rotary
