#include "rotary/merge_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/tensor_checks.h"
#include "attention/tensor_rows.h"
#include "base/element.h"
#include "base/fail.h"
#include "base/parallel.h"

namespace rotary {
namespace {

constexpr const char* operation = "merge_attention";
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t rows_per_task = 64;

bool is_same(const ConstTensorView& a, const ConstTensorView& b) noexcept {
  if (a.data() != b.data() || a.dtype() != b.dtype() || a.rank() != b.rank()) return false;
  for (int i = 0; i < a.rank(); ++i) {
    const char axis = a.axes()[i];
    if (!b.has(axis) || a.size(axis) != b.size(axis) || a.stride(axis) != b.stride(axis)) return false;
  }
  return true;
}

/// Numbers by batch row, token and head.
struct Lse {
  explicit Lse(const ConstTensorView& of)
      : view(of), row(of.stride('B')), token(of.stride(of.has('T') ? 'T' : 'S')), head(of.stride('H')) {}
  std::int64_t element(std::int64_t b, std::int64_t s, std::int64_t h) const noexcept {
    return b * row + s * token + h * head;
  }

  const ConstTensorView& view;
  std::int64_t row, token, head;
};

class Merge {
 public:
  Merge(const std::vector<AttentionPart>& parts, const TensorView& out, const TensorView& lse)
      : parts_(parts), out_(out), lse_(lse), token_axis_(out.has('T') ? 'T' : 'S') {}

  void check() const {
    if (parts_.empty()) fail_argument(operation, "there must be a part");
    check_out(out_, "out");
    if (lse_) check_lse(lse_, "lse");
    for (const AttentionPart& part : parts_) {
      check_out(part.out, "out of a part");
      check_lse(part.lse, "lse of a part");
    }
    check_written(out_, "out");
    if (!lse_) return;
    check_written(lse_, "lse");
    if (may_share_memory(out_, lse_)) fail_argument(operation, "lse must not overlap out");
  }

  void run(Executor* executor) const {
    const std::int64_t rows = out_.size('B') * out_.size(token_axis_) * out_.size('H');
    parallel_for(executor, (rows + rows_per_task - 1) / rows_per_task, [&](std::int64_t task) {
      std::vector<double> sum(static_cast<std::size_t>(out_.size('D'))), row(sum);
      const std::int64_t end = std::min(rows, (task + 1) * rows_per_task);
      for (std::int64_t r = task * rows_per_task; r < end; ++r) merge_row(r, sum, row);
    });
  }

 private:
  void check_axes(const ConstTensorView& view, const char* what, const char* letters) const {
    const TensorChecks checks{operation};
    checks.axes(view, what, letters);
    checks.has(token_axis_, view, what);
    for (const char axis : {'B', token_axis_, 'H'}) checks.size(axis, view, what, out_.size(axis), "out");
  }

  void check_out(const ConstTensorView& view, const char* what) const {
    const TensorChecks checks{operation};
    checks.given(view, what);
    checks.has('D', view, what);
    check_axes(view, what, token_axis_ == 'T' ? "THD" : "BSHD");
    checks.size('D', view, what, out_.size('D'), "out");
  }

  void check_lse(const ConstTensorView& view, const char* what) const {
    TensorChecks{operation}.given(view, what);
    if (view.dtype() != DType::f32 && view.dtype() != DType::f64) {
      fail_argument(operation, what, " must be float32 or float64, got ", name(view.dtype()));
    }
    check_axes(view, what, token_axis_ == 'T' ? "TH" : "BSH");
  }

  void check_written(const TensorView& written, const char* what) const {
    if (overlaps_itself(written)) fail_argument(operation, "the elements of ", what, " must not overlap each other");
    for (const AttentionPart& part : parts_) {
      for (const ConstTensorView& read : {part.out, part.lse}) {
        if (is_same(written, read) || !may_share_memory(written, read)) continue;
        fail_argument(operation, what, " must be apart from a part, or the very same");
      }
    }
  }

  /// Every part of the row is read before anything of it is written.
  void merge_row(std::int64_t r, std::vector<double>& sum, std::vector<double>& row) const {
    const std::int64_t heads = out_.size('H'), tokens = out_.size(token_axis_);
    const std::int64_t h = r % heads, s = r / heads % tokens, b = r / heads / tokens;
    const auto lse_of = [&](const AttentionPart& part) {
      return load_element(part.lse.dtype(), part.lse.data(), Lse(part.lse).element(b, s, h));
    };
    double largest = -infinity, total = 0;
    for (const AttentionPart& part : parts_) largest = std::max(largest, lse_of(part));
    std::fill(sum.begin(), sum.end(), 0.0);
    for (const AttentionPart& part : parts_) {
      const double lse = lse_of(part);
      if (lse == -infinity) continue;
      const double weight = std::exp(lse - largest);
      total += weight;
      TensorRows<ConstTensorView>(part.out).load(b, s, h, row.data());
      for (std::size_t d = 0; d < sum.size(); ++d) sum[d] += weight * row[d];
    }
    if (total != 0) {
      for (double& x : sum) x /= total;
    }
    TensorRows<TensorView>(out_).store(sum.data(), b, s, h);
    if (lse_) store_element(lse_.dtype(), lse_.data(), Lse(lse_).element(b, s, h), largest + std::log(total));
  }

  const std::vector<AttentionPart>& parts_;
  const TensorView &out_, &lse_;
  char token_axis_;
};

}  // namespace

void merge_attention(const std::vector<AttentionPart>& parts, const TensorView& out, const TensorView& lse,
                     Executor* executor) {
  const Merge merge(parts, out, lse);
  merge.check();
  merge.run(executor);
}

}  // namespace rotary
