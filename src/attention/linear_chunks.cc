#include "attention/linear_chunks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/aligned_array.h"
#include "attention/linear_rows.h"
#include "attention/row_sums.h"
#include "attention/tensor_rows.h"

namespace rotary {
namespace {

/// out += x y, row by row; inner sums run in order. Steps count elements from row to row.
template <class T>
void add_product(std::int64_t rows, std::int64_t inner, std::int64_t columns, const T* x, std::int64_t x_step, const T* y,
                 std::int64_t y_step, T* out, std::int64_t out_step) noexcept {
  for (std::int64_t r = 0; r < rows; ++r, x += x_step, out += out_step) {
    T* __restrict const sum = out;
    std::int64_t i = 0;
    for (; i + 4 <= inner; i += 4) {
      const T x0 = x[i], x1 = x[i + 1], x2 = x[i + 2], x3 = x[i + 3];
      const T* __restrict const y0 = y + i * y_step, * __restrict const y1 = y0 + y_step, * __restrict const y2 = y1 + y_step, * __restrict const y3 = y2 + y_step;
      for (std::int64_t c = 0; c < columns; ++c) sum[c] += x0 * y0[c] + x1 * y1[c] + x2 * y2[c] + x3 * y3[c];
    }
    for (; i < inner; ++i) {
      const T* __restrict const y0 = y + i * y_step;
      for (std::int64_t c = 0; c < columns; ++c) sum[c] += x[i] * y0[c];
    }
  }
}

template <class T>
class Chunks {
 public:
  Chunks(const LinearProblem& problem, const FeatureRows<T>& map, const LinearSequence& sequence, std::int64_t kv_head,
         const LinearSums<T>& sums)
      : p_(problem),
        sequence_(sequence),
        kv_head_(kv_head),
        size_(std::min(problem.chunk_size, std::max<std::int64_t>(1, std::max(sequence.num_queries, sequence.num_keys)))),
        decay_(problem.decay.empty() ? T{1} : static_cast<T>(problem.decay[static_cast<std::size_t>(kv_head)])),
        gated_(!problem.decay.empty() || map.in_exponents()),
        sums_(sums),
        query_rows_(problem, map, problem.q, problem.q_angles),
        key_rows_(problem, map, problem.k, problem.k_angles),
        value_rows_(problem.v),
        out_rows_(problem.out),
        a_(aligned_array<T>(size_ * problem.a_width)),
        b_(aligned_array<T>(problem.a_width * size_)),
        row_(aligned_array<T>(problem.a_width)),
        values_(aligned_array<T>(size_ * problem.value_dim)),
        out_(aligned_array<T>(size_ * problem.value_dim)),
        scores_(aligned_array<T>(size_ * size_)),
        gates_(aligned_array<T>(size_)),
        c_(aligned_array<T>(problem.c_width)),
        m_(aligned_array<T>(problem.m_width)),
        denominators_(aligned_array<T>(size_ * problem.c_width)),
        magnitudes_(aligned_array<T>(size_ * problem.m_width)) {}

  LinearAttentionReport attend() {
    if (p_.is_causal) {
      for (std::int64_t first = 0; first < sequence_.num_keys; first += size_) {
        const std::int64_t count = std::min(size_, sequence_.num_keys - first);
        load_keys(first, count);
        attend_queries(first, count, true);
        join(count);
      }
    } else {
      for (std::int64_t first = 0; first < sequence_.num_keys; first += size_) {
        const std::int64_t count = std::min(size_, sequence_.num_keys - first);
        load_keys(first, count);
        join(count);
      }
      for (std::int64_t first = 0; first < sequence_.num_queries; first += size_) {
        attend_queries(first, std::min(size_, sequence_.num_queries - first), false);
      }
    }
    return report_;
  }

 private:
  /// Features by column, values by row, the gate of each key, and the sums of the denominator up to each key.
  void load_keys(std::int64_t first, std::int64_t count) {
    const T *denominator = sums_.denominator, *magnitude = sums_.magnitude;
    for (std::int64_t i = 0; i < count; ++i) {
      T* const e = denominators_.get() + i * p_.c_width;
      T* const m = magnitudes_.get() + i * p_.m_width;
      load_key(sequence_.first_key + first + i, i, e, m);
      for (std::int64_t f = 0; f < p_.c_width; ++f) e[f] += gates_[i] * denominator[f];
      for (std::int64_t f = 0; f < p_.m_width; ++f) m[f] += gates_[i] * magnitude[f];
      denominator = e;
      magnitude = m;
    }
  }

  void load_key(std::int64_t key, std::int64_t i, T* e, T* m) {
    T* const value = values_.get() + i * p_.value_dim;
    gates_[i] = 1;
    if (p_.is_token(sequence_.row, key)) {
      const T before = *sums_.log_scale;
      key_rows_.load(sequence_.row, key, kv_head_, row_.get(), e, m, *sums_.log_scale);
      value_rows_.load(sequence_.row, key, kv_head_, value);
      if (before != -std::numeric_limits<T>::infinity()) gates_[i] = std::exp(before - *sums_.log_scale);
      gates_[i] *= decay_;
    } else {
      std::fill_n(row_.get(), p_.a_width, T{0});
      std::fill_n(e, p_.c_width, T{0});
      std::fill_n(m, p_.m_width, T{0});
      std::fill_n(value, p_.value_dim, T{0});
    }
    for (std::int64_t f = 0; f < p_.a_width; ++f) b_[f * size_ + i] = row_[f];
  }

  void attend_queries(std::int64_t first, std::int64_t count, bool with_chunk) {
    for (std::int64_t head = kv_head_ * p_.heads_per_kv_head(); head < (kv_head_ + 1) * p_.heads_per_kv_head(); ++head) {
      std::fill_n(out_.get(), count * p_.value_dim, T{0});
      for (std::int64_t i = 0; i < count; ++i) {
        T own_scale = -std::numeric_limits<T>::infinity();  // a factor of a and c alike: it cancels
        query_rows_.load(sequence_.row, sequence_.first_query + first + i, head, a_.get() + i * p_.a_width, c_.get(),
                         m_.get(), own_scale);
        divisors_[i] = divisor(with_chunk ? denominators_.get() + i * p_.c_width : sums_.denominator,
                               with_chunk ? magnitudes_.get() + i * p_.m_width : sums_.magnitude);
      }
      add_product(count, p_.a_width, p_.value_dim, a_.get(), p_.a_width, sums_.numerator, p_.value_dim, out_.get(),
                  p_.value_dim);
      if (with_chunk) add_chunk(count);
      for (std::int64_t i = 0; i < count; ++i) store(sequence_.first_query + first + i, head, i);
    }
  }

  /// Adds tril(A B^T) V to what came from the sums, each under its gates.
  void add_chunk(std::int64_t count) {
    std::fill_n(scores_.get(), count * size_, T{0});
    add_product(count, p_.a_width, count, a_.get(), p_.a_width, b_.get(), size_, scores_.get(), size_);
    for (std::int64_t i = 0; i < count; ++i) {
      T* const out = out_.get() + i * p_.value_dim;
      T* const scores = scores_.get() + i * size_;
      if (gated_) {
        T passed = 1;
        for (std::int64_t j = i; j >= 0; --j) {
          scores[j] *= passed;
          passed *= gates_[j];
        }
        for (std::int64_t d = 0; d < p_.value_dim; ++d) out[d] *= passed;
      }
      add_product(1, i + 1, p_.value_dim, scores, size_, values_.get(), p_.value_dim, out, p_.value_dim);
    }
  }

  /// The keys of the chunk join the sums.
  void join(std::int64_t count) {
    if (gated_) pass_gates(count);
    add_product(p_.a_width, count, p_.value_dim, b_.get(), size_, values_.get(), p_.value_dim, sums_.numerator,
                p_.value_dim);
    std::copy_n(denominators_.get() + (count - 1) * p_.c_width, p_.c_width, sums_.denominator);
    std::copy_n(magnitudes_.get() + (count - 1) * p_.m_width, p_.m_width, sums_.magnitude);
  }

  void pass_gates(std::int64_t count) {
    T passed = 1;
    for (std::int64_t j = count - 1; j >= 0; --j) {
      if (passed != 1) {
        for (std::int64_t f = 0; f < p_.a_width; ++f) b_[f * size_ + j] *= passed;
      }
      passed *= gates_[j];
    }
    if (passed == 1) return;
    for (std::int64_t i = 0; i < p_.a_width * p_.value_dim; ++i) sums_.numerator[i] *= passed;
  }

  /// What the row in c_ and m_ is divided by; 0 where it must not be.
  T divisor(const T* denominator, const T* magnitude) {
    ++report_.num_rows;
    if (p_.normalizer == Normalizer::none) return 1;
    const T sum = dot(c_.get(), denominator, p_.c_width);
    const T bound = p_.m_width > 0 ? dot(m_.get(), magnitude, p_.m_width) : std::abs(sum);
    report_.num_negative_denominators += sum < 0;
    if (!is_usable(sum, bound)) {
      ++report_.num_zero_rows;
      return 0;
    }
    const double condition = static_cast<double>(bound / std::abs(sum));
    if (condition > report_.worst_condition) report_.worst_condition = condition;
    return sum;
  }

  void store(std::int64_t query, std::int64_t head, std::int64_t i) {
    T* const out = out_.get() + i * p_.value_dim;
    const T divisor = divisors_[i];
    for (std::int64_t d = 0; d < p_.value_dim; ++d) out[d] = divisor == 0 ? T{0} : out[d] / divisor;
    out_rows_.store(out, sequence_.row, query, head);
  }

  const LinearProblem& p_;
  const LinearSequence& sequence_;
  std::int64_t kv_head_, size_;
  T decay_;
  bool gated_;
  LinearSums<T> sums_;
  LinearRows<T> query_rows_, key_rows_;
  TensorRows<ConstTensorView> value_rows_;
  TensorRows<TensorView> out_rows_;
  AlignedArray<T> a_;             // a row per query
  AlignedArray<T> b_;             // a column per key
  AlignedArray<T> row_;           // of one key
  AlignedArray<T> values_, out_;  // a row per token
  AlignedArray<T> scores_, gates_;
  AlignedArray<T> c_, m_;                      // of one query
  AlignedArray<T> denominators_, magnitudes_;  // sums up to each key of the chunk
  AlignedArray<T> divisors_ = aligned_array<T>(size_);
  LinearAttentionReport report_;
};

}  // namespace

template <class T>
LinearAttentionReport attend_linearly(const LinearProblem& problem, const FeatureRows<T>& map,
                                      const LinearSequence& sequence, std::int64_t kv_head, const LinearSums<T>& sums) {
  return Chunks<T>(problem, map, sequence, kv_head, sums).attend();
}

template LinearAttentionReport attend_linearly(const LinearProblem&, const FeatureRows<float>&, const LinearSequence&,
                                               std::int64_t, const LinearSums<float>&);
template LinearAttentionReport attend_linearly(const LinearProblem&, const FeatureRows<double>&, const LinearSequence&,
                                               std::int64_t, const LinearSums<double>&);

}  // namespace rotary
