// What operations on q, k, v and out ask of their tensors, in the name of the operation.
#pragma once

#include <cstdint>

#include "base/fail.h"
#include "base/float_view.h"
#include "rotary/positions.hpp"
#include "rotary/tensor.hpp"

namespace rotary {

constexpr std::int64_t max_width = 1 << 16;  // keeps every size of a workspace representable

struct TensorChecks {
  const char* operation;

  void given(const ConstTensorView& view, const char* what) const { check_real_floats(operation, what, view); }

  /// Every axis of the view must be among `letters`.
  void axes(const ConstTensorView& view, const char* what, const char* letters) const {
    for (int i = 0; i < view.rank(); ++i) {
      const char* letter = letters;  // few: looked through faster than a library is called
      while (*letter != '\0' && *letter != view.axes()[i]) ++letter;
      if (*letter != '\0') continue;
      fail_argument(operation, what, " must have axes among ", letters, ", got \"", view.axes().c_str(), "\"");
    }
  }

  void has(char axis, const ConstTensorView& view, const char* what) const {
    if (!view.has(axis)) lacks(axis, view, what);
  }
  [[noreturn]] void lacks(char axis, const ConstTensorView& view, const char* what) const {
    fail_argument(operation, what, " must have the axis ", axis, ", got \"", view.axes().c_str(), "\"");
  }

  /// Rows along D, of tokens and maybe heads, and of batch rows where tokens are not packed.
  void axes_of_rows(const ConstTensorView& view, const char* what, char token_axis) const {
    const bool is_packed = token_axis == 'T';
    const bool has_tokens = is_packed ? view.has('T') : view.has('S');
    const int known = (view.has('B') && !is_packed) + has_tokens + view.has('H') + view.has('D');
    if (known < view.rank()) axes(view, what, is_packed ? "THD" : "BSHD");
    if (!has_tokens) lacks(token_axis, view, what);
    has('D', view, what);
  }

  void width(const ConstTensorView& view, const char* what) const {
    if (view.size('D') >= 1 && view.size('D') <= max_width) return;
    fail_argument(operation, "the width of ", what, " must be 1 to ", max_width, ", got ", view.size('D'));
  }

  void size(char axis, const ConstTensorView& view, const char* what, std::int64_t expected, const char* whose) const {
    if (view.size(axis) == expected) return;
    fail_argument(operation, what, " must be as long as ", whose, " along ", axis, ", got ", view.size(axis), " and ",
                  expected);
  }

  /// Given, with the tokens and heads of one tensor and the width of another.
  void shape(const ConstTensorView& view, const char* what, const ConstTensorView& tokens, const char* whose_tokens,
             const ConstTensorView& widths, const char* whose_width) const {
    const char token_axis = tokens.has('T') ? 'T' : 'S';
    given(view, what);
    axes_of_rows(view, what, token_axis);
    for (const char axis : {'B', token_axis, 'H'}) size(axis, view, what, tokens.size(axis), whose_tokens);
    size('D', view, what, widths.size('D'), whose_width);
  }

  /// An entry per token of every batch row, or of all rows alike.
  void per_token(const ConstTensorView& view, const char* what, char token_axis, std::int64_t num_tokens, const char* token,
                 std::int64_t batch) const {
    axes(view, what, token_axis == 'T' ? "T" : "BS");
    has(token_axis, view, what);
    if (view.size(token_axis) != num_tokens) {
      fail_argument(operation, what, " must have an entry per ", token, ", got ", view.size(token_axis), " for ",
                    num_tokens);
    }
    if (view.size('B') != 1) size('B', view, what, batch, "q");
  }

  /// How many query heads share a KV head.
  std::int64_t heads(std::int64_t num_q_heads, std::int64_t num_kv_heads) const {
    const std::int64_t per_kv_head = num_kv_heads == 0 ? 0 : num_q_heads / num_kv_heads;
    if (per_kv_head * num_kv_heads == num_q_heads) return per_kv_head;
    fail_argument(operation, "the number of query heads must be a multiple of the number of KV heads, got ", num_q_heads,
                  " and ", num_kv_heads);
  }
};

/// Whether anything but the default is said.
inline bool says_something(const Positions& positions) noexcept {
  return positions.offset != 0 || positions.offsets || positions.position_ids || positions.cu_seqlens;
}

}  // namespace rotary
