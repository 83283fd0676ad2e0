// rotary claims, as a shell sees it.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "support/program.h"
#include "support/well_formed_xml.h"

namespace rotary {
namespace {

using nlohmann::json;

using Claims = Program;

TEST_F(Claims, AreAllAsStated) {
  const Result result = run("claims");
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.out.find("BROKEN"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find(" do not follow\n"), std::string::npos) << result.out;
}

TEST_F(Claims, BreakOnRequestAndSayWhich) {
  const Result result = run("claims keeps-norms a1-b2-table --break rotate-after-scores");
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.out.find("BROKEN"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("2 claims: 1 holds, 0 do not follow, 1 broken"), std::string::npos) << result.out;
  const json list = json::parse(run("claims keeps-norms a1-b2-table --break rotate-after-scores --json").out);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_TRUE(list[0]["ok"]);
  EXPECT_FALSE(list[1]["ok"]);
  for (const json& claim : list) EXPECT_EQ(claim["fault"], "rotate-after-scores");
}

TEST_F(Claims, PrintEverythingAsJson) {
  const Result result = run("claims --json");
  ASSERT_EQ(result.code, 0) << result.err;
  const json list = json::parse(result.out);
  EXPECT_GE(list.size(), 24u);
  std::set<std::string> kinds;
  for (const json& claim : list) {
    kinds.insert(claim["kind"]);
    for (const char* number : {"measured", "expected", "tolerance"}) EXPECT_TRUE(claim[number].is_number()) << claim;
    for (const char* words : {"id", "statement", "statement_zh", "measures", "measures_zh", "comparison"}) {
      EXPECT_TRUE(claim[words].is_string()) << claim;
    }
    EXPECT_TRUE(claim["ok"]) << claim;
    EXPECT_TRUE(claim.at("fault").is_null()) << claim;
    EXPECT_EQ(claim.contains("counter_example"), claim["kind"] == "does not follow") << claim;
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"holds", "does not follow"}));
}

TEST_F(Claims, ListTheirFaults) {
  const json faults = json::parse(run("claims --list-breaks --json").out);
  const Result text = run("claims --list-breaks");
  EXPECT_EQ(text.code, 0);
  for (const json& fault : faults) {
    EXPECT_NE(text.out.find(fault["name"].get<std::string>()), std::string::npos) << fault;
  }
}

TEST_F(Claims, SpeakChinese) {
  const Result result = run("claims a1-b2-table --lang zh");
  EXPECT_EQ(result.code, 0);
  EXPECT_NE(result.out.find("\u6210\u7acb"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("holds"), std::string::npos) << result.out;
}

TEST_F(Claims, DrawTheirCounterExamples) {
  const std::string drawn = "claims score-falls-with-distance lengths-extrapolate --plot ";
  EXPECT_EQ(run(drawn + made("claims.svg")).code, 0);
  EXPECT_EQ(fault_in_xml(contents(made("claims.svg"))), "");
  expect_error(2, "claims keeps-norms --plot " + made("none.svg"), "score-falls-with-distance");
  expect_error(3, drawn + made("no/such/folder.svg"), "folder.svg");
  expect_error(2, "claims --plot " + made("claims.png"), ".svg");
}

TEST_F(Claims, RefuseWhatTheyDoNotKnow) {
  expect_error(2, "claims keep-norms", "did you mean keeps-norms?");
  expect_error(2, "claims nothing-like-it", "without ids you get all");
  expect_error(2, "claims --break everything", "known are no-rotation");
  expect_error(2, "claims --lang fr", "--lang");
  expect_error(2, "claims keeps-norms --list-breaks", "ID excludes --list-breaks");
  expect_error(2, "claims --break no-rotation --list-breaks", "--break excludes --list-breaks");
}

}  // namespace
}  // namespace rotary
