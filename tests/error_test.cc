#include "rotary/error.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/fail.h"
#include "support/error_sentence.h"

namespace rotary {
namespace {

TEST(Errors, AreStandardExceptionsThatCannotFailToCopy) {
  static_assert(std::is_base_of_v<std::exception, Error>);
  static_assert(std::is_nothrow_copy_constructible_v<Error> && std::is_nothrow_copy_assignable_v<Error>);
  static_assert(std::is_nothrow_move_constructible_v<Error> && std::is_nothrow_move_assignable_v<Error>);
  static_assert(std::is_nothrow_destructible_v<Error>);
}

TEST(Errors, KeepTheirOwnCopyOfTheSentence) {
  std::string sentence = "rotate: a rule, got 7";
  const Error error(ErrorCode::unsupported, sentence.c_str());
  sentence.assign(sentence.size(), 'x');
  EXPECT_STREQ(error.what(), "rotate: a rule, got 7");
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
}

TEST(Errors, CopiesOutliveTheFirst) {
  auto first = std::make_unique<Error>(ErrorCode::invalid_file, "a");
  const Error copy = *first;
  Error assigned(ErrorCode::invalid_argument, "b");
  assigned = *first;
  assigned = *&assigned;
  first.reset();
  EXPECT_STREQ(copy.what(), "a");
  EXPECT_STREQ(assigned.what(), "a");
  EXPECT_EQ(assigned.code(), ErrorCode::invalid_file);
}

TEST(Errors, StayWholeAfterAMove) {
  Error first(ErrorCode::invalid_file, "a");
  const Error second = std::move(first);
  EXPECT_STREQ(second.what(), "a");
  EXPECT_STREQ(first.what(), "a");  // NOLINT(bugprone-use-after-move): a moved Error is a copied one
}

TEST(Errors, CopyFromSeveralThreads) {
  const Error error(ErrorCode::invalid_argument, "shared");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) EXPECT_STREQ(Error(error).what(), "shared");
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Sentences, NameTheOperationTheRuleAndWhatWasGiven) {
  EXPECT_EQ(
      error_sentence(ErrorCode::invalid_argument,
                     [] { fail_argument("rotate", "rotary_dim must be even and at most head_dim, got ", 7, " and ", 64); }),
      "rotate: rotary_dim must be even and at most head_dim, got 7 and 64");
  EXPECT_EQ(error_sentence(ErrorCode::invalid_file, [] { fail_file("a.npy", "must start with its magic"); }),
            "a.npy: must start with its magic");
  EXPECT_EQ(error_sentence(ErrorCode::unsupported, [] { fail_unsupported("mamba", "does not rotate"); }),
            "mamba: does not rotate");
}

TEST(Sentences, PrintDoublesSoThatTheyCanBeTyped) {
  EXPECT_EQ(sentence(0.1), "0.10000000000000001");
  EXPECT_EQ(sentence(std::numeric_limits<double>::infinity()), "inf");
}

}  // namespace
}  // namespace rotary
