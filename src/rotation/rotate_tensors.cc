#include "rotation/rotate_tensors.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>

#include "base/element.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "kernels/angle_runs.h"
#include "kernels/float_rows.h"
#include "kernels/rotate.h"

namespace rotary {
namespace {

/// How the rows of a tensor reach the kernel.
struct Plan {
  /// As they lie in memory; otherwise gathered into a buffer of lanes, first members before second ones.
  bool direct = false;
  PairFormat format;
  Rounding rounding = Rounding::fused;
  DType table_dtype = DType::f32;  ///< what cos and sin are rounded to before use

  bool operator==(const Plan&) const = default;
};

Rounding rounding_of(Precision precision, DType dtype) {
  switch (precision) {
    case Precision::exact: return Rounding::fused;
    case Precision::ggml: return Rounding::always_fused;
    case Precision::transformers: break;
  }
  if (dtype == DType::bf16) return Rounding::separate_bf16;
  if (dtype == DType::f16) return Rounding::separate_f16;
  return Rounding::separate;
}

Plan plan_for(const TensorToRotate& tensor, const PairMap& map, Precision precision) {
  const DType x = tensor.x.dtype(), out = tensor.out.dtype();
  Plan plan;
  plan.direct = x == out && map.from == map.to && map.from != Pairing::listed && tensor.x.stride('D') == 1 &&
                tensor.out.stride('D') == 1;
  plan.format.dtype = plan.direct ? x : x == DType::f64 || out == DType::f64 ? DType::f64 : DType::f32;
  plan.format.interleaved = plan.direct && map.from == Pairing::interleaved;
  plan.format.num_pairs = static_cast<std::int64_t>(map.from_pairs.size());
  plan.rounding = rounding_of(precision, x);
  if (precision == Precision::transformers && (x == DType::f16 || x == DType::bf16)) plan.table_dtype = x;
  return plan;
}

// ---- single elements ----

const std::byte* address(const ConstTensorView& view, std::int64_t element) noexcept {
  return static_cast<const std::byte*>(view.data()) + element * (bit_size(view.dtype()) / 8);
}
std::byte* address(const TensorView& view, std::int64_t element) noexcept {
  return static_cast<std::byte*>(view.data()) + element * (bit_size(view.dtype()) / 8);
}

std::int64_t row_of(const ConstTensorView& view, std::int64_t batch_row, std::int64_t token, std::int64_t head,
                    char token_axis) noexcept {
  return batch_row * view.stride('B') + token * view.stride(token_axis) + head * view.stride('H');
}

bool in_place(const TensorToRotate& tensor) noexcept { return tensor.x.data() == tensor.out.data(); }

/// The channels begin … end-1 of one row, as they are.
void copy_channels(const TensorToRotate& tensor, std::int64_t x_row, std::int64_t out_row, std::int64_t begin,
                   std::int64_t end) {
  const std::int64_t x_step = tensor.x.stride('D'), out_step = tensor.out.stride('D');
  const DType x_dtype = tensor.x.dtype(), out_dtype = tensor.out.dtype();
  if (x_dtype != out_dtype) {
    for (std::int64_t channel = begin; channel < end; ++channel) {
      const double value = load_element(x_dtype, tensor.x.data(), x_row + channel * x_step);
      store_element(out_dtype, tensor.out.data(), out_row + channel * out_step, value);
    }
    return;
  }
  const auto size = static_cast<std::size_t>(bit_size(x_dtype) / 8);
  const auto* from = address(tensor.x, x_row + begin * x_step);
  auto* to = address(tensor.out, out_row + begin * out_step);
  if (x_step == 1 && out_step == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(end - begin) * size);
    return;
  }
  for (std::int64_t channel = begin; channel < end; ++channel) {
    std::memcpy(address(tensor.out, out_row + channel * out_step), address(tensor.x, x_row + channel * x_step), size);
  }
}

// ---- blocks of tokens ----

char token_axis(const Tokens& tokens) noexcept { return tokens.packed ? 'T' : 'S'; }

/// Some tokens of one batch row, with their cos and sin in the order of the kernel.
template <class Lane>
struct Block {
  std::int64_t batch_row;
  std::int64_t first;
  std::int64_t count;
  std::int64_t length;  ///< tokens of the whole batch row
  char token_axis;
  double* steps;  ///< of runs, made; or nullptr
  Lane* arranged;
  std::int64_t arranged_step;  ///< lane values of one token
  std::int64_t token_step;     ///< from one token's to the next one's; 0: all tokens turn alike
  Lane* gathered;              ///< room for the pairs of a row, and for the row; unless it is turned in memory
};

/// From each row of `count` tokens to the next one, if it is the same for all rows of both x and out; 0 otherwise.
std::int64_t step_through_all(const TensorToRotate& tensor, char token_axis, std::int64_t count) noexcept {
  const ConstTensorView& x = tensor.x;
  const std::int64_t token = x.stride(token_axis), head = x.stride('H'), heads = x.size('H');
  if (tensor.out.stride(token_axis) != token || tensor.out.stride('H') != head) return 0;
  if (heads == 1 || head == count * token) return token;
  return count == 1 || token == heads * head ? head : 0;
}

/// Whether memory runs through the heads of a token, not through the tokens of a head.
bool has_heads_inside(const ConstTensorView& x, char token_axis) noexcept {
  return std::abs(x.stride(token_axis)) >= std::abs(x.stride('H'));
}

// Several places at a time come faster from memory than as many lines one after the other.

/// Where memory is gone through in its own order: each line of a row from another row further on.
LinesToFetch rows_further_on(std::int64_t row_bytes, std::int64_t row_step) noexcept {
  constexpr std::int64_t least = 4 << 10, spread = 16 << 10;  // bytes: more would not stay in the nearest cache
  const std::int64_t step = std::max<std::int64_t>(std::abs(row_step), 1), lines = (row_bytes - 1) / line_bytes + 1;
  return {.first = ((least - 1) / step + 1) * row_step,
          .row_step = row_step,
          .line_step = line_bytes + spread / lines / step * row_step};
}

/// Where `rows` of them follow at `first`: lines from all over them, if there is no room between them.
LinesToFetch rows_elsewhere(std::int64_t first, std::int64_t rows, std::int64_t row_bytes, std::int64_t row_step) noexcept {
  if (row_step != row_bytes) return {.first = first, .row_step = row_step, .line_step = line_bytes};
  return {.first = first, .row_step = line_bytes, .line_step = rows * line_bytes};
}

/// Where tokens lie one after the other, or with room between them: then the same rows of the next token.
LinesToFetch heads_further_on(std::int64_t token_step, std::int64_t heads, std::int64_t row_bytes,
                              std::int64_t row_step) noexcept {
  if (heads == 1 || heads * row_step == token_step) return rows_further_on(row_bytes, token_step / heads);
  return {.first = token_step, .row_step = row_step, .line_step = line_bytes};
}

template <class Lane>
void rotate_in_memory(const TensorToRotate& tensor, const Plan& plan, const PairMap& map, const Block<Lane>& block) {
  const ConstTensorView& x = tensor.x;
  const TensorView& out = tensor.out;
  const std::int64_t heads = x.size('H');
  const std::int64_t size = bit_size(x.dtype()) / 8, row_bytes = 2 * plan.format.num_pairs * size;
  const std::int64_t slice = map.from_pairs.front().first, slice_end = slice + 2 * plan.format.num_pairs;
  const std::int64_t x_token = x.stride(block.token_axis), out_token = out.stride(block.token_axis);
  const std::int64_t x_head = x.stride('H'), out_head = out.stride('H');

  const auto turn = [&](std::int64_t first_head, RowsToRotate rows) {
    rows.format = plan.format;
    rows.rounding = plan.rounding;
    rows.x = address(x, row_of(x, block.batch_row, block.first, first_head, block.token_axis) + slice);
    rows.out = address(out, row_of(out, block.batch_row, block.first, first_head, block.token_axis) + slice);
    rows.arranged = block.arranged;
    rotate_rows(rows);
  };
  const RowSteps token{x_token, out_token, block.token_step};
  const RowSteps head = heads > 1 ? RowSteps{x_head, out_head, 0} : RowSteps{};  // of one head they may be any number
  const std::int64_t step = block.token_step == 0 ? step_through_all(tensor, block.token_axis, block.count) : 0;
  const bool is_single = block.length == 1;
  if (step > 0) {
    const LinesToFetch ahead = is_single ? LinesToFetch{} : rows_further_on(row_bytes, step * size);
    turn(0, {.num_rows = heads * block.count, .row_step = {step, step, 0}, .ahead = ahead});
  } else if (is_single) {
    turn(0, {.num_rows = heads, .row_step = head});
  } else if (block.count == 1 || has_heads_inside(x, block.token_axis)) {
    const LinesToFetch ahead = heads_further_on(x_token * size, heads, row_bytes, head.x * size);
    turn(0, {.num_rows = heads, .row_step = head, .ahead = ahead, .num_groups = block.count, .group_step = token});
  } else {
    const auto tokens_then = [&](std::int64_t next, std::int64_t num_heads) {
      const LinesToFetch ahead = rows_elsewhere(next * size, block.count, row_bytes, x_token * size);
      return RowsToRotate{
          .num_rows = block.count, .row_step = token, .ahead = ahead, .num_groups = num_heads, .group_step = head};
    };
    if (heads > 1) turn(0, tokens_then(x_head, heads - 1));
    // After the last head come the next tokens of the first.
    turn(heads - 1, tokens_then(block.count * x_token - (heads - 1) * head.x, 1));
  }

  if (in_place(tensor) || (slice == 0 && slice_end == x.size('D'))) return;
  for (std::int64_t token = block.first; token < block.first + block.count; ++token) {
    for (std::int64_t head = 0; head < heads; ++head) {
      const std::int64_t x_row = row_of(x, block.batch_row, token, head, block.token_axis);
      const std::int64_t out_row = row_of(out, block.batch_row, token, head, block.token_axis);
      copy_channels(tensor, x_row, out_row, 0, slice);
      copy_channels(tensor, x_row, out_row, slice_end, x.size('D'));
    }
  }
}

template <class Lane>
void rotate_gathered(const TensorToRotate& tensor, const Plan& plan, const PairMap& map, const Block<Lane>& block) {
  const auto num_pairs = static_cast<std::size_t>(plan.format.num_pairs);
  const std::int64_t width = tensor.x.size('D'), x_step = tensor.x.stride('D'), out_step = tensor.out.stride('D');
  // Of a slice every channel turns, and is written; of listed pairs others lie between them, which stay as they are.
  const bool is_slice = map.from != Pairing::listed && map.to != Pairing::listed;
  const std::int64_t begin = is_slice ? map.from_pairs.front().first : 0;
  const std::int64_t end = is_slice ? begin + 2 * plan.format.num_pairs : width;
  Lane* const u = block.gathered;
  Lane* const v = u + num_pairs;
  Lane* const row = v + num_pairs;
  RowsToRotate rows{.format = plan.format, .rounding = plan.rounding, .num_rows = 1, .x = u, .out = u};

  for (std::int64_t token = 0; token < block.count; ++token) {
    rows.arranged = block.arranged + token * block.token_step;
    for (std::int64_t head = 0; head < tensor.x.size('H'); ++head) {
      const std::int64_t x_row = row_of(tensor.x, block.batch_row, block.first + token, head, block.token_axis);
      const std::int64_t out_row = row_of(tensor.out, block.batch_row, block.first + token, head, block.token_axis);
      if (!in_place(tensor)) {
        copy_channels(tensor, x_row, out_row, 0, is_slice ? begin : width);
        if (is_slice) copy_channels(tensor, x_row, out_row, end, width);
      }

      const auto store = [&](const Lane* lanes, std::int64_t count, std::int64_t channel) {
        store_row(lanes, count, tensor.out.dtype(), tensor.out.data(), out_row + channel * out_step, out_step);
      };
      load_row(tensor.x.dtype(), tensor.x.data(), x_row + begin * x_step, x_step, end - begin, row);
      for (std::size_t j = 0; j < num_pairs; ++j) {
        u[j] = row[map.from_pairs[j].first - begin];
        v[j] = row[map.from_pairs[j].second - begin];
      }
      rotate_rows(rows);
      if (!is_slice) {
        for (std::size_t j = 0; j < num_pairs; ++j) {
          store(u + j, 1, map.to_pairs[j].first);
          store(v + j, 1, map.to_pairs[j].second);
        }
        continue;
      }
      for (std::size_t j = 0; j < num_pairs; ++j) {
        row[map.to_pairs[j].first - begin] = u[j];
        row[map.to_pairs[j].second - begin] = v[j];
      }
      store(row, end - begin, begin);
    }
  }
}

template <class Lane>
void round_to(DType dtype, Lane* values, std::int64_t count) noexcept {
  if (dtype == DType::bf16) std::transform(values, values + count, values, [](Lane x) { return to_float(to_bfloat16(x)); });
  if (dtype == DType::f16) std::transform(values, values + count, values, [](Lane x) { return to_float(to_float16(x)); });
}

/// Tokens per block: their cos and sin stay in the first-level cache, beside the rows of a head that they turn one after the
/// other. Tokens that turn alike need not: a block is what one thread takes at once.
std::int64_t block_length(const ConstTensorView& x, std::int64_t arranged_bytes, bool are_alike, const Tokens& tokens) {
  if (tokens.length <= 1) return 1;
  const std::int64_t row_bytes = x.size('D') * (bit_size(x.dtype()) / 8);
  if (are_alike) return std::clamp<std::int64_t>((64 << 10) / row_bytes, 1, tokens.length);
  std::int64_t most = (16 << 10) / arranged_bytes;
  if (!has_heads_inside(x, token_axis(tokens))) most = std::min(most, (8 << 10) / row_bytes);
  return std::clamp<std::int64_t>(most, 1, tokens.length);
}

/// What all tasks make runs of tokens from, if there are enough tokens and the first ones stand in a run.
std::unique_ptr<double[]> steps_for(const Tokens& tokens, const TokenAngles& angles) {
  if (tokens.length < fewest_tokens_for_runs || tokens.batch == 0 || angles.run_length(0, 0, angle_run) == 1)
    return nullptr;
  const std::int64_t size = angle_steps_size(angles.rotation().num_pairs());
  auto numbers = std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(size));
  AngleSteps steps{.numbers = numbers.get()};
  angles.make_steps(steps);
  return numbers;
}

/// cos and sin of some of the `count` tokens from `there` on, arranged at `to`. Returns of how many.
std::int64_t read_some(const TokenAngles& angles, const Plan& plan, const Block<float>& block, std::int64_t there,
                       std::int64_t count, float* to) {
  const std::int64_t half = block.arranged_step / 2;
  const TokenAngles::TableRows rows = angles.table_rows(block.batch_row, there, count);
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const AnglesToArrange row{rows.table->cos(rows.first + i), rows.table->sin(rows.first + i)};
    arrange(plan.format, row, to + i * block.arranged_step);
  }
  if (rows.count > 0) return rows.count;
  AngleSteps made{.numbers = block.steps, .are_made = true};
  const std::int64_t length =
      angles.read_run(block.batch_row, there, std::min(angle_run, count), made, to, to + half, block.arranged_step);
  arrange(plan.format, {to, to + half, length, block.arranged_step}, to);
  return length;
}

std::int64_t read_some(const TokenAngles& angles, const Plan& plan, const Block<double>& block, std::int64_t there,
                       std::int64_t, double* to) {
  const std::int64_t half = block.arranged_step / 2;
  angles.read(block.batch_row, there, to, to + half);
  arrange(plan.format, {to, to + half}, to);
  return 1;
}

/// cos and sin of the tokens of a block.
template <class Lane>
void read_arranged(const TokenAngles& angles, const Plan& plan, const Block<Lane>& block) {
  const std::int64_t count = block.token_step == 0 ? 1 : block.count;
  for (std::int64_t token = 0; token < count;) {
    const std::int64_t there = block.first + token;
    Lane* const to = block.arranged + token * block.arranged_step;
    if (token > 0 && angles.repeats(block.batch_row, there)) {  // as in a shift
      std::copy_n(to - block.arranged_step, block.arranged_step, to);
      ++token;
      continue;
    }
    const std::int64_t length = read_some(angles, plan, block, there, count - token, to);
    round_to(plan.table_dtype, to, length * block.arranged_step);
    token += length;
  }
}

/// Tensors of one plan.
template <class Lane>
void rotate_alike(std::span<const TensorToRotate> tensors, const Plan& plan, const Tokens& tokens, const PairMap& map,
                  const TokenAngles& angles, Executor* executor) {
  const std::int64_t num_pairs = plan.format.num_pairs;
  const std::int64_t arranged_step = arranged_size(plan.format);
  const bool are_alike = angles.are_all_equal();
  const std::int64_t most =
      block_length(tensors[0].x, arranged_step * static_cast<std::int64_t>(sizeof(Lane)), are_alike, tokens);
  const std::int64_t rows_of_angles = are_alike ? 1 : most, token_step = are_alike ? 0 : arranged_step;
  const std::int64_t blocks = most == 1 ? tokens.length : (tokens.length + most - 1) / most;
  const std::unique_ptr<double[]> steps = std::is_same_v<Lane, float> ? steps_for(tokens, angles) : nullptr;

  parallel_for(executor, tokens.batch * blocks, [&](std::int64_t task) {
    const std::int64_t gathered_size = plan.direct ? 0 : 2 * num_pairs + tensors[0].x.size('D');
    Scratch scratch;
    Lane* const arranged = scratch.take<Lane>(rows_of_angles * arranged_step);
    Lane* const gathered = scratch.take<Lane>(gathered_size);

    const std::int64_t row = tokens.batch == 1 ? 0 : task / blocks;
    const std::int64_t first = (task - row * blocks) * most;
    const std::int64_t length = std::min(most, tokens.length - first);
    const Block<Lane> block{row,         first,    length,        tokens.length, token_axis(tokens),
                            steps.get(), arranged, arranged_step, token_step,    gathered};
    read_arranged(angles, plan, block);
    for (const TensorToRotate& tensor : tensors) {
      if (tensor.x.size('H') == 0) continue;  // it may have no memory: there is no address to count from
      if (plan.direct) rotate_in_memory(tensor, plan, map, block);
      else rotate_gathered(tensor, plan, map, block);
    }
  });
}

void rotate_alike(std::span<const TensorToRotate> tensors, const Plan& plan, const Tokens& tokens, const PairMap& map,
                  const TokenAngles& angles, Executor* executor) {
  if (plan.format.dtype == DType::f64) rotate_alike<double>(tensors, plan, tokens, map, angles, executor);
  else rotate_alike<float>(tensors, plan, tokens, map, angles, executor);
}

}  // namespace

void rotate_tensors(std::span<const TensorToRotate> tensors, const Tokens& tokens, const PairMap& map,
                    const TokenAngles& angles, Executor* executor) {
  for (std::size_t begin = 0, end = 0; begin < tensors.size(); begin = end) {
    const Plan plan = plan_for(tensors[begin], map, angles.precision());
    for (end = begin + 1; end < tensors.size(); ++end) {
      if (!(plan_for(tensors[end], map, angles.precision()) == plan)) break;
    }
    rotate_alike(tensors.subspan(begin, end - begin), plan, tokens, map, angles, executor);
  }
}

}  // namespace rotary
