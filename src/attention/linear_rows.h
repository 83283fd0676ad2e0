// Rows of queries or keys as the features that linear attention multiplies.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "attention/feature_map.h"
#include "attention/linear_problem.h"
#include "attention/tensor_rows.h"
#include "kernels/rotate.h"

namespace rotary {

/// The rows of q or of k, for one task. Refers to all its arguments.
template <class T>
class LinearRows {
 public:
  LinearRows(const LinearProblem& problem, const FeatureRows<T>& map, const ConstTensorView& x,
             const std::optional<TokenAngles>& angles);

  /// Features for the numerator (a_width numbers), the denominator (c_width; the same again where they are shared) and the
  /// lengths of the pairs (m_width). Where features are exponents, `log_scale` rises to the largest of them, if that is
  /// larger, and all are divided by exp(log_scale).
  void load(std::int64_t row, std::int64_t token, std::int64_t head, T* a, T* c, T* m, T& log_scale);

  /// From gradients with respect to what the last load() gave, to those with respect to its row of q or k.
  void backward(const T* da, const T* dc, T* dx);

 private:
  void read_angles(std::int64_t row, std::int64_t token);
  /// `to` must not be `from`.
  void turn(const T* from, T* to) noexcept;
  void turn_lifted(const T* from, T* to) const noexcept;
  void leave_exponents(T& log_scale) noexcept;
  void lengths(T* to) const noexcept;
  /// What turn() and turn_lifted() do, transposed.
  void turn_back(const T* from, T* to) const noexcept;
  void turn_back_lifted(const T* from, T* to) const noexcept;
  /// Adds the gradient with respect to features that belongs to `gradient`, of their lengths.
  void add_lengths_backward(const T* gradient, T* to) const noexcept;

  const LinearProblem& p_;
  const FeatureRows<T>& map_;
  TensorRows<ConstTensorView> rows_;
  const TokenAngles* angles_;
  std::int64_t row_ = -1, token_ = -1;  // whose angles are at hand
  std::vector<T> cos_, sin_;
  bool in_kernel_ = false;  // pairs lie as the kernel of rotate wants them
  std::vector<T> arranged_;
  RowsToRotate kernel_;
  std::vector<T> x_, turned_x_, features_, d_features_;
  std::vector<std::int64_t> still_;  // features that belong to no pair
};

}  // namespace rotary
