// What is said of rotation, each statement as a small computation: the number, and what it has to be.
//
//     for (const auto& claim : rotary::check_claims()) std::printf("%s: %g\n", claim.id, claim.measured);
//
// Two kinds. Some statements hold. Others are often heard and do not follow, and a counter-example is shown. The
// computations go through the functions that everybody calls, on the instruction set that is in use, and are compared with
// plain arithmetic in double or with values worked out by hand. All of them use fixed seeds.
//
// That a check can fail shows when what it checks is wrong: check_claims({.fault = "rotate-after-scores"}) puts a wrong
// operation under the same computations. docs/claims.md tells the story.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/export.hpp"

namespace rotary {

enum class ClaimKind : std::uint8_t {
  holds,
  does_not_follow,  ///< the statement is what people say; `measured` belongs to a counter-example
};

enum class ClaimBound : std::uint8_t { at_most, at_least, within };

ROTARY_API const char* name(ClaimKind kind) noexcept;    ///< "holds", "does not follow"
ROTARY_API const char* name(ClaimBound bound) noexcept;  ///< "at most", "at least", "within"

/// Further numbers that belong to a claim; of one that does not follow, the counter-example.
struct ClaimFigure {
  const char* name;  ///< "distance", "score", …
  std::vector<double> values;
};

struct Claim {
  const char* id;     ///< "keeps-norms"
  const char* group;  ///< of claims about the same thing: "rotation", "scores", …
  const char* group_zh;
  ClaimKind kind;
  const char* statement;
  const char* statement_zh;  ///< in Chinese
  const char* measures;      ///< what the number is
  const char* measures_zh;
  double measured;
  ClaimBound bound;
  double expected;
  double tolerance;  ///< of `within`: measured lies at most this far from expected
  std::vector<ClaimFigure> figures;

  /// Whether it is as stated: it holds, or, where it does not follow, the counter-example is one. False for a NaN.
  ROTARY_API bool ok() const noexcept;
};

struct ClaimsOptions {
  std::vector<const char*> ids = {};  ///< only these; empty: all
  const char* fault = nullptr;        ///< the name of one of claim_faults()
};

/// Takes about a second. Errors: Error (invalid_argument) for an unknown id or fault.
ROTARY_API std::vector<Claim> check_claims(const ClaimsOptions& options = {});

/// Two of the counter-examples as curves: score-falls-with-distance and lengths-extrapolate, which must be among `claims`.
/// SVG, complete in itself, for light and dark pages. Errors: Error (invalid_argument) where one of them is missing.
ROTARY_API std::vector<char> claims_svg(const std::vector<Claim>& claims);

/// The same in a file. Writes beside the target and renames. Errors: also (invalid_file) when the file cannot be written.
ROTARY_API void write_claims_svg(const char* path, const std::vector<Claim>& claims);

/// Something wrong to put under the computations.
struct ClaimFault {
  const char* name;  ///< "rotate-after-scores"
  const char* what;  ///< what it does instead
  const char* what_zh;
};

ROTARY_API std::vector<ClaimFault> claim_faults();

}  // namespace rotary
