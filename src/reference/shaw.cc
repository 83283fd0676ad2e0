#include "reference/shaw.h"

#include <algorithm>

#include "base/element.h"

namespace rotary::reference {

double shaw_score(const ConstTensorView& q, const ConstTensorView& table, std::int64_t batch_row, std::int64_t head,
                  std::int64_t query, std::int64_t distance, double scale) {
  const std::int64_t reach = (table.size('N') - 1) / 2;
  const ConstTensorView row = q.select('B', batch_row).select('H', head).select('S', query);
  const ConstTensorView vector = table.select('H', head).select('N', std::max(-reach, std::min(reach, distance)) + reach);
  double sum = 0;
  for (std::int64_t d = 0; d < q.size('D'); ++d) {
    sum += load_element(row.dtype(), row.data(), d * row.stride('D')) *
           load_element(vector.dtype(), vector.data(), d * vector.stride('D'));
  }
  return scale * sum;
}

std::vector<double> shaw_value(const ConstTensorView& table, std::int64_t head, const std::vector<double>& weights,
                               const std::vector<std::int64_t>& distances) {
  const std::int64_t reach = (table.size('N') - 1) / 2;
  std::vector<double> sum(static_cast<std::size_t>(table.size('D')));
  for (std::size_t j = 0; j < weights.size(); ++j) {
    const std::int64_t row = std::max(-reach, std::min(reach, distances[j])) + reach;
    const ConstTensorView vector = table.select('H', head).select('N', row);
    for (std::size_t d = 0; d < sum.size(); ++d) {
      sum[d] += weights[j] * load_element(vector.dtype(), vector.data(), static_cast<std::int64_t>(d) * vector.stride('D'));
    }
  }
  return sum;
}

}  // namespace rotary::reference
