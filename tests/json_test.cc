#include "formats/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "rotary/error.hpp"
#include "support/error_sentence.h"

namespace rotary {
namespace {

std::string refusal(const std::string& text, const JsonLimits& limits = {}) {
  return error_sentence(ErrorCode::invalid_file, [&] { parse_json(text, "config.json", limits); });
}

TEST(Json, ReadsEveryKindOfValue) {
  const auto value = parse_json(R"( {"a": [1, -2, 2.5, 1e3, true, null, "µ\u00b5"], "b": {}} )", "x");
  EXPECT_EQ(value.at("a").at(0).get<int>(), 1);
  EXPECT_EQ(value.at("a").at(1).get<int>(), -2);
  EXPECT_EQ(value.at("a").at(2).get<double>(), 2.5);
  EXPECT_EQ(value.at("a").at(3).get<double>(), 1000);
  EXPECT_EQ(value.at("a").at(6).get<std::string>(), "µµ");
  EXPECT_TRUE(value.at("b").is_object());
}

TEST(Json, RefusesAKeyTwiceAndSaysWhichAndWhere) {
  EXPECT_EQ(refusal("{\n  \"base\": 1,\n  \"base\": 2\n}"),
            "config.json: JSON must not have a key twice in one object, got \"base\" again (line 3, column 8)");
}

TEST(Json, RefusesAKeyTwiceSpelledWithEscapes) {
  EXPECT_NE(refusal(R"({"a": 1, "\u0061": 1})").find("got \"a\" again (line 1, column 17)"), std::string::npos);
}

TEST(Json, AllowsTheSameKeyInDifferentObjects) {
  EXPECT_NO_THROW(parse_json(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}], "c": {"a": 1}})", "x"));
}

TEST(Json, RefusesAKeyTwiceAfterANestedObject) {
  EXPECT_NE(refusal(R"({"a": {"b": 1}, "c": [{}], "a": 2})").find("got \"a\" again"), std::string::npos);
}

TEST(Json, SaysLineAndColumnOfASyntaxError) {
  EXPECT_NE(refusal("{\n \"a\": nope}").find("line 2, column 8"), std::string::npos) << refusal("{\n \"a\": nope}");
}

TEST(Json, RefusesAnythingAfterTheValue) {
  EXPECT_NE(refusal("{} x").find("must be JSON"), std::string::npos);
  EXPECT_NE(refusal("{}{}").find("must be JSON"), std::string::npos);
}

TEST(Json, RefusesAZeroByteWhichNlohmannTakesForTheEnd) {
  EXPECT_EQ(refusal(std::string("{}\0junk", 7)), "config.json: JSON must not hold a zero byte, got one at byte 2");
}

TEST(Json, RefusesTextThatIsNotUtf8) {
  const std::string sentence = refusal("{\"a\xff\": 1}");
  EXPECT_NE(sentence.find("UTF-8"), std::string::npos);
  EXPECT_EQ(sentence.find('\xff'), std::string::npos) << "the bad byte must not leak into the sentence";
}

TEST(Json, RefusesNumbersThatNoDoubleHolds) {
  const std::string sentence = refusal("{\"theta\": 1e999}");
  EXPECT_NE(sentence.find("double"), std::string::npos) << sentence;
  EXPECT_NE(sentence.find("\"theta\""), std::string::npos) << sentence;
}

TEST(Json, RefusesNesting_V9) {
  const JsonLimits limits{.max_depth = 3};
  EXPECT_NO_THROW(parse_json(R"([[{"a": 1}], [[]]])", "x", limits));
  EXPECT_EQ(refusal(R"([[{"a": []}]])", limits), "config.json: JSON must nest at most 3 levels deep (line 1, column 9)");
  const std::string bomb(1'000'000, '[');
  EXPECT_NE(refusal(bomb).find("must nest at most 64 levels deep"), std::string::npos);
}

TEST(Json, RefusesTooManyValuesAndTooManyBytes_V9) {
  EXPECT_NO_THROW(parse_json("[1,2,3]", "x", {.max_values = 4}));
  EXPECT_NE(refusal("[1,2,3,4]", {.max_values = 4}).find("must hold at most 4 values"), std::string::npos);
  EXPECT_NO_THROW(parse_json("[1]", "x", {.max_bytes = 3}));
  EXPECT_EQ(refusal("[12]", {.max_bytes = 3}), "config.json: JSON must be at most 3 bytes long, got 4");
}

TEST(Json, RefusesAnEmptyText) { EXPECT_NE(refusal("").find("must be JSON"), std::string::npos); }

TEST(Json, ReadsAFileAndNamesItInErrors) {
  EXPECT_EQ(error_sentence(ErrorCode::invalid_file, [] { read_json("/no/such/config.json"); }),
            "/no/such/config.json: cannot be opened: No such file or directory");
  EXPECT_EQ(error_sentence(ErrorCode::invalid_file, [] { read_json("/"); }), "/: must be a regular file");
}

TEST(Json, TakesPythonsConstantsOnlyWhereAsked) {
  const char* text = R"({"a": NaN, "b": [Infinity, -Infinity], "c": "NaN \"Infinity\" \\", "d": 1})";
  EXPECT_NE(error_sentence(ErrorCode::invalid_file, [&] { parse_json(text, "x"); }).find("must be JSON"),
            std::string::npos);
  const nlohmann::json value = parse_json(text, "x", {.python_constants = true});
  EXPECT_TRUE(std::isnan(value["a"].get<double>()));
  EXPECT_EQ(value["b"][0].get<double>(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(value["b"][1].get<double>(), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(value["c"], "NaN \"Infinity\" \\");
  EXPECT_EQ(value["d"], 1);
}

TEST(Json, StillRefusesWhatPythonDoesNotWriteEither) {
  for (const char* text : {R"({"a": nan})", R"({"a": Inf})", R"({"a": NaNs})", R"({"a": +Infinity})", R"({NaN: 1})"}) {
    EXPECT_THROW(parse_json(text, "x", {.python_constants = true}), Error) << text;
  }
}

}  // namespace
}  // namespace rotary
