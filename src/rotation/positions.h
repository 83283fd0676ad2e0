// From the ways of saying where tokens stand to one question: the position of token s of batch row b.
#pragma once

#include <cstdint>
#include <optional>

#include "rotary/positions.hpp"
#include "rotary/rotation.hpp"
#include "rotary/tensor.hpp"

namespace rotary {

/// The tokens of a tensor: `batch` rows of `length`, or `length` packed ones.
struct Tokens {
  std::int64_t batch = 1;
  std::int64_t length = 0;
  bool packed = false;

  bool operator==(const Tokens&) const = default;
};

/// From the axes B and S, or T. Throws Error unless there is exactly one of S and T, and no B beside T.
Tokens tokens_of(const char* operation, const ConstTensorView& x);

/// One element of an i32 or i64 view.
std::int64_t whole_number(const ConstTensorView& view, std::int64_t element) noexcept;

/// Throws Error (invalid_argument) unless `cu_seqlens`, which is called `what`, is i32 or i64 with the axis N, begins at 0,
/// never falls, and ends at the number of packed tokens.
void check_cu_seqlens(const char* operation, const char* what, const ConstTensorView& cu_seqlens, const Tokens& tokens);

/// Positions as given; but those of packed tokens count within each sequence, where nothing else is said. Refers to what it is
/// given.
class PositionsWithin {
 public:
  /// `cu_seqlens`: not given, where tokens are not packed.
  PositionsWithin(const ConstTensorView& cu_seqlens, const Positions& given) : given_(given) {
    if (!cu_seqlens || given.position_ids || given.cu_seqlens) return;
    counted_ = given;
    counted_->cu_seqlens = cu_seqlens;
  }

  const Positions& positions() const noexcept { return counted_ ? *counted_ : given_; }

 private:
  const Positions& given_;
  std::optional<Positions> counted_;
};

/// Checked positions. Reads the caller's views: they must outlive it.
class TokenPositions {
 public:
  /// Throws Error (invalid_argument), in the name of `operation`, unless every token gets a position of at most 2^53 in
  /// size.
  TokenPositions(const char* operation, const Positions& positions, const Tokens& tokens, int num_axes);
  /// A number per token, any of the axes A, B, S and T left out: it then serves all of them. For distances.
  static TokenPositions listed(const char* operation, const char* what, const ConstTensorView& numbers,
                               const Tokens& tokens, int num_axes);

  /// `position` receives num_axes numbers.
  void read(std::int64_t row, std::int64_t token, double* position) const noexcept;
  /// How many tokens, from `token` on and `count` at most, stand at whole positions, one after the other.
  std::int64_t count_on(std::int64_t row, std::int64_t token, std::int64_t count) const noexcept;
  /// Whether they are one after the other within each batch row and sequence, not given one by one.
  bool is_counted() const noexcept { return !listed_; }
  /// Whether one number was given for all tokens.
  bool are_all_equal() const noexcept { return listed_ && !listed_->has('B') && !listed_->has(token_axis_); }
  /// Over all of `tokens`, those of the constructor.
  PositionRange range(const Tokens& tokens) const noexcept;

 private:
  TokenPositions(int num_axes) noexcept : num_axes_(num_axes) {}
  void list(const char* operation, const char* what, const ConstTensorView& numbers, const Tokens& tokens);
  void count(const char* operation, const Positions& positions, const Tokens& tokens);
  PositionRange listed_range() const noexcept;
  void check_counted(const char* operation, std::int64_t start, std::int64_t length) const;

  int num_axes_;
  std::optional<ConstTensorView> listed_;      // none: counted
  char token_axis_ = 'S';                      // of listed_
  std::int64_t offset_ = 0;                    // counted:
  std::optional<ConstTensorView> offsets_;     //   per batch row, or per sequence
  std::optional<ConstTensorView> cu_seqlens_;  //   where sequences begin
};

}  // namespace rotary
