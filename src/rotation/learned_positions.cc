#include "rotary/learned_positions.hpp"

#include <cmath>

#include "base/apart.h"
#include "base/element.h"
#include "base/fail.h"
#include "base/float_view.h"
#include "base/parallel.h"
#include "rotation/positions.h"

namespace rotary {
namespace {

void check_tensors(const char* operation, const TensorView& out, const ConstTensorView& table, const Positions& positions) {
  check_float_view(operation, "what is written", out, "D", "BSTD");
  check_float_view(operation, "table", table, "ND", "ND");
  if (out.size('D') != table.size('D')) {
    fail_argument(operation, "what is written must be as wide as the table along D, got ", out.size('D'), " for ",
                  table.size('D'));
  }
  if (overlaps_itself(out)) fail_argument(operation, "the elements that are written must not overlap each other");
  check_apart(operation, "what is written", out, "the table", table);
  for (const ConstTensorView& read : {positions.position_ids, positions.offsets, positions.cu_seqlens}) {
    check_apart(operation, "what is written", out, "the positions", read);
  }
}

double position_at(const TokenPositions& positions, std::int64_t row, std::int64_t token) noexcept {
  double position = 0;
  positions.read(row, token, &position);
  return position;
}

void check_rows(const char* operation, const TokenPositions& positions, const Tokens& tokens, std::int64_t num_rows) {
  for (std::int64_t b = 0; b < tokens.batch; ++b) {
    for (std::int64_t s = 0; s < tokens.length; ++s) {
      const double position = position_at(positions, b, s);
      if (position != std::nearbyint(position)) {
        fail_argument(operation, "positions must be whole numbers, to find a row of the table, got ", position);
      }
      if (position < 0 || position >= static_cast<double>(num_rows)) {
        fail_argument(operation, "the table must have a row for every position, got ", num_rows, " rows and position ",
                      position, " for token ", s, " of row ", b,
                      ": a learned absolute scheme says nothing about positions that it was not trained with");
      }
    }
  }
}

/// `add`: to what `out` holds. T: the type of the sums.
template <class T>
void write_row(const TensorView& out, std::int64_t at, bool add, const ConstTensorView& table, std::int64_t row) {
  for (std::int64_t d = 0; d < out.size('D'); ++d) {
    const std::int64_t to = at + d * out.stride('D');
    const double entry = load_element(table.dtype(), table.data(), row * table.stride('N') + d * table.stride('D'));
    auto value = static_cast<T>(entry);
    if (add) value += static_cast<T>(load_element(out.dtype(), out.data(), to));
    store_element(out.dtype(), out.data(), to, value);
  }
}

void write(const char* operation, const TensorView& out, bool add, const ConstTensorView& table, const Positions& positions,
           Executor* executor) {
  check_tensors(operation, out, table, positions);
  const Tokens tokens = tokens_of(operation, out);
  const TokenPositions token_positions(operation, positions, tokens, 1);
  check_rows(operation, token_positions, tokens, table.size('N'));
  const bool in_double = out.dtype() == DType::f64 || table.dtype() == DType::f64;
  parallel_for(executor, tokens.batch * tokens.length, [&](std::int64_t task) {
    const std::int64_t b = task / tokens.length, s = task % tokens.length;
    const std::int64_t at = b * out.stride('B') + s * out.stride(tokens.packed ? 'T' : 'S');
    const auto row = static_cast<std::int64_t>(position_at(token_positions, b, s));
    if (in_double) write_row<double>(out, at, add, table, row);
    else write_row<float>(out, at, add, table, row);
  });
}

}  // namespace

void learned_positions(const TensorView& out, const ConstTensorView& table, const Positions& positions,
                       Executor* executor) {
  write("learned_positions", out, false, table, positions, executor);
}

void add_learned_positions(const TensorView& x, const ConstTensorView& table, const Positions& positions,
                           Executor* executor) {
  write("add_learned_positions", x, true, table, positions, executor);
}

}  // namespace rotary
