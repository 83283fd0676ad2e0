#include "attention/linear_chunks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "attention/aligned_array.h"
#include "attention/linear_divisor.h"
#include "attention/linear_rows.h"
#include "attention/row_sums.h"
#include "attention/tensor_rows.h"
#include "kernels/linear_attention.h"

namespace rotary {
namespace {

constexpr std::int64_t round_up_to_vectors(std::int64_t n) noexcept { return (n + 15) / 16 * 16; }

std::int64_t longest(const std::vector<LinearSequence>& sequences) noexcept {
  std::int64_t length = 1;
  for (const LinearSequence& sequence : sequences) length = std::max({length, sequence.num_queries, sequence.num_keys});
  return length;
}

/// A workspace for any number of heads, one after another.
template <class T>
class Chunks {
 public:
  Chunks(const LinearProblem& problem, const FeatureRows<T>& map)
      : p_(problem),
        kernels_(linear_kernels<T>()),
        size_(std::min(problem.chunk_size, longest(problem.sequences))),
        step_(round_up_to_vectors(size_)),
        gated_(!problem.decay.empty() || map.in_exponents()),
        query_rows_(problem, map, problem.q, problem.q_angles),
        key_rows_(problem, map, problem.k, problem.k_angles),
        value_rows_(problem.v),
        out_rows_(problem.out),
        a_(aligned_array<T>(size_ * problem.a_width)),
        b_(aligned_array<T>(problem.a_width * step_)),
        row_(aligned_array<T>(problem.a_width)),
        values_(aligned_array<T>(size_ * problem.value_dim)),
        out_(aligned_array<T>(size_ * problem.value_dim)),
        scores_(aligned_array<T>(size_ * step_)),
        gates_(aligned_array<T>(size_)),
        c_(aligned_array<T>(problem.c_width)),
        m_(aligned_array<T>(problem.m_width)),
        denominators_(aligned_array<T>(size_ * problem.c_width)),
        magnitudes_(aligned_array<T>(size_ * problem.m_width)) {}

  void attend(const LinearSequence& sequence, std::int64_t kv_head, const LinearSums<T>& sums) {
    sequence_ = sequence;
    kv_head_ = kv_head;
    sums_ = sums;
    decay_ = p_.decay.empty() ? T{1} : static_cast<T>(p_.decay[static_cast<std::size_t>(kv_head)]);
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
  }

  const LinearAttentionReport& report() const noexcept { return report_; }

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
    for (std::int64_t f = 0; f < p_.a_width; ++f) b_[f * step_ + i] = row_[f];
  }

  void attend_queries(std::int64_t first, std::int64_t count, bool with_chunk) {
    for (std::int64_t head = kv_head_ * p_.heads_per_kv_head(); head < (kv_head_ + 1) * p_.heads_per_kv_head(); ++head) {
      std::fill_n(out_.get(), count * p_.value_dim, T{0});
      for (std::int64_t i = 0; i < count; ++i) {
        T own_scale = -std::numeric_limits<T>::infinity();  // a factor of a and c alike: it cancels
        query_rows_.load(sequence_.row, sequence_.first_query + first + i, head, a_.get() + i * p_.a_width, c_.get(),
                         m_.get(), own_scale);
        divisors_[i] = linear_divisor(p_, c_.get(), with_chunk ? denominators_.get() + i * p_.c_width : sums_.denominator,
                                      m_.get(), with_chunk ? magnitudes_.get() + i * p_.m_width : sums_.magnitude, report_);
      }
      kernels_.add_product({.rows = count,
                            .inner = p_.a_width,
                            .columns = p_.value_dim,
                            .x = a_.get(),
                            .x_step = p_.a_width,
                            .y = sums_.numerator,
                            .y_step = p_.value_dim,
                            .out = out_.get(),
                            .out_step = p_.value_dim});
      if (with_chunk) add_chunk(count);
      for (std::int64_t i = 0; i < count; ++i) store(sequence_.first_query + first + i, head, i);
    }
  }

  /// Adds tril(A B^T) V to what came from the sums, each under its gates.
  void add_chunk(std::int64_t count) {
    std::fill_n(scores_.get(), count * step_, T{0});
    kernels_.add_product({.rows = count,
                          .inner = p_.a_width,
                          .columns = round_up_to_vectors(count),
                          .x = a_.get(),
                          .x_step = p_.a_width,
                          .y = b_.get(),
                          .y_step = step_,
                          .out = scores_.get(),
                          .out_step = step_});
    for (std::int64_t i = 0; gated_ && i < count; ++i) {
      T passed = 1;
      for (std::int64_t j = i; j >= 0; --j) {
        scores_[i * step_ + j] *= passed;
        passed *= gates_[j];
      }
      multiply(passed, out_.get() + i * p_.value_dim, p_.value_dim);
    }
    kernels_.add_product({.rows = count,
                          .inner = count,
                          .columns = p_.value_dim,
                          .x = scores_.get(),
                          .x_step = step_,
                          .y = values_.get(),
                          .y_step = p_.value_dim,
                          .out = out_.get(),
                          .out_step = p_.value_dim,
                          .lower = true});
  }

  /// The keys of the chunk join the sums.
  void join(std::int64_t count) {
    if (gated_) pass_gates(count);
    kernels_.add_product({.rows = p_.a_width,
                          .inner = count,
                          .columns = p_.value_dim,
                          .x = b_.get(),
                          .x_step = step_,
                          .y = values_.get(),
                          .y_step = p_.value_dim,
                          .out = sums_.numerator,
                          .out_step = p_.value_dim});
    std::copy_n(denominators_.get() + (count - 1) * p_.c_width, p_.c_width, sums_.denominator);
    std::copy_n(magnitudes_.get() + (count - 1) * p_.m_width, p_.m_width, sums_.magnitude);
  }

  void pass_gates(std::int64_t count) {
    T passed = 1;
    for (std::int64_t j = count - 1; j >= 0; --j) {
      for (std::int64_t f = 0; passed != 1 && f < p_.a_width; ++f) b_[f * step_ + j] *= passed;
      passed *= gates_[j];
    }
    multiply(passed, sums_.numerator, p_.a_width * p_.value_dim);
  }

  void store(std::int64_t query, std::int64_t head, std::int64_t i) {
    T* const out = out_.get() + i * p_.value_dim;
    const T divisor = divisors_[i];
    for (std::int64_t d = 0; d < p_.value_dim; ++d) out[d] = divisor == 0 ? T{0} : out[d] / divisor;
    out_rows_.store(out, sequence_.row, query, head);
  }

  const LinearProblem& p_;
  LinearSequence sequence_ = {};
  std::int64_t kv_head_ = 0;
  LinearSums<T> sums_ = {};
  T decay_ = 1;
  const LinearKernels<T>& kernels_;
  std::int64_t size_;  // tokens of a chunk
  std::int64_t step_;  // from row to row of b_ and scores_: whole vectors, so that no column is computed differently
  bool gated_;
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
LinearAttentionReport attend_linearly(const LinearProblem& problem, const FeatureRows<T>& map, LinearState& state,
                                      std::int64_t begin, std::int64_t end) {
  Chunks<T> chunks(problem, map);
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t row = i / problem.num_kv_heads, kv_head = i % problem.num_kv_heads;
    chunks.attend(problem.sequences[static_cast<std::size_t>(row)], kv_head,
                  LinearStateAccess::sums<T>(state, row, kv_head));
  }
  return chunks.report();
}

template LinearAttentionReport attend_linearly(const LinearProblem&, const FeatureRows<float>&, LinearState&, std::int64_t,
                                               std::int64_t);
template LinearAttentionReport attend_linearly(const LinearProblem&, const FeatureRows<double>&, LinearState&, std::int64_t,
                                               std::int64_t);

}  // namespace rotary
