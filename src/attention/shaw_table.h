// The vectors of Shaw's relative positions, one per distance and perhaps head.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/tensor.hpp"

namespace rotary {

/// Throws Error (invalid_argument), in the name of `operation`, unless `table` has the axes N, an odd number of distances, and
/// D, as wide as `x`, perhaps H, as many heads as `x`, and lies apart from `out`.
void check_shaw_table(const char* operation, const ConstTensorView& table, const ConstTensorView& x, const char* what,
                      const ConstTensorView& out);

/// A copy in double.
class ShawTable {
 public:
  explicit ShawTable(const ConstTensorView& table);

  std::int64_t num_rows() const noexcept { return num_rows_; }
  /// The row of a distance, key minus query.
  std::int64_t row_of(double distance) const noexcept;
  /// Its vector: `width` numbers.
  const double* row(std::int64_t head, std::int64_t row) const noexcept;

 private:
  std::int64_t num_heads_, num_rows_, width_;
  std::vector<double> numbers_;  // heads outermost
};

}  // namespace rotary
