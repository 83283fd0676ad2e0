#include "attention/linear_chunks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "attention/aligned_array.h"
#include "attention/angle_block.h"
#include "attention/linear_divisor.h"
#include "attention/linear_rows.h"
#include "attention/row_sums.h"
#include "attention/tensor_rows.h"
#include "kernels/linear_attention.h"
#include "kernels/products.h"

namespace rotary {
namespace {

constexpr std::int64_t round_up_to_vectors(std::int64_t n) noexcept { return (n + 15) / 16 * 16; }

std::int64_t longest_sequence(const LinearProblem& problem) noexcept {
  std::int64_t length = 1;
  for (std::int64_t n = 0; n < problem.num_sequences; ++n) {
    const LinearSequence sequence = problem.sequence(n);
    length = std::max({length, sequence.num_queries, sequence.num_keys});
  }
  return length;
}

/// Heads of one sequence.
struct HeadRange {
  std::int64_t begin, end;
};

/// How many tokens' angles are kept for the heads that come by: whole chunks, in a small part of a usual second cache.
std::int64_t tokens_of_block(std::int64_t num_pairs, std::int64_t chunk, std::int64_t length) noexcept {
  constexpr std::int64_t numbers = 1 << 14;
  return std::min(std::max<std::int64_t>(numbers / std::max<std::int64_t>(2 * num_pairs * chunk, 1), 1) * chunk, length);
}

/// A workspace for any number of heads, one after another.
template <class T>
class Chunks {
 public:
  Chunks(const LinearProblem& problem, const FeatureRows<T>& map)
      : p_(problem),
        kernels_(linear_kernels<T>()),
        products_(product_kernels<T>()),
        size_(std::min(problem.chunk_size, longest_sequence(problem))),
        step_(round_up_to_vectors(size_)),
        block_(problem.rotation == nullptr
                   ? longest_sequence(problem)
                   : tokens_of_block(problem.rotation->num_pairs(), size_, longest_sequence(problem))),
        gated_(!problem.decay.empty() || map.in_exponents()),
        query_angles_(angle_block<T>(problem, problem.q_angles, block_)),
        key_angles_(problem.same_positions ? std::nullopt : angle_block<T>(problem, problem.k_angles(), block_)),
        query_buffers_(problem, map, size_),
        key_buffers_(problem, map, size_),
        query_rows_(problem, map, problem.q, angles(query_angles_), query_buffers_.buffers),
        key_rows_(problem, map, problem.k, angles(problem.same_positions ? query_angles_ : key_angles_),
                  key_buffers_.buffers),
        value_rows_(problem.v),
        out_rows_(*problem.out),
        b_(aligned_array<T>(problem.a_width * step_)),
        values_(aligned_array<T>(size_ * problem.value_dim)),
        out_(aligned_array<T>(size_ * problem.value_dim)),
        scores_(aligned_array<T>(size_ * step_)),
        gates_(aligned_array<T>(size_)),
        room_for_dots_(aligned_array<T>(running_room<T>(size_))),
        divisors_(aligned_array<T>(size_)),
        factors_(aligned_array<T>(size_)),
        bounds_(aligned_array<T>(size_)),
        present_(std::make_unique<bool[]>(static_cast<std::size_t>(size_))) {}

  void attend(const LinearSequence& sequence, std::int64_t row, const HeadRange& heads, LinearState& state) {
    sequence_ = sequence;
    const bool is_causal = p_.is_causal;
    each_block(sequence.num_keys, [&](std::int64_t begin, std::int64_t end) {
      hold(key_rows_, sequence.first_key, begin, end);
      if (is_causal) hold(query_rows_, sequence.first_query, begin, end);
      each_chunk(begin, end, row, heads, state, [&](std::int64_t first, std::int64_t count) {
        load_keys(first, count);
        if (is_causal) attend_queries(first, count, true);
        join(first, count);
      });
    });
    each_block(is_causal ? 0 : sequence.num_queries, [&](std::int64_t begin, std::int64_t end) {
      hold(query_rows_, sequence.first_query, begin, end);
      each_chunk(begin, end, row, heads, state,
                 [&](std::int64_t first, std::int64_t count) { attend_queries(first, count, false); });
    });
  }

  const LinearAttentionReport& report() const noexcept { return report_; }

 private:
  /// Of `value_dim` numbers each.
  struct Rows {
    T* first;
    std::int64_t step;
  };

  template <class Body>
  void each_block(std::int64_t length, const Body& body) {
    for (std::int64_t begin = 0; begin < length; begin += block_) body(begin, std::min(begin + block_, length));
  }

  template <class Body>
  void each_chunk(std::int64_t begin, std::int64_t end, std::int64_t row, const HeadRange& heads, LinearState& state,
                  const Body& body) {
    for (std::int64_t head = heads.begin; head < heads.end; ++head) {
      start(head, LinearStateAccess::sums<T>(state, row, head));
      for (std::int64_t first = begin; first < end; first += size_) body(first, std::min(size_, end - first));
    }
  }

  void hold(LinearRows<T>& rows, std::int64_t first_token, std::int64_t begin, std::int64_t end) {
    rows.hold_angles(sequence_.row, first_token + begin, end - begin);
  }

  static AngleBlock<T>* angles(std::optional<AngleBlock<T>>& block) noexcept { return block ? &*block : nullptr; }

  void start(std::int64_t kv_head, const LinearSums<T>& sums) noexcept {
    kv_head_ = kv_head;
    sums_ = sums;
    decay_ = p_.decay.empty() ? T{1} : static_cast<T>(p_.decay[static_cast<std::size_t>(kv_head)]);
  }

  /// Features, values and the gate of each key.
  void load_keys(std::int64_t first, std::int64_t count) {
    const std::int64_t token = sequence_.first_key + first;
    const bool* const present = find_padding(token, count);
    T before = *sums_.log_scale;
    std::fill_n(gates_.get(), gated_ ? count : 0, before);
    keys_ = key_rows_.load({sequence_.row, token, kv_head_, count}, present, sums_.log_scale, gates_.get());
    if (gated_) {
      for (std::int64_t i = 0; i < count; ++i) before = make_gate(gates_[i], before, present == nullptr || present[i]);
    }
    products_.transpose(keys_.a, count, p_.a_width, b_.get(), step_);
    load_values(token, count, present);
  }

  /// nullptr where every token is one.
  const bool* find_padding(std::int64_t token, std::int64_t count) noexcept {
    if (!p_.key_padding_mask) return nullptr;
    for (std::int64_t i = 0; i < count; ++i) present_[i] = p_.is_token(sequence_.row, token + i);
    return present_.get();
  }

  /// From the logarithm of the scale with a key to its gate. Returns that logarithm.
  T make_gate(T& gate, T before, bool is_present) const noexcept {
    const T after = gate;
    gate = before != after && before != -std::numeric_limits<T>::infinity() ? std::exp(before - after) : T{1};
    if (is_present) gate *= decay_;
    return after;
  }

  /// Where they are, if that is as good a place, and nothing will be changed.
  void load_values(std::int64_t token, std::int64_t count, const bool* present) noexcept {
    v_ = value_rows_.template in_place<T>(sequence_.row, token, kv_head_);
    const bool side_by_side = v_ != nullptr && present == nullptr && value_rows_.token_step() == p_.value_dim;
    if (side_by_side && is_aligned(v_) && !gated_) return;
    if (side_by_side) std::copy_n(v_, count * p_.value_dim, values_.get());
    for (std::int64_t i = 0; !side_by_side && i < count; ++i) {
      T* const value = values_.get() + i * p_.value_dim;
      if (present == nullptr || present[i]) value_rows_.load(sequence_.row, token + i, kv_head_, value);
      else std::fill_n(value, p_.value_dim, T{0});
    }
    v_ = values_.get();
  }

  void attend_queries(std::int64_t first, std::int64_t count, bool with_chunk) {
    const std::int64_t token = sequence_.first_query + first, heads = p_.heads_per_kv_head;
    for (std::int64_t head = kv_head_ * heads; head < (kv_head_ + 1) * heads; ++head) {
      const LinearFeatures<T> queries = query_rows_.load({sequence_.row, token, head, count});
      RowsAhead ahead[2];
      list_queries_ahead(first + count, head, ahead);
      const T* const factors = find_divisors(queries, count, with_chunk) ? factors_.get() : nullptr;
      const Rows out = place_of_results(token, head);
      if (with_chunk) find_scores(queries.a, count);
      const LowerProduct<T> of_chunk{scores_.get(), step_, v_, p_.value_dim};
      Product<T> product{.rows = count,
                         .inner = p_.a_width,
                         .columns = p_.value_dim,
                         .x = queries.a,
                         .x_step = p_.a_width,
                         .y = sums_.numerator,
                         .y_step = p_.value_dim,
                         .out = out.first,
                         .out_step = out.step,
                         .adds = false,
                         .ahead = ahead,
                         .num_ahead = 2};
      if (with_chunk && gated_) {
        products_.multiply(product);
        pass_gates_to_rows(count, out);
        product.inner = 0;
        product.num_ahead = 0;
        product.adds = true;
      }
      if (with_chunk) product.lower = &of_chunk;
      product.factors = factors;
      products_.multiply(product);
      if (factors == nullptr) {
        kernels_.divide({count, p_.value_dim, out.first, out.step, divisors_.get(), out.first, out.step});
      }
      for (std::int64_t i = 0; out.first == out_.get() && i < count; ++i) {
        out_rows_.store(out_.get() + i * p_.value_dim, sequence_.row, token + i, head);
      }
    }
  }

  /// In the caller's tensor, if they can lie there as they are computed.
  Rows place_of_results(std::int64_t token, std::int64_t head) noexcept {
    T* const place = out_rows_.template in_place<T>(sequence_.row, token, head);
    return place != nullptr ? Rows{place, out_rows_.token_step()} : Rows{out_.get(), p_.value_dim};
  }

  /// What the chunk at `next` of the sequence will read and write for a query head.
  void list_queries_ahead(std::int64_t next, std::int64_t head, RowsAhead* ahead) const noexcept {
    const std::int64_t count = std::min(size_, sequence_.num_queries - next), query = sequence_.first_query + next;
    ahead[0] = query_rows_.ahead({sequence_.row, query, head, count});
    ahead[1] = out_rows_.ahead(sequence_.row, query, head, count);
  }

  /// And for the KV head.
  void list_keys_ahead(std::int64_t next, RowsAhead* ahead) const noexcept {
    const std::int64_t count = std::min(size_, sequence_.num_keys - next), key = sequence_.first_key + next;
    ahead[0] = key_rows_.ahead({sequence_.row, key, kv_head_, count});
    ahead[1] = value_rows_.ahead(sequence_.row, key, kv_head_, count);
  }

  /// Whether the divisors have `factors_`, to multiply by instead.
  bool find_divisors(const LinearFeatures<T>& queries, std::int64_t count, bool with_chunk) noexcept {
    if (p_.normalizer == Normalizer::none) {
      std::fill_n(divisors_.get(), count, T{1});
      std::fill_n(factors_.get(), count, T{1});
      report_.num_rows += count;
      return true;
    }
    dots(queries.c, keys_.c, p_.c_width, sums_.denominator, count, with_chunk, divisors_.get());
    const bool bounded = p_.m_width > 0;
    if (bounded) dots(queries.m, keys_.m, p_.m_width, sums_.magnitude, count, with_chunk, bounds_.get());
    const bool multiplies = kernels_.reciprocals(divisors_.get(), count, factors_.get());
    if (multiplies && !bounded) {
      count_plain_divisors(divisors_.get(), count, report_);
      return true;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      divisors_[i] = checked_divisor(divisors_[i], bounded ? bounds_[i] : std::abs(divisors_[i]), report_);
    }
    return multiplies && kernels_.reciprocals(divisors_.get(), count, factors_.get());
  }

  /// Of queries with the sum before the chunk, or with that up to each key of it.
  void dots(const T* queries, const T* keys, std::int64_t width, const T* before, std::int64_t count, bool with_chunk,
            T* out) noexcept {
    if (with_chunk) kernels_.running_dots({count, width, queries, before, keys, gates(), room_for_dots_.get(), out});
    else kernels_.dots({count, width, queries, before, 0, out});
  }

  const T* gates() const noexcept { return gated_ ? gates_.get() : nullptr; }

  /// tril(A B^T), each under the gates from its key to its query.
  void find_scores(const T* a, std::int64_t count) noexcept {
    products_.multiply({.rows = count,
                        .inner = p_.a_width,
                        .columns = round_up_to_vectors(count),
                        .x = a,
                        .x_step = p_.a_width,
                        .y = b_.get(),
                        .y_step = step_,
                        .out = scores_.get(),
                        .out_step = step_,
                        .adds = false,
                        .up_to_diagonal = true});
    for (std::int64_t i = 0; gated_ && i < count; ++i) {
      T passed = 1;
      for (std::int64_t j = i; j > 0; --j) {
        scores_[i * step_ + j] *= passed;
        passed *= gates_[j];
      }
      scores_[i * step_] *= passed;
    }
  }

  /// Through the gates up to each query go the sums that it has read.
  void pass_gates_to_rows(std::int64_t count, const Rows& out) noexcept {
    T passed = 1;
    for (std::int64_t i = 0; i < count; ++i) {
      passed *= gates_[i];
      multiply(passed, out.first + i * out.step, p_.value_dim);
    }
  }

  /// The keys of the chunk join the sums.
  void join(std::int64_t first, std::int64_t count) {
    if (gated_) pass_gates(count);
    RowsAhead ahead[2];
    list_keys_ahead(first + count, ahead);
    products_.multiply({.rows = p_.a_width,
                        .inner = count,
                        .columns = p_.value_dim,
                        .x = b_.get(),
                        .x_step = step_,
                        .y = v_,
                        .y_step = p_.value_dim,
                        .out = sums_.numerator,
                        .out_step = p_.value_dim,
                        .ahead = ahead,
                        .num_ahead = 2});
    kernels_.add_up({count, p_.c_width, keys_.c, gates(), sums_.denominator});
    kernels_.add_up({count, p_.m_width, keys_.m, gates(), sums_.magnitude});
  }

  /// Through the gates after each key go its value, and through all of them the sums.
  void pass_gates(std::int64_t count) noexcept {
    T passed = 1;
    for (std::int64_t j = count - 1; j >= 0; --j) {
      multiply(passed, values_.get() + j * p_.value_dim, p_.value_dim);
      passed *= gates_[j];
    }
    multiply(passed, sums_.numerator, p_.a_width * p_.value_dim);
  }

  const LinearProblem& p_;
  LinearSequence sequence_ = {};
  std::int64_t kv_head_ = 0;
  LinearSums<T> sums_ = {};
  T decay_ = 1;
  const LinearKernels<T>& kernels_;
  const ProductKernels<T>& products_;
  std::int64_t size_;   // tokens of a chunk
  std::int64_t step_;   // from row to row of b_ and scores_: whole vectors, so that no column is computed differently
  std::int64_t block_;  // tokens whose angles are at hand while heads come by
  bool gated_;
  std::optional<AngleBlock<T>> query_angles_, key_angles_;
  OwnLinearBuffers<T> query_buffers_, key_buffers_;
  LinearRows<T> query_rows_, key_rows_;
  TensorRows<ConstTensorView> value_rows_;
  TensorRows<TensorView> out_rows_;
  AlignedArray<T> b_;             // a column per key
  AlignedArray<T> values_, out_;  // a row per token
  LinearFeatures<T> keys_ = {};
  const T* v_ = nullptr;  // the values, in place or copied
  AlignedArray<T> scores_, gates_;
  AlignedArray<T> room_for_dots_;
  AlignedArray<T> divisors_, factors_, bounds_;
  std::unique_ptr<bool[]> present_;
  LinearAttentionReport report_;
};

}  // namespace

template <class T>
LinearAttentionReport attend_linearly(const LinearProblem& problem, const FeatureRows<T>& map, LinearState& state,
                                      std::int64_t begin, std::int64_t end) {
  Chunks<T> chunks(problem, map);
  for (std::int64_t i = begin; i < end;) {
    const std::int64_t row = i / problem.num_kv_heads, first = i - row * problem.num_kv_heads;
    const HeadRange heads{first, std::min(first + end - i, problem.num_kv_heads)};
    chunks.attend(problem.sequence(row), row, heads, state);
    i += heads.end - heads.begin;
  }
  return chunks.report();
}

template LinearAttentionReport attend_linearly(const LinearProblem&, const FeatureRows<float>&, LinearState&, std::int64_t,
                                               std::int64_t);
template LinearAttentionReport attend_linearly(const LinearProblem&, const FeatureRows<double>&, LinearState&, std::int64_t,
                                               std::int64_t);

}  // namespace rotary
