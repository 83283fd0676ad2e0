#include "rotation/positions.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "base/checked.h"
#include "base/fail.h"

namespace rotary {
namespace {

constexpr std::int64_t largest = std::int64_t{1} << 53;

double number(const ConstTensorView& view, std::int64_t element) noexcept {
  if (view.dtype() == DType::f64) return static_cast<const double*>(view.data())[element];
  return static_cast<double>(whole_number(view, element));
}

bool in_range(const ConstTensorView& view, std::int64_t element) noexcept {
  if (view.dtype() == DType::f64) return std::abs(number(view, element)) <= static_cast<double>(largest);  // not NaN either
  const std::int64_t value = whole_number(view, element);
  return value >= -largest && value <= largest;
}

void check_whole_numbers(const char* operation, const char* what, const ConstTensorView& view, char axis) {
  if (view.rank() != 1 || !view.has(axis)) {
    fail_argument(operation, what, " must have the axis ", axis, " alone, got \"", view.axes().c_str(), "\"");
  }
  if (view.dtype() != DType::i32 && view.dtype() != DType::i64) {
    fail_argument(operation, what, " must be int32 or int64, got ", name(view.dtype()));
  }
}

void widen(PositionRange& range, double position) noexcept {
  const bool first = range.lowest > range.highest;
  range.lowest = first ? position : std::min(range.lowest, position);
  range.highest = first ? position : std::max(range.highest, position);
}

/// The packed sequence of a token: the last one that begins at or before it and is not empty.
std::int64_t sequence_of(const ConstTensorView& cu_seqlens, std::int64_t token) noexcept {
  std::int64_t low = 0, high = cu_seqlens.size('N') - 1;  // begins at or before the token; begins after it
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (whole_number(cu_seqlens, middle * cu_seqlens.stride('N')) <= token ? low : high) = middle;
  }
  return low;
}

}  // namespace

std::int64_t whole_number(const ConstTensorView& view, std::int64_t element) noexcept {
  if (view.dtype() == DType::i32) return static_cast<const std::int32_t*>(view.data())[element];
  return static_cast<const std::int64_t*>(view.data())[element];
}

void check_cu_seqlens(const char* operation, const char* what, const ConstTensorView& cu_seqlens, const Tokens& tokens) {
  check_whole_numbers(operation, what, cu_seqlens, 'N');
  if (!tokens.packed) fail_argument(operation, what, " needs packed tokens (axis T)");
  std::int64_t last = 0;
  for (std::int64_t n = 0; n < cu_seqlens.size('N'); ++n) {
    const std::int64_t begin = whole_number(cu_seqlens, n * cu_seqlens.stride('N'));
    if (n == 0 && begin != 0) fail_argument(operation, what, " must start at 0, got ", begin);
    if (begin < last) fail_argument(operation, what, " must never fall, got ", begin, " after ", last);
    last = begin;
  }
  if (cu_seqlens.size('N') == 0 || last != tokens.length) {
    fail_argument(operation, what, " must end at the number of packed tokens, got ", last, " for ", tokens.length);
  }
}

Tokens tokens_of(const char* operation, const ConstTensorView& x) {
  if (x.has('S') == x.has('T')) {
    fail_argument(operation, "tokens must be on one axis, S or T (packed), got \"", x.axes().c_str(), "\"");
  }
  if (x.has('T') && x.has('B')) {
    fail_argument(operation, "packed tokens (T) have no batch axis, got \"", x.axes().c_str(), "\"");
  }
  if (x.has('T')) return {1, x.size('T'), true};
  return {x.size('B'), x.size('S'), false};
}

TokenPositions::TokenPositions(const char* operation, const Positions& positions, const Tokens& tokens, int num_axes)
    : TokenPositions(num_axes) {
  if (!positions.position_ids) {
    count(operation, positions, tokens);
    return;
  }
  if (positions.offset != 0 || positions.offsets || positions.cu_seqlens) {
    fail_argument(operation, "position_ids say it all: give no offset, offsets or cu_seqlens beside them");
  }
  if (!positions.position_ids.has(tokens.packed ? 'T' : 'S')) {
    fail_argument(operation, "position_ids must have the tokens' axis ", tokens.packed ? 'T' : 'S', ", got \"",
                  positions.position_ids.axes().c_str(), "\"");
  }
  list(operation, "position_ids", positions.position_ids, tokens);
}

TokenPositions TokenPositions::listed(const char* operation, const char* what, const ConstTensorView& numbers,
                                      const Tokens& tokens, int num_axes) {
  TokenPositions positions(num_axes);
  positions.list(operation, what, numbers, tokens);
  return positions;
}

void TokenPositions::list(const char* operation, const char* what, const ConstTensorView& numbers, const Tokens& tokens) {
  if (numbers.dtype() != DType::i32 && numbers.dtype() != DType::i64 && numbers.dtype() != DType::f64) {
    fail_argument(operation, what, " must be int32, int64 or float64, got ", name(numbers.dtype()));
  }
  token_axis_ = tokens.packed ? 'T' : 'S';
  for (int i = 0; i < numbers.rank(); ++i) {
    const char axis = numbers.axes()[i];
    const std::int64_t length = numbers.shape()[i];
    if (axis == token_axis_) {
      if (length != tokens.length) {
        fail_argument(operation, what, " must have one entry per token, got ", length, " for ", tokens.length, " tokens");
      }
    } else if (axis == 'B' && !tokens.packed) {
      if (length != tokens.batch && length != 1) {
        fail_argument(operation, what, " must have one row, or one per batch row, got ", length, " for ", tokens.batch);
      }
    } else if (axis == 'A') {
      if (length != num_axes_) {
        fail_argument(operation, what, " must have one entry per axis of the rotation, got ", length, " for ", num_axes_);
      }
    } else {
      fail_argument(operation, what, " must have axes among A, ", tokens.packed ? "" : "B, ", token_axis_, ", got \"",
                    numbers.axes().c_str(), "\"");
    }
  }
  for (std::int64_t a = 0; a < numbers.size('A'); ++a) {
    for (std::int64_t b = 0; b < numbers.size('B'); ++b) {
      for (std::int64_t s = 0; s < numbers.size(token_axis_); ++s) {
        const std::int64_t element = a * numbers.stride('A') + b * numbers.stride('B') + s * numbers.stride(token_axis_);
        if (in_range(numbers, element)) continue;
        if (numbers.dtype() == DType::f64) {
          fail_argument(operation, what, " must be finite and at most 2^53 in size, got ", number(numbers, element),
                        " for token ", s, " of row ", b);
        }
        fail_argument(operation, what, " must be at most 2^53 in size, got ", whole_number(numbers, element), " for token ",
                      s, " of row ", b);
      }
    }
  }
  listed_ = numbers;
}

void TokenPositions::count(const char* operation, const Positions& positions, const Tokens& tokens) {
  offset_ = positions.offset;
  if (positions.cu_seqlens) {
    check_cu_seqlens(operation, "cu_seqlens", positions.cu_seqlens, tokens);
    cu_seqlens_ = positions.cu_seqlens;
  } else if (tokens.packed) {
    fail_argument(operation, "packed tokens (T) need position_ids or cu_seqlens: counting through would join sequences");
  }
  if (!positions.offsets) return check_counted(operation, 0, tokens.length);

  const char axis = tokens.packed ? 'N' : 'B';
  const std::int64_t needed = tokens.packed ? cu_seqlens_->size('N') - 1 : tokens.batch;
  check_whole_numbers(operation, "offsets", positions.offsets, axis);
  if (positions.offsets.size(axis) != needed) {
    fail_argument(operation, "offsets must have one entry per ", tokens.packed ? "sequence" : "batch row", ", got ",
                  positions.offsets.size(axis), " for ", needed);
  }
  offsets_ = positions.offsets;
  for (std::int64_t n = 0; n < needed; ++n) {
    check_counted(operation, whole_number(*offsets_, n * offsets_->stride(axis)), tokens.length);
  }
}

void TokenPositions::check_counted(const char* operation, std::int64_t start, std::int64_t length) const {
  const auto first = checked_add(offset_, start);
  const auto end = first ? checked_add(*first, length) : first;
  if (!end || *first < -largest || *first > largest || *end > largest) {
    fail_argument(operation, "positions must be at most 2^53 in size, got offset ", offset_, " and start ", start, " for ",
                  length, " tokens");
  }
}

PositionRange TokenPositions::range(const Tokens& tokens) const noexcept {
  if (listed_) return listed_range();
  PositionRange range;
  const char starts = cu_seqlens_ ? 'N' : 'B';
  const std::int64_t num_starts = cu_seqlens_ ? cu_seqlens_->size('N') - 1 : offsets_ ? offsets_->size('B') : 1;
  for (std::int64_t n = 0; n < num_starts; ++n) {
    std::int64_t length = tokens.length;
    if (cu_seqlens_) {
      const std::int64_t stride = cu_seqlens_->stride('N');
      length = whole_number(*cu_seqlens_, (n + 1) * stride) - whole_number(*cu_seqlens_, n * stride);
    }
    if (length == 0) continue;
    const std::int64_t first = offset_ + (offsets_ ? whole_number(*offsets_, n * offsets_->stride(starts)) : 0);
    widen(range, static_cast<double>(first));
    widen(range, static_cast<double>(first + length - 1));
  }
  return range;
}

PositionRange TokenPositions::listed_range() const noexcept {
  PositionRange range;
  for (std::int64_t a = 0; a < listed_->size('A'); ++a) {
    for (std::int64_t b = 0; b < listed_->size('B'); ++b) {
      for (std::int64_t s = 0; s < listed_->size(token_axis_); ++s) {
        const std::int64_t element = a * listed_->stride('A') + b * listed_->stride('B') + s * listed_->stride(token_axis_);
        widen(range, number(*listed_, element));
      }
    }
  }
  return range;
}

PositionRange position_range(const ConstTensorView& x, const Positions& positions) {
  constexpr const char* operation = "positions";
  const Tokens tokens = tokens_of(operation, x);
  const auto num_axes = static_cast<int>(std::min<std::int64_t>(positions.position_ids.size('A'), max_position_axes));
  return TokenPositions(operation, positions, tokens, num_axes).range(tokens);
}

std::int64_t TokenPositions::count_on(std::int64_t row, std::int64_t token, std::int64_t count) const noexcept {
  if (listed_) {
    if (num_axes_ != 1) return 1;
    double first, next;
    read(row, token, &first);
    if (first != std::floor(first)) return 1;
    std::int64_t length = 1;
    for (; length < count; ++length) {
      read(row, token + length, &next);
      if (next != first + static_cast<double>(length)) break;
    }
    return length;
  }
  if (!cu_seqlens_) return count;
  return std::min(count,
                  whole_number(*cu_seqlens_, (sequence_of(*cu_seqlens_, token) + 1) * cu_seqlens_->stride('N')) - token);
}

void TokenPositions::read(std::int64_t row, std::int64_t token, double* position) const noexcept {
  if (listed_) {
    const std::int64_t element =
        row * (listed_->size('B') > 1 ? listed_->stride('B') : 0) + token * listed_->stride(token_axis_);
    for (int a = 0; a < num_axes_; ++a) position[a] = number(*listed_, element + a * listed_->stride('A'));
    return;
  }
  std::int64_t counted = offset_ + token;
  std::int64_t start = row;
  if (cu_seqlens_) {
    start = sequence_of(*cu_seqlens_, token);
    counted -= whole_number(*cu_seqlens_, start * cu_seqlens_->stride('N'));
  }
  if (offsets_) counted += whole_number(*offsets_, start * offsets_->stride(cu_seqlens_ ? 'N' : 'B'));
  for (int a = 0; a < num_axes_; ++a) position[a] = static_cast<double>(counted);
}

}  // namespace rotary
