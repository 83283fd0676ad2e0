// What a call says when it refuses.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "rotary/error.hpp"

namespace rotary {

/// The sentence of the Error that `call` throws; a failed expectation where it throws none, or one with another code.
template <class Call>
std::string error_sentence(ErrorCode code, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "expected an Error";
  return "";
}

/// Expects that `call` refuses its arguments, with `words` in the sentence.
template <class Call>
void expect_refused(const Call& call, const std::string& words) {
  const std::string sentence = error_sentence(ErrorCode::invalid_argument, call);
  EXPECT_NE(sentence.find(words), std::string::npos) << "expected \"" << words << "\" in \"" << sentence << '"';
}

}  // namespace rotary
