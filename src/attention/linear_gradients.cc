#include "attention/linear_gradients.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "attention/linear_divisor.h"
#include "attention/linear_rows.h"
#include "attention/row_sums.h"
#include "attention/tensor_rows.h"

namespace rotary {
namespace {

template <class T>
class Gradients {
 public:
  Gradients(const LinearProblem& problem, const FeatureRows<T>& map, const LinearGradientViews& views,
            const LinearSequence& sequence, std::int64_t kv_head, const LinearSums<T>& sums, const LinearSums<T>& gradients)
      : p_(problem),
        views_(views),
        sequence_(sequence),
        kv_head_(kv_head),
        decay_(problem.decay.empty() ? T{1} : static_cast<T>(problem.decay[static_cast<std::size_t>(kv_head)])),
        sums_(sums),
        gradients_(gradients),
        query_rows_(problem, map, problem.q, problem.q_angles),
        key_rows_(problem, map, problem.k, problem.k_angles()),
        value_rows_(problem.v),
        dout_rows_(views.dout),
        dq_rows_(views.dq),
        dk_rows_(views.dk),
        dv_rows_(views.dv),
        gates_(size(sequence.num_keys)),
        log_scales_(gates_.size()),
        divisors_(size(sequence.num_queries * problem.heads_per_kv_head)),
        factors_(divisors_.size()),
        a_(size(problem.a_width)),
        da_(a_.size()),
        c_(size(problem.c_width)),
        dc_(c_.size()),
        m_(size(problem.m_width)),
        dx_(size(problem.head_dim)),
        value_(size(problem.value_dim)),
        dv_(value_.size()),
        h_(value_.size()) {}

  LinearAttentionReport attend() {
    const std::int64_t num_keys = sequence_.num_keys, num_queries = sequence_.num_queries;
    for (std::int64_t j = 0; j < num_keys; ++j) {
      join(j);
      if (p_.is_causal) query_forwards(j);
    }
    for (std::int64_t i = 0; !p_.is_causal && i < num_queries; ++i) query_forwards(i);
    for (std::int64_t i = 0; !p_.is_causal && i < num_queries; ++i) query_backwards(i);
    for (std::int64_t j = num_keys; j-- > 0;) {
      if (p_.is_causal) query_backwards(j);
      leave(j);
    }
    return report_;
  }

 private:
  static std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }
  std::int64_t heads() const noexcept { return p_.heads_per_kv_head; }

  /// Key j joins the sums.
  void join(std::int64_t j) {
    const std::int64_t key = sequence_.first_key + j;
    gates_[size(j)] = 1;
    if (p_.is_token(sequence_.row, key)) {
      const T before = *sums_.log_scale;
      key_rows_.load(sequence_.row, key, kv_head_, a_.data(), c_.data(), m_.data(), *sums_.log_scale);
      value_rows_.load(sequence_.row, key, kv_head_, value_.data());
      const T gate = before == -std::numeric_limits<T>::infinity() ? T{1} : std::exp(before - *sums_.log_scale);
      gates_[size(j)] = gate * decay_;
      multiply(gates_[size(j)], sums_.numerator, p_.a_width * p_.value_dim);
      multiply(gates_[size(j)], sums_.denominator, p_.c_width);
      multiply(gates_[size(j)], sums_.magnitude, p_.m_width);
      for (std::int64_t f = 0; f < p_.a_width; ++f) {
        add_multiple(a_[size(f)], value_.data(), sums_.numerator + f * p_.value_dim, p_.value_dim);
      }
      add_multiple(T{1}, c_.data(), sums_.denominator, p_.c_width);
      add_multiple(T{1}, m_.data(), sums_.magnitude, p_.m_width);
    }
    log_scales_[size(j)] = *sums_.log_scale;
  }

  void load_query(std::int64_t i, std::int64_t head) {
    T own_scale = -std::numeric_limits<T>::infinity();
    const std::int64_t query = sequence_.first_query + i, q_head = kv_head_ * heads() + head;
    query_rows_.load(sequence_.row, query, q_head, a_.data(), c_.data(), m_.data(), own_scale);
    dout_rows_.load(sequence_.row, query, q_head, h_.data());
  }

  /// What query i of every head divides by, and its own gradient.
  void query_forwards(std::int64_t i) {
    for (std::int64_t head = 0; head < heads(); ++head) {
      load_query(i, head);
      T& divisor = divisors_[size(i * heads() + head)];
      T& factor = factors_[size(i * heads() + head)];
      divisor = linear_divisor(p_, c_.data(), sums_.denominator, m_.data(), sums_.magnitude, report_);
      if (divisor == 0) {
        std::fill(dx_.begin(), dx_.end(), T{0});
      } else {
        for (T& x : h_) x /= divisor;
        for (std::int64_t f = 0; f < p_.a_width; ++f) {
          da_[size(f)] = dot(sums_.numerator + f * p_.value_dim, h_.data(), p_.value_dim);
        }
        const T along = dot(a_.data(), da_.data(), p_.a_width);  // dout . out
        factor = p_.normalizer == Normalizer::none ? T{0} : -along / divisor;
        for (std::int64_t f = 0; f < p_.c_width; ++f) dc_[size(f)] = factor * sums_.denominator[f];
        if (p_.normalizer == Normalizer::rotated) add_multiple(T{1}, dc_.data(), da_.data(), p_.c_width);
        query_rows_.backward(da_.data(), dc_.data(), dx_.data());
      }
      if (views_.dq) dq_rows_.store(dx_.data(), sequence_.row, sequence_.first_query + i, kv_head_ * heads() + head);
    }
  }

  /// Query i of every head joins the gradients of the sums.
  void query_backwards(std::int64_t i) {
    for (std::int64_t head = 0; head < heads(); ++head) {
      const T divisor = divisors_[size(i * heads() + head)];
      if (divisor == 0) continue;
      load_query(i, head);
      for (T& x : h_) x /= divisor;
      for (std::int64_t f = 0; f < p_.a_width; ++f) {
        add_multiple(a_[size(f)], h_.data(), gradients_.numerator + f * p_.value_dim, p_.value_dim);
      }
      add_multiple(factors_[size(i * heads() + head)], c_.data(), gradients_.denominator, p_.c_width);
    }
  }

  /// Key j takes its gradients and leaves.
  void leave(std::int64_t j) {
    const std::int64_t key = sequence_.first_key + j;
    if (p_.is_token(sequence_.row, key)) {
      T log_scale = log_scales_[size(j)];
      key_rows_.load(sequence_.row, key, kv_head_, a_.data(), c_.data(), m_.data(), log_scale);
      value_rows_.load(sequence_.row, key, kv_head_, value_.data());
      std::fill(dv_.begin(), dv_.end(), T{0});
      for (std::int64_t f = 0; f < p_.a_width; ++f) {
        const T* const row = gradients_.numerator + f * p_.value_dim;
        da_[size(f)] = dot(row, value_.data(), p_.value_dim);
        add_multiple(a_[size(f)], row, dv_.data(), p_.value_dim);
      }
      if (p_.normalizer == Normalizer::rotated) add_multiple(T{1}, gradients_.denominator, da_.data(), p_.c_width);
      key_rows_.backward(da_.data(), gradients_.denominator, dx_.data());
      multiply(gates_[size(j)], gradients_.numerator, p_.a_width * p_.value_dim);
      multiply(gates_[size(j)], gradients_.denominator, p_.c_width);
    } else {
      std::fill(dx_.begin(), dx_.end(), T{0});
      std::fill(dv_.begin(), dv_.end(), T{0});
    }
    if (views_.dk) dk_rows_.store(dx_.data(), sequence_.row, key, kv_head_);
    if (views_.dv) dv_rows_.store(dv_.data(), sequence_.row, key, kv_head_);
  }

  const LinearProblem& p_;
  const LinearGradientViews& views_;
  const LinearSequence& sequence_;
  std::int64_t kv_head_;
  T decay_;
  LinearSums<T> sums_, gradients_;
  LinearRows<T> query_rows_, key_rows_;
  TensorRows<ConstTensorView> value_rows_, dout_rows_;
  TensorRows<TensorView> dq_rows_, dk_rows_, dv_rows_;
  std::vector<T> gates_, log_scales_;   // of every key
  std::vector<T> divisors_, factors_;   // den and r of every query and head
  std::vector<T> a_, da_, c_, dc_, m_;  // of one query or key
  std::vector<T> dx_, value_, dv_, h_;
  LinearAttentionReport report_;
};

}  // namespace

template <class T>
LinearAttentionReport attend_linearly_backward(const LinearProblem& problem, const FeatureRows<T>& map,
                                               const LinearGradientViews& views, const LinearSequence& sequence,
                                               std::int64_t kv_head, const LinearSums<T>& sums,
                                               const LinearSums<T>& gradients) {
  return Gradients<T>(problem, map, views, sequence, kv_head, sums, gradients).attend();
}

template LinearAttentionReport attend_linearly_backward(const LinearProblem&, const FeatureRows<float>&,
                                                        const LinearGradientViews&, const LinearSequence&, std::int64_t,
                                                        const LinearSums<float>&, const LinearSums<float>&);
template LinearAttentionReport attend_linearly_backward(const LinearProblem&, const FeatureRows<double>&,
                                                        const LinearGradientViews&, const LinearSequence&, std::int64_t,
                                                        const LinearSums<double>&, const LinearSums<double>&);

}  // namespace rotary
