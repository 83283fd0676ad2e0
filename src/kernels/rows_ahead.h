// Rows that will be needed next: fetched into the second cache while something else is computed, a line at a time.
#pragma once

#include <cassert>
#include <cstdint>

namespace rotary {

struct RowsAhead {
  std::uintptr_t first = 0;  ///< an address, not a pointer: rows may lie where no pointer may point
  std::int64_t rows = 0, row_bytes = 0, step_bytes = 0;
};

/// Some of them, spread evenly over the steps of a loop.
class LinesAhead {
 public:
  /// At most `most_rows` times; rows without bytes are left out.
  void add(const RowsAhead& rows) noexcept {
    if (rows.rows <= 0 || rows.row_bytes <= 0) return;
    assert(count_ < most_rows);
    rows_[count_++] = rows;
    num_lines_ += rows.rows * ((rows.row_bytes + line_bytes - 1) / line_bytes);
  }

  /// From now on fetch() is called so many times.
  void spread_over(std::int64_t steps) noexcept {
    lines_per_step_ = steps > 0 ? (num_lines_ + steps - 1) / steps : 0;
    begin_row();
  }

  void fetch() noexcept {
    for (std::int64_t n = lines_per_step_; n > 0 && at_ != count_; --n) {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): see RowsAhead
      __builtin_prefetch(reinterpret_cast<const void*>(line_), 0, 2);
      line_ += line_bytes;
      if (line_ >= row_end_) next_row();
    }
  }

 private:
  static constexpr int most_rows = 4;
  static constexpr std::int64_t line_bytes = 64;

  void begin_row() noexcept {
    if (at_ == count_) return;
    line_ = rows_[at_].first + static_cast<std::uintptr_t>(row_ * rows_[at_].step_bytes);
    row_end_ = line_ + static_cast<std::uintptr_t>(rows_[at_].row_bytes);
  }
  void next_row() noexcept {
    if (++row_ == rows_[at_].rows) {
      row_ = 0;
      ++at_;
    }
    begin_row();
  }

  RowsAhead rows_[most_rows];
  int count_ = 0, at_ = 0;
  std::int64_t num_lines_ = 0, lines_per_step_ = 0, row_ = 0;
  std::uintptr_t line_ = 0, row_end_ = 0;
};

}  // namespace rotary
