#include "tools/claims/plain.h"

#include <cmath>
#include <cstddef>
#include <utility>

namespace rotary::claims {

double plain_score(const Rows& q, std::int64_t i, const Rows& k, std::int64_t j, const Rotation& rotation,
                   double distance) {
  double score = 0;
  for (std::int64_t pair = 0; pair < rotation.num_pairs(); ++pair) {
    const auto [u, v] = rotation.pairs_in()[static_cast<std::size_t>(pair)];
    const double angle = distance * rotation.inv_freq()[static_cast<std::size_t>(pair)];
    const double A = q.at(i, u) * k.at(j, u) + q.at(i, v) * k.at(j, v);
    const double B = q.at(i, v) * k.at(j, u) - q.at(i, u) * k.at(j, v);
    score += A * std::cos(angle) + B * std::sin(angle);
  }
  return score;
}

std::vector<double> weighted_values(const std::vector<double>& weights, const std::vector<double>& divisors,
                                    const Rows& v) {
  const auto num_keys = static_cast<std::size_t>(v.count);
  std::vector<double> out;
  for (std::size_t row = 0; row < weights.size(); row += num_keys) {
    double divisor = 0;
    for (std::size_t j = 0; j < num_keys; ++j) divisor += divisors[row + j];
    for (std::int64_t c = 0; c < v.width; ++c) {
      double sum = 0;
      for (std::size_t j = 0; j < num_keys; ++j) sum += weights[row + j] * v.at(static_cast<std::int64_t>(j), c);
      out.push_back(sum / divisor);
    }
  }
  return out;
}

std::int64_t rank(std::vector<double> matrix, double rounding) {
  const auto n = static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(matrix.size()))));
  double largest = 0;
  for (std::size_t done = 0; done < n; ++done) {
    std::size_t row = done, column = done;
    for (std::size_t i = done; i < n; ++i) {
      for (std::size_t j = done; j < n; ++j) {
        if (std::abs(matrix[i * n + j]) > std::abs(matrix[row * n + column])) row = i, column = j;
      }
    }
    const double pivot = matrix[row * n + column];
    if (done == 0) largest = std::abs(pivot);
    if (std::abs(pivot) <= rounding * largest) return static_cast<std::int64_t>(done);
    for (std::size_t j = 0; j < n; ++j) std::swap(matrix[row * n + j], matrix[done * n + j]);
    for (std::size_t i = 0; i < n; ++i) std::swap(matrix[i * n + column], matrix[i * n + done]);
    for (std::size_t i = done + 1; i < n; ++i) {
      const double factor = matrix[i * n + done] / pivot;
      for (std::size_t j = done; j < n; ++j) matrix[i * n + j] -= factor * matrix[done * n + j];
    }
  }
  return static_cast<std::int64_t>(n);
}

// The normal equations, by Cholesky: the ridge keeps them well enough for what is asked here.
std::vector<double> least_squares(const std::vector<double>& A, const std::vector<double>& b, double ridge) {
  const std::size_t rows = b.size(), n = A.size() / rows;
  std::vector<double> L(n * n), x(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = i == j ? ridge : 0;
      for (std::size_t r = 0; r < rows; ++r) sum += A[r * n + i] * A[r * n + j];
      for (std::size_t l = 0; l < j; ++l) sum -= L[i * n + l] * L[j * n + l];
      L[i * n + j] = i == j ? std::sqrt(sum) : sum / L[j * n + j];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t r = 0; r < rows; ++r) x[i] += A[r * n + i] * b[r];
    for (std::size_t l = 0; l < i; ++l) x[i] -= L[i * n + l] * x[l];
    x[i] /= L[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t l = i + 1; l < n; ++l) x[i] -= L[l * n + i] * x[l];
    x[i] /= L[i * n + i];
  }
  return x;
}

}  // namespace rotary::claims
