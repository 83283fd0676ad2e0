// check_claims() without a fault: all is as stated, and the documents say what the program says.
#include "rotary/claims.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/error_sentence.h"
#include "support/sanitized.h"
#include "tools/claims/plain.h"

namespace rotary {
namespace {

/// Without a fault, computed once: all of them take seconds under sanitizers.
const std::vector<Claim>& all_claims() {
  static const std::vector<Claim> claims = check_claims();
  return claims;
}

TEST(Claims, AreAllAsStated) {
  for (const Claim& claim : all_claims()) {
    EXPECT_TRUE(claim.ok()) << claim.id << ": measured " << claim.measured << ", " << name(claim.bound) << ' '
                            << claim.expected;
  }
}

TEST(Claims, HaveNamesOfTheirOwnAndWordsInBothLanguages) {
  const auto& claims = all_claims();
  EXPECT_GE(claims.size(), 24U);
  std::set<std::string> ids;
  for (const Claim& claim : claims) {
    const std::string id = claim.id;
    EXPECT_TRUE(ids.insert(id).second) << id;
    EXPECT_EQ(id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), id.npos) << id;
    EXPECT_NE(std::string(claim.statement), "") << id;
    EXPECT_NE(std::string(claim.measures), "") << id;
    for (const std::string chinese : {claim.group_zh, claim.statement_zh, claim.measures_zh}) {
      EXPECT_TRUE(std::any_of(chinese.begin(), chinese.end(), [](char c) { return (c & 0x80) != 0; })) << id;
    }
  }
}

TEST(Claims, HoldOrDoNotFollowAndThenHaveACounterExample) {
  std::map<ClaimKind, int> count;
  for (const Claim& claim : all_claims()) {
    ++count[claim.kind];
    if (claim.kind == ClaimKind::does_not_follow) {
      EXPECT_FALSE(claim.figures.empty()) << claim.id;
    }
    for (const ClaimFigure& figure : claim.figures) EXPECT_FALSE(figure.values.empty()) << claim.id << ' ' << figure.name;
  }
  EXPECT_GE(count[ClaimKind::holds], 17);
  EXPECT_GE(count[ClaimKind::does_not_follow], 6);
}

TEST(Claims, AreTheSameNumbersEveryTime) {
  const auto& once = all_claims();
  std::vector<const char*> ids;  // all; under a sanitizer, to which the second time tells nothing, every sixth
  for (std::size_t i = 0; i < once.size(); i += sanitized ? 6 : 1) ids.push_back(once[i].id);
  for (const Claim& again : check_claims({.ids = ids})) {
    const auto before =
        std::find_if(once.begin(), once.end(), [&](const Claim& claim) { return std::string(claim.id) == again.id; });
    EXPECT_EQ(before->measured, again.measured) << again.id;
  }
}

std::vector<double> figure_of(const Claim& claim, const std::string& name) {
  for (const ClaimFigure& figure : claim.figures) {
    if (name == figure.name) return figure.values;
  }
  ADD_FAILURE() << claim.id << " has no figure " << name;
  return {0};
}

TEST(Claims, GoBeyondTheTrainedLengthAgainstZeroNotALineThatGoesOnFalling) {
  const Claim claim = check_claims({.ids = {"lengths-extrapolate"}}).at(0);
  const auto scores = figure_of(claim, "scores");
  const auto trained = static_cast<std::ptrdiff_t>(figure_of(claim, "trained_length")[0]);
  ASSERT_EQ(scores.size(), static_cast<std::size_t>(4 * trained));
  double largest = 0;
  std::for_each(scores.begin() + trained, scores.end(),
                [&](double score) { largest = std::max(largest, std::abs(score)); });
  EXPECT_EQ(claim.measured, largest);
}

TEST(Claims, TellAnotherSchemeFromARotationInDisguise) {
  const Claim claim = check_claims({.ids = {"rotation-is-unique"}}).at(0);
  EXPECT_LT(figure_of(claim, "cosformer_from_one_pair")[0], 1e-5);
  double smallest = 1;
  for (const char* other : {"decay_from_one_pair", "decay_from_32_pairs", "xpos_from_one_pair"}) {
    smallest = std::min(smallest, figure_of(claim, other)[0]);
  }
  EXPECT_EQ(smallest, claim.measured);
  EXPECT_GT(smallest, 0.1);
}

TEST(Claims, SayThatAKeyEqualToItsQueryHasNoOrder) {
  const Claim claim = check_claims({.ids = {"order-matters"}}).at(0);
  EXPECT_LT(figure_of(claim, "key_equal_to_query")[0], 1e-6);
}

TEST(Claims, HaveCounterExamplesThatCanBeComputedAnew) {
  const auto claims = check_claims({.ids = {"biases-can-be-summed-first", "weights-can-be-summed-first"}});
  EXPECT_EQ(figure_of(claims.at(0), "t5_table").size(), 32U);
  const auto q = figure_of(claims.at(1), "queries"), k = figure_of(claims.at(1), "keys");
  const double slope = figure_of(claims.at(1), "alibi_slope")[0];
  constexpr std::size_t N = 128, width = 4;
  ASSERT_EQ(q.size(), N * width);
  ASSERT_EQ(k.size(), N * width);
  std::vector<double> S, S_o_W;
  for (std::size_t i = 0; i < N; ++i) {
    for (std::size_t j = 0; j < N; ++j) {
      double score = 0;
      for (std::size_t c = 0; c < width; ++c) score += q[i * width + c] * k[j * width + c];
      S.push_back(score);
      S_o_W.push_back(score * std::exp(-slope * std::abs(static_cast<double>(i) - static_cast<double>(j))));
    }
  }
  EXPECT_EQ(claims::rank(S), 4);
  EXPECT_EQ(static_cast<double>(claims::rank(S_o_W)), claims.at(1).measured);
}

TEST(Claims, CanBeChosen) {
  const auto claims = check_claims({.ids = {"keeps-norms", "a1-b2-table"}});
  ASSERT_EQ(claims.size(), 2U);
  EXPECT_STREQ(claims[0].id, "keeps-norms");
  EXPECT_STREQ(claims[1].id, "a1-b2-table");
  expect_refused([] { (void)check_claims({.ids = {"keep-norms"}}); }, "did you mean keeps-norms?");
  expect_refused([] { (void)check_claims({.ids = {""}}); }, "without ids you get all");
  expect_refused([] { (void)check_claims({.fault = "everything"}); }, "known are no-rotation, rotate-keys-only");
}

TEST(Claims, ShowTheTableThatIsWorkedOutByHand) {
  const auto claims = check_claims({.ids = {"a1-b2-table"}});
  const std::map<std::string, double> expected{
      {"a1_b1", 7}, {"a1_b2", 1}, {"a2_b1", -1}, {"a2_b2", 7}, {"each_without_positions", 7}};
  ASSERT_EQ(claims.at(0).figures.size(), expected.size());
  for (const ClaimFigure& figure : claims[0].figures) {
    EXPECT_NEAR(figure.values.at(0), expected.at(figure.name), 1e-6) << figure.name;
  }
}

TEST(Claims, AreNotOkWithoutANumber) {
  Claim claim{};
  claim.measured = std::nan("");
  for (const ClaimBound bound : {ClaimBound::at_most, ClaimBound::at_least, ClaimBound::within}) {
    claim.bound = bound;
    EXPECT_FALSE(claim.ok());
  }
}

// ---- what they are compared with ---------------------------------------------------------------------------------------

TEST(Rank, CountsIndependentRows) {
  EXPECT_EQ(claims::rank({1, 2, 2, 4}), 1);
  EXPECT_EQ(claims::rank({0, 1, 1, 0}), 2);
  EXPECT_EQ(claims::rank({0, 0, 0, 0}), 0);
  EXPECT_EQ(claims::rank({1, 2, 3, 4, 5, 6, 7, 8, 9}), 2);
  EXPECT_EQ(claims::rank({1, 1, 1, 1 + 1e-7}), 2);
  EXPECT_EQ(claims::rank({1, 1, 1, 1 + 1e-7}, 1e-5), 1);
}

TEST(LeastSquares, FitsALineThroughPoints) {
  const auto line = claims::least_squares({1, 0, 1, 1, 1, 2}, {1, 3, 5}, 0);
  ASSERT_EQ(line.size(), 2U);
  EXPECT_NEAR(line[0], 1, 1e-12);
  EXPECT_NEAR(line[1], 2, 1e-12);
}

// ---- documents ---------------------------------------------------------------------------------------------------------

/// A row of a table in Markdown, its cells without blanks at either end.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream row(line);
  std::string cell;
  std::getline(row, cell, '|');
  while (std::getline(row, cell, '|')) {
    const auto first = cell.find_first_not_of(' '), last = cell.find_last_not_of(' ');
    cells.push_back(first == cell.npos ? "" : cell.substr(first, last - first + 1));
  }
  return cells;
}

/// The cells after the name, by the name: of rows that begin with one in backquotes, followed by as many cells.
std::map<std::string, std::vector<std::string>> table_in(const std::string& page, std::size_t num_cells) {
  std::ifstream file(std::string(ROTARY_TEST_DATA) + "/../../docs/" + page);
  EXPECT_TRUE(file) << page;
  std::map<std::string, std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    auto cells = cells_of(line);
    if (line.rfind("| `", 0) != 0 || cells.size() != num_cells) continue;
    const std::string name = cells[0].substr(1, cells[0].size() - 2);
    EXPECT_TRUE(rows.emplace(name, std::vector(cells.begin() + 1, cells.end())).second) << page << ": " << name;
  }
  return rows;
}

std::string number(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

std::string bound_of(const Claim& claim) {
  switch (claim.bound) {
    case ClaimBound::at_most: return "≤ " + number(claim.expected);
    case ClaimBound::at_least: return "≥ " + number(claim.expected);
    case ClaimBound::within: break;
  }
  return claim.tolerance == 0 ? "= " + number(claim.expected) : number(claim.expected) + " ± " + number(claim.tolerance);
}

void expect_claims_in(const std::string& page, const char* Claim::*statement) {
  auto rows = table_in(page, 4);  // id, statement, measured, bound
  for (const Claim& claim : all_claims()) {
    ASSERT_EQ(rows.count(claim.id), 1U) << page << " must have the claim " << claim.id;
    const auto& row = rows[claim.id];
    EXPECT_EQ(row[0], claim.*statement) << page;
    EXPECT_EQ(row[2], bound_of(claim)) << page << ": " << claim.id;
    const double measured = std::strtod(row[1].c_str(), nullptr);
    if (claim.bound == ClaimBound::at_most && claim.expected < 1) {
      EXPECT_LE(measured, claim.expected) << page << ": " << claim.id;  // a rounding error, of this machine or another
    } else {
      EXPECT_NEAR(measured, claim.measured, 0.02 * std::abs(claim.measured)) << page << ": " << claim.id;
    }
    rows.erase(claim.id);
  }
  for (const auto& [id, row] : rows) ADD_FAILURE() << page << ": there is no claim " << id;
}

TEST(Documents, HaveEveryClaimWithItsNumber) { expect_claims_in("claims.md", &Claim::statement); }
TEST(Documents, HaveEveryClaimWithItsNumberInChinese) { expect_claims_in("claims.zh.md", &Claim::statement_zh); }

void expect_faults_in(const std::string& page, const char* ClaimFault::*what) {
  auto rows = table_in(page, 2);
  for (const ClaimFault& fault : claim_faults()) {
    ASSERT_EQ(rows.count(fault.name), 1U) << page << " must have the fault " << fault.name;
    EXPECT_EQ(rows[fault.name][0], fault.*what) << page;
    rows.erase(fault.name);
  }
  for (const auto& [name, row] : rows) ADD_FAILURE() << page << ": there is no fault " << name;
}

TEST(Documents, HaveEveryFault) {
  expect_faults_in("claims.md", &ClaimFault::what);
  expect_faults_in("claims.zh.md", &ClaimFault::what_zh);
}

}  // namespace
}  // namespace rotary
