#include "attention/linear_steps.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "attention/angle_block.h"
#include "attention/linear_divisor.h"
#include "attention/linear_rows.h"
#include "attention/tensor_rows.h"
#include "base/scratch.h"
#include "kernels/linear_attention.h"
#include "kernels/products.h"

namespace rotary {
namespace {

/// How many heads' features are made together.
constexpr std::int64_t most_heads = 16;

template <class T>
class Steps {
 public:
  Steps(const LinearProblem& problem, const FeatureRows<T>& map, std::int64_t num_heads)
      : p_(problem),
        kernels_(linear_kernels<T>()),
        products_(product_kernels<T>()),
        size_(std::min(num_heads, most_heads)),
        query_angles_(angle_block<T>(problem, problem.q_angles, 1, &scratch_)),
        key_angles_(problem.same_positions ? std::nullopt : angle_block<T>(problem, problem.k_angles(), 1, &scratch_)),
        query_rows_(problem, map, problem.q, angles(query_angles_), query_buffers_),
        key_rows_(problem, map, problem.k, angles(problem.same_positions ? query_angles_ : key_angles_), key_buffers_),
        value_rows_(problem.v),
        out_rows_(*problem.out) {
    const LinearBufferWidths<T> widths(problem, map);
    const std::int64_t queries = size_ * problem.heads_per_kv_head;
    query_buffers_ = widths.take(queries, scratch_);
    key_buffers_ = widths.take(size_, scratch_);
    value_ = scratch_.take<T>(problem.value_dim);
    out_ = scratch_.take<T>(queries * problem.value_dim);
    divisors_ = scratch_.take<T>(queries);
    bounds_ = scratch_.take<T>(queries);
  }

  void attend(const LinearSequence& sequence, std::int64_t row, std::int64_t begin, std::int64_t end, LinearState& state) {
    for (std::int64_t head = begin; head < end; head += size_) {
      step(sequence, head, std::min(size_, end - head), LinearStateAccess::sums<T>(state, row, head));
    }
  }

  const LinearAttentionReport& report() const noexcept { return report_; }

 private:
  static AngleBlock<T>* angles(std::optional<AngleBlock<T>>& block) noexcept { return block ? &*block : nullptr; }

  /// `count` KV heads from `kv_head` on; their sums lie side by side.
  void step(const LinearSequence& sequence, std::int64_t kv_head, std::int64_t count, const LinearSums<T>& sums) {
    const std::int64_t heads = p_.heads_per_kv_head;
    const LinearFeatures<T> keys = key_rows_.load({sequence.row, sequence.first_key, kv_head, 1, count});
    kernels_.add_up({1, count * p_.c_width, keys.c, nullptr, sums.denominator});
    if (p_.m_width > 0) kernels_.add_up({1, count * p_.m_width, keys.m, nullptr, sums.magnitude});
    const RowRange rows{sequence.row, sequence.first_query, kv_head * heads, 1, count * heads};
    const LinearFeatures<T> queries = query_rows_.load(rows);
    find_divisors(count, queries, sums);
    for (std::int64_t i = 0; i < count; ++i) {
      const T* const v = value(sequence, kv_head + i);
      for (std::int64_t query = i * heads; query < (i + 1) * heads; ++query) {
        products_.read_and_join({.features = p_.a_width,
                                 .values = p_.value_dim,
                                 .a = queries.a + query * p_.a_width,
                                 .b = keys.a + i * p_.a_width,
                                 .v = v,
                                 .sum = sums.numerator + i * p_.a_width * p_.value_dim,
                                 .out = out_ + query * p_.value_dim,
                                 .joins = query + 1 == (i + 1) * heads});
      }
    }
    store(rows);
  }

  const T* value(const LinearSequence& sequence, std::int64_t kv_head) noexcept {
    const T* const place = value_rows_.template in_place<T>(sequence.row, sequence.first_key, kv_head);
    if (place != nullptr) return place;
    value_rows_.load(sequence.row, sequence.first_key, kv_head, value_);
    return value_;
  }

  /// Of the queries of all `count` KV heads.
  void find_divisors(std::int64_t count, const LinearFeatures<T>& queries, const LinearSums<T>& sums) noexcept {
    const std::int64_t num_queries = count * p_.heads_per_kv_head;
    if (p_.normalizer == Normalizer::none) {
      std::fill_n(divisors_, num_queries, T{1});
      report_.num_rows += num_queries;
      return;
    }
    multiply(count, p_.c_width, queries.c, sums.denominator, divisors_);
    if (p_.m_width > 0) multiply(count, p_.m_width, queries.m, sums.magnitude, bounds_);
    for (std::int64_t i = 0; i < num_queries; ++i) {
      divisors_[i] = checked_divisor(divisors_[i], p_.m_width > 0 ? bounds_[i] : std::abs(divisors_[i]), report_);
    }
  }

  /// The rows of the queries of each KV head with its sums.
  void multiply(std::int64_t count, std::int64_t width, const T* queries, const T* sums, T* out) noexcept {
    const std::int64_t heads = p_.heads_per_kv_head;
    for (std::int64_t i = 0; i < count; ++i) {
      kernels_.dots({heads, width, queries + i * heads * width, sums + i * width, 0, out + i * heads});
    }
  }

  void store(const RowRange& rows) noexcept {
    T* const place = out_rows_.template in_place<T>(rows.row, rows.token, rows.head);
    kernels_.divide({.rows = rows.heads,
                     .width = p_.value_dim,
                     .x = out_,
                     .x_step = p_.value_dim,
                     .divisors = divisors_,
                     .out = place != nullptr ? place : out_,
                     .out_step = place != nullptr ? out_rows_.head_step() : p_.value_dim});
    for (std::int64_t h = 0; place == nullptr && h < rows.heads; ++h) {
      out_rows_.store(out_ + h * p_.value_dim, rows.row, rows.token, rows.head + h);
    }
  }

  const LinearProblem& p_;
  const LinearKernels<T>& kernels_;
  const ProductKernels<T>& products_;
  std::int64_t size_;  // KV heads at a time
  Scratch scratch_;    // all memory below
  std::optional<AngleBlock<T>> query_angles_, key_angles_;
  LinearBuffers<T> query_buffers_, key_buffers_;
  T *value_ = nullptr, *out_ = nullptr, *divisors_ = nullptr, *bounds_ = nullptr;
  LinearRows<T> query_rows_, key_rows_;
  TensorRows<ConstTensorView> value_rows_;
  TensorRows<TensorView> out_rows_;
  LinearAttentionReport report_;
};

}  // namespace

template <class T>
bool is_step(const LinearProblem& problem, const FeatureRows<T>& map) noexcept {
  if (!problem.is_causal || !problem.decay.empty() || map.in_exponents() || problem.key_padding_mask) return false;
  for (std::int64_t n = 0; n < problem.num_sequences; ++n) {
    if (problem.sequence(n).num_keys != 1) return false;
  }
  return true;
}

template <class T>
LinearAttentionReport step_linearly(const LinearProblem& problem, const FeatureRows<T>& map, LinearState& state,
                                    std::int64_t begin, std::int64_t end) {
  Steps<T> steps(problem, map, std::min(end - begin, problem.num_kv_heads));
  for (std::int64_t i = begin; i < end;) {
    const std::int64_t row = i / problem.num_kv_heads, first = i - row * problem.num_kv_heads;
    const std::int64_t last = std::min(first + end - i, problem.num_kv_heads);
    steps.attend(problem.sequence(row), row, first, last, state);
    i += last - first;
  }
  return steps.report();
}

template bool is_step(const LinearProblem&, const FeatureRows<float>&) noexcept;
template bool is_step(const LinearProblem&, const FeatureRows<double>&) noexcept;
template LinearAttentionReport step_linearly(const LinearProblem&, const FeatureRows<float>&, LinearState&, std::int64_t,
                                             std::int64_t);
template LinearAttentionReport step_linearly(const LinearProblem&, const FeatureRows<double>&, LinearState&, std::int64_t,
                                             std::int64_t);

}  // namespace rotary
