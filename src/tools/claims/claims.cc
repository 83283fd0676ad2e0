#include "rotary/claims.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>

#include "base/edit_distance.h"
#include "base/fail.h"
#include "base/text.h"
#include "tools/claims/fault.h"
#include "tools/claims/statement.h"

namespace rotary {
namespace {

constexpr const char* operation = "check_claims";

std::vector<claims::Group> all_groups() {
  return {claims::rotation_claims(),      claims::score_claims(),       claims::attention_claims(), claims::linear_claims(),
          claims::linear_weight_claims(), claims::feature_map_claims(), claims::limit_claims()};
}

std::vector<claims::Fault> all_faults() {
  std::vector<claims::Fault> faults = claims::rotation_faults();
  for (const auto& more : {claims::attention_faults(), claims::linear_faults()}) {
    std::copy(more.begin(), more.end(), std::back_inserter(faults));
  }
  return faults;
}

[[noreturn]] void fail_unknown(const char* what, std::string_view given, const std::vector<std::string>& known,
                               const std::string& advice) {
  for (const std::string& name : known) {
    if (is_near(given, name)) {
      fail_argument(operation, "there is no ", what, " ", in_quotes(given), "; did you mean ", name, "?");
    }
  }
  fail_argument(operation, "there is no ", what, " ", in_quotes(given), "; ", advice);
}

std::unique_ptr<claims::Operations> operations_with(const char* fault) {
  if (fault == nullptr) return std::make_unique<claims::Operations>();
  std::vector<std::string> known;
  for (const claims::Fault& one : all_faults()) {
    if (std::string_view(fault) == one.described.name) return one.make();
    known.emplace_back(one.described.name);
  }
  std::string list;
  for (const std::string& one : known) list += (list.empty() ? "" : ", ") + one;
  fail_unknown("fault", fault, known, "known are " + list);
}

void check_ids(const std::vector<const char*>& ids, const std::vector<claims::Group>& groups) {
  std::vector<std::string> known;
  for (const claims::Group& group : groups) {
    for (const claims::Statement& statement : group.statements) known.emplace_back(statement.id);
  }
  for (const char* id : ids) {
    if (std::find(known.begin(), known.end(), id) == known.end()) {
      fail_unknown("claim", id, known, "without ids you get all " + std::to_string(known.size()));
    }
  }
}

Claim checked(const claims::Group& group, const claims::Statement& statement, const claims::Operations& operations) {
  claims::Measured measured = statement.measure(operations);
  return {.id = statement.id,
          .group = group.name,
          .group_zh = group.name_zh,
          .kind = statement.kind,
          .statement = statement.statement,
          .statement_zh = statement.statement_zh,
          .measures = statement.measures,
          .measures_zh = statement.measures_zh,
          .measured = measured.number,
          .bound = statement.bound.how,
          .expected = statement.bound.expected,
          .tolerance = statement.bound.tolerance,
          .figures = std::move(measured.figures)};
}

}  // namespace

const char* name(ClaimKind kind) noexcept { return kind == ClaimKind::holds ? "holds" : "does not follow"; }

const char* name(ClaimBound bound) noexcept {
  switch (bound) {
    case ClaimBound::at_most: return "at most";
    case ClaimBound::at_least: return "at least";
    case ClaimBound::within: return "within";
  }
  return "within";
}

bool Claim::ok() const noexcept {
  switch (bound) {
    case ClaimBound::at_most: return measured <= expected;
    case ClaimBound::at_least: return measured >= expected;
    case ClaimBound::within: return std::abs(measured - expected) <= tolerance;
  }
  return false;
}

std::vector<Claim> check_claims(const ClaimsOptions& options) {
  const std::vector<claims::Group> groups = all_groups();
  check_ids(options.ids, groups);
  const auto operations = operations_with(options.fault);
  const auto wanted = [&options](std::string_view id) {
    return options.ids.empty() || std::find(options.ids.begin(), options.ids.end(), id) != options.ids.end();
  };
  std::vector<Claim> all;
  for (const claims::Group& group : groups) {
    for (const claims::Statement& statement : group.statements) {
      if (wanted(statement.id)) all.push_back(checked(group, statement, *operations));
    }
  }
  return all;
}

std::vector<ClaimFault> claim_faults() {
  std::vector<ClaimFault> described;
  for (const claims::Fault& fault : all_faults()) described.push_back(fault.described);
  return described;
}

}  // namespace rotary
