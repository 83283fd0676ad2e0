// The formulas of the papers in double, as they are written there: what the claims' numbers are compared with.
#pragma once

#include <vector>

#include "rotary/rotation.hpp"
#include "tools/claims/rows.h"

namespace rotary::claims {

/// q . R(distance) k = sum over pairs of A cos(distance inv_freq) + B sin(distance inv_freq)
/// (Su et al. 2021, equation 16, multiplied out). The key stands `distance` after the query.
double plain_score(const Rows& q, std::int64_t i, const Rows& k, std::int64_t j, const Rotation& rotation, double distance);

/// Row by row: (sum over j of weights[i, j] v_j) / (sum over j of divisors[i, j]).
std::vector<double> weighted_values(const std::vector<double>& weights, const std::vector<double>& divisors, const Rows& v);

/// The number of rows of a square matrix that are not sums of the others, by elimination with full pivoting; pivots up
/// to `rounding` of the largest count as 0.
std::int64_t rank(std::vector<double> matrix, double rounding = 1e-9);

/// x that makes |A x - b|^2 + ridge |x|^2 smallest. A is given row by row, as many rows as b has entries.
std::vector<double> least_squares(const std::vector<double>& A, const std::vector<double>& b, double ridge);

}  // namespace rotary::claims
