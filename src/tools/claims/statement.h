// A claim before it is checked: its words, its bound, and the computation.
#pragma once

#include <vector>

#include "rotary/claims.hpp"
#include "tools/claims/operations.h"

namespace rotary::claims {

struct Measured {
  double number;
  std::vector<ClaimFigure> figures = {};
};

struct Bound {
  ClaimBound how;
  double expected;
  double tolerance = 0;
};

constexpr Bound at_most(double value) { return {ClaimBound::at_most, value}; }
constexpr Bound at_least(double value) { return {ClaimBound::at_least, value}; }
constexpr Bound exactly(double value) { return {ClaimBound::within, value}; }
constexpr Bound within(double value, double tolerance) { return {ClaimBound::within, value, tolerance}; }

struct Statement {
  const char* id;
  ClaimKind kind;
  const char* statement;
  const char* statement_zh;
  const char* measures;
  const char* measures_zh;
  Bound bound;
  Measured (*measure)(const Operations& operations);
};

struct Group {
  const char* name;
  const char* name_zh;
  std::vector<Statement> statements;
};

Group rotation_claims();
Group score_claims();
Group attention_claims();
Group linear_claims();
Group linear_weight_claims();
Group feature_map_claims();
Group limit_claims();

}  // namespace rotary::claims
