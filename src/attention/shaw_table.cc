#include "attention/shaw_table.h"

#include <algorithm>

#include "base/apart.h"
#include "base/element.h"
#include "base/fail.h"
#include "base/float_view.h"

namespace rotary {

void check_shaw_table(const char* operation, const ConstTensorView& table, const ConstTensorView& x, const char* what,
                      const ConstTensorView& out) {
  check_float_view(operation, "table", table, "ND", "NHD");
  if (table.size('N') % 2 == 0) {
    fail_argument(operation, "table must have a row for each distance from -reach to reach, an odd number, got ",
                  table.size('N'));
  }
  if (table.size('D') != x.size('D') || x.size('D') == 0) {
    fail_argument(operation, "table must be as wide as ", what, " along D, at least 1, got ", table.size('D'), " for ",
                  x.size('D'));
  }
  if (table.has('H') && table.size('H') != x.size('H')) {
    fail_argument(operation, "table must have as many heads as ", what, ", or no axis H, got ", table.size('H'), " for ",
                  x.size('H'));
  }
  check_apart(operation, "out", out, "table", table);
}

ShawTable::ShawTable(const ConstTensorView& table)
    : num_heads_(table.size('H')), num_rows_(table.size('N')), width_(table.size('D')) {
  for (std::int64_t h = 0; h < num_heads_; ++h) {
    for (std::int64_t n = 0; n < num_rows_; ++n) {
      for (std::int64_t d = 0; d < width_; ++d) {
        numbers_.push_back(load_element(table.dtype(), table.data(),
                                        n * table.stride('N') + h * table.stride('H') + d * table.stride('D')));
      }
    }
  }
}

std::int64_t ShawTable::row_of(double distance) const noexcept {
  const std::int64_t reach = num_rows_ / 2;
  return std::clamp(static_cast<std::int64_t>(distance), -reach, reach) + reach;
}

const double* ShawTable::row(std::int64_t head, std::int64_t row) const noexcept {
  return numbers_.data() + ((num_heads_ > 1 ? head : 0) * num_rows_ + row) * width_;
}

}  // namespace rotary
