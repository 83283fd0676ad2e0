// How a command refuses its options: "attend: --scale must not be 0".
#pragma once

#include "base/fail.h"
#include "rotary/error.hpp"

namespace rotary::cli {

template <class... Parts>
[[noreturn]] void refuse(const char* command, const Parts&... rule) {
  throw Error(ErrorCode::invalid_argument, sentence(command, ": ", rule...).c_str());
}

}  // namespace rotary::cli
