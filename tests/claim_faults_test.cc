// Faults under the claims: every check can fail, and fails where the fault is. What a fault breaks by a wide margin does not
// depend on the instruction set, so one is enough.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "rotary/claims.hpp"

namespace rotary {
namespace {

using Ids = std::vector<const char*>;

/// What each fault breaks. Random features take long: only the fault that is about them is asked for.
const std::map<std::string, Ids>& breaks() {
  static const std::map<std::string, Ids> breaks{
      {"no-rotation",
       {"same-angles-as-sinusoidal",
        "base-slows-the-slowest-pair",
        "bfloat16-positions-merge",
        "a1-b2-table",
        "zero-score-becomes-nonzero",
        "score-is-sum-of-cosines-and-sines",
        "order-matters",
        "both-must-turn",
        "values-are-not-rotated",
        "sums-can-be-reordered",
        "rotate-then-elu-is-not-relative",
        "rotation-has-a-fixed-rank",
        "roformer-weights-can-be-negative",
        "roformer-weights-do-not-sum-to-one",
        "roformer-weights-have-no-bound",
        "rotated-normalizer-crosses-zero",
        "cosformer-factors",
        "taylor-keeps-probabilities",
        "score-falls-with-distance",
        "near-tokens-are-preferred",
        "lengths-extrapolate"}},
      {"rotate-keys-only",
       {"same-angles-as-sinusoidal", "transpose-is-opposite-rotation", "base-slows-the-slowest-pair",
        "score-depends-on-distance", "common-shift-cancels", "a1-b2-table", "score-is-sum-of-cosines-and-sines",
        "values-are-not-rotated", "rotation-has-a-fixed-rank", "rotation-is-unique"}},
      {"mixed-pairings",
       {"cached-keys-can-move", "pairings-are-permutations", "score-depends-on-distance", "common-shift-cancels",
        "score-is-sum-of-cosines-and-sines", "values-are-not-rotated", "lengths-extrapolate"}},
      {"unequal-pair-angles",
       {"same-angles-as-sinusoidal", "keeps-norms", "transpose-is-opposite-rotation", "angles-add", "cached-keys-can-move",
        "base-slows-the-slowest-pair", "score-depends-on-distance", "common-shift-cancels",
        "score-is-sum-of-cosines-and-sines", "values-are-not-rotated", "lengths-extrapolate"}},
      {"sign-of-transpose", {"transpose-is-opposite-rotation"}},
      {"shift-the-other-way", {"cached-keys-can-move"}},
      {"clamped-positions",
       {"same-angles-as-sinusoidal", "transpose-is-opposite-rotation", "angles-add", "cached-keys-can-move",
        "bfloat16-positions-merge", "common-shift-cancels", "map-then-rotate-is-relative", "taylor-keeps-probabilities"}},
      {"positions-from-one",
       {"same-angles-as-sinusoidal", "transpose-is-opposite-rotation", "angles-add", "position-zero-is-identity"}},
      {"exponent-without-two", {"same-angles-as-sinusoidal", "base-slows-the-slowest-pair"}},
      {"sinusoidal-other-frequencies", {"same-angles-as-sinusoidal"}},
      {"rotate-after-scores",
       {"a1-b2-table", "zero-score-becomes-nonzero", "score-is-sum-of-cosines-and-sines", "order-matters",
        "rotation-has-a-fixed-rank", "near-tokens-are-preferred", "lengths-extrapolate"}},
      {"no-projections", {"additive-leaves-three-terms"}},
      {"rotate-values", {"common-shift-cancels", "values-are-not-rotated"}},
      {"keys-summed-first", {"values-are-not-rotated", "cost-stays-quadratic", "lower-complexity"}},
      {"window-of-16",
       {"values-are-not-rotated", "attention-alone-is-blind-to-order", "cost-stays-quadratic", "lower-complexity"}},
      {"bias-of-the-key-alone", {"biases-can-be-summed-first", "weights-can-be-summed-first"}},
      {"normalizer-rotated",
       {"sums-can-be-reordered", "roformer-weights-can-be-negative", "roformer-weights-do-not-sum-to-one",
        "roformer-weights-have-no-bound"}},
      {"normalizer-unrotated", {"rotated-normalizer-crosses-zero", "pair-norms-bound-weights", "cosformer-factors"}},
      {"normalizer-of-pair-norms",
       {"sums-can-be-reordered", "roformer-weights-can-be-negative", "roformer-weights-do-not-sum-to-one",
        "roformer-weights-have-no-bound", "rotated-normalizer-crosses-zero"}},
      {"rotate-before-the-map",
       {"sums-can-be-reordered", "map-then-rotate-is-relative", "roformer-weights-can-be-negative",
        "roformer-weights-do-not-sum-to-one", "roformer-weights-have-no-bound"}},
      {"rotate-after-the-map", {"rotate-then-elu-is-not-relative"}},
      {"favor-without-norm-term", {"favor-approaches-softmax"}},
      {"taylor-without-the-half", {"taylor-keeps-probabilities"}},
      {"cosformer-half-turn", {"cosformer-factors", "cosformer-stays-non-negative"}},
      {"stream-restarts-positions", {"streams-are-whole"}},
      {"causal-rule-forgotten", {"streams-are-whole", "future-cannot-leak", "rotated-normalizer-crosses-zero"}},
      {"decay-ignored", {"rotation-is-unique"}}};
  return breaks;
}

TEST(ClaimFaults, BreakTheClaimsTheyAreAbout) {
  for (const auto& [fault, ids] : breaks()) {
    const auto claims = check_claims({.ids = ids, .fault = fault.c_str()});
    EXPECT_EQ(claims.size(), ids.size()) << fault;
    for (const Claim& claim : claims) EXPECT_FALSE(claim.ok()) << fault << ", " << claim.id << ": " << claim.measured;
  }
}

TEST(ClaimFaults, EachBreakSomething) {
  const auto faults = claim_faults();
  EXPECT_EQ(breaks().size(), faults.size());
  for (const ClaimFault& fault : faults) {
    const auto found = breaks().find(fault.name);
    ASSERT_NE(found, breaks().end()) << fault.name;
    EXPECT_FALSE(found->second.empty()) << fault.name;
  }
}

TEST(ClaimFaults, LeaveNoClaimThatCannotBeBroken) {
  std::set<std::string> broken;
  for (const auto& [fault, ids] : breaks()) broken.insert(ids.begin(), ids.end());
  for (const Claim& claim : check_claims()) EXPECT_EQ(broken.count(claim.id), 1U) << claim.id;
}

TEST(ClaimFaults, LeaveAloneWhatTheyDoNotTouch) {
  const std::map<std::string, Ids> untouched{
      {"rotate-after-scores",
       {"keeps-norms", "score-depends-on-distance"}},  // a weight by distance depends on the distance
      {"rotate-values", {"a1-b2-table"}},
      {"positions-from-one", {"score-depends-on-distance", "common-shift-cancels"}},  // the same for all
      {"clamped-positions", {"keeps-norms"}},
      {"mixed-pairings", {"keeps-norms"}},
      {"rotate-keys-only", {"both-must-turn"}},  // it is what that claim is about
      {"normalizer-rotated", {"cosformer-factors"}},
      {"rotate-before-the-map", {"favor-approaches-softmax"}},
      {"decay-ignored", {"streams-are-whole"}},
      {"window-of-16", {"keeps-norms"}}};
  for (const auto& [fault, ids] : untouched) {
    for (const Claim& claim : check_claims({.ids = ids, .fault = fault.c_str()})) {
      EXPECT_TRUE(claim.ok()) << fault << ", " << claim.id << ": " << claim.measured;
    }
  }
}

TEST(ClaimFaults, BreakNothingElseIfTheyAreAboutOneClaim) {
  for (const char* fault : {"sign-of-transpose", "shift-the-other-way", "sinusoidal-other-frequencies", "no-projections",
                            "stream-restarts-positions", "rotate-after-the-map", "taylor-without-the-half"}) {
    const Ids& only = breaks().at(fault);
    ASSERT_EQ(only.size(), 1U) << fault;
    for (const Claim& claim : check_claims({.fault = fault})) {
      EXPECT_EQ(claim.ok(), std::string(claim.id) != only[0]) << fault << ", " << claim.id << ": " << claim.measured;
    }
  }
}

}  // namespace
}  // namespace rotary
