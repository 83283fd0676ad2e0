// cos and sin for the tokens of a tensor: computed from their positions, or taken from a table.
#pragma once

#include <cstdint>
#include <optional>

#include "rotary/angles.hpp"
#include "rotary/positions.hpp"
#include "rotary/rotate.hpp"
#include "rotary/rotation.hpp"
#include "rotation/angles.h"
#include "rotation/positions.h"

namespace rotary {

class TokenAngles {
 public:
  /// Throws Error (invalid_argument), in the name of `operation`, for a bad position, one without a row in the table,
  /// and a table that was made for another rotation.
  TokenAngles(const char* operation, const Rotation& rotation, const Positions& positions, const Tokens& tokens,
              const RotateOptions& options);
  TokenAngles(const char* operation, const Rotation& rotation, const TokenPositions& positions, const Tokens& tokens,
              Precision precision);

  /// From now on: turned the other way.
  void negate() noexcept { sign_ = -sign_; }
  /// From now on: cos and sin times a factor.
  void scale(double factor) noexcept { factor_ *= factor; }

  const Rotation& rotation() const noexcept { return rotation_; }
  Precision precision() const noexcept { return precision_; }

  /// Whether a token was given the position of the one before it, and so has its cos and sin.
  bool repeats(std::int64_t row, std::int64_t token) const noexcept;

  /// Whether all do, because one position was given for all: as in a shift.
  bool are_all_equal() const noexcept { return positions_ && positions_->are_all_equal(); }

  /// cos and sin of token `token` of batch row `row`: num_pairs numbers each, amplitude, direction and factor included.
  /// T is float or double. As the precision says, or from the table; where that makes float32 numbers, and not exact, the
  /// factor rounds them once more.
  template <class T>
  void read(std::int64_t row, std::int64_t token, T* cos, T* sin) const noexcept;

  /// The row of a table that has cos and sin of a token as read() would give them, and those of the next ones in the rows after
  /// it: how many, of the `count` tokens from `first` on. None of them without a table, and where its rows are not what read()
  /// gives: of several axes, with a factor, or turned the other way.
  struct TableRows {
    const AngleTable* table = nullptr;
    std::int64_t first = 0, count = 0;
  };
  TableRows table_rows(std::int64_t row, std::int64_t first, std::int64_t count) const noexcept;

  /// How many of the `count` <= angle_run tokens from `first` on are cheaper together, where there are steps; at least one.
  std::int64_t run_length(std::int64_t row, std::int64_t first, std::int64_t count) const noexcept;
  /// For read_run(), which otherwise makes them when it first needs them.
  void make_steps(AngleSteps& steps) const noexcept { rows_.make_steps(steps); }
  /// Reads those in one go, `step` numbers apart, and returns how many: one, without steps. `steps` are of this rotation.
  std::int64_t read_run(std::int64_t row, std::int64_t first, std::int64_t count, AngleSteps& steps, float* cos, float* sin,
                        std::int64_t step) const noexcept {
    const std::int64_t length = steps.numbers != nullptr ? run_length(row, first, count) : 1;
    if (length == 1) read(row, first, cos, sin);
    else read_together(row, first, length, steps, cos, sin, step);
    return length;
  }

 private:
  void check_positions(const Tokens& tokens) const;
  void check_table_is_for_rotation(const char* operation) const;
  void check_table(const char* operation, const Positions& positions, const Tokens& tokens);
  void read_together(std::int64_t row, std::int64_t first, std::int64_t count, AngleSteps& steps, float* cos, float* sin,
                     std::int64_t step) const noexcept;
  template <class T>
  void look_up(std::int64_t row, std::int64_t token, T* cos, T* sin) const noexcept;

  const Rotation& rotation_;
  Precision precision_;
  AngleRows rows_;
  int sign_;
  double factor_ = 1;
  std::optional<TokenPositions> positions_;  // none: the table has a row per token
  const AngleTable* table_ = nullptr;
  std::int64_t table_row_stride_ = 0;  // from one batch row to the next, where the table has a row per token
};

}  // namespace rotary
