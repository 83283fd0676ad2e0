#include "rotary/shaw.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "attention/bias_view.h"
#include "attention/shaw_table.h"
#include "base/apart.h"
#include "base/element.h"
#include "base/fail.h"
#include "base/float_view.h"
#include "base/parallel.h"

namespace rotary {
namespace {

constexpr const char* operation = "shaw_scores";

void check(const TensorView& out, const ConstTensorView& q, const ShawOptions& options) {
  check_float_view(operation, "q", q, "SD", "BSHD");
  if (!std::isfinite(options.scale)) fail_argument(operation, "scale must be finite, got ", options.scale);
  check_bias_view(operation, out, q.size('H'), options.q_positions, options.k_positions);
  if (out.size('B') != q.size('B') || out.size('Q') != q.size('S')) {
    fail_argument(operation, "out must be as long as q along B and Q, got ", out.size('B'), " and ", out.size('Q'), " for ",
                  q.size('B'), " and ", q.size('S'));
  }
  check_apart(operation, "out", out, "q", q);
}

}  // namespace

void shaw_scores(const TensorView& out, const ConstTensorView& q, const ConstTensorView& table,
                 const ShawOptions& options) {
  check(out, q, options);
  check_shaw_table(operation, table, q, "q", out);
  const std::int64_t batch = q.size('B'), num_queries = q.size('S'), num_keys = out.size('K'), heads = q.size('H');
  const SidePositions queries("shaw_scores, q_positions", options.q_positions, batch, num_queries, PositionNumbers::whole);
  const SidePositions keys("shaw_scores, k_positions", options.k_positions, batch, num_keys, PositionNumbers::whole);
  const std::int64_t width = q.size('D');
  const double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<double>(width));
  const ShawTable vectors(table);

  parallel_for(options.executor, batch * heads * num_queries, [&](std::int64_t task) {
    const std::int64_t b = task / num_queries / heads, h = task / num_queries % heads, i = task % num_queries;
    std::vector<double> query;
    for (std::int64_t d = 0; d < width; ++d) {
      const std::int64_t at = b * q.stride('B') + h * q.stride('H') + i * q.stride('S') + d * q.stride('D');
      query.push_back(load_element(q.dtype(), q.data(), at));
    }
    std::vector<double> products;  // of the query with every vector of the table
    for (std::int64_t row = 0; row < vectors.num_rows(); ++row) {
      products.push_back(scale * std::inner_product(query.begin(), query.end(), vectors.row(h, row), 0.0));
    }
    const double position = queries.at(b, i);
    const std::int64_t at = b * out.stride('B') + h * out.stride('H') + i * out.stride('Q');
    for (std::int64_t j = 0; j < num_keys; ++j) {
      const std::int64_t row = vectors.row_of(keys.at(b, j) - position);
      store_element(out.dtype(), out.data(), at + j * out.stride('K'), products[static_cast<std::size_t>(row)]);
    }
  });
}

}  // namespace rotary
