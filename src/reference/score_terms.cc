#include "reference/score_terms.h"

#include "base/element.h"

namespace rotary::reference {
namespace {

double entry(const ConstTensorView& view, char rows, std::int64_t row, std::int64_t column) {
  return load_element(view.dtype(), view.data(), row * view.stride(rows) + column * view.stride('D'));
}

}  // namespace

double score_term(const ConstTensorView& a, const ConstTensorView& b, const ConstTensorView& w_q,
                  const ConstTensorView& w_k, std::int64_t i, std::int64_t j) {
  double sum = 0;
  for (std::int64_t m = 0; m < a.size('D'); ++m) {
    for (std::int64_t n = 0; n < b.size('D'); ++n) {
      double between = 0;  // W_q W_k^T
      for (std::int64_t d = 0; d < w_q.size('D'); ++d) between += entry(w_q, 'N', m, d) * entry(w_k, 'N', n, d);
      sum += entry(a, 'S', i, m) * between * entry(b, 'S', j, n);
    }
  }
  return sum;
}

}  // namespace rotary::reference
