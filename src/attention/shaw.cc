#include "rotary/shaw.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "attention/bias_view.h"
#include "base/apart.h"
#include "base/element.h"
#include "base/fail.h"
#include "base/float_view.h"
#include "base/parallel.h"

namespace rotary {
namespace {

constexpr const char* operation = "shaw_scores";

void check(const TensorView& out, const ConstTensorView& q, const ConstTensorView& table, const ShawOptions& options) {
  check_float_view(operation, "q", q, "SD", "BSHD");
  check_float_view(operation, "table", table, "ND", "NHD");
  if (table.size('N') % 2 == 0) {
    fail_argument(operation, "table must have a row for each distance from -reach to reach, an odd number, got ",
                  table.size('N'));
  }
  if (table.size('D') != q.size('D') || q.size('D') == 0) {
    fail_argument(operation, "table must be as wide as q along D, at least 1, got ", table.size('D'), " for ", q.size('D'));
  }
  if (table.has('H') && table.size('H') != q.size('H')) {
    fail_argument(operation, "table must have as many heads as q, or no axis H, got ", table.size('H'), " for ",
                  q.size('H'));
  }
  if (!std::isfinite(options.scale)) fail_argument(operation, "scale must be finite, got ", options.scale);
  check_bias_view(operation, out, q.size('H'), options.q_positions, options.k_positions);
  if (out.size('B') != q.size('B') || out.size('Q') != q.size('S')) {
    fail_argument(operation, "out must be as long as q along B and Q, got ", out.size('B'), " and ", out.size('Q'), " for ",
                  q.size('B'), " and ", q.size('S'));
  }
  check_apart(operation, "out", out, "q", q);
  check_apart(operation, "out", out, "table", table);
}

/// The numbers along D from an element on.
std::vector<double> row_of(const ConstTensorView& view, std::int64_t first) {
  std::vector<double> row;
  for (std::int64_t d = 0; d < view.size('D'); ++d) {
    row.push_back(load_element(view.dtype(), view.data(), first + d * view.stride('D')));
  }
  return row;
}

}  // namespace

void shaw_scores(const TensorView& out, const ConstTensorView& q, const ConstTensorView& table,
                 const ShawOptions& options) {
  check(out, q, table, options);
  const std::int64_t batch = q.size('B'), num_queries = q.size('S'), num_keys = out.size('K'), heads = q.size('H');
  const SidePositions queries("shaw_scores, q_positions", options.q_positions, batch, num_queries, PositionNumbers::whole);
  const SidePositions keys("shaw_scores, k_positions", options.k_positions, batch, num_keys, PositionNumbers::whole);
  const std::int64_t width = q.size('D'), reach = table.size('N') / 2;
  const double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(width));

  std::vector<double> vectors;  // the table, heads outermost
  for (std::int64_t h = 0; h < table.size('H'); ++h) {
    for (std::int64_t n = 0; n < table.size('N'); ++n) {
      const std::vector<double> row = row_of(table, n * table.stride('N') + h * table.stride('H'));
      vectors.insert(vectors.end(), row.begin(), row.end());
    }
  }

  parallel_for(options.executor, batch * heads * num_queries, [&](std::int64_t task) {
    const std::int64_t b = task / num_queries / heads, h = task / num_queries % heads, i = task % num_queries;
    const std::vector<double> query = row_of(q, b * q.stride('B') + h * q.stride('H') + i * q.stride('S'));
    const double* vector = vectors.data() + (table.has('H') ? h : 0) * table.size('N') * width;
    std::vector<double> products;  // of the query with every vector of the table
    for (std::int64_t n = 0; n < table.size('N'); ++n, vector += width) {
      products.push_back(scale * std::inner_product(query.begin(), query.end(), vector, 0.0));
    }
    const double position = queries.at(b, i);
    const std::int64_t at = b * out.stride('B') + h * out.stride('H') + i * out.stride('Q');
    for (std::int64_t j = 0; j < num_keys; ++j) {
      const auto distance = static_cast<std::int64_t>(keys.at(b, j) - position);
      const std::int64_t row = std::clamp(distance, -reach, reach) + reach;
      store_element(out.dtype(), out.data(), at + j * out.stride('K'), products[static_cast<std::size_t>(row)]);
    }
  });
}

}  // namespace rotary
