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

}  // namespace rotary
